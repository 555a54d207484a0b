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

// Shell is the environment in which Follow runs a Reader.
type Shell struct {
	Logs  ledger.Logs
	Clock clock.Clock // nil: the host's clock
	// Trouble is called with an error when the store becomes unreadable, and with nil when it
	// recovers. It may be nil.
	Trouble func(error)
}

// Follow runs r and calls take with one batch after the other. It returns nil when the sale is
// destroyed, the cause of ctx when ctx ends, and the error of take. With ErrBadPosition,
// ErrForeign, ErrGone, ledger.ErrGone or ledger.ErrCorrupt the feed cannot continue. Follow waits
// while the store is unreadable. Events include the payloads of public units.
func Follow(ctx context.Context, sh Shell, r *Reader, take func(*Batch) error) error {
	if sh.Clock == nil {
		sh.Clock = clock.System()
	}
	making := calls.NewMaking(ctx, sh.Clock, func(ctx context.Context, c calls.Call) any { return c.Do(ctx, calls.Ends{Logs: sh.Logs}) })
	defer making.End()
	payloads := NewPayloads(sh.Logs, r)
	var trouble error
	report := func(now error) {
		if (now == nil) != (trouble == nil) && sh.Trouble != nil {
			sh.Trouble(now)
		}
		trouble = now
	}
	for {
		made, wake, done, err := r.Next(sh.Clock())
		if b := r.Take(); b != nil {
			if err := payloads.Add(ctx, b, report); err != nil {
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
		report(r.Err())
		making.Make(made)
		if _, err := making.Await(ctx, wake); err != nil {
			return err
		}
	}
}

// Payloads adds the payloads of units to events, unless the sale keeps them secret.
type Payloads struct {
	logs   ledger.Logs
	of     *Reader
	reader *payload.Reader
}

// NewPayloads returns a Payloads for the batches of a Reader. It reads payloads from logs.
func NewPayloads(logs ledger.Logs, of *Reader) *Payloads { return &Payloads{logs: logs, of: of} }

// Add adds payloads to the claim events of a batch. Call it before the Reader continues. While
// payloads are unreadable it reports the error to trouble and waits, but not beyond the end of the
// sale. After the end the log of units may be deleted, and events carry unit numbers only.
func (g *Payloads) Add(ctx context.Context, b *Batch, trouble func(error)) error {
	sale := g.of.sale.fold
	newest := sale.Newest()
	if len(newest.GetUnits()) == 0 || newest.GetSettings().GetSecret() || sale.Sealed() != nil {
		return nil
	}
	if g.reader == nil {
		g.reader = payload.NewReader(g.logs, sale.UID(), nil)
	}
	g.reader.Follow(sale.Added())
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

// read returns the payloads of units, or nil if the sale has ended.
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

// over reports whether the log shows that the run is sealed or replaced, in slots that the Reader
// has not read.
func (g *Payloads) over(ctx context.Context, sale *ledger.Sale) bool {
	log := sale.Log()
	now := ledger.NewSale(log)
	_, err := ledger.Load(ctx, g.logs, log, now)
	return err == nil && now.Next() > sale.Next() && (now.UID() != sale.UID() || !now.Live())
}
