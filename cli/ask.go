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
		return fmt.Errorf("%w: with --json nobody is asked; say --yes to go on", errUnconfirmed)
	case !terminal.IsTerminal(p.in) || !terminal.IsTerminal(p.err):
		return fmt.Errorf("%w: there is no terminal to ask on; say --yes to go on", errUnconfirmed)
	}
	fmt.Fprintf(p.err, "\n%s Only 'yes' is accepted: ", p.colours(p.err).Bold(question))
	typed := make(chan string, 1)
	// A read of a terminal cannot be cancelled. If ctx ends first, the goroutine stays and
	// ends with the process.
	go func() {
		line, _ := bufio.NewReader(p.in).ReadString('\n')
		typed <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		p.say("")
		if cause := context.Cause(ctx); errors.Is(cause, errTimeout) {
			return waited{fmt.Errorf("%w: nobody has answered, and nothing was changed", cause)}
		}
		return context.Cause(ctx)
	case line := <-typed:
		p.say("")
		if line != "yes" {
			return fmt.Errorf("%w: nothing was changed", errUnconfirmed)
		}
		return nil
	}
}
