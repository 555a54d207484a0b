package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"salectl/cli/terminal"
)

// askPerson asks for confirmation. With yes it asks nothing. It returns errUnconfirmed if it
// cannot ask, because a stream is no terminal or the answer is JSON.
func (p *program) askPerson(ctx context.Context, question string, yes, asJSON bool) error {
	switch {
	case yes:
		return nil
	case asJSON:
		return fmt.Errorf("%w: --json cannot ask for confirmation; use --yes", errUnconfirmed)
	case !terminal.IsTerminal(p.in) || !terminal.IsTerminal(p.err):
		return fmt.Errorf("%w: there is no terminal to ask for confirmation; use --yes", errUnconfirmed)
	}
	typed, err := p.askLine(ctx, fmt.Sprintf("\n%s Only 'yes' is accepted: ", p.colours(p.err).Bold(question)))
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

// askLine prints a question and returns the line that is typed on the terminal, without space around it.
// It returns the cause if ctx ends first.
func (p *program) askLine(ctx context.Context, question string) (string, error) {
	fmt.Fprint(p.err, question)
	typed := make(chan string, 1)
	// A read of a terminal cannot be cancelled. If ctx ends first, the goroutine stays and
	// ends with the process.
	go func() {
		line, _ := bufio.NewReader(p.in).ReadString('\n')
		typed <- strings.TrimSpace(line)
	}()
	defer p.say("")
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case line := <-typed:
		return line, nil
	}
}
