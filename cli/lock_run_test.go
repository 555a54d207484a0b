//go:build linux

package cli

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"salectl/spec"
)

func TestLockRunExitCodes(t *testing.T) {
	t.Parallel()
	w := startLocks(t, 3)
	if err := os.WriteFile(w.dir+"/plain", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		command []string
		code    int
	}{
		"success":          {[]string{"true"}, 0},
		"its own":          {[]string{"sh", "-c", "exit 7"}, 7},
		"killed":           {[]string{"sh", "-c", "kill -KILL $$"}, 128 + 9},
		"terminated":       {[]string{"sh", "-c", "kill -TERM $$"}, 128 + 15},
		"no such command":  {[]string{"no-such-command"}, 127},
		"no such file":     {[]string{"./no-such-file"}, 127},
		"not a program":    {[]string{"./plain"}, 126},
		"a folder":         {[]string{"/"}, 126},
		"not our argument": {[]string{"sh", "-c", `test "$*" = "-f --help --"`, "sh", "-f", "--help", "--"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := &lockWorld{T: t, nodes: w.nodes, dir: w.dir}
			r := w.open(append([]string{"lock", "run", "a", "--"}, test.command...)...)
			r.ends(test.code)
			if ran := test.code != 126 && test.code != 127; ran && r.err.String() != "" {
				t.Errorf("it says %q", &r.err)
			}
			w.free(0, 1, 2)
		})
	}
}

// As the first process of a container lock run leaves no zombies of what its command has started.
func TestLockRunReapsOrphans(t *testing.T) {
	t.Parallel()
	alone := []string{"unshare", "--fork", "--pid", "--mount-proc"}
	if out, err := exec.Command(alone[0], append(alone[1:], "true")...).CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%v: %s", err, out)
		}
		t.Skipf("no namespace can be made here: %s", out)
	}
	w := startLocks(t, 1)
	r := w.prepare("lock", "run", "a", "--", "sh", "-c",
		`p=$(sh -c 'sleep 0.1 >/dev/null & echo $!'); i=0; while [ -e /proc/$p ]; do i=$((i+1)); [ $i -lt 300 ] || exit 9; sleep 0.1; done`)
	r.Args = append(append(alone, r.Path), r.Args[1:]...)
	var err error
	if r.Path, err = exec.LookPath(alone[0]); err != nil {
		t.Fatal(err)
	}
	r.Stdout, r.Stderr = &r.out, &r.err
	r.start()
	r.ends(0)
}

// The streams are the command's: a pipe through lock run is a pipe.
func TestLockRunLeavesTheStreams(t *testing.T) {
	t.Parallel()
	w := startLocks(t, 1)
	r := w.prepare("lock", "run", "a", "--", "sh", "-c", "tr a-z A-Z; echo to-err >&2")
	r.Stdin, r.Stdout, r.Stderr = strings.NewReader("in"), &r.out, &r.err
	r.start()
	r.ends(0)
	if r.out.String() != "IN" || r.err.String() != "to-err\n" {
		t.Errorf("it wrote %q and %q", &r.out, &r.err)
	}
}

func TestLockRunOneAfterAnother(t *testing.T) {
	t.Parallel()
	w := startLocks(t, 3)
	first, _ := w.hold("a", "--", "listen")
	refused := w.open("lock", "run", "--wait", "0", "a", "--", "touch", "never")
	refused.ends(5)
	refused.says(fmt.Sprintf("could not acquire the lock a: held by %s on ", holderOf(first)))
	late := w.open("lock", "run", "--wait", "300ms", "--conflict-exit-code", "99", "a", "--", "touch", "never")
	late.ends(99)
	late.says(fmt.Sprintf("could not acquire the lock a within 300ms: held by %s on ", holderOf(first)))
	if _, err := os.Stat(w.dir + "/never"); err == nil {
		t.Error("a command ran without the lock")
	}
	other := w.open("lock", "run", "--wait", "0", "b", "--", "true")
	other.ends(0)

	second := w.open("lock", "run", "a", "--", "sh", "-c", "mkdir busy && sleep 0.1 && rmdir busy")
	w.waits("a")
	third := w.open("lock", "run", "a", "--", "sh", "-c", "mkdir busy && sleep 0.1 && rmdir busy")
	first.Process.Signal(syscall.SIGTERM)
	for _, r := range []*startedRun{first, second, third} {
		r.ends(0)
	}
	w.free(0, 1, 2)
}

func holderOf(t *startedRun) string { return fmt.Sprintf("%s:%d", who(), t.Process.Pid) }

// Ctrl-C ends the command, whoever waits, and nobody else.
func TestLockRunCtrlC(t *testing.T) {
	t.Parallel()
	w := startLocks(t, 3)
	holder, _ := w.hold("a", "--", "listen")
	waiter := w.open("lock", "run", "a", "--", "touch", "never")
	w.waits("a")
	waiter.group(syscall.SIGINT)
	waiter.ends(130)
	waiter.says("Interrupted.")
	w.until("taken out of the line", func() bool { return len(w.keys(0, 1, 2)) == 3 })
	if strings.Contains(holder.out.String(), "got") {
		t.Errorf("the holder's command %s", &holder.out)
	}
	holder.Process.Signal(syscall.SIGTERM)
	holder.ends(0)
	plain := w.open("lock", "run", "a", "--", "sh", "-c", "echo pid $$; exec sleep 1000")
	plain.command()
	plain.group(syscall.SIGINT)
	plain.ends(130)
	w.free(0, 1, 2)
}

func TestLockRunPassesSignalsOn(t *testing.T) {
	t.Parallel()
	w := startLocks(t, 1)
	r, _ := w.hold("a", "--", "listen")
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTERM} {
		if signal.Ignored(s) { // by whoever runs the tests, as nohup does; that is passed on, too
			continue
		}
		r.Process.Signal(s)
		w.until("passed on", func() bool { return strings.Contains(r.out.String(), "got "+s.String()) })
	}
	r.ends(0)
	w.free(0)
}

// What a script's job in the background is to ignore, its command ignores too.
func TestLockRunKeepsIgnoring(t *testing.T) {
	t.Parallel()
	w := startLocks(t, 1)
	r := w.prepare()
	r.Cmd = exec.Command("sh", "-c", "trap '' INT; exec salectl lock run a -- sh -c 'echo pid $$; exec sleep 1000'")
	r.Dir, r.Stdout, r.Stderr = w.dir, &r.out, &r.err
	r.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.start()
	r.command()
	r.group(syscall.SIGINT)
	r.Process.Signal(syscall.SIGTERM)
	r.ends(128 + 15)
	w.free(0)
}

// A terminal tells its whole foreground group of Ctrl-C, the command too: it
// must not hear of it a second time.
func TestLockRunTerminalTellsTheCommand(t *testing.T) {
	t.Parallel()
	w := startLocks(t, 1)
	tty := openTerminal(t)
	r := w.prepare("lock", "run", "a", "--", "listen")
	r.Stdin, r.Stdout, r.Stderr = tty.program, &r.out, &r.err
	r.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	r.start()
	r.command()
	if _, err := tty.person.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	w.until("interrupted", func() bool { return strings.Contains(r.out.String(), "got interrupt") })
	r.Process.Signal(syscall.SIGTERM) // is passed on behind whatever was before it
	r.ends(0)
	if n := strings.Count(r.out.String(), "got interrupt"); n != 1 {
		t.Errorf("the command was interrupted %d times:\n%s", n, &r.out)
	}
	w.free(0)
}

// A killed lock run takes its command with it, before another has the lock.
func TestLockRunKilled(t *testing.T) {
	t.Parallel()
	w := startLocks(t, 3)
	holder, command := w.hold("a", "--", "listen", "stubborn")
	waiter := w.open("lock", "run", "--wait", "1m", "a", "--", "sh", "-c",
		// One that has ended may be there until init has waited for it, in state Z.
		fmt.Sprintf("! grep -q '^State:.[^ZX]' /proc/%d/status", command))
	w.waits("a")
	holder.Process.Kill()
	w.until("dead with its parent", func() bool { return gone(command) })
	waiter.ends(0)
	w.free(0, 1, 2)
}

// A command whose lock is lost is told to end, and made to if it does not.
func TestLockRunLost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		argument string
		lose     func(*lockWorld)
		told     bool
	}{
		"flushed":             {"", func(w *lockWorld) { w.onNode(0, "FLUSHALL"); w.onNode(1, "FLUSHALL") }, true},
		"flushed, stubborn":   {"stubborn", func(w *lockWorld) { w.onNode(0, "FLUSHALL"); w.onNode(1, "FLUSHALL") }, true},
		"majority out of use": {"", func(w *lockWorld) { w.pause(0); w.pause(1) }, true},
		"broken": {"", func(w *lockWorld) {
			b := w.open("lock", "break", "--yes", "a")
			b.ends(0)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startLocks(t, 3)
			command := []string{"a", "--", "listen"}
			if test.argument != "" {
				command = append(command, test.argument)
			}
			r, pid := w.hold(command...)
			test.lose(w)
			r.ends(5)
			if !gone(pid) {
				t.Error("the command goes on")
			}
			if !strings.Contains(r.out.String(), "got terminated") {
				t.Errorf("the command heard %q", &r.out)
			}
			if !strings.Contains(r.err.String(), "the lock a was lost") {
				t.Errorf("it says %q", &r.err)
			}
			w.free(2)
			for i := range 2 {
				w.nodes[i].Continue()
			}
			w.until("free everywhere", func() bool { return len(w.keys(0, 1, 2)) == 0 })
		})
	}
}

func (w *lockWorld) pause(i int) {
	if err := w.nodes[i].Pause(); err != nil {
		w.Fatal(err)
	}
}

// Who was stopped (Ctrl-Z) for longer than the ttl has lost the lock to another,
// and its command ends when it goes on.
func TestLockRunStopped(t *testing.T) {
	t.Parallel()
	w := startLocks(t, 3)
	stopped, pid := w.hold("a", "--", "listen")
	stopped.group(syscall.SIGSTOP)
	w.open("lock", "run", "--wait", "1m", "a", "--", "true").ends(0)
	stopped.group(syscall.SIGCONT)
	stopped.ends(5)
	if !gone(pid) {
		t.Error("the command goes on")
	}
	w.free(0, 1, 2)
}

// One node of three that fails is named once, however often it is asked.
func TestLockRunNamesNodesOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fail func(*lockWorld)
		says string
	}{
		"down":     {func(w *lockWorld) { w.nodes[2].Kill() }, "nothing answers"},
		"frozen":   {func(w *lockWorld) { w.pause(2) }, "did not answer in time"},
		"login":    {func(w *lockWorld) { w.onNode(2, "CONFIG", "SET", "requirepass", "secret") }, "refuses the username or password"},
		"replica":  {func(w *lockWorld) { w.onNode(2, "REPLICAOF", "127.0.0.1", "1") }, "is a replica"},
		"evicts":   {func(w *lockWorld) { w.onNode(2, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru") }, "is misconfigured: Its maxmemory-policy is allkeys-lru"},
		"full":     {func(w *lockWorld) { w.onNode(2, "CONFIG", "SET", "maxmemory", "1") }, "maxmemory"},
		"no right": {func(w *lockWorld) { w.onNode(2, "ACL", "SETUSER", "default", "-set") }, "lacks a right"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startLocks(t, 3)
			test.fail(w)
			r, _ := w.hold("a", "--", "listen")
			w.until("renewed a few times", func() bool {
				value, _ := w.onNode(0, "GET", spec.NamedLock("a")).(string)
				parts := strings.Fields(value)
				return len(parts) == 4 && len(parts[2]) > 0 && parts[2] >= "4"
			})
			r.Process.Signal(syscall.SIGTERM)
			r.ends(0)
			r.says(test.says)
			r.says("lock node " + w.nodes[2].Addr())
			w.free(0, 1)
		})
	}
}

// Nodes that never had named locks sit out the longest ttl, once.
func TestLockRunOnNewNodes(t *testing.T) {
	t.Parallel()
	w := startNewLocks(t, 3)
	refused := w.open("lock", "run", "--wait", "0", "a", "--", "true")
	refused.ends(5)
	if !strings.Contains(refused.err.String(), "abstains until") {
		t.Errorf("it says %q", &refused.err)
	}
	r := w.open("lock", "run", "a", "--", "true")
	r.ends(0)
	r.says("vote after 10s")
	again := w.open("lock", "run", "--wait", "0", "b", "--", "true")
	again.ends(0)
	for i := range w.nodes {
		if left := w.onNode(i, "TTL", spec.NamedLockMarker); left != int64(-1) {
			t.Errorf("the marker on node %d goes after %v s", i, left)
		}
	}
	w.free(0, 1, 2)
}
