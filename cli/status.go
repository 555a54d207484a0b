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
	waitFor   string // a phase, "" to wait for none
	tokenFile string // for the process that serves the sale
}

func (p *program) statusCommand() *urfave.Command {
	return &urfave.Command{
		Name: "status", Category: groupLook, Usage: "show how sales stand, shard by shard",
		Description: "Reads the heads of the shards and the lock nodes, also while a sale is served, and\n" +
			"asks the process that serves it since when something is down. Servers that are away\n" +
			"are part of the answer. With --wait-for it waits until every shard has come to that\n" +
			"phase, and exits with 7 if the time runs out.",
		Flags: []urfave.Flag{
			fileFlag(),
			valueFlag("wait-for", "wait for `PHASE`: "+strings.Join(phases, ", ")),
			valueFlag("timeout", fmt.Sprintf("give up after `DURATION` (default: %s)", defaultWait)),
			valueFlag("token-file", "send the bearer token in `FILE` to the process that serves the sale"),
			jsonFlag(),
		},
		Action: action(func(f *flags) statusOptions {
			o := statusOptions{source: parseSource(f), tokenFile: f.text("token-file")}
			if o.timeout == 0 {
				o.timeout = defaultWait
			}
			if f.c.IsSet("wait-for") {
				o.waitFor = f.oneOf("wait-for", phases...)
			}
			return o
		}, p.status),
	}
}

// saleStatus is how a sale stands, and what the process that serves it says of holds and of
// their payments.
type saleStatus struct {
	*planner.Status
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
			status, err := awaitPhase(bounded, p.planning(store), sale.Name, o)
			if errors.Is(err, errTimeout) && status != nil {
				p.report(err)
				err = shown{err}
			}
			if status != nil {
				view := &saleStatus{Status: status}
				askServer(ctx, view, token)
				show(view)
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
		case ctx.Err() == nil && !(o.waitFor != "" && mayPass(err)):
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
			if errors.Is(err, planner.ErrStore) {
				return last, fmt.Errorf("%w after %s: %w", errTimeout, o.timeout, err)
			}
			return last, fmt.Errorf("%w after %s: sale %s is %s, not %s", errTimeout, o.timeout, name, phase, o.waitFor)
		case <-time.After(lookAgain):
		}
	}
}

// mayPass says whether a later look may see what this one did not.
func mayPass(err error) bool {
	return errors.Is(err, ledger.ErrGone) || errors.Is(err, planner.ErrStore)
}
