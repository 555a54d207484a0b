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
	"salectl/backends/ledger/payload"
	"salectl/units"
)

// payloads reads the texts that are sold with a sale's units, and adds them to answers. Shards do not
// have payloads, and processes do not forward them: the process that answers a buyer reads them from
// the ledger, once the claim is there.
type payloads struct {
	reader  atomic.Pointer[payload.Reader] // nil: the units have no payloads, or these are not known yet
	numbers atomic.Bool                    // the units have no payloads
	failed  atomic.Pointer[error]          // the error of the last read; nil: it succeeded
}

// follow takes in which units the sale's log has added to the run, if they have payloads.
func (g *payloads) follow(sale *ledger.Sale, logs ledger.Logs, key *units.Key) {
	if len(sale.Newest().GetUnits()) == 0 {
		g.numbers.Store(true)
		return
	}
	reader := g.reader.Load()
	if reader == nil {
		reader = payload.NewReader(logs, sale.UID(), key)
	}
	reader.Follow(sale.Added())
	g.reader.Store(reader)
}

// fail records the error of a read of payloads. The end of the last request that waits for the read
// is no error of the store.
func (g *payloads) fail(ctx context.Context, err error) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		g.failed.Store(&err)
	}
}

// prepare reads ahead the positions of the units in their log or, if buyers may choose among them,
// their names. It takes as long as a read of all of that log, so that later buyers do not wait for
// it.
func (g *payloads) prepare(ctx context.Context, choose bool) {
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

// choose puts the numbers of the units into a request that names them. If it cannot, the answer
// has the reason: away, while the units are not known.
func (g *payloads) choose(ctx context.Context, r *Request, away *Answer) Answer {
	reader := g.reader.Load()
	switch {
	case reader == nil && !g.numbers.Load():
		return *away
	case reader == nil || reader.Secret():
		return Answer{Outcome: api.BadRequest, Message: "buyers of this sale cannot choose units: claim a quantity only"}
	}
	numbers, unknown, err := reader.Numbers(ctx, r.Names)
	switch {
	case err != nil:
		g.fail(ctx, err)
		return Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: "the payloads of the units cannot be read; this request was not processed"}
	case unknown != "":
		return Answer{Outcome: api.BadRequest, Message: fmt.Sprintf("units: the sale has no unit %q", unknown)}
	}
	g.failed.Store(nil)
	slices.Sort(numbers)
	r.Units, r.Quantity = numbers, int64(len(numbers))
	return Answer{}
}

// A read of payloads that fails is repeated payloadTries times, payloadPause apart: the owner of a
// shard may read the plan that has added a unit earlier than this process.
const (
	payloadTries = 4
	payloadPause = 200 * time.Millisecond
)

// add adds payloads to each claim of an answer. It marks a claim as undelivered if its payloads
// cannot be read: the claim stands, and a repeated request gets them.
func (g *payloads) add(ctx context.Context, a *Answer) {
	reader := g.reader.Load()
	if reader == nil {
		return
	}
	g.addToClaim(ctx, reader, &a.Claim)
	for i := range a.Claims {
		g.addToClaim(ctx, reader, &a.Claims[i])
	}
}

func (g *payloads) addToClaim(ctx context.Context, reader *payload.Reader, c *Claim) {
	for try := 1; !addCached(reader, c); try++ {
		payloads, err := reader.Read(ctx, c.Units)
		if err == nil {
			g.failed.Store(nil)
			c.Payloads, c.Undelivered = payloads, false
			return
		}
		g.fail(ctx, err)
		c.Undelivered = true
		if try == payloadTries || api.Sleep(ctx, payloadPause) != nil {
			return
		}
	}
}

// addCached adds payloads to one claim, and returns false if they have to be read for that.
func addCached(reader *payload.Reader, c *Claim) bool {
	if len(c.Units) == 0 || !reader.Discloses(c.State == api.Sold || c.State == api.Refunded) {
		return true
	}
	payloads, ok := reader.Kept(c.Units)
	if ok {
		c.Payloads, c.Undelivered = payloads, false
	}
	return ok
}

// adding returns a function that adds payloads to an answer and calls answered with it. The function
// does not block: a goroutine reads what is not cached.
func (g *payloads) adding(answered func(Answer)) func(Answer) {
	reader := g.reader.Load() // the answer may come when the next session has none yet
	if reader == nil {
		return answered
	}
	return func(a Answer) {
		kept := addCached(reader, &a.Claim)
		for i := range a.Claims {
			kept = addCached(reader, &a.Claims[i]) && kept
		}
		if kept {
			answered(a)
			return
		}
		later := a // so that a does not escape otherwise
		go func() {
			g.addNow(context.Background(), &later)
			answered(later)
		}()
	}
}

// addNow is add with a deadline, for lookups of claims.
func (g *payloads) addNow(ctx context.Context, a *Answer) {
	ctx, cancel := context.WithTimeout(ctx, payloadPatience)
	defer cancel()
	g.add(ctx, a)
}

// payloadPatience is how long an answer waits for payloads if the request has no deadline.
const payloadPatience = 2 * time.Second
