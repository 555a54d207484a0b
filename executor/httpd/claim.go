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

// maxClaimBody is the maximum size of a claim's body in bytes, equal to that of a stream's message.
const maxClaimBody = streampb.MaxMessage

// claimBufferSize is the size in bytes of the buffer for a claim's body. The body of any claim without names
// of units fits, even if every character of the user's id is escaped.
const claimBufferSize = 4096

// claimBuffers are the reusable buffers for reading and answering one claim.
type claimBuffers struct {
	in       [claimBufferSize]byte
	out      []byte
	location [1]string // value of the header Location
}

var claimBufferPool = sync.Pool{New: func() any { return &claimBuffers{out: make([]byte, 0, 1024)} }}

// postClaim handles POST /v1/sales/{sale}/claims. It returns the outcome under which metrics count the answer.
func (target target) postClaim(w http.ResponseWriter, r *http.Request) (label api.Outcome, _ *wire.Problem) {
	sale, buffers := target.sale, claimBufferPool.Get().(*claimBuffers)
	defer claimBufferPool.Put(buffers)

	claim, problem := readClaim(r, &buffers.in, target.bodies)
	if problem != nil {
		return "", problem
	}
	ctx := &lazyTimeout{Context: r.Context(), timeout: target.config.ClaimTimeout}
	defer ctx.cancel()
	var answer executor.Answer
	if target.draining.Load() {
		answer = sale.Refuse(claim, request.Refusal(api.Draining))
	} else {
		answer = sale.Do(ctx, claim)
	}
	sale.setPlace(w.Header(), sale.Place(claim.User))

	if !answer.Accepted() {
		return "", wire.Refusal(sale.name, sale.clock, &answer)
	}
	buffers.out = wire.AppendClaim(buffers.out[:0], answer.Outcome, sale.name, &answer.Claim)
	header := w.Header()
	header["Content-Type"] = wire.JSONType
	if answer.Replayed {
		w.WriteHeader(http.StatusOK)
	} else {
		buffers.location[0] = locationOf(sale.name, &answer.Claim)
		header["Location"] = buffers.location[:] // net/http does not retain it after WriteHeader
		w.WriteHeader(answer.Outcome.Row().Status)
	}
	w.Write(buffers.out)
	return outcomeLabel(&answer), nil
}

// lazyTimeout is a context with a timeout that begins with the first call of Done, Err or Deadline. Most claims
// do not wait once all units are sold. They save the timer and four allocations.
type lazyTimeout struct {
	context.Context // without the timeout
	timeout         time.Duration
	begin           sync.Once       // sets timed and stop
	timed           context.Context // with the timeout
	stop            context.CancelFunc
}

// start starts the timer at its first call, and returns the context with the timeout.
func (t *lazyTimeout) start() context.Context {
	t.begin.Do(func() { t.timed, t.stop = context.WithTimeout(t.Context, t.timeout) })
	return t.timed
}

func (t *lazyTimeout) Done() <-chan struct{}       { return t.start().Done() }
func (t *lazyTimeout) Err() error                  { return t.start().Err() }
func (t *lazyTimeout) Deadline() (time.Time, bool) { return t.start().Deadline() }

// cancel stops the timer if it was started. net/http ends the request's context.
func (t *lazyTimeout) cancel() {
	t.begin.Do(func() { t.timed, t.stop = t.Context, func() {} })
	t.stop()
}

// outcomeLabel returns the outcome under which metrics count a successful answer.
func outcomeLabel(a *executor.Answer) api.Outcome {
	if a.Replayed {
		return api.Replayed
	}
	return a.Outcome
}

// locationOf returns the path of an accepted claim. If a list on a node granted its unit, that is the user's path.
func locationOf(sale string, c *executor.Claim) string {
	if c.ID.Unit != 0 {
		return api.UserPath(sale, c.User)
	}
	b := make([]byte, 0, 128) // on the stack
	b = append(append(append(b, api.SalesPath...), sale...), "/claims/"...)
	return string(c.ID.Append(b))
}

// readClaim reads a claim from an HTTP request. It reads the body into buf, which the result does not refer to.
func readClaim(r *http.Request, buf *[claimBufferSize]byte, bodies *access.Memory) (executor.Request, *wire.Problem) {
	var none executor.Request
	if problem := wire.CheckContentType(r, api.TypeJSON); problem != nil { // see readJSON
		return none, problem
	}
	key := ""
	switch keys := r.Header[api.KeyHeader]; len(keys) {
	case 0:
	case 1:
		var err error
		if key, err = api.ParseKey(keys[0]); err != nil {
			return none, wire.Malformed("%v", err)
		}
	default:
		return none, wire.Malformed("%s: given %d times", api.KeyHeader, len(keys))
	}
	body, problem := readBody(r, buf[:], maxClaimBody, bodies)
	if problem != nil {
		return none, problem
	}
	claim, problem := wire.ParseClaim(body)
	claim.Key = key
	return claim, problem
}

// maxSettlement is the maximum size of a settlement's body in bytes. Texts of the maximum length take a sixth
// of it, or all of it if every letter is escaped.
const maxSettlement = 8192

// postSettlement handles POST /v1/sales/{sale}/claims/{claim}/{how}.
func (target target) postSettlement(w http.ResponseWriter, r *http.Request) (label api.Outcome, _ *wire.Problem) {
	sale, how := target.sale, target.how
	body, problem := readJSON(r, maxSettlement, target.bodies)
	var settlement api.Settlement
	if problem == nil {
		settlement, problem = wire.ParseSettlement(body, how)
	}
	if problem != nil {
		return "", problem
	}
	answer := target.settle(r.Context(), target.id, how, settlement)
	if answer.Claim.User != "" {
		sale.setPlace(w.Header(), sale.PlaceOf(answer.Claim.ID.Shard))
	}
	if answer.Outcome != how.Done() {
		wire.SetNotSettledMessage(&answer)
		return "", wire.Refusal(sale.name, sale.clock, &answer)
	}
	w.Header()["Content-Type"] = wire.JSONType
	w.Write(wire.AppendClaim(nil, answer.Outcome, sale.name, &answer.Claim))
	return outcomeLabel(&answer), nil
}

// settle settles the claim with an id, as in the path, by how.
func (target target) settle(ctx context.Context, claim string, how api.How, body api.Settlement) executor.Answer {
	id, ok := api.ParseClaimID(claim)
	settlement := executor.Settlement{Claim: id, How: how, Settlement: body}
	switch {
	case target.draining.Load():
		return executor.Answer{Outcome: api.Draining}
	case !ok:
		return target.sale.reportUnrecorded(claim, &settlement, executor.Answer{Outcome: api.NoSuchClaim})
	}
	ctx, cancel := context.WithTimeout(ctx, target.config.ClaimTimeout)
	defer cancel()
	return target.sale.Do(ctx, executor.Request{Settle: &settlement})
}
