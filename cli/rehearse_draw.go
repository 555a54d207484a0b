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
	"salectl/planner/apply"
	"salectl/planner/current"
	"salectl/spec"
	"salectl/units"
)

// Times of a draw's copy.
const (
	// openFor is the time for which the copy accepts entries unless it is closed: longer than
	// any crowd needs.
	openFor = 24 * time.Hour
	// closesIn is the time from the last entry to the close of the copy: the plan with the
	// close is applied before it, as for a sale.
	closesIn = time.Second
	// revealPatience bounds the retries of a reveal while the clocks of lock nodes are behind
	// this host's.
	revealPatience = 15 * time.Second
)

// drawCopy makes the copy of a draw one that accepts entries. It has its own key and beacon
// value, so that a rehearsal does not need the sale's key and reveals nothing about its order.
func (c *copied) drawCopy() (err error) {
	if c.sale.Draw == nil {
		return nil
	}
	random := func() []byte {
		b := make([]byte, units.MinSecret)
		rand.Read(b) // never fails
		return b
	}
	if c.sale.Draw.Beacon != nil {
		c.beacon = random()
	}
	c.sale.ClosesAt = closing(openFor)
	c.drawKey, err = units.NewDrawKey(random())
	return err
}

func closing(in time.Duration) time.Time {
	return time.Now().Add(in).UTC().Truncate(time.Millisecond)
}

// drawing returns the Draw of a rehearse.Config; nil: the sale is no draw.
func (c *copied) drawing() *rehearse.Drawing {
	if c.sale.Draw == nil {
		return nil
	}
	return &rehearse.Drawing{Close: c.close, Reveal: c.reveal}
}

// close applies the copy with a new closesAt, and waits for that time.
func (c *copied) close(ctx context.Context) error {
	c.sale.ClosesAt = closing(closesIn)
	c.logf("All entries are made: the copy closes in %v, then the draw is revealed.", closesIn)
	if err := c.apply(ctx); err != nil {
		return err
	}
	return api.Sleep(ctx, time.Until(c.sale.ClosesAt)+time.Millisecond)
}

// reveal reveals the draw of the copy, as draw reveal does for a sale.
func (c *copied) reveal(ctx context.Context) (ranked []string, err error) {
	for until := time.Now().Add(revealPatience); ; {
		err := c.revealOnce(ctx)
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
	log := spec.SaleLog(c.sale.Name)
	sale := ledger.NewSale(log)
	if _, err := ledger.Load(ctx, c.store.Logs, log, sale); err != nil {
		return nil, err
	}
	for _, at := range sale.Ranks() {
		claim := ledger.Claim{Slot: at.Slot, Index: at.Index}
		ranked = append(ranked, claim.ID(at.Shard))
	}
	return ranked, nil
}

func (c *copied) revealOnce(ctx context.Context) error {
	cfg := c.planning(c.store)
	actual, err := current.ReadSale(ctx, cfg.Backends, c.sale.Name)
	if err != nil {
		return err
	}
	plan, err := planner.MakeReveal(actual, c.beacon, false)
	if err != nil || plan.Empty() {
		return err
	}
	_, err = apply.Run(ctx, cfg, plan)
	return err
}

// verify recomputes the draw of the copy from an export, as draw verify does.
func (c *copied) verify(ctx context.Context, log *ledger.Sale, shards []*ledger.State) (*draw.Report, error) {
	from, to := io.Pipe()
	written := make(chan struct{})
	go func() {
		defer close(written)
		to.CloseWithError(export.Sale{Name: c.sale.Name, Log: log, Shards: shards, Logs: c.store.Logs}.Write(ctx, to))
	}()
	report, err := draw.Verify(from, draw.Options{Beacon: c.beacon})
	from.Close() // Verify leaves the commits unread
	<-written
	return report, err
}
