//go:build linux

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"salectl/api"
	"salectl/backends/embedded"
	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	"salectl/cli/terminal"
	"salectl/internal/services"
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

// A server cannot have a terminal obey it.
func TestServersTextOnATerminal(t *testing.T) {
	tty := openTerminal(t)
	p := &program{out: &terminal.Answer{W: tty.program}, err: tty.program, env: noVariables, drivers: ownDrivers}
	p.view("decision", decisionView{&decision{Outcome: api.NotEligible, Detail: "no\x1b[2J\x1b]0;sold\x07"}, doubt{}})
	tty.await("\x1b[33mnot_eligible\x1b[0m: no\\x1b[2J\\x1b]0;sold\\a\r\n")
	p.logf("%s", "lost\x1b[1A")
	tty.await("lost\\x1b[1A\r\n")
}

func TestConfirmAsksAPerson(t *testing.T) {
	for typed, want := range map[string]error{"yes\n": nil, "  yes \n": nil, "y\n": errUnconfirmed, "YES\n": errUnconfirmed, "\n": errUnconfirmed} {
		t.Run(strings.TrimSpace(typed), func(t *testing.T) {
			tty := openTerminal(t)
			p := &program{in: tty.program, out: &terminal.Answer{W: io.Discard}, err: tty.program, env: noVariables, drivers: ownDrivers}
			done := make(chan error, 1)
			go func() { done <- p.confirm(t.Context(), "Apply this?", false, false) }()
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

// A question that nobody answers in time is nobody's fault.
func TestAQuestionHasAnEnd(t *testing.T) {
	path := applySale(t, "tickets")
	tty := openTerminal(t)
	p := &program{in: tty.program, out: &terminal.Answer{W: io.Discard}, err: tty.program, env: noVariables, drivers: ownDrivers}
	if code := p.run([]string{"salectl", "close", "-f", path, "--timeout", "300ms"}, nil); code != 7 {
		t.Errorf("exit code %d, want 7", code)
	}
	tty.await("timed out after 300ms: no answer was given, and nothing was changed")
}

func TestConfirmEndsWithItsContext(t *testing.T) {
	tty := openTerminal(t)
	p := &program{in: tty.program, out: &terminal.Answer{W: io.Discard}, err: tty.program, env: noVariables, drivers: ownDrivers}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.confirm(ctx, "Apply this?", false, false) }()
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
		p := &program{in: tty.program, out: &terminal.Answer{W: io.Discard}, err: tty.program, env: noVariables, drivers: ownDrivers}
		if _, err := tty.person.WriteString(step.typed); err != nil {
			t.Fatal(err)
		}
		if code := p.run([]string{"salectl", step.command, "-f", path}, nil); code != step.code {
			t.Fatalf("step %d, %s: exit code %d, want %d", i, step.command, code, step.code)
		}
	}
	tty.await("Close tickets for good? Only 'yes' is accepted: ")
}

// TestInitAsks asks for the name and the stock that no flag has.
func TestInitAsks(t *testing.T) {
	for _, test := range []struct {
		stock string
		code  int
	}{{"100", 0}, {"0", 4}, {"many", 4}} {
		tty, file := openTerminal(t), filepath.Join(t.TempDir(), "sale.yaml")
		done := make(chan int, 1)
		go func() {
			p := &program{in: tty.program, out: &terminal.Answer{W: io.Discard}, err: tty.program, env: noVariables, drivers: ownDrivers}
			done <- p.run([]string{"salectl", "init", "--out", file}, nil)
		}()
		tty.await("Name of the sale")
		fmt.Fprintln(tty.person, "tickets")
		tty.await("Number of units")
		fmt.Fprintln(tty.person, test.stock)
		if code := <-done; code != test.code {
			t.Errorf("stock %s: exit code %d, want %d", test.stock, code, test.code)
		}
		if text, err := os.ReadFile(file); err == nil != (test.code == 0) || err == nil && !strings.Contains(string(text), "stock: 100") {
			t.Errorf("stock %s: %v\n%s", test.stock, err, text)
		}
	}
}

// Whoever is asked whether to destroy a red packet is told what is to be given back.
func TestDestroyAsksWithTheRefund(t *testing.T) {
	redis, err := services.StartRedis(t.Context(), services.RedisOptions{Dir: t.TempDir()})
	services.Require(t, err)
	defer redis.Stop()
	path := filepath.Join(t.TempDir(), "sale.yaml")
	text := fmt.Sprintf(`apiVersion: salectl/v1
kind: Sale
metadata: {name: luck}
spec:
  engine: redis
  stock: 20
  lockCount: 1
  units: {redPacket: {total: "12.30", currency: CNY, split: even}}
  redis: {nodes: [%q]}
  embedded: {}
`, redis.Addr())
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if c := newCapture(); c.run([]string{"salectl", "apply", "-f", path, "--yes"}, nil) != 0 {
		t.Fatal(c.err.String())
	}
	tty := openTerminal(t)
	if _, err := tty.person.WriteString("no\n"); err != nil {
		t.Fatal(err)
	}
	var to bytes.Buffer
	p := &program{in: tty.program, out: &terminal.Answer{W: &to}, err: tty.program, env: noVariables, drivers: ownDrivers}
	if code := p.run([]string{"salectl", "destroy", "-f", path}, nil); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	tty.await("Export luck, remove it for good, and leave 12.30 of 12.30 CNY to be refunded? Only 'yes' is accepted: ")
	if !strings.Contains(to.String(), "  granted 0.00 CNY in 0 packets  refund 12.30 CNY in 20 packets  # requested") {
		t.Errorf("the plan is\n%s", &to)
	}
}

// status --watch draws in place, and leaves the terminal as it was, with what it showed last.
func TestWatchDrawsInPlace(t *testing.T) {
	path := applySale(t, "tickets")
	tty := openTerminal(t)
	if err := unix.IoctlSetWinsize(int(tty.program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 8, Col: 60}); err != nil {
		t.Fatal(err)
	}
	p := &program{in: tty.program, out: &terminal.Answer{W: tty.program}, err: tty.program, env: noVariables, drivers: ownDrivers}
	signals, done := make(chan os.Signal, 2), make(chan int, 1)
	go func() {
		done <- p.run([]string{"salectl", "status", "-w", "-f", path, "--interval", "100ms"}, signals)
	}()
	tty.await("\x1b[33mopen\x1b[0m")
	tty.await("… 5 lines below")
	if code := newCapture().run([]string{"salectl", "pause", "-f", path}, nil); code != 0 {
		t.Fatalf("pause: exit code %d", code)
	}
	tty.await("\x1b[33mpaused\x1b[0m")
	signals <- os.Interrupt
	if code := <-done; code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	// What did not fit. How far the node's clock is off is measured: on a busy machine it is
	// some hundredths of a second.
	tty.await("  up\r\n")
	tty.mu.Lock()
	defer tty.mu.Unlock()
	seen := tty.seen.String()
	if first, left, _ := strings.Cut(seen, terminal.ScreenEnds); !strings.HasPrefix(first, terminal.ScreenBegins+terminal.CursorHome) ||
		strings.Count(seen, terminal.ScreenBegins) != 1 || strings.Contains(left, "\x1b[H") || !strings.Contains(left, "tickets") {
		t.Errorf("it shows %q", seen)
	}
}

// While a ledger does not answer, a terminal shows what the lock nodes report, until the status is complete.
func TestStatusOfASlowLedger(t *testing.T) {
	m := newMemoryHome(t)
	path := filepath.Join(t.TempDir(), "sale.yaml")
	if err := os.WriteFile(path, []byte("apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: tickets}\nspec: {stock: 10, lockCount: 2, embedded: {}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.run(t, exitOK, "apply", "-f", path, "--yes")
	for name, size := range map[string]unix.Winsize{"large": {Row: 50, Col: 200}, "narrow": {Row: 50, Col: 30}, "low": {Row: 4, Col: 80}} {
		t.Run(name, func(t *testing.T) {
			m.silent.Store(true)
			tty := openTerminal(t)
			if err := unix.IoctlSetWinsize(int(tty.program.Fd()), unix.TIOCSWINSZ, &size); err != nil {
				t.Fatal(err)
			}
			p := &program{in: tty.program, out: &terminal.Answer{W: tty.program}, err: tty.program, env: noVariables, drivers: m.drivers()}
			done := make(chan int, 1)
			go func() { done <- p.run([]string{"salectl", "status", "-f", path, "--timeout", "1h"}, nil) }()
			tty.await("the ledger cannot be read: it has not answered yet")
			tty.await("\x1b[?7h")
			m.silent.Store(false)
			if code := <-done; code != exitOK {
				t.Errorf("exit code %d, want %d", code, exitOK)
			}
			tty.await(" units sold")
			tty.mu.Lock()
			defer tty.mu.Unlock()
			brief, complete, erased := strings.Cut(tty.seen.String(), "\r\x1b[J")
			brief, up, _ := strings.Cut(brief, "\x1b[?7h")
			lines := strings.Count(brief, "\n")
			if !erased || lines == 0 || lines >= int(size.Row) || up != fmt.Sprintf("\x1b[%dA", lines) || strings.Contains(complete, "has not answered yet") {
				t.Errorf("it shows %q", tty.seen.String())
			}
		})
	}
}

// A terminal on which nothing can be drawn in place gets one text after another.
func TestWatchOnADumbTerminal(t *testing.T) {
	path := applySale(t, "tickets")
	tty := openTerminal(t)
	p := &program{in: tty.program, out: &terminal.Answer{W: tty.program}, err: tty.program, drivers: ownDrivers, env: func(name string) (string, bool) {
		return "dumb", name == "TERM"
	}}
	signals, done := make(chan os.Signal, 2), make(chan int, 1)
	go func() { done <- p.run([]string{"salectl", "status", "-w", "-f", path}, signals) }()
	tty.await("tickets: open")
	signals <- os.Interrupt
	if code := <-done; code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	tty.mu.Lock()
	defer tty.mu.Unlock()
	if seen := tty.seen.String(); strings.Contains(seen, "\x1b") {
		t.Errorf("it shows %q", seen)
	}
}

func TestConfirmNeedsBothEndsOfATerminal(t *testing.T) {
	tty := openTerminal(t)
	for name, p := range map[string]*program{
		"input from a pipe": {in: strings.NewReader("yes\n"), err: tty.program},
		"output to a file":  {in: tty.program, err: io.Discard},
	} {
		p.out, p.env = &terminal.Answer{W: io.Discard}, noVariables
		if err := p.confirm(t.Context(), "Apply this?", false, false); !errors.Is(err, errUnconfirmed) {
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
		"FORCE_COLOR into a file":      {&file, &file, env("FORCE_COLOR", "1"), true},
		"FORCE_COLOR and TERM=dumb":    {&file, &file, env("FORCE_COLOR", "1", "TERM", "dumb"), true},
		"FORCE_COLOR with nothing":     {&file, &file, env("FORCE_COLOR", ""), false},
		"FORCE_COLOR=0":                {tty.program, tty.program, env("FORCE_COLOR", "0", "CLICOLOR_FORCE", "1"), false},
		"CLICOLOR_FORCE into a file":   {&file, &file, env("CLICOLOR_FORCE", "1"), true},
		"CLICOLOR_FORCE=0":             {&file, &file, env("CLICOLOR_FORCE", "0"), false},
		"CLICOLOR_FORCE and CLICOLOR":  {&file, &file, env("CLICOLOR_FORCE", "1", "CLICOLOR", "0"), true},
		"CLICOLOR=0":                   {tty.program, tty.program, env("CLICOLOR", "0"), false},
		"CLICOLOR=1 into a file":       {&file, &file, env("CLICOLOR", "1"), false},
		"NO_COLOR and FORCE_COLOR":     {tty.program, tty.program, env("NO_COLOR", "1", "FORCE_COLOR", "1"), false},
		"NO_COLOR":                     {tty.program, tty.program, env("NO_COLOR", "1"), false},
		"NO_COLOR with nothing in it":  {tty.program, tty.program, env("NO_COLOR", ""), true},
		"a terminal that cannot do it": {tty.program, tty.program, env("TERM", "dumb"), false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &program{out: &terminal.Answer{W: test.out}, err: test.err, env: test.env}
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
	if (&program{err: io.Discard}).crowdBar() != nil {
		t.Error("there is a bar without a terminal")
	}
	tty := openTerminal(t)
	draw := (&program{err: tty.program, env: noVariables, drivers: ownDrivers}).crowdBar()
	draw(1, 2)
	draw(2, 2)
	tty.await("buyers")
}

// A plan of many steps has a bar on a terminal, which is gone at its end, and so has the
// reading of a long ledger. JSON has none beside it.
func TestManyStepsHaveABar(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sale.yaml")
	text := "apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: many}\nspec: {stock: 300, lockCount: 64, embedded: {}}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (out, seen string) {
		t.Helper()
		tty := openTerminal(t)
		var to bytes.Buffer
		p := &program{in: tty.program, out: &terminal.Answer{W: &to}, err: tty.program, env: noVariables, drivers: ownDrivers}
		if code := p.run(append([]string{"salectl"}, args...), nil); code != 0 {
			t.Fatalf("%q: exit code %d", args, code)
		}
		fmt.Fprintln(tty.program, "the end")
		tty.await("the end")
		tty.mu.Lock()
		defer tty.mu.Unlock()
		return to.String(), tty.seen.String()
	}
	out, seen := run("apply", "-f", path, "--yes")
	if !strings.Contains(seen, "/66)") || strings.Contains(seen, "[1/66]") || strings.Contains(out, "\r") {
		t.Errorf("apply shows %q and answers %q", seen, out)
	}
	if last := seen[strings.LastIndex(seen, "/66)"):]; !strings.Contains(last, "\r"+strings.Repeat(" ", 20)) {
		t.Errorf("the bar is still there: %q", last)
	}
	if _, seen := run("audit", "-f", path); strings.Contains(seen, "\r ") {
		t.Errorf("the audit of a short ledger shows %q", seen)
	}
	if _, seen := run("destroy", "-f", path, "--yes", "--json", "--out", path+".ndjson"); strings.Contains(seen, "/66)") {
		t.Errorf("beside JSON destroy shows %q", seen)
	}
}

// It is shown how far a long ledger was read.
func TestReadingALongLedgerHasABar(t *testing.T) {
	path := applySale(t, "long")
	store, err := embedded.OpenLogs(filepath.Join(filepath.Dir(path), ".salectl"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	tty := openTerminal(t)
	p := &program{in: tty.program, out: &terminal.Answer{W: io.Discard}, err: tty.program, env: noVariables, drivers: ownDrivers}
	watched, end := p.watchRead(t.Context(), tall{store}, "long", "reading", 1, false)
	if _, can := watched.(ledger.Scanner); !can {
		t.Error("what reads the ledger cannot scan it any more")
	}
	if a, err := audit.Run(t.Context(), watched, "long", ledger.NewState, nil); err != nil || !a.OK {
		t.Errorf("%+v, %v", a, err)
	}
	tty.await("(0/40002)")
	end()
	for name, logs := range map[string]ledger.Logs{"short": store, "quiet": tall{store}} {
		watched, end := p.watchRead(t.Context(), logs, "long", "reading", 1, name == "quiet")
		end()
		if watched != logs {
			t.Errorf("the reading of a %s ledger is watched", name)
		}
	}
}

// tall is logs whose heads say that they are long.
type tall struct{ *embedded.Logs }

func (tall) Heads(_ context.Context, logs []string) ([][]byte, error) {
	return slices.Repeat([][]byte{ledger.Head{Slot: longRead}.Encode()}, len(logs)), nil
}
