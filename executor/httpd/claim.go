package httpd

import (
	"context"
	"net/http"
	"sync"
	"time"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/wire"
	"salectl/executor/request"
)

// maxClaimBody is the maximum size of a claim's body: with names of units, that of a stream message.
const maxClaimBody = streampb.MaxMessage

// claimBufferSize is the size in bytes of the buffer for a claim's body. Any claim that names no
// units fits, even if every character of the user's id is escaped.
const claimBufferSize = 4096

// claimBuffers are the reusable buffers for reading and answering one claim.
type claimBuffers struct {
	in       [claimBufferSize]byte
	out      []byte
	location [1]string // value of the header Location
}

var claimBufferPool = sync.Pool{New: func() any { return &claimBuffers{out: make([]byte, 0, 1024)} }}

// postClaim handles POST /v1/sales/{sale}/claims. It returns the outcome as metrics count it.
func (target target) postClaim(w http.ResponseWriter, r *http.Request) (label api.Outcome, _ *wire.Problem) {
	sale, b := target.sale, claimBufferPool.Get().(*claimBuffers)
	defer claimBufferPool.Put(b)

	claim, f := readClaim(r, &b.in, target.bodies)
	if f != nil {
		return "", f
	}
	ctx := &lateTimeout{Context: r.Context(), timeout: target.config.ClaimTimeout}
	defer ctx.cancel()
	var a executor.Answer
	if target.draining.Load() {
		a = sale.Refuse(claim, request.Refusal(api.Draining))
	} else {
		a = sale.Do(ctx, claim)
	}
	sale.setPlace(w.Header(), sale.Place(claim.User))

	if !a.Accepted() {
		return "", wire.Refusal(sale.name, sale.clock, &a)
	}
	b.out = wire.AppendClaim(b.out[:0], a.Outcome, sale.name, &a.Claim)
	h := w.Header()
	h["Content-Type"] = wire.JSONType
	if a.Replayed {
		w.WriteHeader(http.StatusOK)
	} else {
		b.location[0] = locationOf(sale.name, &a.Claim)
		h["Location"] = b.location[:] // net/http does not retain it after WriteHeader
		w.WriteHeader(a.Outcome.Row().Status)
	}
	w.Write(b.out)
	return labelOf(&a), nil
}

// lateTimeout is a context with a timeout that begins with the first use of Done, Err or Deadline. A claim that
// does not wait, as most do once all is sold, saves the timer and four allocations.
type lateTimeout struct {
	context.Context // without the timeout
	timeout         time.Duration
	begin           sync.Once
	within          context.Context // with the timeout; nil until begin
	end             context.CancelFunc
}

func (t *lateTimeout) limited() context.Context {
	t.begin.Do(func() { t.within, t.end = context.WithTimeout(t.Context, t.timeout) })
	return t.within
}

func (t *lateTimeout) Done() <-chan struct{}       { return t.limited().Done() }
func (t *lateTimeout) Err() error                  { return t.limited().Err() }
func (t *lateTimeout) Deadline() (time.Time, bool) { return t.limited().Deadline() }

// cancel stops the timer. net/http ends the request's context.
func (t *lateTimeout) cancel() {
	t.begin.Do(func() { t.within, t.end = t.Context, func() {} })
	t.end()
}

// labelOf returns the outcome of a request that was carried out, as metrics count it.
func labelOf(a *executor.Answer) api.Outcome {
	if a.Replayed {
		return api.Replayed
	}
	return a.Outcome
}

// locationOf returns the path of an accepted claim. For a unit from a list, that is the path of the user.
func locationOf(sale string, c *executor.Claim) string {
	if c.ID.Unit != 0 {
		return api.UserPath(sale, c.User)
	}
	b := make([]byte, 0, 128) // on the stack
	b = append(append(append(b, api.SalesPath...), sale...), "/claims/"...)
	return string(c.ID.Append(b))
}

// readClaim reads a claim from an HTTP request. buf is memory for the body; the result does not refer to it.
func readClaim(r *http.Request, buf *[claimBufferSize]byte, bodies *access.Memory) (executor.Request, *wire.Problem) {
	var none executor.Request
	if f := wire.CheckContentType(r, api.TypeJSON); f != nil { // see readJSON
		return none, f
	}
	key := ""
	switch keys := r.Header[api.KeyHeader]; len(keys) {
	case 0:
	case 1:
		key = keys[0]
		if err := api.CheckKey(key); err != nil {
			return none, wire.Malformed("%v", err)
		}
	default:
		return none, wire.Malformed("%s: given %d times", api.KeyHeader, len(keys))
	}
	body, f := readBody(r, buf[:], maxClaimBody, bodies)
	if f != nil {
		return none, f
	}
	claim, f := wire.ParseClaim(body)
	claim.Key = key
	return claim, f
}

// maxSettlement is the maximum size of a settlement's body. The longest texts take a sixth of it,
// or all of it if every letter is escaped.
const maxSettlement = 8192

// postSettlement handles POST /v1/sales/{sale}/claims/{claim}/{how}.
func (target target) postSettlement(w http.ResponseWriter, r *http.Request) (label api.Outcome, _ *wire.Problem) {
	sale, how := target.sale, target.how
	body, f := readJSON(r, maxSettlement, target.bodies)
	var x api.Settlement
	if f == nil {
		x, f = wire.ParseSettlement(body, how)
	}
	if f != nil {
		return "", f
	}
	a := target.settle(r.Context(), target.id, how, x)
	if a.Claim.User != "" {
		sale.setPlace(w.Header(), sale.PlaceOf(a.Claim.ID.Shard))
	}
	if a.Outcome != how.Done() {
		wire.SetNotSettledMessage(&a)
		return "", wire.Refusal(sale.name, sale.clock, &a)
	}
	w.Header()["Content-Type"] = wire.JSONType
	w.Write(wire.AppendClaim(nil, a.Outcome, sale.name, &a.Claim))
	return labelOf(&a), nil
}

// settle settles a claim.
func (target target) settle(ctx context.Context, claim string, how api.How, body api.Settlement) executor.Answer {
	id, ok := api.ParseClaimID(claim)
	x := executor.Settlement{Claim: id, How: how, Settlement: body}
	switch {
	case target.draining.Load():
		return executor.Answer{Outcome: api.Draining}
	case !ok:
		return target.sale.reportUnrecorded(claim, &x, executor.Answer{Outcome: api.NoSuchClaim})
	}
	ctx, cancel := context.WithTimeout(ctx, target.config.ClaimTimeout)
	defer cancel()
	return target.sale.Do(ctx, executor.Request{Settle: &x})
}
