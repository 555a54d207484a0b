// Package cli is the command line of salectl: it converts command lines to calls of planner
// and executor, and their results to text or JSON.
//
// It guarantees scripts three things. Standard output has the answer only; with --json it is
// JSON, one object a sale and one a line. Everything else goes to standard error. The exit
// code states the result, with the same meaning for all commands (exit.go).
//
// Each command has a file: its flags become a plain struct, that struct becomes calls, and a
// view prints their results. The package has no rules about stock, users or plans.
package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"salectl/cli/terminal"
	"salectl/internal/files"
	"salectl/internal/signals"
)

// program is one run of salectl.
type program struct {
	in  io.Reader
	out *terminal.Answer
	err io.Writer
	env func(string) (string, bool)
	drivers

	files   string       // the flags -f of the command line; "": none
	several bool         // the files declare several sales
	ignored []os.Signal  // signals that the parent process ignores
	stop    func()       // stops delivery of signals to Main; nil: there is none
	echo    signals.Echo // detects repeated signals
}

// Main runs the command line args, which begins with the program's name, and returns the exit
// code. The streams are the program's own; env returns a variable, as os.LookupEnv.
//
// The first SIGINT or SIGTERM makes the command end in an orderly way. At a second one that is
// not an echo of the first, Main returns at once and leaves goroutines running. It must be called
// only once, as the last action of a process. (lock run forwards signals to its command:
// lock.TakeSignals.)
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) (string, bool)) int {
	received := make(chan os.Signal, 2)
	var ignored []os.Signal
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} { // Go reports only these two
		if signal.Ignored(s) {
			ignored = append(ignored, s)
		}
	}
	stop := func() { signal.Stop(received) }
	signal.Notify(received, os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := &program{
		in: stdin, out: &terminal.Answer{W: stdout}, err: stderr, env: env, drivers: ownDrivers, ignored: ignored, stop: stop,
	}
	return p.run(args, received)
}

func (p *program) run(args []string, received <-chan os.Signal) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- p.command(ctx, args) }()

	var err error
	select {
	case err = <-done:
	case s := <-received:
		p.echo.Repeats(s)
		cancel(signals.ErrInterrupted)
		for over := false; !over; {
			select {
			case err = <-done:
				over = true
			case s := <-received:
				if !p.echo.Repeats(s) {
					p.logf("Interrupted twice: ended at once.")
					return exitInterrupted
				}
			}
		}
	}
	if err != nil && errors.Is(context.Cause(ctx), signals.ErrInterrupted) {
		p.logf("Interrupted.")
		if !errors.Is(err, signals.ErrInterrupted) {
			err = fmt.Errorf("%w: %w", signals.ErrInterrupted, err)
		}
	}
	if err == nil && p.out.Err != nil {
		err = fmt.Errorf("the answer is incomplete: %w", files.Unwritten("standard output", p.out.Err))
	}
	p.report(err)
	return ExitCode(err)
}

// logf prints a line of progress to standard error.
func (p *program) logf(format string, args ...any) {
	text := fmt.Sprintf(format+"\n", args...)
	if terminal.IsTerminal(p.err) {
		text = terminal.Printable(text)
	}
	fmt.Fprint(p.err, text)
}

// colours returns the palette for one of the two output streams.
func (p *program) colours(w io.Writer) terminal.Palette { return terminal.Colours(p.env, p.out, w) }

// confirm prompts for confirmation; with yes it does nothing. It returns errUnconfirmed if it
// cannot prompt, because a stream is no terminal or the answer is JSON.
func (p *program) confirm(ctx context.Context, question string, yes, asJSON bool) error {
	switch {
	case yes:
		return nil
	case asJSON:
		return fmt.Errorf("%w: --json cannot ask for confirmation; use --yes", errUnconfirmed)
	case !terminal.IsTerminal(p.in) || !terminal.IsTerminal(p.err):
		return fmt.Errorf("%w: there is no terminal to ask for confirmation; use --yes", errUnconfirmed)
	}
	typed, err := p.promptLine(ctx, fmt.Sprintf("\n%s Only 'yes' is accepted: ", p.colours(p.err).Bold(question)))
	switch {
	case err != nil:
		if errors.Is(err, errTimeout) {
			return waited{fmt.Errorf("%w: no answer was given, and nothing was changed", err)}
		}
		return err
	case typed != "yes":
		return fmt.Errorf("%w: nothing was changed", errUnconfirmed)
	}
	return nil
}

// promptLine prints a question and returns the line typed on the terminal, without surrounding space.
// It returns the cause of the end of ctx if ctx ends first.
func (p *program) promptLine(ctx context.Context, question string) (string, error) {
	fmt.Fprint(p.err, question)
	defer p.logf("")
	line, _ := bufio.NewReader(&endingReader{ctx, p.in}).ReadString('\n')
	return strings.TrimSpace(line), context.Cause(ctx)
}
