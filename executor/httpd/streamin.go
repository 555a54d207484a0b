package httpd

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/wire"
	"salectl/executor/shard"
)

// form is how messages are written: as protobuf, or as lines of JSON.
type form interface {
	media() string
	// cut takes the first message off what was read; nil without a fault: it is not there
	// to its end yet.
	cut(b []byte) (message, rest []byte, f *wire.Fault)
	// request reads a message, which is overwritten by the next. A fault of a message
	// whose id is known is about that request alone; else it ends the stream.
	request(message []byte) (*streampb.Request, *wire.Fault)
	// What is appended: an answer to a claim or settlement, to a look-up, that the server
	// goes away, and what is wrong with a message (id) or the stream (0).
	answer(b []byte, u *under) []byte
	found(b []byte, u *under) []byte
	goingAway(b []byte) []byte
	problem(b []byte, id uint64, p *wire.Problem) []byte
}

// read takes in requests until there are no more.
func (x *stream) read(body io.Reader) {
	buf, to := make([]byte, 32<<10), 0
	for first := true; ; {
		n, err := body.Read(buf[to:])
		x.now = x.server.now().Mono
		to += n
		rest := buf[:to]
		for {
			message, after, f := x.form.cut(rest)
			if f != nil {
				x.refuse(0, f)
				x.end(nil)
				return
			}
			if message == nil {
				break
			}
			rest = after
			if !x.take(message, first) {
				return
			}
			first = false
		}
		switch {
		case err == io.EOF && len(rest) > 0:
			x.refuse(0, wire.Malformed("the stream ends within a message"))
			x.end(nil)
			return
		case err == io.EOF || err != nil && x.left(err):
			x.end(nil)
			return
		case err != nil:
			x.end(err)
			return
		}
		if to = copy(buf, rest); to > len(buf)/2 { // a long message
			buf = append(buf, make([]byte, len(buf))...)
		}
	}
}

// take takes in one message; false: there are to be no more.
func (x *stream) take(message []byte, first bool) bool {
	r, f := x.form.request(message)
	if f != nil {
		id := r.GetId()
		x.refuse(id, f)
		if id == 0 {
			x.end(nil)
		}
		return id != 0
	}
	if _, ok := r.Asks.(*streampb.Request_Hello); ok {
		x.refuse(0, wire.Malformed("hello: only another process of the sale says it, on a stream that it has made with the header %s", api.PeerHeader))
		x.end(nil)
		return false
	}
	if r.Id == 0 {
		x.refuse(0, wire.Malformed("id: missing; each request has one, from 1"))
		x.end(nil)
		return false
	}
	if first {
		x.server.untilOpened(x.ctx)
	}
	switch missing := x.by.May(rightOf(r)); {
	case missing == nil:
	case missing.Scope != "":
		x.say(r.Id, missing)
		return true
	default: // its token was taken away since
		x.say(0, missing)
		x.end(nil)
		return false
	}
	switch asks := r.Asks.(type) {
	case *streampb.Request_Claim:
		return x.claim(r, asks.Claim)
	case *streampb.Request_Settle:
		return x.settle(r, asks.Settle)
	case *streampb.Request_User:
		return x.user(r, asks.User)
	case *streampb.Request_Find:
		return x.find(r, asks.Find)
	case *streampb.Request_Cancel:
		x.cancel(r.Id)
	default:
		x.refuse(r.Id, wire.Malformed("the request asks for nothing that is known here: it has claim, settle, user, find or cancel"))
	}
	return true
}

// rightOf is what a request needs.
func rightOf(r *streampb.Request) access.Rights {
	if r.GetSettle().GetHow() == string(api.Confirm) {
		return access.MayConfirm
	}
	return access.MayClaim
}

// refuse says what is wrong with a message, or with the stream.
func (x *stream) refuse(id uint64, f *wire.Fault) {
	p := wire.ProblemOf(api.BadRequest)
	p.Status, p.Detail = f.Status, f.Detail
	x.say(id, &p)
}

func (x *stream) say(id uint64, p *wire.Problem) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(x.extra) > mostUnsent && x.broken == nil { // a client that sends faults and reads nothing
		x.room.Wait()
	}
	x.extra = x.form.problem(x.extra, id, p)
	x.news.Signal()
}

// begin takes in a request. It waits while too many are under way. nil: it is not to be
// answered, because its id is in use, or the stream is over, which ok says.
func (x *stream) begin(r *streampb.Request, k kind) (u *under, ok bool) {
	size := replyBytes(r, k)
	x.mu.Lock()
	for (x.count >= mostUnder || x.held != 0 && x.held+size > mostOfStream) && x.broken == nil {
		x.room.Wait()
		x.now = x.server.now().Mono
	}
	x.mu.Unlock()
	for _, m := range x.memories {
		m.Take(size, x.isBroken)
	}
	x.mu.Lock()
	x.held += size
	if x.broken != nil {
		x.holdLocked(-size)
		x.mu.Unlock()
		x.end(x.broken)
		return nil, false
	}
	if _, used := x.open[r.Id]; used {
		x.holdLocked(-size)
		x.mu.Unlock()
		x.say(r.Id, wire.NewProblem(http.StatusConflict, "id: another request with it is under way; give each its own until it is answered."))
		return nil, true
	}
	if last := len(x.spare) - 1; last >= 0 {
		u = x.spare[last]
		x.spare = x.spare[:last]
	} else {
		u = &under{stream: x}
		u.done = u.answered
	}
	u.giveUp, u.size = nil, size
	u.id, u.kind, u.began, u.until = r.Id, k, x.now, x.now+x.server.claimTimeout
	if ms := r.TimeoutMs; ms > 0 {
		u.until = x.now + min(x.server.claimTimeout, time.Duration(ms)*time.Millisecond)
	}
	x.open[u.id] = u
	x.count++
	x.dueLocked(x.now, u.until)
	x.mu.Unlock()
	return u, true
}

// begun takes down how to give a request up.
func (u *under) begun(giveUp func()) {
	x := u.stream
	x.mu.Lock()
	u.giveUp = giveUp
	broken := x.broken != nil && !u.there
	x.mu.Unlock()
	if broken {
		giveUp()
	}
}

// answered takes in the answer.
func (u *under) answered(a executor.Answer) {
	x := u.stream
	x.mu.Lock()
	u.answer, u.there = a, true
	if more := bytesOf(a.Claim) + bytesOf(a.Claims...) + bytesOf(u.claims...) - u.size; more > 0 {
		u.size += more
		x.holdLocked(more)
	}
	x.ready = append(x.ready, u)
	if len(x.ready) == 1 {
		x.news.Signal()
	}
	x.mu.Unlock()
}

// found takes in the answer to a query.
func (u *under) found(a executor.Answer) {
	u.claims, u.next, u.outcome = a.Claims, a.Next, a.Outcome
	if u.kind == looksAtClaim && a.Outcome == "" {
		u.claims = []executor.Claim{a.Claim}
	}
	u.answered(executor.Answer{})
}

func (x *stream) claim(r *streampb.Request, asks *streampb.NewClaim) bool {
	u, ok := x.begin(r, claims)
	if u == nil {
		return ok
	}
	c := executor.Request{User: asks.GetUser(), Key: asks.GetKey(), Quantity: asks.GetQuantity(), Adjacent: asks.GetAdjacent(), Names: slices.Clone(asks.GetNames())}
	if c.Quantity == 0 {
		c.Quantity = 1
	}
	u.user = c.User
	err := cmp.Or(api.CheckUser(c.User), api.CheckQuantity(c.Quantity))
	if len(asks.GetUnits()) > 0 {
		err = cmp.Or(err, errors.New("units: these are numbers, by which processes ask each other: say the names of the units that are wanted in names"))
	}
	if len(c.Names) > 0 {
		if f := wire.CheckNames(&c, asks.GetQuantity() > 1); f != nil {
			err = cmp.Or(err, errors.New(f.Detail))
		}
	}
	if err == nil && c.Key != "" {
		err = api.CheckKey(c.Key)
	}
	switch {
	case err != nil:
		u.answered(executor.Answer{Outcome: api.BadRequest, Message: err.Error()})
	case x.server.draining.Load():
		u.answered(x.sale.Decline(c, api.Draining))
	default:
		u.begun(x.sale.Begin(c, u.done))
	}
	return true
}

func (x *stream) settle(r *streampb.Request, asks *streampb.Settlement) bool {
	u, ok := x.begin(r, settles)
	if u == nil {
		return ok
	}
	s := shard.SettlementOf(asks)
	u.how, u.shard = s.How, s.Claim.Shard
	err := s.Check(s.How)
	switch {
	case s.How == api.Refund:
		u.answered(executor.Answer{Outcome: api.BadRequest, Message: "how: a refund is asked of the admin address"})
	case err != nil:
		u.answered(executor.Answer{Outcome: api.BadRequest, Message: err.Error()})
	case x.server.draining.Load():
		u.answered(executor.Answer{Outcome: api.Draining})
	case s.How == api.Confirm:
		u.begun(x.sale.Begin(executor.Request{Settle: &s}, func(a executor.Answer) {
			u.done(x.server.unrecorded(x.sale, s.Claim.String(), s, a))
		}))
	default:
		u.begun(x.sale.Begin(executor.Request{Settle: &s}, u.done))
	}
	return true
}

// user looks up a page of a user's claims.
func (x *stream) user(r *streampb.Request, asks *streampb.User) bool {
	page, user := shard.PageOf(asks), asks.GetUser()
	if err := page.Check(); err != nil {
		x.refuse(r.Id, wire.Unacceptable(err))
		return true
	}
	u, ok := x.begin(r, looksAtUser)
	if u == nil {
		return ok
	}
	u.user = user
	if err := api.CheckUser(user); err != nil {
		u.kind = claims
		u.answered(executor.Answer{Outcome: api.BadRequest, Message: err.Error()})
		return true
	}
	u.begun(x.sale.Begin(executor.Request{Query: &executor.Query{User: user, Page: page}}, u.found))
	return true
}

// find looks up a claim, with a page of its refunds due.
func (x *stream) find(r *streampb.Request, asks *streampb.Find) bool {
	id, page := shard.ClaimIDOf(asks.GetClaim()), shard.PageOf(asks)
	if err := page.Check(); err != nil {
		x.refuse(r.Id, wire.Unacceptable(err))
		return true
	}
	u, ok := x.begin(r, looksAtClaim)
	if u == nil {
		return ok
	}
	u.shard = id.Shard
	u.begun(x.sale.Begin(executor.Request{Query: &executor.Query{Claim: id, Page: page}}, u.found))
	return true
}

// cancel gives up a request, if it has no answer yet.
func (x *stream) cancel(id uint64) {
	x.mu.Lock()
	var giveUp func()
	if u, ok := x.open[id]; ok && !u.there {
		giveUp = u.giveUp
	}
	x.mu.Unlock()
	if giveUp != nil {
		giveUp()
	}
}

var errStreamOver = errors.New("the stream is over")
