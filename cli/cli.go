// Package cli is the program that people run: it turns command lines into
// calls of planner and executor, and their answers into text or JSON.
//
// It promises scripts three things. Standard output carries the answer and
// nothing else; with --json it is JSON, one object a sale and one a line.
// Everything said on the way goes to standard error. The exit code says what
// happened, alike for all commands (exit.go).
//
// Each command has a file: its flags become a plain struct, that struct becomes
// calls, and a view writes what they return. No rule about stock, users or
// plans lives here.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// program is one run of salectl.
type program struct {
	in  io.Reader
	out *answer
	err io.Writer
	env func(string) (string, bool)
	drivers

	files   string      // the flags -f of the command line; "": there are none
	several bool        // the files declare several sales
	ignored []os.Signal // what whoever started the program wants ignored
	letGo   func()      // signals end the program no more; nil: they never did
	heard   echo        // of the signals
}

// Main runs the command line args, the program's name first, and returns the
// exit code. The streams are the program's own; env looks a variable up, as
// os.LookupEnv does.
//
// The first SIGINT or SIGTERM asks the command to end in good order. At the
// second, which is more than an echo of the first, Main returns at once, with goroutines still under way: call it once,
// as the last thing of a process. (lock run has a command to pass them on to:
// lock_signals.go.)
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) (string, bool)) int {
	signals := make(chan os.Signal, 2)
	var ignored []os.Signal
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} { // Go tells of these two alone
		if signal.Ignored(s) {
			ignored = append(ignored, s)
		}
	}
	letGo := func() { signal.Stop(signals) }
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer letGo()
	p := &program{in: stdin, out: &answer{w: stdout}, err: stderr, env: env, ignored: ignored, letGo: letGo}
	return p.run(args, signals)
}

func (p *program) run(args []string, signals <-chan os.Signal) int {
	p.complete()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- p.command(ctx, args) }()

	var err error
	select {
	case err = <-done:
	case s := <-signals:
		p.heard.repeats(s)
		cancel(errInterrupted)
		for over := false; !over; {
			select {
			case err = <-done:
				over = true
			case s := <-signals:
				if !p.heard.repeats(s) {
					p.say("Interrupted twice: ended at once.")
					return exitInterrupted
				}
			}
		}
	}
	if err != nil && errors.Is(context.Cause(ctx), errInterrupted) {
		p.say("Interrupted.")
		if !errors.Is(err, errInterrupted) {
			err = fmt.Errorf("%w: %w", errInterrupted, err)
		}
	}
	if err == nil && p.out.err != nil {
		err = fmt.Errorf("the answer could not be written to standard output: %w", p.out.err)
	}
	p.report(err)
	return ExitCode(err)
}

// say writes a line of progress, for people.
func (p *program) say(format string, args ...any) {
	text := fmt.Sprintf(format+"\n", args...)
	if isTerminal(p.err) {
		text = printable(text)
	}
	fmt.Fprint(p.err, text)
}

// answer is standard output. It remembers that a write failed, so that no view
// needs to ask at every line, and the program does not end with 0 on a full
// disk.
type answer struct {
	w       io.Writer
	written bool
	err     error
}

func (a *answer) Write(b []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	text := b
	if isTerminal(a.w) {
		text = []byte(printable(string(b)))
	}
	_, err := a.w.Write(text)
	if a.written, a.err = true, err; err != nil {
		return 0, err
	}
	return len(b), nil
}
