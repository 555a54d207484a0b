//go:build linux

package cli

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"salectl/internal/services/scripts"
)

// startLists is startLocks with a sale whose lists are on these servers, and whose ledger is
// in a folder beside its file. It logs in as nobody.
func startLists(t *testing.T, n int) *lockWorld {
	w := startLocks(t, n)
	w.declare(10, "")
	return w
}

// declare writes the sale's file. login are keys of redis, with a comma behind each.
func (w *lockWorld) declare(stock int, login string) {
	w.Helper()
	var names []string
	for _, n := range w.nodes {
		names = append(names, strconv.Quote(n.Addr()))
	}
	text := fmt.Sprintf("apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: tickets}\nspec:\n  engine: redis\n  stock: %d\n  lockCount: 3\n"+
		"  redis: {%s nodes: [%s]}\n  embedded: {}\n", stock, login, strings.Join(names, ", "))
	if err := os.WriteFile(filepath.Join(w.dir, "sale.yaml"), []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
}

// ask asks all nodes something of Redis itself.
func (w *lockWorld) ask(command ...any) {
	w.Helper()
	for i := range w.nodes {
		w.onNode(i, command...)
	}
}

// What a Redis does not permit ends a command at once, with the node's name and the remedy,
// and nothing is tried again. A lock is not waited for.
func TestRedisThatDoesNotPermit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, login, remedy string
		change              []any // on each node
	}{
		{"no password", "", "refuses the username or password; check the variables that spec.redis.usernameEnv and spec.redis.passwordEnv name", []any{"CONFIG", "SET", "requirepass", "secret"}},
		{"a wrong password", "passwordEnv: TEST_PASSWORD,", "refuses the username or password; check the variables that", []any{"CONFIG", "SET", "requirepass", "secret"}},
		{"a user without rights", "usernameEnv: TEST_USER, passwordEnv: TEST_PASSWORD,", "the Redis user lacks a right; grant those of docs/security.md with ACL SETUSER", []any{"ACL", "SETUSER", "few", "on", ">wrong", "+ping"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := startLists(t, 3)
			fails := func(code int, args ...string) (said string) {
				t.Helper()
				r := w.prepare(args...)
				r.Env = append(os.Environ(), "TEST_USER=few", "TEST_PASSWORD=wrong")
				r.Stdout, r.Stderr = &r.out, &r.err
				r.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
				r.start()
				r.ends(code)
				said = r.err.String()
				if strings.Contains(said, "tried for") || strings.Contains(said, "timeout") {
					t.Errorf("%v says\n%s", args, said)
				}
				// What was begun has warned of each node, and ends at the first. What was not names
				// each in its error, and nowhere else.
				_, last, _ := strings.Cut(said, "Error: ")
				if code == exitPartly {
					if !strings.Contains(last, test.remedy) {
						t.Errorf("%v says\n%s\nwant %q", args, said, test.remedy)
					}
					return said
				}
				// A lock is refused when a majority has not granted it, and the third may not have
				// answered by then.
				named, enough := 0, len(w.nodes)
				if args[0] == "lock" {
					enough = 2
				}
				for _, n := range w.nodes {
					if strings.Contains(last, n.Addr()+": "+test.remedy) || strings.Contains(last, n.Addr()+": it "+test.remedy) {
						named++
					}
					if strings.Count(last, n.Addr()) > 1 || strings.Count(said, n.Addr()) != 1 && args[0] != "lock" {
						t.Errorf("%v says\n%s\nwant %s once", args, said, n.Addr())
					}
				}
				if named < enough {
					t.Errorf("%v says\n%s\nwant %d nodes named, and %q", args, said, enough, test.remedy)
				}
				return said
			}
			w.open("apply", "--yes").ends(0)
			w.ask(test.change...)
			w.declare(20, test.login)
			listen, admin := scripts.FreeAddress(t), scripts.FreeAddress(t)
			fails(exitError, "apply", "--yes")
			fails(exitError, "lock", "run", "a", "--", "true")
			fails(exitError, "lock", "run", "--wait", "1h", "a", "--", "true")
			fails(exitError, "lock", "run", "--wait", "0", "a", "--", "true")
			if said := fails(exitError, "lock", "break", "a", "--yes"); !strings.Contains(said, "a: no lock node answers: ") {
				t.Errorf("lock break says\n%s", said)
			}
			fails(exitError, "rehearse")
			fails(exitError, "serve", "--listen", listen, "--admin-listen", admin)
			fails(exitPartly, "pause")
			fails(exitPartly, "destroy", "--yes", "--out", "export.ndjson")
		})
	}
}

// A process that serves goes on through it, says so, and sells again once it is let in.
func TestServeGoesOnWithoutPermission(t *testing.T) {
	t.Parallel()
	w := startLists(t, 3)
	w.open("apply", "--yes").ends(0)
	listen, admin := scripts.FreeAddress(t), scripts.FreeAddress(t)
	r := w.open("serve", "--listen", listen, "--admin-listen", admin)
	ready := func() bool {
		response, err := http.Get("http://" + admin + "/readyz")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	}
	w.until("ready", ready)
	w.ask("ACL", "SETUSER", "root", "on", ">root", "~*", "&*", "+@all")
	w.ask("ACL", "SETUSER", "default", "-evalsha", "-eval")
	w.until("told of", func() bool {
		said := r.err.String()
		for _, n := range w.nodes {
			if !strings.Contains(said, `msg="a lock node cannot be used" sale=tickets node=`+n.Addr()) {
				return false
			}
		}
		return strings.Contains(said, "the Redis user lacks a right") && !ready()
	})
	w.ask("ACL", "SETUSER", "default", "+evalsha", "+eval")
	w.until("ready again", ready)
	w.open("claim", "--server", "http://"+listen, "--sale", "tickets", "--user", "ada").ends(0)
	r.Process.Signal(syscall.SIGTERM)
	r.ends(0)
}

// The users that docs/security.md makes on a Redis can do what it says: one all commands, and
// the other those that only look.
func TestUsersOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	w := startLists(t, 3)
	users := 0
	for line := range strings.Lines(string(page)) {
		if words := strings.Fields(line); len(words) > 3 && words[0] == "ACL" {
			users++
			var command []any
			for _, word := range words {
				command = append(command, strings.ReplaceAll(word, "SECRET", "secret"))
			}
			w.ask(command...)
		}
	}
	if users != 3 {
		t.Fatalf("the page has %d lines with users", users)
	}
	w.ask("ACL", "SETUSER", "default", "resetkeys", "resetchannels", "-@all", "+ping") // whoever does not log in can do nothing
	w.declare(30, "usernameEnv: TEST_USER, passwordEnv: TEST_PASSWORD,")
	as := func(user string, args ...string) *startedRun {
		t.Helper()
		r := w.prepare(args...)
		r.Env = append(os.Environ(), "TEST_USER="+user, "TEST_PASSWORD=secret")
		r.Stdout, r.Stderr = &r.out, &r.err
		r.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		r.start()
		return r
	}
	ends := func(user string, code int, args ...string) {
		t.Helper()
		r := as(user, args...)
		r.ends(code)
		if said := r.out.String() + r.err.String(); strings.Contains(said, "right") != (code != 0) || strings.Contains(said, "cannot be used") {
			t.Errorf("%v as %s says\n%s", args, user, said)
		}
	}
	ends("salectl", 0, "apply", "--yes")
	listen, admin := scripts.FreeAddress(t), scripts.FreeAddress(t)
	served := as("salectl", "serve", "--listen", listen, "--admin-listen", admin)
	w.until("ready", func() bool {
		response, err := http.Get("http://" + admin + "/readyz")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	ends("salectl", 0, "claim", "--server", "http://"+listen, "--sale", "tickets", "--user", "ada")
	ends("salectl", 0, "lock", "run", "a", "--", "true")
	looks := func() {
		t.Helper()
		for _, args := range [][]string{{"status"}, {"plan"}, {"audit"}, {"export", "--out", "-"}, {"explain", "--user", "ada"}, {"lock", "list"}} {
			ends("looks", 0, args...)
		}
	}
	looks()
	served.Process.Signal(syscall.SIGTERM)
	served.ends(0)
	looks()
	w.declare(40, "usernameEnv: TEST_USER, passwordEnv: TEST_PASSWORD,")
	ends("looks", exitError, "serve", "--listen", listen, "--admin-listen", admin)
	ends("looks", exitError, "lock", "run", "a", "--", "true")
	ends("looks", exitPartly, "apply", "--yes")
	ends("salectl", 0, "apply", "--yes")
	ends("salectl", 0, "pause")
	ends("salectl", 0, "destroy", "--yes", "--out", "export.ndjson")
}
