package cli

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"salectl/internal/services/scripts"
	"salectl/internal/wait"
)

// nobody is a user who owns nothing here.
const nobody = 65534

// ownFolder is a folder that every user may look into, with the program in it.
func ownFolder(t *testing.T) (dir, program string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can run a command as another user")
	}
	dir, err := os.MkdirTemp("", "readers")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	program = filepath.Join(dir, "salectl")
	to, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, program
}

// TestReadersOfAnotherUser reads a sale as a user who may read its files and nothing more:
// before it is served, beside the server of another user, after that was killed, and at rest.
// No file is made, and what needs to write says at once that it may not.
func TestReadersOfAnotherUser(t *testing.T) {
	dir, program := ownFolder(t)
	file := filepath.Join(dir, "sale.yaml")
	write := func(stock int) {
		t.Helper()
		text := fmt.Sprintf("apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: seen}\nspec: {stock: %d, lockCount: 3, embedded: {}}\n", stock)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(90)
	run := func(uid uint32, args ...string) (code int, out string) {
		t.Helper()
		c := exec.Command(program, args...)
		c.Dir = dir
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		text, err := c.CombinedOutput()
		if c.ProcessState == nil {
			t.Fatal(err)
		}
		return c.ProcessState.ExitCode(), string(text)
	}
	files := func() (names []string) {
		t.Helper()
		if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			names = append(names, path)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return names
	}
	read := func(when, sold string) {
		t.Helper()
		before := files()
		for _, test := range []struct{ args, want string }{
			{"status", sold + " of 90 units sold"}, {"audit", sold + " of 90 units sold"}, {"plan", "No changes."},
			{"export --out -", `"sold":` + sold + ","}, {"lock list", "seen: "}, {"validate", "seen is valid"}, {"explain --user ada", "ada"},
		} {
			code, out := run(nobody, append(strings.Fields(test.args), "-f", file)...)
			if code != 0 || !strings.Contains(out, test.want) {
				t.Errorf("%s: %s exits with %d, want %q in\n%s", when, test.args, code, test.want, out)
			}
		}
		if after := files(); !slices.Equal(after, before) {
			t.Errorf("%s: there were the files %v, and after reading %v", when, before, after)
		}
	}
	if code, out := run(0, "apply", "-f", file, "--yes"); code != 0 {
		t.Fatal(out)
	}
	for _, name := range []string{"ledger.db", "locks.db"} {
		made := filepath.Join(dir, ".salectl", name)
		info, err := os.Stat(made)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o007 != 0 {
			t.Errorf("%s is for everybody: %v", name, info.Mode())
		}
		if err := os.Chmod(made, 0o644); err != nil { // its owner lets others read it
			t.Fatal(err)
		}
	}
	read("applied", "0")

	listen := scripts.FreeAddress(t)
	serve := exec.Command(program, "serve", "-f", file, "--listen", listen, "--admin-listen", scripts.FreeAddress(t))
	serve.Dir = dir
	serve.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = serve.Process.Kill(); _ = serve.Wait() }()
	sold := 0
	wait.UntilNil(t, "7 claims", func() error {
		body := strings.NewReader(fmt.Sprintf(`{"user":"user-%d","quantity":1}`, sold))
		response, err := http.Post("http://"+listen+"/v1/sales/seen/claims", "application/json", body)
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode == http.StatusCreated {
			sold++
		}
		if sold < 7 {
			return fmt.Errorf("%d sold, and the last answer is %s", sold, response.Status)
		}
		return nil
	})
	read("served", "7")
	if err := serve.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = serve.Wait()
	read("killed", "7")
	if code, out := run(0, "audit", "-f", file); code != 0 {
		t.Fatal(out)
	}
	read("at rest", "7")

	write(120)
	ledgerFile := filepath.Join(dir, ".salectl", "ledger.db")
	for _, command := range []string{"apply --yes", "pause", "close --yes", "destroy --yes --out " + dir + ".ndjson"} {
		code, out := run(nobody, append(strings.Fields(command), "-f", file)...)
		if code == 0 || !strings.Contains(out, ledgerFile+": it cannot be written; run the command as the user who serves the sale") || strings.Contains(out, "tried for") {
			t.Errorf("%s exits with %d and says\n%s", command, code, out)
		}
	}
	for _, args := range [][]string{
		{"lock", "run", "-f", file, "a", "--", "true"}, {"rehearse", "-f", file},
		{"serve", "-f", file, "--listen", scripts.FreeAddress(t), "--admin-listen", scripts.FreeAddress(t)},
	} {
		code, out := run(nobody, args...)
		if code != exitError || strings.Count(out, ".db: it cannot be written; run the command as the user who serves the sale") != 1 || strings.Contains(out, "tries") {
			t.Errorf("%v exits with %d and says\n%s", args, code, out)
		}
	}
	if err := os.Chmod(ledgerFile, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := run(nobody, "rehearse", "-f", file); code != exitError || strings.Count(out, ledgerFile+": it cannot be read") != 1 {
		t.Errorf("a rehearsal exits with %d and says\n%s", code, out)
	}
	if code, out := run(nobody, "audit", "-f", file); code == 0 || !strings.Contains(out, ledgerFile+": it cannot be read; grant this user read access") {
		t.Errorf("what may not be read is audited, exit code %d:\n%s", code, out)
	}
}
