package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
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
	goods := goods{logs: sh.Logs}
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
			if err := goods.add(ctx, r.Run(), b, told); err != nil {
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

// goods adds to events what units are, where everybody may know that.
type goods struct {
	logs       ledger.Logs
	reader     *ledger.PayloadReader
	generation uint64
}

// add adds them to the events of claims. While they cannot be read it waits, and tells why.
func (g *goods) add(ctx context.Context, sale *ledger.Sale, b *Batch, trouble func(error)) error {
	newest := sale.Newest()
	if len(newest.GetUnits()) == 0 || newest.GetSettings().GetSecret() || sale.Sealed() != nil {
		return nil
	}
	if g.reader == nil {
		g.reader = ledger.NewPayloadReader(g.logs, sale.UID(), nil)
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
		payloads, err := g.reader.Read(ctx, claim.Units)
		for ; err != nil && !errors.Is(err, ledger.ErrCorrupt) && !errors.Is(err, ledger.ErrNoPayload); payloads, err = g.reader.Read(ctx, claim.Units) {
			trouble(err)
			select {
			case <-time.After(idle):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err != nil {
			return fmt.Errorf("claim %s: %w", claim.Claim, err)
		}
		for _, p := range payloads {
			claim.Payloads = append(claim.Payloads, p.Map())
		}
	}
	return nil
}
