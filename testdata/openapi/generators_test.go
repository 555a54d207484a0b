package openapi

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGenerators generates clients with three common generators, none of which may warn of more
// than of streams, and sells with each. make openapi-clients installs them and names their folder.
func TestGenerators(t *testing.T) {
	tools := os.Getenv("SALECTL_GENERATORS")
	if tools == "" {
		t.Skip("make openapi-clients installs the generators and runs this")
	}
	document, err := filepath.Abs("../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	python, npm := filepath.Join(tools, "venv/bin"), filepath.Join(tools, "node_modules")
	for name, c := range map[string]struct {
		script   string
		generate []string
		compile  []string
		run      []string
	}{
		"openapi-python-client": {
			"openapi_python_client.py", []string{python + "/openapi-python-client", "generate", "--path", document, "--output-path", "generated", "--meta", "none"},
			nil, []string{python + "/python", "openapi_python_client.py"},
		},
		"openapi-generator": {
			"openapi_generator.py", []string{python + "/openapi-generator-cli", "generate", "-i", document, "-g", "python", "-o", ".", "--package-name", "generated"},
			nil, []string{python + "/python", "openapi_generator.py"},
		},
		"openapi-typescript": {
			"openapi_typescript.ts", []string{npm + "/.bin/openapi-typescript", document, "-o", "generated.d.ts"},
			[]string{npm + "/.bin/tsc", "--strict", "--target", "es2022", "--module", "nodenext", "--types", "node", "openapi_typescript.ts"},
			[]string{"node", "openapi_typescript.js"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder, s := t.TempDir(), start(t, "--token-file", "tokens")
			script, err := os.ReadFile(filepath.Join("generators", c.script))
			if err != nil {
				t.Fatal(err)
			}
			for file, text := range map[string]string{c.script: string(script), "package.json": `{"type":"module"}`} {
				if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(npm, filepath.Join(folder, "node_modules")); err != nil {
				t.Fatal(err)
			}
			do := func(args []string) string {
				t.Helper()
				cmd := exec.Command(args[0], args[1:]...)
				cmd.Dir = folder
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
				}
				return string(out)
			}
			said := do(c.generate)
			for part := range strings.SplitSeq(said, "WARNING parsing ") {
				if strings.Contains(part, "will be omitted") {
					t.Errorf("not generated: %s", part)
				}
			}
			if c.compile != nil {
				do(c.compile)
			}
			do(append(c.run, s.buyers, s.admin, operateToken))
		})
	}
}
