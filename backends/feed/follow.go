package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/ledger/payload"
)

// Shell is where a Reader runs.
type Shell struct {
	Logs  ledger.Logs
	Clock clock.Clock // zero: the host's
	// Trouble is told when the store cannot be read any more, and with nil when it can again.
	Trouble func(error)
}

// Follow runs a reader and hands each batch to take, one after the other, until the sale is
// destroyed (nil), ctx ends (its cause) or take fails (its error). ErrBadPosition, ErrForeign and
// ErrGone, ledger.ErrGone and ledger.ErrCorrupt say that there is nothing to go on with; while
// the store cannot be read Follow waits. What public units are is in the events.
func Follow(ctx context.Context, sh Shell, r *Reader, take func(*Batch) error) error {
	if sh.Clock == nil {
		sh.Clock = clock.System()
	}
	making := calls.NewMaking(ctx, sh.Clock, func(ctx context.Context, c calls.Call) any { return c.Do(ctx, calls.Ends{Logs: sh.Logs}) })
	defer making.End()
	payloads := NewPayloads(sh.Logs, r)
	var trouble error
	told := func(now error) {
		if (now == nil) != (trouble == nil) && sh.Trouble != nil {
			sh.Trouble(now)
		}
		trouble = now
	}
	for {
		made, wake, done, err := r.Next(sh.Clock())
		if b := r.Take(); b != nil {
			if err := payloads.Add(ctx, b, told); err != nil {
				return err
			}
			if err := take(b); err != nil {
				return err
			}
			if !done {
				continue
			}
		}
		if done {
			return err
		}
		told(r.Trouble())
		making.Make(made)
		if _, err := making.Await(ctx, wake); err != nil {
			return err
		}
	}
}

// Payloads adds the payloads of units to events, where everybody may know them.
type Payloads struct {
	logs       ledger.Logs
	of         *Reader
	reader     *payload.Reader
	generation uint64
}

// NewPayloads returns the Payloads of the batches of a Reader, which reads them from logs.
func NewPayloads(logs ledger.Logs, of *Reader) *Payloads { return &Payloads{logs: logs, of: of} }

// Add adds payloads to the events of claims in a batch, before the Reader goes on. It waits while
// they cannot be read and reports why, but not beyond the end of the sale: then the log of units
// may be deleted, and events have numbers only.
func (g *Payloads) Add(ctx context.Context, b *Batch, trouble func(error)) error {
	sale := g.of.Run()
	newest := sale.Newest()
	if len(newest.GetUnits()) == 0 || newest.GetSettings().GetSecret() || sale.Sealed() != nil {
		return nil
	}
	if g.reader == nil {
		g.reader = payload.NewReader(g.logs, sale.UID(), nil)
	}
	if g.generation != sale.Generation() {
		g.generation = sale.Generation()
		g.reader.Follow(sale.Added())
	}
	for i := range b.Events {
		claim, ok := b.Events[i].Data.(*Claim)
		if !ok || len(claim.Units) == 0 {
			continue
		}
		payloads, err := g.read(ctx, sale, claim.Units, trouble)
		if err != nil {
			return fmt.Errorf("claim %s: %w", claim.Claim, err)
		}
		if payloads == nil {
			return nil
		}
		for _, p := range payloads {
			claim.Payloads = append(claim.Payloads, p.Map())
		}
	}
	return nil
}

// read returns what units are; nil: the sale has come to its end.
func (g *Payloads) read(ctx context.Context, sale *ledger.Sale, units []int64, trouble func(error)) ([]payload.Fields, error) {
	for tries := 0; ; tries++ {
		payloads, err := g.reader.Read(ctx, units)
		switch {
		case err == nil:
			return payloads, nil
		case errors.Is(err, ledger.ErrCorrupt), errors.Is(err, fs.ErrPermission):
			return nil, err
		case g.over(ctx, sale):
			return nil, nil
		case errors.Is(err, payload.ErrUnreadable) && tries >= patience: // before that the read may have lagged
			return nil, err
		}
		trouble(err)
		if err := ledger.Wait(ctx, g.logs, idle); err != nil {
			return nil, cmp.Or(context.Cause(ctx), err)
		}
	}
}

// over reports whether the run of a sale is sealed by now, which whoever follows it has not read yet.
func (g *Payloads) over(ctx context.Context, sale *ledger.Sale) bool {
	log := g.of.sale.tail.Log()
	now := ledger.NewSale(log)
	_, err := ledger.Load(ctx, g.logs, log, now)
	return err == nil && now.Next() > sale.Next() && (now.UID() != sale.UID() || !now.Live())
}
