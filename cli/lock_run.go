package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	urfave "github.com/urfave/cli/v2"

	"salectl/backends/quorum"
	"salectl/spec"
)

// asLongAsItTakes is the wait of lock run without --wait.
const asLongAsItTakes time.Duration = -1

type lockRunOptions struct {
	source
	ttl, wait time.Duration
	conflict  int // exit code if the lock could not be acquired
	name      string
	command   []string
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
		Action: func(c *urfave.Context) error {
			o, err := parseLockRun(c)
			if err != nil {
				return err
			}
			return p.lockRun(c.Context, o)
		},
	}
}

func parseLockRun(c *urfave.Context) (lockRunOptions, error) {
	f := &flags{c: c}
	o := lockRunOptions{source: parseSource(f), ttl: f.duration("ttl", quorum.DefaultTTL), wait: asLongAsItTakes}
	if o.ttl < quorum.MinTTL || o.ttl > quorum.MaxTTL {
		f.refuse("--ttl must be from %s to %s, not %s", quorum.MinTTL, quorum.MaxTTL, o.ttl)
	}
	if c.IsSet("wait") {
		wait, err := time.ParseDuration(c.String("wait"))
		if err != nil || wait < 0 {
			f.refuse("--wait must be a duration like 10s or 2m, or 0 to ask once, not %q", c.String("wait"))
		}
		o.wait = wait
	}
	o.conflict = int(f.number("conflict-exit-code", 0, 255, exitStale))
	if slices.Contains(o.files, "-") {
		f.refuse("-f - would read the standard input, which is the command's")
	}
	if args := c.Args().Slice(); len(args) > 2 && args[1] == "--" {
		o.name, o.command = f.lockName(args[0]), args[2:]
	} else {
		f.refuse("name the lock and, behind --, the command: %s NAME -- COMMAND", c.Command.HelpName)
	}
	return o, f.errs.ErrorOrNil()
}

func (p *program) lockRun(ctx context.Context, o lockRunOptions) error {
	sales, err := p.load(ctx, o.source)
	if err != nil {
		return err
	}
	command, err := p.prepare(o.command)
	if err != nil {
		return err
	}
	signals := p.takeSignals()
	return p.withNodes("salectl lock run", sales, func(nodes []quorum.Node) error {
		heard := newHeard(nodes, func(text string) { p.say("salectl: %s", text) })
		// A lease lasts as long as its context, and ctx may end while the command runs, which
		// must end first.
		holding, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
		defer giveUp(nil)
		lease, err := heard.hold(holding, giveUp, o, waiting{signals, ctx})
		if errors.Is(err, errInterrupted) {
			p.say("Interrupted.")
		}
		if err != nil {
			return err
		}
		err = guard{lease: lease, name: o.name, grace: o.ttl / 12, signals: signals, ended: ctx.Done()}.run(command)
		giveBack(lease)
		return err
	})
}

// giveBack releases the lock on every reachable node. heard reports the others.
func giveBack(lease *quorum.Lease) {
	// Both return when the slowest node has answered or timed out.
	_ = lease.Release(context.Background())
	_ = lease.Freed(context.Background())
}

// waiting holds what may end a wait for a lock early.
type waiting struct {
	signals <-chan os.Signal
	program context.Context
}

// hold waits for the lock with the options of the command line. The lease lasts until it is
// released or lost.
func (h *heard) hold(holding context.Context, giveUp context.CancelCauseFunc, o lockRunOptions, w waiting) (*quorum.Lease, error) {
	type result struct {
		lease *quorum.Lease
		err   error
	}
	done := make(chan result, 1)
	go func() {
		cfg := quorum.Config{Marker: spec.NamedLockMarker, TTL: o.ttl, Address: lockAddress(), Once: o.wait == 0}
		lease, err := quorum.Hold(holding, h.nodes, cfg, spec.NamedLock(o.name))
		done <- result{lease, err}
	}()
	var late <-chan time.Time
	if o.wait > 0 {
		timer := time.NewTimer(o.wait)
		defer timer.Stop()
		late = timer.C
	}
	interrupted, denied := w.program.Done(), h.denied
	for {
		select {
		case got := <-done:
			switch {
			case got.err == nil && holding.Err() == nil:
				return got.lease, nil
			case got.err == nil: // acquired and cancelled at the same time
				giveBack(got.lease)
				got.err = context.Cause(holding)
			}
			switch {
			case errors.Is(got.err, errDenied), errors.Is(got.err, quorum.ErrRefused) && h.isDenied():
				return nil, h.refusal(lockRunOptions{name: o.name})
			case errors.Is(got.err, errLate), errors.Is(got.err, quorum.ErrRefused):
				return nil, &codedError{o.conflict, h.refusal(o)}
			}
			return nil, got.err
		case <-late:
			giveUp(errLate)
		case <-denied:
			denied = nil
			giveUp(errDenied)
		case <-interrupted:
			interrupted = nil
			giveUp(context.Cause(w.program))
		case s := <-w.signals:
			if ends(s) {
				giveUp(errInterrupted)
			}
		}
	}
}

// Causes for the end of a wait without the lock.
var (
	errLate   = errors.New("not acquired in time")
	errDenied = errors.New("too few lock nodes permit it")
)
