package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/units"
)

// What units are, told with the claims that have them. No shard knows it, and no process
// passes it on: whoever answers a buyer reads it from the ledger, once the claim is there.

// goods reads what the units of a sale are.
type goods struct {
	reader  atomic.Pointer[ledger.PayloadReader] // nil: they are numbers, or what they are is not known yet
	numbers atomic.Bool                          // they are numbers
	failed  atomic.Pointer[error]                // what the last read that failed came to; nil: the last one has not
}

// forget is for the start of a session: what units are is not known before follow.
func (g *goods) forget() {
	g.numbers.Store(false)
	g.reader.Store(nil)
}

// follow takes in which units the sale's log has added to the run, if they are more than
// numbers.
func (g *goods) follow(sale *ledger.Sale, logs ledger.Logs, key *units.Key) {
	if len(sale.Newest().GetUnits()) == 0 {
		g.numbers.Store(true)
		return
	}
	reader := g.reader.Load()
	if reader == nil {
		reader = ledger.NewPayloadReader(logs, sale.UID(), key)
	}
	reader.Follow(sale.Added())
	g.reader.Store(reader)
}

// fail takes in why what units are could not be read. That nobody waits for it any more says
// nothing of the store.
func (g *goods) fail(ctx context.Context, err error) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		g.failed.Store(&err)
	}
}

// prepare reads ahead where the units are in their log or, if buyers may choose among them,
// what their names are. It takes as long as it takes to read all of that log, and no buyer has
// to wait for it who comes later.
func (g *goods) prepare(ctx context.Context, choose bool) {
	reader := g.reader.Load()
	if reader == nil {
		return
	}
	ahead := reader.CatchUp
	if choose {
		ahead = func(ctx context.Context) error {
			_, _, err := reader.Numbers(ctx, nil)
			return err
		}
	}
	if err := ahead(ctx); err != nil {
		g.fail(ctx, err)
	} else {
		g.failed.Store(nil)
	}
}

// choose puts the numbers of the units into a request that names them. Where it cannot, the
// answer says why: away, while it is not known what the units are.
func (g *goods) choose(ctx context.Context, r *Request, away *Answer) Answer {
	reader := g.reader.Load()
	switch {
	case reader == nil && !g.numbers.Load():
		return *away
	case reader == nil || reader.Secret():
		return Answer{Outcome: api.BadRequest, Message: "buyers of this sale cannot choose units: ask for a quantity alone"}
	}
	numbers, unknown, err := reader.Numbers(ctx, r.Names)
	switch {
	case err != nil:
		g.fail(ctx, err)
		return Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: "what the units are cannot be read; this request was not looked at"}
	case unknown != "":
		return Answer{Outcome: api.BadRequest, Message: fmt.Sprintf("units: the sale has no unit %q", unknown)}
	}
	g.failed.Store(nil)
	slices.Sort(numbers)
	r.Units, r.Quantity = numbers, int64(len(numbers))
	return Answer{}
}

// How often what units are is read if it cannot be, and how long apart: the plan that has
// added a unit may be known to the owner of its shard first.
const (
	goodsTries = 4
	goodsPause = 200 * time.Millisecond
)

// deliver adds to an answer what the units are that it tells of. What cannot be read is left
// out, and said to be: the claim stands, and whoever asks again is told.
func (g *goods) deliver(ctx context.Context, a *Answer) {
	reader := g.reader.Load()
	if reader == nil {
		return
	}
	g.deliverClaim(ctx, reader, &a.Claim)
	for i := range a.Claims {
		g.deliverClaim(ctx, reader, &a.Claims[i])
	}
}

func (g *goods) deliverClaim(ctx context.Context, reader *ledger.PayloadReader, c *Claim) {
	for try := 1; !deliverKept(reader, c); try++ {
		payloads, err := reader.Read(ctx, c.Units)
		if err == nil {
			g.failed.Store(nil)
			c.Payloads, c.Undelivered = payloads, false
			return
		}
		g.fail(ctx, err)
		c.Undelivered = true
		if try == goodsTries || !pause(ctx, goodsPause) {
			return
		}
	}
}

// deliverKept is deliver for one claim, if nothing has to be read for it.
func deliverKept(reader *ledger.PayloadReader, c *Claim) bool {
	if len(c.Units) == 0 || !reader.Tells(c.State == api.Sold || c.State == api.Refunded) {
		return true
	}
	payloads, ok := reader.Kept(c.Units)
	if ok {
		c.Payloads, c.Undelivered = payloads, false
	}
	return ok
}

// delivering has whoever is told an answer be told what its units are, too. It does not
// block: what has to be read is read in a goroutine.
func (g *goods) delivering(answered func(Answer)) func(Answer) {
	reader := g.reader.Load() // the answer may come when the next session has none yet
	if reader == nil {
		return answered
	}
	return func(a Answer) {
		kept := deliverKept(reader, &a.Claim)
		for i := range a.Claims {
			kept = deliverKept(reader, &a.Claims[i]) && kept
		}
		if kept {
			answered(a)
		} else {
			g.deliverLater(a, answered)
		}
	}
}

func (g *goods) deliverLater(a Answer, answered func(Answer)) {
	go func() {
		g.deliverNow(context.Background(), &a)
		answered(a)
	}()
}

// deliverNow is deliver for whoever looks claims up.
func (g *goods) deliverNow(ctx context.Context, a *Answer) {
	ctx, cancel := context.WithTimeout(ctx, goodsPatience)
	defer cancel()
	g.deliver(ctx, a)
}

// goodsPatience is how long an answer waits for what its units are, where whoever asked has
// named no time.
const goodsPatience = 2 * time.Second

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
