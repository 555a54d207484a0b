package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The Go program of locks.md builds in a module of its own, as that page says it does:
// with a replaced requirement, and in a workspace.
func TestOutsideModuleBuilds(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	p := readPage(t, "docs/locks.md")
	program, text := "", strings.Join(p.lines, "\n")
	for _, b := range blocks(p) {
		if b.language == "go" {
			program += b.text
		}
	}
	// Both have the module at the same place, so that it is compiled once.
	parent := t.TempDir()
	if err := os.Symlink(root, filepath.Join(parent, "salectl")); err != nil {
		t.Fatal(err)
	}
	for name, setUp := range map[string]string{
		"replace":   "go mod edit -require=salectl@v0.0.0 -replace=salectl=../salectl && go mod tidy",
		"workspace": "go work init . ../salectl",
	} {
		t.Run(name, func(t *testing.T) {
			if told := strings.ReplaceAll(setUp, " && ", "\n$ "); !strings.Contains(text, told) {
				t.Errorf("%s does not tell to run %q", p.path, told)
			}
			dir := filepath.Join(parent, name)
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o644); err != nil {
				t.Fatal(err)
			}
			command := exec.Command("sh", "-ec", "go mod init example.com/outside && "+setUp+" && go build -o outside .")
			command.Dir = dir
			if out, err := command.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", setUp, err, out)
			}
		})
	}
}
