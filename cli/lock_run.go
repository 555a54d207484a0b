package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"salectl/backends/quorum"
	"salectl/cli/lock"
	"salectl/internal/signals"
)

type lockRunOptions struct {
	source
	held    lock.Hold
	command []string
}

func (p *program) lockRunCommand() *urfave.Command {
	return &urfave.Command{
		Name: "run", Usage: "run a command while holding a lock", ArgsUsage: "NAME -- COMMAND [ARGUMENT...]",
		Description: "Waits for the named lock, runs the command, releases the lock, and exits with the exit " +
			"code of the command, or 128 plus the number of the signal that ended it. A majority of " +
			"the lock nodes of the sale in the file holds the lock; the sale need not be applied, and " +
			"HBase is not used.\n\n" +
			"If the lock is lost, because too many nodes fail, somebody breaks it, or this process " +
			"was stopped (Ctrl-Z too), the command receives SIGTERM at once and SIGKILL after a " +
			"twelfth of the ttl, and the exit code is 5. Processes that the command has started are " +
			"not ended: in a shell, exec the last command. Signals are forwarded to the command. Lock " +
			"nodes that never had named locks, or lost their memory, vote after 10 s.",
		Flags: salesFlags(
			valueFlag("ttl", fmt.Sprintf("acquire the lock for `DURATION` at a time: others can acquire it that long after this process dies; %s to %s (default: %s)",
				quorum.MinTTL, quorum.MaxTTL, quorum.DefaultTTL)),
			valueFlag("wait", "wait for the lock at most `DURATION`; 0 tries once (default: without a limit)"),
			valueFlag("conflict-exit-code", fmt.Sprintf("exit with `CODE` if the lock could not be acquired (default: %d)", exitStale)),
		),
		Action: actionUpTo(math.MaxInt, parseLockRun, p.lockRun),
	}
}

func parseLockRun(f *flags) lockRunOptions {
	o := lockRunOptions{source: parseSource(f), held: lock.Hold{TTL: f.duration("ttl", quorum.DefaultTTL)}}
	if o.held.TTL < quorum.MinTTL || o.held.TTL > quorum.MaxTTL {
		f.refuse("--ttl must be from %s to %s, not %s", quorum.MinTTL, quorum.MaxTTL, o.held.TTL)
	}
	o.held.Wait = parsed(f, "wait", quorum.Forever, "a duration like 10s or 2m, or 0 to try once", func(text string) (time.Duration, error) {
		wait, err := time.ParseDuration(text)
		if err == nil && wait < 0 {
			err = strconv.ErrRange
		}
		return wait, err
	})
	o.held.Conflict = int(f.number("conflict-exit-code", 0, 255, exitStale))
	if slices.Contains(o.files, "-") {
		f.refuse("-f - would read standard input, which belongs to the command")
	}
	if args := f.c.Args().Slice(); len(args) > 2 && args[1] == "--" {
		o.held.Name, o.command = f.lockName(args[0]), args[2:]
	} else {
		f.refuse("name the lock and, behind --, the command: %s NAME -- COMMAND", f.c.Command.HelpName)
	}
	return o
}

func (p *program) lockRun(ctx context.Context, o lockRunOptions) error {
	sales, err := p.load(ctx, o.source)
	if err != nil {
		return err
	}
	command, err := lock.Command(o.command)
	if err != nil {
		return err
	}
	command.Stdin, command.Stdout, command.Stderr = p.in, p.out.W, p.err
	o.held.Notify = func(text string) { p.logf("salectl: %s", text) }
	o.held.Address = strings.ReplaceAll(fmt.Sprintf("%s:%d", who(), os.Getpid()), " ", "_") // user@host:pid
	taken := lock.TakeSignals(p.stop, p.ignored)
	return p.withNodes("salectl lock run", sales, func(nodes []quorum.Node) error {
		err := o.held.Run(ctx, nodes, command, taken)
		switch exited := new(lock.ExitError); {
		case errors.Is(err, signals.ErrInterrupted):
			p.logf("Interrupted.") // Main has not received the signal
		case errors.As(err, &exited) && exited.Quiet:
			return shown{err} // the command has printed its own error
		}
		return err
	})
}
