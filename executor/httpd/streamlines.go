package httpd

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor/httpd/wire"
)

// linesForm is the form of messages as JSON objects, one a line. What it answers is what
// HTTP answers, with the request's id and the status in it.
type linesForm struct {
	whole streampb.Request
	claim streampb.Request_Claim
	asks  streampb.NewClaim
}

func (*linesForm) media() string { return api.TypeLines }

func (*linesForm) cut(b []byte) (message, rest []byte, f *wire.Fault) {
	for {
		end := bytes.IndexByte(b, '\n')
		switch {
		case end > streampb.MaxMessage || end < 0 && len(b) > streampb.MaxMessage:
			return nil, b, &wire.Fault{Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("the line is too long: at most %d bytes are allowed", streampb.MaxMessage)}
		case end < 0:
			return nil, b, nil
		}
		message, b = b[:end:end], b[end+1:]
		if len(bytes.TrimSpace(message)) > 0 {
			return message, b, nil
		}
	}
}

// request reads a line. Where it is no request, what was read of it before is returned all
// the same: it may have an id.
func (l *linesForm) request(line []byte) (*streampb.Request, *wire.Fault) {
	r := &l.whole
	r.Reset()
	p := wire.Parser{In: line}
	seen := 0
	var page api.Page
	f := p.Object(`{"id": 1, "claim": {"user": "u-1", "key": "k-1", "quantity": 1}}`, func(field []byte) *wire.Fault {
		switch string(field) {
		case "id":
			id, f := p.Integer("id")
			if f == nil && (id < 1 || p.Overflowed) {
				f = wire.Malformed("id: must be from 1 to %d", math.MaxInt64)
			}
			if f == nil {
				r.Id = uint64(id)
			}
			return f
		case "timeoutMs":
			ms, f := p.Integer("timeoutMs")
			if f == nil && (ms < 0 || p.Overflowed) {
				f = wire.Malformed("timeoutMs: must be from 0 to %d", math.MaxInt64)
			}
			r.TimeoutMs = uint32(min(ms, 1<<31))
			return f
		case "before":
			var f *wire.Fault
			page.Before, f = p.String("before")
			return f
		case "limit":
			n, f := p.Integer("limit")
			if page.Limit = int(min(n, math.MaxInt32)); f == nil && n < 1 {
				page.Limit = -1
			}
			if err := page.Check(); f == nil && err != nil {
				f = wire.Unacceptable(err)
			}
			return f
		}
		if seen++; seen > 1 {
			return wire.Malformed("%s: a request asks for one thing, and this one asks for another before", wire.QuoteName(field))
		}
		return l.asked(&p, r, field)
	})
	if f == nil && page != (api.Page{}) {
		f = paged(r, page)
	}
	return r, f
}

// paged has a look-up ask for a page.
func paged(r *streampb.Request, p api.Page) *wire.Fault {
	switch asks := r.Asks.(type) {
	case *streampb.Request_User:
		asks.User.Before, asks.User.Limit = p.Before, uint32(p.Limit)
	case *streampb.Request_Find:
		asks.Find.Before, asks.Find.Limit = p.Before, uint32(p.Limit)
	default:
		return wire.Malformed("before, limit: are of user and find")
	}
	return nil
}

// asked reads what a request asks for.
func (l *linesForm) asked(p *wire.Parser, r *streampb.Request, field []byte) *wire.Fault {
	switch string(field) {
	case "claim":
		l.asks.Reset()
		l.claim.Claim, r.Asks = &l.asks, &l.claim
		l.asks.Quantity = 1
		var units, quantity bool
		f := p.Members(func(field []byte) (f *wire.Fault) {
			switch string(field) {
			case "user":
				l.asks.User, f = p.String("claim.user")
			case "key":
				if l.asks.Key, f = p.String("claim.key"); f == nil && l.asks.Key == "" {
					f = wire.Malformed("claim.key: empty; leave it out or give a key")
				}
			case "quantity":
				quantity = true
				if l.asks.Quantity, f = p.Integer("claim.quantity"); f == nil {
					f = quantityFault(l.asks.Quantity)
				}
			case "units":
				units = true
				l.asks.Names, f = p.Texts("claim.units")
			case "adjacent":
				l.asks.Adjacent, f = p.Bool("claim.adjacent")
			default:
				f = wire.Malformed("claim.%s: unknown field; a claim has user, key, quantity, units and adjacent", wire.QuoteName(field))
			}
			return f
		})
		switch n := int64(len(l.asks.Names)); {
		case f == nil && units && n == 0:
			f = wire.Unacceptable(api.CheckNames(nil))
		case f == nil && units && quantity && l.asks.Quantity != n:
			f = wire.Unacceptable(fmt.Errorf("quantity: is %d, and %d units are named; leave it out", l.asks.Quantity, n))
		}
		return f
	case "settle":
		m := new(streampb.Settlement)
		r.Asks = &streampb.Request_Settle{Settle: m}
		return p.Members(func(field []byte) (f *wire.Fault) { return streamSettlement(p, m, field) })
	case "user":
		user, f := p.String("user")
		r.Asks = &streampb.Request_User{User: &streampb.User{User: user}}
		return f
	case "find":
		id, f := p.ClaimID("find")
		r.Asks = &streampb.Request_Find{Find: &streampb.Find{Claim: id}}
		return f
	case "cancel":
		truly, f := p.Bool("cancel")
		if f == nil && !truly {
			f = wire.Malformed("cancel: may only be true")
		}
		r.Asks = &streampb.Request_Cancel{Cancel: new(streampb.Cancel)}
		return f
	}
	return wire.Malformed("%s: unknown field; a request has id, timeoutMs, before and limit of a page, and one of claim, settle, user, find and cancel", wire.QuoteName(field))
}

// streamSettlement parses a field of a settlement.
func streamSettlement(p *wire.Parser, m *streampb.Settlement, field []byte) (f *wire.Fault) {
	switch string(field) {
	case "claim":
		m.Claim, f = p.ClaimID("settle.claim")
	case "how":
		m.How, f = p.String("settle.how")
	case "payment":
		m.Payment, f = p.String("settle.payment")
	case "who":
		m.Who, f = p.String("settle.who")
	case "reason":
		m.Reason, f = p.String("settle.reason")
	default:
		f = wire.Malformed("settle.%s: unknown field; there are claim, how, payment, who and reason", wire.QuoteName(field))
	}
	return f
}

// quantityFault says that a quantity of 0 is none: in a message without one it is 1.
func quantityFault(quantity int64) *wire.Fault {
	if err := api.CheckQuantity(quantity); err != nil {
		return wire.Unacceptable(err)
	}
	return nil
}

func (l *linesForm) answer(b []byte, u *under) []byte {
	a := &u.answer
	sale, server := u.stream.sale, u.stream.server
	if done := u.kind == claims && a.Accepted() || u.kind == settles && a.Outcome == u.how.Done(); done {
		status := wire.StatusOf(a.Outcome)
		if a.Replayed || u.kind == settles {
			status = http.StatusOK
		}
		b, at := opened(b, u.id, status)
		return closed(wire.AppendClaim(b, a.Outcome, sale.name, &a.Claim), at, u, 0)
	}
	p := wire.Refusal(sale.name, server.now, a)
	b, at := opened(b, u.id, 0)
	return closed(p.Append(b), at, u, p.RetryAfter)
}

func (l *linesForm) found(b []byte, u *under) []byte {
	sale := u.stream.sale.name
	if u.outcome != "" {
		p := wire.NotFound(u.outcome)
		b, at := opened(b, u.id, 0)
		return closed(p.Append(b), at, u, p.RetryAfter)
	}
	b, at := opened(b, u.id, http.StatusOK)
	if u.kind == looksAtClaim {
		return closed(wire.AppendClaim(b, u.claims[0].State, sale, &u.claims[0]), at, u, 0)
	}
	b = wire.AppendString(append(b, `{"sale":`...), sale)
	b = wire.AppendString(append(b, `,"user":`...), u.user)
	b = wire.AppendClaims(append(b, `,"claims":`...), sale, u.claims)
	if u.next != "" {
		b = wire.AppendString(append(b, `,"next":`...), u.next)
	}
	return closed(append(b, '}'), at, u, 0)
}

func (*linesForm) goingAway(b []byte) []byte { return append(b, `{"goingAway":true}`+"\n"...) }

func (*linesForm) problem(b []byte, id uint64, p *wire.Problem) []byte {
	b, at := opened(b, id, 0)
	return closed(p.Append(b), at, nil, 0)
}

// opened begins an object with an id and, if it is not 0, a status. The one that is appended
// next goes on with it.
func opened(b []byte, id uint64, status int) (_ []byte, at int) {
	b = strconv.AppendUint(append(b, `{"id":`...), id, 10)
	if status != 0 {
		b = strconv.AppendInt(append(b, `,"status":`...), int64(status), 10)
	}
	return b, len(b)
}

// closed ends the line of an object that was appended at, with what HTTP says in headers.
func closed(b []byte, at int, u *under, retryAfter time.Duration) []byte {
	b[at] = ',' // which was its brace
	b = b[:len(b)-1]
	if retryAfter > 0 {
		b = append(append(b, `,"retryAfter":`...), wire.RetryAfterHeader(retryAfter)[0]...)
	}
	if u != nil {
		if place := u.place(); place.Shards > 0 {
			b = strconv.AppendInt(append(b, `,"shard":`...), int64(place.Shard), 10)
			b = strconv.AppendInt(append(b, `,"shards":`...), int64(place.Shards), 10)
			b = wire.AppendString(append(b, `,"owner":`...), place.Owner)
		}
	}
	return append(b, '}', '\n')
}
