package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"salectl/cli/terminal"
	"salectl/internal/signals"
	"salectl/planner"
	"salectl/planner/apply"
)

// capture is a program whose streams are buffers.
type capture struct {
	*program
	out, err bytes.Buffer
}

func newCapture() *capture {
	c := new(capture)
	c.program = &program{in: strings.NewReader(""), out: &terminal.Answer{W: &c.out}, err: &c.err, env: noVariables, drivers: ownDrivers}
	return c
}

func noVariables(string) (string, bool) { return "", false }

// applySale writes a sale to a new folder and applies it.
func applySale(t *testing.T, name string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "sale.yaml")
	text := "apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: " + name + "}\n" +
		"spec: {stock: 10, lockCount: 2, embedded: {}}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCapture()
	if code := c.run([]string{"salectl", "apply", "-f", path, "--yes"}, nil); code != 0 {
		t.Fatalf("apply: exit code %d\n%s", code, &c.err)
	}
	return path
}

// The first signal ends serve in good order, with 0.
func TestServeEndsAtASignal(t *testing.T) {
	path := applySale(t, "tickets")
	c := newCapture()
	signals := make(chan os.Signal, 2)
	signals <- syscall.SIGTERM
	args := []string{"salectl", "serve", "-f", path, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}
	if code := c.run(args, signals); code != 0 {
		t.Errorf("exit code %d, want 0\n%s", code, &c.err)
	}
	if c.out.Len() > 0 {
		t.Errorf("serve wrote to standard output: %s", &c.out)
	}
}

// A command that a signal has cut short exits with 130, whatever it says.
func TestASignalInterrupts(t *testing.T) {
	path := applySale(t, "tickets")
	c := newCapture()
	signals := make(chan os.Signal, 2)
	signals <- os.Interrupt
	code := c.run([]string{"salectl", "status", "-f", path, "--wait-for", "closed", "--timeout", "10m"}, signals)
	if code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	if got := c.err.String(); got != "Interrupted.\n" {
		t.Errorf("it says %q", got)
	}
}

// A person who has typed -f - and thinks better of it is let go.
func TestASignalEndsTheReadingOfStdin(t *testing.T) {
	reader, writer, err := os.Pipe() // from which nothing ever comes
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	// A read that does not end would fail here, not hang.
	end := time.AfterFunc(10*time.Second, func() { writer.Close() })
	defer writer.Close()
	c := newCapture()
	c.in = reader
	signals := make(chan os.Signal, 2)
	signals <- os.Interrupt
	if code := c.run([]string{"salectl", "validate", "-f", "-"}, signals); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	if !end.Stop() {
		t.Error("the read went on after the signal")
	}
	if got := c.err.String(); got != "Interrupted.\n" {
		t.Errorf("it says %q", got)
	}
}

// Whoever does not want to wait for the good order sends a second signal. One that
// comes with the first is an echo of it: timeout(1) sends two.
func TestASecondSignalEndsAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		after   time.Duration
		signals []os.Signal
		twice   bool
	}{
		"a second one":                   {time.Second, []os.Signal{os.Interrupt, os.Interrupt}, true},
		"an echo":                        {time.Millisecond, []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, false},
		"an echo, and a third":           {200 * time.Millisecond, []os.Signal{syscall.SIGTERM, syscall.SIGTERM, syscall.SIGTERM}, true},
		"another one at the same time":   {0, []os.Signal{os.Interrupt, syscall.SIGTERM}, true},
		"many echoes at the same time":   {0, []os.Signal{os.Interrupt, os.Interrupt, os.Interrupt}, false},
		"a second one, and echoes of it": {time.Second, []os.Signal{os.Interrupt, os.Interrupt, os.Interrupt}, true},
	} {
		t.Run(name, func(t *testing.T) {
			reader, writer := io.Pipe() // which nobody reads before all signals are taken
			p := newCapture()
			p.program.out = &terminal.Answer{W: writer}
			now := time.Now()
			signals := make(chan os.Signal) // without a buffer: what was sent was taken
			p.echo.Now = func() time.Time { now = now.Add(c.after); return now }
			code := make(chan int, 1)
			go func() { code <- p.run([]string{"salectl", "version"}, signals) }()
			for _, s := range c.signals {
				select {
				case signals <- s:
				case got := <-code: // it needed no more
					code <- got
				}
			}
			if !c.twice {
				go io.Copy(io.Discard, reader)
			}
			got := <-code
			reader.Close()
			if said := p.err.String(); (said == "Interrupted twice: ended at once.\n") != c.twice || c.twice != (got == 130) {
				t.Errorf("exit code %d, and it says %q", got, said)
			}
		})
	}
}

// Every step of the planner has its word.
func TestProgressWords(t *testing.T) {
	for action, want := range map[string]string{
		"close": "[1/2] shard/0 closed\n", "wait": "[1/2] shard/0 waiting\n", "seal": "[1/2] shard/0 sealed\n",
	} {
		c := newCapture()
		tell, _ := c.progress(new(planner.Plan), false)
		tell(apply.Progress{Address: "shard/0", Action: action, Done: 1, Total: 2})
		if got := c.err.String(); got != want {
			t.Errorf("%s: it says %q, want %q", action, got, want)
		}
	}
}

// What was written down about a failure must not be told twice.
func TestReportTellsOnce(t *testing.T) {
	c := newCapture()
	err := c.eachSale(t.Context(), source{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	first := c.failed("tickets", false, errors.New("a wire was cut"))
	c.report(first)
	if got := c.err.String(); got != "Error: tickets: a wire was cut\n" {
		t.Errorf("it says %q", got)
	}
}

// Of an interruption there is nothing to say, unless it left something behind.
func TestReportOfAnInterruption(t *testing.T) {
	cut := fmt.Errorf("reading shard 3: %w", context.Canceled)
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"cancelled":        {cut, ""},
		"with its cause":   {errors.Join(cut, signals.ErrInterrupted), ""},
		"partly applied":   {fmt.Errorf("%w: %w", planner.ErrPartly, cut), "Error: partly applied, run it again: reading shard 3: context canceled\n"},
		"with a rest left": {errors.Join(signals.ErrInterrupted, errors.New("the copy was not removed")), "Error: interrupted\nthe copy was not removed\n"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCapture()
			c.report(test.err)
			if got := c.err.String(); got != test.want {
				t.Errorf("it says %q, want %q", got, test.want)
			}
		})
	}
}
