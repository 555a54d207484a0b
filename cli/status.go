package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"salectl/api"
	"salectl/backends"
	"salectl/backends/ledger"
	"salectl/planner"
	"salectl/planner/current"
	"salectl/spec"
)

// waitable are the states that status can wait for: phases in their order, and sold-out, which
// is possible in any phase.
var waitable = []string{
	ledger.PhasePlanned, ledger.PhaseScheduled, ledger.PhaseOpen, ledger.PhaseStalled, ledger.PhasePaused,
	ledger.PhaseEnded, ledger.PhaseClosed, ledger.PhaseSealed, ledger.PhaseDestroyed, soldOut,
}

const soldOut = "sold-out"

const (
	// defaultWait bounds the wait for a state.
	defaultWait = time.Minute
	// lookAgain is the interval of reads.
	lookAgain = 200 * time.Millisecond
)

type statusOptions struct {
	source
	secrets                // for the process that serves the sale
	waitFor  string        // element of waitable, "" for none
	health   bool          // the exit code reports the health
	interval time.Duration // time between reads until a signal; 0: one read
	admin    *url.URL      // of that process; nil: it is queried at its address for claims

	processes bool // only the processes that share the sale are shown
}

func (p *program) statusCommand() *urfave.Command {
	return &urfave.Command{
		Name: "status", Category: groupInspect, Usage: "show the state of sales and their shards",
		Description: "Reads the ledger and the lock nodes, also while a sale is served, and queries the " +
			"server, which also reports the duration of a fault. Unreachable servers are part of " +
			"the answer: without the ledger the phase is unknown, the rest is shown, and the command " +
			"fails.\n\n" +
			"The phases: planned until every shard has been written, scheduled before opensAt, open, " +
			"stalled while open without a shard that can sell, paused, ended after closesAt, closed, " +
			"sealed, destroyed. With --wait-for the command waits until the sale has that phase, or " +
			"is sold out, and exits with 7 if the time runs out.\n\n" +
			"With --exit-code it exits with 8 if the sale is open and cannot sell, for example " +
			"because no process serves it, and with 9 if there is another fault.\n\n" +
			"With --watch it reads repeatedly until Ctrl-C, also while servers are unreachable, and " +
			"then exits with 0. A terminal shows the newest state in place; elsewhere each change of " +
			"a sale is printed, with --json as one line.",
		Flags: append(salesFlags(
			valueFlag("wait-for", "wait until the sale has `PHASE`: "+strings.Join(waitable, ", ")),
			onFlag("exit-code", "exit with 8 if the sale is open and cannot sell, and with 9 if there is another fault"),
			onFlag("watch", "show the state until Ctrl-C", "w"),
			valueFlag("interval", fmt.Sprintf("with --watch: wait `DURATION` between reads (default: %s)", defaultInterval)),
			valueFlag("timeout", fmt.Sprintf("time out after `DURATION` (default: %s; with --watch %s for each read)", defaultWait, watchTimeout)),
		), append(operatorFlags(), allFlag(), jsonFlag())...),
		Action: action(func(f *flags) statusOptions {
			o := statusOptions{source: parseSource(f), health: f.on("exit-code"), secrets: f.secrets(), admin: f.server("admin")}
			if f.c.IsSet("wait-for") {
				o.waitFor = f.oneOf("wait-for", waitable...)
			}
			if f.on("watch") {
				f.watch(&o)
			} else if f.c.IsSet("interval") {
				f.refuse("--interval stands beside --watch")
			}
			if o.timeout == 0 {
				o.timeout = defaultWait
			}
			return o
		}, p.status),
	}
}

// operatorFlags returns the flags for the queries of a process that serves a sale.
func operatorFlags() []urfave.Flag {
	return append([]urfave.Flag{
		adminFlag(), valueFlag("token-file", "send the first bearer token in `FILE` to the server; it needs the right operate"),
	}, tlsFlags()...)
}

// saleStatus is the status of a sale, with the report of the process that serves it on holds
// and their payments.
type saleStatus struct {
	*current.Status
	Labels map[string]string `json:"labels,omitempty"` // from the sale's file
	ReadAt string            `json:"readAt"`           // RFC 3339, UTC, by this host's clock
	Health saleHealth        `json:"health"`

	Holds        *api.Holds        `json:"holds,omitempty"`        // nil: there are none, or unknown
	PaymentCheck *api.PaymentCheck `json:"paymentCheck,omitempty"` // nil: nothing to report, or unknown

	// Processes that share the sale, as reported by the queried one; empty: unknown.
	Processes []api.Process `json:"processes,omitempty"`
	Moves     []api.Move    `json:"moves,omitempty"`

	Problems []api.SaleProblem `json:"problems,omitempty"` // of the queried process
}

func (p *program) status(ctx context.Context, o statusOptions) error {
	show := pick(o.json, func(s *saleStatus) { p.statusText(s, o.all) }, func(s *saleStatus) { p.emit(s) })
	if o.processes {
		show = pick(o.json, p.processesOnly, func(s *saleStatus) { p.emit(saleProcesses{s.Sale, s.ReadAt, s.Processes, s.Moves}) })
	}
	sales, err := p.load(ctx, o.source)
	if err != nil {
		return err
	}
	token, over, err := o.secrets.read()
	if err != nil {
		return err
	}
	if o.interval > 0 {
		return p.watchStatus(ctx, o, sales)
	}
	bounded, cancel := o.bounded(ctx)
	defer cancel()
	return p.eachSale(ctx, o.source, sales, func(sale spec.Sale) error {
		return p.withStore(sale, func(store *backends.Store) error {
			view, err := p.await(ctx, bounded, store, sale, statusClient{o.admin, token, over}, o)
			if err != nil && view != nil {
				p.report(withRemedy(store, err))
				err = shown{err} // the view is its JSON
			}
			if view != nil {
				show(view)
			}
			if o.health && (err == nil || o.waitFor == "" && view != nil && view.Health.State == healthDown) {
				err = view.Health.err()
			}
			return err
		})
	})
}

// await reads a status repeatedly until the sale has the expected state. Beside an error it
// returns the last status, if any. bounded is ctx until --timeout.
func (p *program) await(ctx, bounded context.Context, store *backends.Store, sale spec.Sale, client statusClient, o statusOptions) (last *saleStatus, err error) {
	for {
		status, err := p.readStatus(ctx, bounded, store, sale.Name, client, o)
		if status != nil {
			last, status.ReadAt, status.Labels = status, planner.TimeText(time.Now()), sale.Labels
		}
		switch {
		case err == nil && (o.waitFor == "" || last.is(o.waitFor)):
			return last, nil
		case err != nil && bounded.Err() == nil && (o.waitFor == "" || !errors.Is(err, ledger.ErrGone) && !errors.Is(err, planner.ErrStore)):
			return last, err
		}
		select {
		case <-bounded.Done():
			if cause := context.Cause(bounded); !errors.Is(cause, errTimeout) {
				return last, cause
			}
			if o.waitFor == "" {
				return last, late(bounded, err)
			}
			if errors.Is(err, planner.ErrStore) || last == nil && !errors.Is(err, ledger.ErrGone) {
				return last, fmt.Errorf("%w: it is unknown whether sale %s is %s: %w", timedOut(o.timeout), sale.Name, o.waitFor, err)
			}
			err = fmt.Errorf("%w: sale %s is %s, not %s%s", timedOut(o.timeout), sale.Name, last.word(), o.waitFor, because(p.why(last, sale.Name, o.waitFor)))
			if last != nil && !last.unread() {
				err = waited{err}
			}
			return last, err
		case <-time.After(lookAgain):
		}
	}
}

// is reports whether a sale has the expected state.
func (s *saleStatus) is(what string) bool { return s.Phase == what || what == soldOut && s.SoldOut }

// word describes the phase of a sale.
func (s *saleStatus) word() string {
	switch {
	case s == nil:
		return "not there"
	case s.SoldOut:
		return s.Phase + " and sold out"
	}
	return s.Phase
}

// why explains why a sale does not have the expected state; "": its phase explains it.
func (p *program) why(s *saleStatus, sale, what string) string {
	switch {
	case s == nil:
		return p.withFlags("'salectl apply' makes it", sale)
	case s.unread():
		return s.LedgerError
	case what == soldOut:
		return soldText(s.Status)
	case s.Phase == ledger.PhaseScheduled:
		return "it opens at " + planner.TimeText(s.OpensAt)
	case s.Phase == ledger.PhasePaused && what != ledger.PhasePaused:
		return p.withFlags("'salectl resume' opens it", sale)
	case s.Phase == ledger.PhasePlanned:
		return fmt.Sprintf("generation %d has not reached every shard yet", s.Generation)
	case s.Phase == ledger.PhaseStalled:
		return strings.Join(s.Health.Reasons, "; ")
	case what == ledger.PhaseEnded && s.ClosesAt.After(time.Now()):
		return "it closes at " + planner.TimeText(s.ClosesAt)
	}
	return ""
}
