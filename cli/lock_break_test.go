//go:build linux

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"salectl/cli/terminal"
	"salectl/spec"
)

// list is the answer of lock list --json.
func (w *lockWorld) list() lockList {
	w.Helper()
	var got lockList
	r := w.open("lock", "list", "--json")
	r.ends(0)
	if err := json.Unmarshal([]byte(r.out.String()), &got); err != nil {
		w.Fatalf("%v in %q", err, &r.out)
	}
	return got
}

// Named locks and nodes are shown while HBase and some nodes are away.
func TestLockListWithServersAway(t *testing.T) {
	t.Parallel()
	w := startLocks(t, 3)
	w.nodes[2].Kill()
	holder, _ := w.hold("nightly", "--", "listen")
	w.onNode(0, "SET", spec.LeaseKey("0123456789abcdef", 4), "token somebody 1 3000", "PX", "60000")
	w.onNode(0, "SET", spec.NamedLock("remains"), "token somebody 1 9000", "PX", "8000")

	got := w.list()
	if len(got.Locks) != 2 {
		t.Fatalf("it lists %+v", got.Locks)
	}
	held, remains := got.Locks[0], got.Locks[1]
	if held.Name != "nightly" || !held.Held || held.Holder != holderOf(holder) || len(held.Nodes) != 2 ||
		held.LeftSeconds <= 0 || held.LeftSeconds > 2 || held.HeartbeatAgeSeconds == nil || *held.HeartbeatAgeSeconds > 2 {
		t.Errorf("the lock that is held is %+v", held)
	}
	if remains.Name != "remains" || remains.Held || remains.LeftSeconds != 0 || *remains.HeartbeatAgeSeconds < 1 || len(remains.Nodes) != 1 {
		t.Errorf("what is left of a lock is %+v", remains)
	}
	if want := []unnamedLeases{{"0123456789abcdef", 1}}; fmt.Sprint(got.Unnamed) != fmt.Sprint(want) {
		t.Errorf("leases without a name: %v, want %v", got.Unnamed, want)
	}
	if n := got.Nodes; len(n) != 3 || !n[0].Up || !n[1].Up || n[2].Up || !strings.Contains(n[2].Error, "nothing answers") {
		t.Errorf("the nodes are %+v", n)
	}
	warned := strings.Join(got.Warnings, "\n")
	for _, want := range []string{w.nodes[2].Addr(), "the ledger of tickets cannot be read", "unknown which leases"} {
		if !strings.Contains(warned, want) {
			t.Errorf("no warning of %q in %q", want, warned)
		}
	}

	text := w.open("lock", "list")
	text.ends(0)
	for _, want := range []string{"tickets: 2 locks\n", "  nightly  " + holderOf(holder) + "  2 of 3: " + w.nodes[0].Addr() + ", " + w.nodes[1].Addr(),
		"not held: too few lock nodes have it\n", "leases of 1 shard are there under the uid 0123456789abcdef\n", "  down now\n"} {
		if !strings.Contains(text.out.String(), want) {
			t.Errorf("no %q in\n%s", want, &text.out)
		}
	}
	w.nodes[1].Kill()
	if got := w.list(); !strings.Contains(strings.Join(got.Warnings, "\n"), "1 of 3 lock nodes answered") {
		t.Errorf("it warns of %q", got.Warnings)
	}
	w.nodes[0].Kill()
	silent := w.open("lock", "list", "--json")
	silent.ends(1)
	if !strings.Contains(silent.out.String(), "0 of 3 lock nodes answered") || !strings.Contains(silent.err.String(), "Error: no lock node of tickets answers: ") {
		t.Errorf("without any lock node it says %s and %s", &silent.out, &silent.err)
	}
}

// Who was shown a lock breaks what he saw. A holder who renewed it since lives,
// and keeps it.
func TestLockBreakRemovesOnlyWhatWasShown(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		meanwhile func(*lockWorld)
		code      int
		says      string
		left      []any
	}{
		"nothing happened": {func(*lockWorld) {}, 0, "Removed a on 3 of 3 lock nodes: ", nil},
		"renewed":          {func(w *lockWorld) { w.put("old somebody 2 3000", 0, 1, 2) }, 5, "somebody has renewed it, so it is alive", []any{"old somebody 2 3000"}},
		"another has it":   {func(w *lockWorld) { w.put("new someone 1 3000", 0, 1, 2) }, 5, "someone has acquired it", []any{"new someone 1 3000"}},
		"renewed on a minority": {
			func(w *lockWorld) { w.put("old somebody 2 3000", 2) }, 0, "Removed a on 2 of 3 lock nodes: ", []any{"old somebody 2 3000"},
		},
		"given back":      {func(w *lockWorld) { w.drop(0, 1, 2) }, 5, "it was released, or has expired", nil},
		"a node died":     {func(w *lockWorld) { w.nodes[2].Kill() }, 0, "nothing answers", nil},
		"most nodes died": {func(w *lockWorld) { w.nodes[1].Kill(); w.nodes[2].Kill() }, 6, "nothing answers", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startLocks(t, 3)
			w.put("old somebody 1 3000", 0, 1, 2)
			tty := openTerminal(t)
			var out bytes.Buffer
			p := &program{in: tty.program, out: &terminal.Answer{W: &out}, err: tty.program, env: noVariables, drivers: ownDrivers}
			code := make(chan int)
			go func() { code <- p.run([]string{"salectl", "lock", "break", "-f", w.dir + "/sale.yaml", "a"}, nil) }()
			tty.await("a: somebody has it on 3 of 3 lock nodes, renewed")
			tty.await("Break a? Only 'yes' is accepted: ")
			test.meanwhile(w)
			tty.person.WriteString("yes\n")
			got := <-code
			if name == "renewed" {
				tty.await("The lock was renewed while the question was open, so somebody is alive: end that process, or repeat the command with --yes")
			}
			if got != test.code || !strings.Contains(out.String(), test.says) {
				t.Errorf("exit code %d, want %d and %q in\n%s", got, test.code, test.says, &out)
			}
			var left []any
			for i := range w.nodes {
				if test.code != 6 && !strings.Contains(name, "died") {
					if value := w.onNode(i, "GET", spec.NamedLock("a")); value != nil && (len(left) == 0 || left[0] != value) {
						left = append(left, value)
					}
				}
			}
			if fmt.Sprint(left) != fmt.Sprint(test.left) {
				t.Errorf("the nodes have %v, want %v", left, test.left)
			}
		})
	}
}

// put gives some nodes a value of the lock a.
func (w *lockWorld) put(value string, nodes ...int) {
	for _, i := range nodes {
		w.onNode(i, "SET", spec.NamedLock("a"), value, "PX", "60000")
	}
}

func (w *lockWorld) drop(nodes ...int) {
	for _, i := range nodes {
		w.onNode(i, "DEL", spec.NamedLock("a"))
	}
}

func TestLockBreakWithoutAPerson(t *testing.T) {
	t.Parallel()
	w := startLocks(t, 3)
	nobody := w.open("lock", "break", "--yes", "a")
	nobody.ends(1)
	nobody.says("Error: a: nobody holds it")
	holder, _ := w.hold("a", "--", "listen")
	w.open("lock", "break", "a").ends(3)
	w.open("lock", "break", "--json", "a").ends(3)
	holder.group(syscall.SIGSTOP) // or it could renew between the look and the removal
	b := w.open("lock", "break", "--yes", "--json", "a")
	b.ends(0)
	var got lockBreakLine
	if err := json.Unmarshal([]byte(b.out.String()), &got); err != nil || !got.Done || len(got.Removed) != 3 ||
		got.Removed[0].Holder != holderOf(holder) || got.Changed == nil || got.Failed == nil {
		t.Errorf("%v in %s", err, &b.out)
	}
	w.free(0, 1, 2)
	holder.group(syscall.SIGCONT)
	holder.ends(5)

	// Which lease is that of a shard only the ledger knows.
	away := w.open("lock", "break", "--yes", "tickets/0")
	away.ends(1)
	if !strings.Contains(away.err.String(), "which lease is that of tickets/0") {
		t.Errorf("it says %q", &away.err)
	}
}
