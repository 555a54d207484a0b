//go:build linux

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pty is a terminal with nobody before it but the test.
type pty struct {
	t       *testing.T
	person  *os.File // what a person types into and reads from
	program *os.File

	mu   sync.Mutex
	seen bytes.Buffer
	more *sync.Cond
}

func openTerminal(t *testing.T) *pty {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { person.Close() })
	fd := int(person.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	p := &pty{t: t, person: person, program: program}
	p.more = sync.NewCond(&p.mu)
	go p.watch()
	return p
}

func (p *pty) watch() {
	buf := make([]byte, 4096)
	for {
		n, err := p.person.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		p.seen.Write(buf[:n])
		p.more.Broadcast()
		p.mu.Unlock()
	}
}

// await returns when text has appeared, and fails the test if it does not.
func (p *pty) await(text string) {
	p.t.Helper()
	late := false
	limit := time.AfterFunc(time.Minute, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		late = true
		p.more.Broadcast()
	})
	defer limit.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !strings.Contains(p.seen.String(), text) {
		if late {
			p.t.Fatalf("%q does not appear; what does is %q", text, p.seen.String())
		}
		p.more.Wait()
	}
}

func TestConfirmAsksAPerson(t *testing.T) {
	for typed, want := range map[string]error{"yes\n": nil, "  yes \n": nil, "y\n": errUnconfirmed, "YES\n": errUnconfirmed, "\n": errUnconfirmed} {
		t.Run(strings.TrimSpace(typed), func(t *testing.T) {
			tty := openTerminal(t)
			p := &program{in: tty.program, out: &answer{w: io.Discard}, err: tty.program, env: noVariables}
			done := make(chan error, 1)
			go func() { done <- p.askPerson(t.Context(), "Apply this?", false, false) }()
			tty.await("Only 'yes' is accepted: ")
			if _, err := tty.person.WriteString(typed); err != nil {
				t.Fatal(err)
			}
			if err := <-done; !errors.Is(err, want) {
				t.Errorf("%q is taken for %v, want %v", typed, err, want)
			}
		})
	}
}

func TestConfirmEndsWithItsContext(t *testing.T) {
	tty := openTerminal(t)
	p := &program{in: tty.program, out: &answer{w: io.Discard}, err: tty.program, env: noVariables}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.askPerson(ctx, "Apply this?", false, false) }()
	tty.await("is accepted")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// What is for good asks; what can be taken back does not.
func TestCloseAsks(t *testing.T) {
	path := applySale(t, "tickets")
	tty := openTerminal(t)
	for i, step := range []struct {
		command, typed string
		code           int
	}{{"pause", "", 0}, {"resume", "", 0}, {"close", "no\n", 3}, {"pause", "", 0}, {"close", "yes\n", 0}} {
		p := &program{in: tty.program, out: &answer{w: io.Discard}, err: tty.program, env: noVariables}
		if _, err := tty.person.WriteString(step.typed); err != nil {
			t.Fatal(err)
		}
		if code := p.run([]string{"salectl", step.command, "-f", path}, nil); code != step.code {
			t.Fatalf("step %d, %s: exit code %d, want %d", i, step.command, code, step.code)
		}
	}
	tty.await("Close tickets for good? Only 'yes' is accepted: ")
}

func TestConfirmNeedsBothEndsOfATerminal(t *testing.T) {
	tty := openTerminal(t)
	for name, p := range map[string]*program{
		"input from a pipe": {in: strings.NewReader("yes\n"), err: tty.program},
		"output to a file":  {in: tty.program, err: io.Discard},
	} {
		p.out, p.env = &answer{w: io.Discard}, noVariables
		if err := p.askPerson(t.Context(), "Apply this?", false, false); !errors.Is(err, errUnconfirmed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestColourIsForTerminals(t *testing.T) {
	tty := openTerminal(t)
	var file bytes.Buffer
	env := func(pairs ...string) func(string) (string, bool) {
		return func(name string) (string, bool) {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1], true
				}
			}
			return "", false
		}
	}
	for name, test := range map[string]struct {
		out, err io.Writer
		env      func(string) (string, bool)
		want     bool
	}{
		"a terminal":                   {tty.program, tty.program, noVariables, true},
		"a file":                       {&file, tty.program, noVariables, false},
		"NO_COLOR":                     {tty.program, tty.program, env("NO_COLOR", "1"), false},
		"NO_COLOR with nothing in it":  {tty.program, tty.program, env("NO_COLOR", ""), true},
		"a terminal that cannot do it": {tty.program, tty.program, env("TERM", "dumb"), false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &program{out: &answer{w: test.out}, err: test.err, env: test.env}
			if got := bool(p.colours(p.out)); got != test.want {
				t.Errorf("colour is %v, want %v", got, test.want)
			}
			// Errors are plain where the answer goes to a file.
			if got := bool(p.colours(p.err)); got != test.want {
				t.Errorf("colour of standard error is %v, want %v", got, test.want)
			}
		})
	}
}

func TestProgressBarIsForTerminals(t *testing.T) {
	if (&program{err: io.Discard}).bar() != nil {
		t.Error("there is a bar without a terminal")
	}
	tty := openTerminal(t)
	draw := (&program{err: tty.program}).bar()
	draw(1, 2)
	draw(2, 2)
	tty.await("buyers")
}
