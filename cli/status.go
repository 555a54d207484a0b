package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"salectl/api"
	"salectl/backends"
	"salectl/backends/ledger"
	"salectl/executor/httpd"
	"salectl/planner"
	"salectl/spec"
)

// waitable is what status can wait for: phases, in the order in which they come, and that a
// sale is sold out, which it may be in any.
var waitable = []string{
	ledger.PhasePlanned, ledger.PhaseScheduled, ledger.PhaseOpen, ledger.PhaseStalled, ledger.PhasePaused,
	ledger.PhaseEnded, ledger.PhaseClosed, ledger.PhaseSealed, ledger.PhaseDestroyed, soldOut,
}

const soldOut = "sold-out"

const (
	// defaultWait is how long status waits for what it is to wait for.
	defaultWait = time.Minute
	// lookAgain is how often it looks.
	lookAgain = 200 * time.Millisecond
)

type statusOptions struct {
	source
	waitFor   string // one of waitable, "" to wait for nothing
	health    bool   // the exit code tells the health
	tokenFile string // for the process that serves the sale
}

func (p *program) statusCommand() *urfave.Command {
	return &urfave.Command{
		Name: "status", Category: groupLook, Usage: "show how sales stand, shard by shard",
		Description: "Reads the heads of the shards and the lock nodes, also while a sale is served, and\n" +
			"asks the process that serves it since when something is down. Servers that are away\n" +
			"are part of the answer: without the ledger the phase is unknown, the rest is shown,\n" +
			"and the command fails.\n" +
			"\n" +
			"A sale is planned until every shard has it, scheduled before opensAt, open, stalled\n" +
			"where it is open and no claim can be sold, paused, ended once closesAt has\n" +
			"passed, closed, sealed or destroyed. With --wait-for it waits until the sale is that,\n" +
			"or sold out, and exits with 7 if the time runs out.\n" +
			"\n" +
			"With --exit-code it exits with 8 if the sale is open and no claim can be sold, for\n" +
			"example because no process serves it, and with 9 if anything else is amiss.",
		Flags: []urfave.Flag{
			fileFlag(),
			valueFlag("wait-for", "wait for `PHASE`: "+strings.Join(waitable, ", ")),
			onFlag("exit-code", "exit with 8 if the sale is open and no claim can be sold, and with 9 if anything else is amiss"),
			valueFlag("timeout", fmt.Sprintf("give up after `DURATION` (default: %s)", defaultWait)),
			valueFlag("token-file", "send the bearer token in `FILE` to the process that serves the sale"),
			jsonFlag(),
		},
		Action: action(func(f *flags) statusOptions {
			o := statusOptions{source: parseSource(f), health: f.on("exit-code"), tokenFile: f.text("token-file")}
			if o.timeout == 0 {
				o.timeout = defaultWait
			}
			if f.c.IsSet("wait-for") {
				o.waitFor = f.oneOf("wait-for", waitable...)
			}
			return o
		}, p.status),
	}
}

// saleStatus is how a sale stands, and what the process that serves it says of holds and of
// their payments.
type saleStatus struct {
	*planner.Status
	Health saleHealth `json:"health"`

	Holds        *api.Holds        `json:"holds,omitempty"`        // nil: there are none, or nobody tells
	PaymentCheck *api.PaymentCheck `json:"paymentCheck,omitempty"` // nil: there is nothing to tell, or nobody tells

	// Of the processes that share the sale, by the one that was asked; none: nobody tells.
	Processes []api.Process   `json:"processes,omitempty"`
	Ownership []api.Ownership `json:"ownership,omitempty"` // by shard
	Moves     []api.Move      `json:"moves,omitempty"`
}

func (p *program) status(ctx context.Context, o statusOptions) error {
	show := pick(o.json, p.statusText, func(s *saleStatus) { p.emit(s) })
	sales, err := p.load(ctx, o.source)
	if err != nil {
		return err
	}
	token, err := httpd.ReadToken(o.tokenFile)
	if err != nil {
		return err
	}
	bounded, cancel := o.bounded(ctx)
	defer cancel()
	return p.eachSale(ctx, o.source, sales, func(sale spec.Sale) error {
		return p.withStore(sale, func(store *backends.Store) error {
			view, err := p.await(ctx, bounded, store, sale.Name, token, o)
			if err != nil && view != nil {
				p.report(withRemedy(store, err))
				err = shown{err} // its JSON is that of the view
			}
			if view != nil {
				show(view)
			}
			if err == nil && o.health {
				err = view.Health.err()
			}
			return err
		})
	})
}

// await reads a status again and again until the sale is what is waited for. Beside an error
// it returns what it has read last, if anything. bounded is ctx until --timeout.
func (p *program) await(ctx, bounded context.Context, store *backends.Store, name, token string, o statusOptions) (last *saleStatus, err error) {
	for {
		status, err := p.readStatus(ctx, bounded, store, name, token, o)
		if status != nil {
			last = status
		}
		switch {
		case err == nil && (o.waitFor == "" || last.is(o.waitFor)):
			return last, nil
		case err != nil && bounded.Err() == nil && (o.waitFor == "" || !mayPass(err)):
			return last, err
		}
		select {
		case <-bounded.Done():
			if cause := context.Cause(bounded); !errors.Is(cause, errTimeout) {
				return last, cause
			}
			if o.waitFor == "" {
				return last, fmt.Errorf("%w after %s: reading sale %s: %w", errTimeout, o.timeout, name, err)
			}
			if errors.Is(err, planner.ErrStore) {
				return last, fmt.Errorf("%w after %s: %w", errTimeout, o.timeout, err)
			}
			return last, fmt.Errorf("%w after %s: sale %s is %s, not %s", errTimeout, o.timeout, name, last.word(), o.waitFor)
		case <-time.After(lookAgain):
		}
	}
}

// is says whether a sale is what somebody waits for.
func (s *saleStatus) is(what string) bool { return s.Phase == what || what == soldOut && s.SoldOut }

// word is how a sale is.
func (s *saleStatus) word() string {
	switch {
	case s == nil:
		return "not there"
	case s.SoldOut:
		return s.Phase + " and sold out"
	}
	return s.Phase
}

// mayPass says whether a later look may see what this one did not.
func mayPass(err error) bool {
	return errors.Is(err, ledger.ErrGone) || errors.Is(err, planner.ErrStore)
}
