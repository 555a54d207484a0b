package processor

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	const stat = "4711 (a (b) c) S 1 4711 4711 0 -1 4194560 1 2 3 4 130 70 5 6 20 0 1 0 100 1 1"
	if got, err := parse([]byte(stat)); got != 2*time.Second || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := parse([]byte("4711 (a) S 1")); err == nil {
		t.Errorf("of a line that ends early: got %v", got)
	}
}

// TestUsed counts this process twice: what it does by itself, and as another one.
func TestUsed(t *testing.T) {
	once, err := Used()
	if err != nil {
		t.Fatal(err)
	}
	twice, err := Used(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Used(); err != nil || twice < 2*once-2*tick || twice > 2*again+2*tick {
		t.Errorf("once %v, twice %v, then once %v, %v", once, twice, again, err)
	}
	if _, err := Used(0); err == nil {
		t.Error("a process that is not there has used nothing")
	}
}

// TestChildren finds a process that this one has started, while it runs.
func TestChildren(t *testing.T) {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	during, err := Children()
	if err != nil || !slices.Contains(during, child.Process.Pid) {
		t.Errorf("%d is not among %v, %v", child.Process.Pid, during, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	if after, err := Children(); err != nil || slices.Contains(after, child.Process.Pid) {
		t.Errorf("%d has ended and is among %v, %v", child.Process.Pid, after, err)
	}
}
