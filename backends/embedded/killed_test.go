package embedded

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// appendFor is set in the child process of TestKilled, to the folder.
const appendFor = "SALECTL_TEST_APPEND_FOR"

const killedLogs = 3

// TestKilled kills a process in the middle of its appends, again and again,
// and checks that every acknowledged append is stored.
func TestKilled(t *testing.T) {
	if dir := os.Getenv(appendFor); dir != "" {
		appendUntilKilled(t, dir)
	}
	dir := t.TempDir()
	var acknowledged [killedLogs]uint64 // the next slot after what was
	for round := range 6 {
		wait := 20 + rand.IntN(400)
		acks := killAfter(t, dir, wait)
		for log, next := range acks {
			acknowledged[log] = max(acknowledged[log], next)
		}
		// In every other round another handle was open meanwhile, so that the
		// next one finds the files in the hands of somebody.
		logs := mustOpenLogs(t, dir)
		for log, next := range acknowledged {
			wantKept(t, logs, fmt.Sprint("log ", log), next)
		}
		if round%2 == 0 {
			logs.Close()
		}
	}
	t.Logf("acknowledged and kept: %d", acknowledged)
}

// wantKept checks that a log has all slots below next, and perhaps more.
func wantKept(t *testing.T, logs *Logs, log string, next uint64) {
	t.Helper()
	head, entries, err := logs.Read(t.Context(), log, 0, 1<<20)
	if err != nil || uint64(len(entries)) < next {
		t.Fatalf("%s has %d entries, %v; %d were acknowledged", log, len(entries), err, next)
	}
	for slot, e := range entries {
		if !strings.HasPrefix(string(e), fmt.Sprintf("entry %d of %s\x00", slot, log)) {
			t.Fatalf("%s, slot %d: %.40q", log, slot, e)
		}
	}
	if last := len(entries) - 1; last >= 0 && string(head) != fmt.Sprintf("head %d", last) {
		t.Fatalf("%s: the head is %q, the last slot %d", log, head, last)
	}
}

// killAfter starts a child, kills it when it has acknowledged some appends, and
// returns for each log the slot after the last that it acknowledged.
func killAfter(t *testing.T, dir string, acks int) map[int]uint64 {
	t.Helper()
	c := startAppending(t, dir)
	for range acks {
		c.mustAcknowledge(t)
	}
	c.end()
	return c.next
}

// appender is a child process that appends until it is killed.
type appender struct {
	*exec.Cmd
	lines *bufio.Reader
	next  map[int]uint64 // for each log the slot after the last acknowledged
}

func startAppending(t *testing.T, dir string) *appender {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	child.Env = append(os.Environ(), appendFor+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	return &appender{Cmd: child, lines: bufio.NewReader(out), next: make(map[int]uint64)}
}

// acknowledge reads one acknowledgement.
func (a *appender) acknowledge() error {
	line, err := a.lines.ReadString('\n')
	if err != nil {
		return err
	}
	var log int
	var slot uint64
	if _, err := fmt.Sscanf(line, "acknowledged %d %d\n", &log, &slot); err != nil {
		return fmt.Errorf("the child wrote %q", line)
	}
	a.next[log] = slot + 1
	return nil
}

func (a *appender) mustAcknowledge(t *testing.T) {
	t.Helper()
	if err := a.acknowledge(); err != nil {
		a.end()
		t.Fatal(err)
	}
}

// end kills the child and reads the rest of its output.
func (a *appender) end() {
	a.Process.Kill()
	for a.acknowledge() == nil {
	}
	a.Wait()
}

// appendUntilKilled is the child. It goes on where the last one was killed.
func appendUntilKilled(t *testing.T, dir string) {
	logs := mustOpenLogs(t, dir)
	var all sync.WaitGroup
	for i := range killedLogs {
		log := fmt.Sprint("log ", i)
		head, entries, err := logs.Read(t.Context(), log, 0, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for slot := uint64(len(entries)); ; slot++ {
				next := fmt.Appendf(nil, "head %d", slot)
				entry := append(fmt.Appendf(nil, "entry %d of %s\x00", slot, log), make([]byte, 1+slot*997%9000)...)
				if err := logs.Append(context.Background(), log, slot, head, next, entry); err != nil {
					fmt.Println(err)
					os.Exit(1)
				}
				fmt.Printf("acknowledged %d %d\n", i, slot)
				head = next
			}
		})
	}
	all.Wait()
}
