package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"salectl/backends"
	"salectl/backends/ledger"
	"salectl/planner"
	"salectl/spec"
)

// phases are what status can wait for, in the order in which they come.
var phases = []string{
	ledger.PhasePlanned, ledger.PhaseOpen, ledger.PhasePaused, ledger.PhaseClosed, ledger.PhaseSealed, ledger.PhaseDestroyed,
}

const (
	// defaultWait is how long status waits for a phase.
	defaultWait = time.Minute
	// lookAgain is how often it looks.
	lookAgain = 200 * time.Millisecond
)

type statusOptions struct {
	source
	waitFor string // a phase, "" to wait for none
	timeout time.Duration
}

func (p *program) statusCommand() *urfave.Command {
	return &urfave.Command{
		Name: "status", Category: groupLook, Usage: "show how sales stand, shard by shard",
		Description: "Reads the heads of the shards and the lock nodes, also while a sale is served. With\n" +
			"--wait-for it waits until every shard has come to that phase, and exits with 7 if\n" +
			"the time runs out.",
		Flags: []urfave.Flag{
			fileFlag(),
			valueFlag("wait-for", "wait for `PHASE`: "+strings.Join(phases, ", ")),
			valueFlag("timeout", fmt.Sprintf("give up after `DURATION` (default: %s)", defaultWait)),
			jsonFlag(),
		},
		Action: func(c *urfave.Context) error {
			f := &flags{c: c}
			o := statusOptions{source: parseSource(f), timeout: f.duration("timeout", defaultWait)}
			if c.IsSet("wait-for") {
				o.waitFor = f.oneOf("wait-for", phases...)
			}
			if err := f.done(0); err != nil {
				return err
			}
			return p.status(c.Context, o)
		},
	}
}

func (p *program) status(ctx context.Context, o statusOptions) error {
	var view statusView = (*statusHuman)(p)
	if o.json {
		view = (*statusJSON)(p)
	}
	sales, err := p.load(ctx, o.source)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, o.timeout, errTimeout)
	defer cancel()
	return p.eachSale(ctx, o.source, sales, func(sale spec.Sale) error {
		return withStore(sale, func(store *backends.Store) error {
			status, err := awaitPhase(bounded, p.planning(store), sale.Name, o)
			if errors.Is(err, errTimeout) && status != nil {
				p.report(err)
				err = shown{err}
			}
			if status != nil {
				view.Status(status)
			}
			return err
		})
	})
}

// awaitPhase reads a status again and again until the sale has come to the
// phase that is waited for. After errTimeout it returns the last one, if any.
func awaitPhase(ctx context.Context, cfg planner.Config, name string, o statusOptions) (last *planner.Status, err error) {
	for {
		status, err := planner.ReadStatus(ctx, cfg, name)
		phase := "not there"
		switch {
		case err == nil:
			last, phase = status, status.Phase
			if o.waitFor == "" || phase == o.waitFor {
				return status, nil
			}
		case ctx.Err() == nil && !(o.waitFor != "" && errors.Is(err, ledger.ErrGone)):
			return nil, err
		case last != nil:
			phase = last.Phase
		}
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(cause, errTimeout) {
				return last, cause
			}
			if o.waitFor == "" {
				return last, fmt.Errorf("%w after %s: reading sale %s: %w", errTimeout, o.timeout, name, err)
			}
			return last, fmt.Errorf("%w after %s: sale %s is %s, not %s", errTimeout, o.timeout, name, phase, o.waitFor)
		case <-time.After(lookAgain):
		}
	}
}

// statusView is all that status says.
type statusView interface{ Status(*planner.Status) }

var (
	_ statusView = (*statusHuman)(nil)
	_ statusView = (*statusJSON)(nil)
)

type statusHuman program

func (v *statusHuman) Status(s *planner.Status) {
	p := (*program)(v)
	c := p.colours(v.out)
	p.gap()
	fmt.Fprintf(v.out, "%s: %s, generation %d, run %s\n", c.bold(s.Sale), phaseWord(c, s.Phase), s.Generation, s.UID)
	fmt.Fprintf(v.out, "  %s of %s sold%s\n", grouped(s.Sold), count(s.Stock, "unit"), elsewhere(s))
	if s.Phase == ledger.PhaseDestroyed {
		return
	}
	if s.Owner == "" {
		fmt.Fprintln(v.out, "  nobody serves it")
	} else {
		fmt.Fprintf(v.out, "  served at %s\n", s.Owner)
	}
	if s.Applied < s.Generation {
		fmt.Fprintf(v.out, "  generation %d is not on every shard yet\n", s.Generation)
	}
	fmt.Fprintln(v.out)
	shards := newTable("shard", "owner", ">lease", ">slot", ">generation", ">limit", ">available", ">held", ">sold", "")
	for _, shard := range s.Shards {
		lease := "-"
		if shard.LeaseLeftSeconds > 0 {
			lease = fmt.Sprintf("%.1f s", shard.LeaseLeftSeconds)
		}
		owner := shard.Owner
		if owner == "" {
			owner = "-"
		}
		shards.row(shard.Shard, owner, lease, shard.Slot, shard.Generation,
			grouped(shard.Limit), grouped(shard.Available), grouped(shard.Held), grouped(shard.Sold), shard.Error)
	}
	shards.write(v.out, "  ", c.dim)
	fmt.Fprintln(v.out)
	nodes := newTable("lock node", "state", ">leases", ">clock off")
	for _, n := range s.Nodes {
		state := "up"
		switch {
		case !n.Up:
			state = "down: " + n.Error
		case n.Abstaining:
			state = "votes again at " + n.VotesFrom
		}
		nodes.row(n.Name, state, n.Leases, clockOff(n.ClockOffSeconds))
	}
	nodes.write(v.out, "  ", c.dim)
}

// elsewhere says where the units are that are not sold.
func elsewhere(s *planner.Status) string {
	text := ""
	for _, where := range []struct {
		units int64
		name  string
	}{{s.Available, "available"}, {s.Held, "held"}, {s.InFlight, "on the way between shards"}} {
		if where.units > 0 {
			text += fmt.Sprintf(", %s %s", grouped(where.units), where.name)
		}
	}
	return text
}

// clockOff leaves out what is no more than the time that asking takes.
func clockOff(seconds float64) string {
	if math.Abs(seconds) < 0.01 {
		return "-"
	}
	return fmt.Sprintf("%+.2f s", seconds)
}

func phaseWord(c palette, phase string) string {
	switch phase {
	case ledger.PhaseOpen:
		return c.green(phase)
	case ledger.PhasePaused, ledger.PhasePlanned:
		return c.yellow(phase)
	}
	return phase
}

type statusJSON program

func (v *statusJSON) Status(s *planner.Status) { (*program)(v).emit(s) }
