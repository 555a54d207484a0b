package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The pages' Go programs build in a module of their own, as locks.md says they do: with
// a replaced requirement, and in a workspace.
func TestOutsideModuleBuilds(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	programs, text := map[string]string{}, ""
	for _, p := range pages(t) {
		for _, b := range blocks(p) {
			if b.language == "go" {
				programs[filepath.Base(p.path)] += b.text
			}
		}
		text += strings.Join(p.lines, "\n")
	}
	if len(programs) == 0 {
		t.Fatal("no page has a Go program")
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
				t.Errorf("no page tells to run %q", told)
			}
			dir := filepath.Join(parent, name)
			for name, program := range programs {
				path := filepath.Join(dir, name, "main.go")
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(program), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			command := exec.Command("sh", "-ec", "go mod init example.com/outside && "+setUp+" && go build ./...")
			command.Dir = dir
			if out, err := command.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", setUp, err, out)
			}
		})
	}
}
