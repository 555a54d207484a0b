package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/backends/ledger/export"
	"salectl/draw"
	"salectl/executor/rehearse"
	"salectl/planner"
	"salectl/spec"
	"salectl/units"
)

// How the copy of a draw gets through its hours.
const (
	// openFor is how long the copy takes entries unless it is closed: longer than any crowd
	// needs to enter.
	openFor = 24 * time.Hour
	// closesIn is how long after the last entry the copy closes: the plan that says so is
	// applied before that, as for a sale.
	closesIn = time.Second
	// revealPatience is how long the reveal is tried again, where the clocks of lock nodes
	// are behind this host's.
	revealPatience = 15 * time.Second
)

// copiedDraw is the draw of a copy. It has a key and a beacon's value of its own: nobody
// needs the sale's key to rehearse it, and nothing is learnt of the sale's order.
type copiedDraw struct {
	*copied
	beacon []byte // nil: the sale declares none
}

// drawCopy makes the copy a draw that takes entries; nil: the sale is none.
func (c *copied) drawCopy() (w *copiedDraw, err error) {
	if c.sale.Draw == nil {
		return nil, nil
	}
	random := func() []byte {
		b := make([]byte, units.MinSecret)
		rand.Read(b) // never fails
		return b
	}
	w = &copiedDraw{copied: c}
	if c.drawKey, err = units.NewDrawKey(random()); err != nil {
		return nil, err
	}
	if c.sale.Draw.Beacon != nil {
		w.beacon = random()
	}
	c.sale.ClosesAt = closing(openFor)
	return w, nil
}

func closing(in time.Duration) time.Time {
	return time.Now().Add(in).UTC().Truncate(time.Millisecond)
}

// drawing is rehearse.Config's Draw.
func (w *copiedDraw) drawing() *rehearse.Drawing {
	if w == nil {
		return nil
	}
	return &rehearse.Drawing{Close: w.close, Reveal: w.reveal}
}

// close applies the copy with another closesAt, and waits for that.
func (w *copiedDraw) close(ctx context.Context) error {
	w.sale.ClosesAt = closing(closesIn)
	w.say("The crowd has entered: the copy closes in %v, and the draw is revealed.", closesIn)
	if err := w.apply(ctx); err != nil {
		return err
	}
	return api.Sleep(ctx, time.Until(w.sale.ClosesAt)+time.Millisecond)
}

// reveal reveals the draw of the copy, as draw reveal does that of a sale.
func (w *copiedDraw) reveal(ctx context.Context) (ranked []string, err error) {
	for until := time.Now().Add(revealPatience); ; {
		err := w.revealOnce(ctx)
		if err == nil {
			break
		}
		if !errors.As(err, new(*planner.Refusal)) || time.Now().After(until) {
			return nil, err
		}
		if err := api.Sleep(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
	log := spec.SaleLog(w.sale.Name)
	sale := ledger.NewSale(log)
	if _, err := ledger.Load(ctx, w.store.Logs, log, sale); err != nil {
		return nil, err
	}
	for _, at := range sale.Ranks() {
		c := ledger.Claim{Slot: at.Slot, Index: at.Index}
		ranked = append(ranked, c.ID(at.Shard))
	}
	return ranked, nil
}

func (w *copiedDraw) revealOnce(ctx context.Context) error {
	cfg := w.planning(w.store)
	actual, err := planner.ReadSale(ctx, cfg, w.sale.Name)
	if err != nil {
		return err
	}
	plan, err := planner.MakeReveal(actual, w.beacon, false)
	if err != nil || plan.Empty() {
		return err
	}
	_, err = planner.Apply(ctx, cfg, plan)
	return err
}

// verify works the draw of the copy out again from an export, as draw verify does.
func (w *copiedDraw) verify(ctx context.Context, log *ledger.Sale, shards []*ledger.State) (*draw.Report, error) {
	from, to := io.Pipe()
	written := make(chan struct{})
	go func() {
		defer close(written)
		to.CloseWithError(export.Write(ctx, w.store.Logs, w.sale.Name, log, shards, nil, to))
	}()
	report, err := draw.Verify(from, draw.Options{Beacon: w.beacon})
	from.Close() // Verify has left the commits unread
	<-written
	return report, err
}
