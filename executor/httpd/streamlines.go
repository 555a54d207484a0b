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
	"salectl/executor/shard"
)

// linesForm is the form of messages as JSON objects, one a line. What it answers is what
// HTTP answers, with the request's id and the status in it.
type linesForm struct {
	whole streampb.Request
	claim streampb.Request_Claim
	asks  streampb.NewClaim
}

func (*linesForm) media() string { return api.TypeLines }

func (*linesForm) cut(b []byte) (message, rest []byte, f *fault) {
	for {
		end := bytes.IndexByte(b, '\n')
		switch {
		case end > streampb.MaxMessage || end < 0 && len(b) > streampb.MaxMessage:
			return nil, b, &fault{http.StatusRequestEntityTooLarge, fmt.Sprintf("the line is too long: at most %d bytes are allowed", streampb.MaxMessage)}
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
func (l *linesForm) request(line []byte) (*streampb.Request, *fault) {
	r := &l.whole
	r.Reset()
	p := parser{in: line}
	seen := 0
	var page api.Page
	f := p.object(`{"id": 1, "claim": {"user": "u-1", "key": "k-1", "quantity": 1}}`, func(field []byte) *fault {
		switch string(field) {
		case "id":
			id, f := p.integer("id")
			if f == nil && (id < 1 || p.beyond) {
				f = malformed("id: must be from 1 to %d", math.MaxInt64)
			}
			if f == nil {
				r.Id = uint64(id)
			}
			return f
		case "timeoutMs":
			ms, f := p.integer("timeoutMs")
			if f == nil && (ms < 0 || p.beyond) {
				f = malformed("timeoutMs: must be from 0 to %d", math.MaxInt64)
			}
			r.TimeoutMs = uint32(min(ms, 1<<31))
			return f
		case "before":
			var f *fault
			page.Before, f = p.string("before")
			return f
		case "limit":
			n, f := p.integer("limit")
			if page.Limit = int(min(n, math.MaxInt32)); f == nil && n < 1 {
				page.Limit = -1
			}
			if err := page.Check(); f == nil && err != nil {
				f = unacceptable(err)
			}
			return f
		}
		if seen++; seen > 1 {
			return malformed("%s: a request asks for one thing, and this one asks for another before", name(field))
		}
		return l.asked(&p, r, field)
	})
	if f == nil && page != (api.Page{}) {
		f = paged(r, page)
	}
	return r, f
}

// paged has a look-up ask for a page.
func paged(r *streampb.Request, p api.Page) *fault {
	switch asks := r.Asks.(type) {
	case *streampb.Request_User:
		asks.User.Before, asks.User.Limit = p.Before, uint32(p.Limit)
	case *streampb.Request_Find:
		asks.Find.Before, asks.Find.Limit = p.Before, uint32(p.Limit)
	default:
		return malformed("before, limit: are of user and find")
	}
	return nil
}

// asked reads what a request asks for.
func (l *linesForm) asked(p *parser, r *streampb.Request, field []byte) *fault {
	switch string(field) {
	case "claim":
		l.asks.Reset()
		l.claim.Claim, r.Asks = &l.asks, &l.claim
		l.asks.Quantity = 1
		var units, quantity bool
		f := p.members(func(field []byte) (f *fault) {
			switch string(field) {
			case "user":
				l.asks.User, f = p.string("claim.user")
			case "key":
				if l.asks.Key, f = p.string("claim.key"); f == nil && l.asks.Key == "" {
					f = malformed("claim.key: empty; leave it out or give a key")
				}
			case "quantity":
				quantity = true
				if l.asks.Quantity, f = p.integer("claim.quantity"); f == nil {
					f = quantityFault(l.asks.Quantity)
				}
			case "units":
				units = true
				l.asks.Names, f = p.texts("claim.units")
			case "adjacent":
				l.asks.Adjacent, f = p.truth("claim.adjacent")
			default:
				f = malformed("claim.%s: unknown field; a claim has user, key, quantity, units and adjacent", name(field))
			}
			return f
		})
		switch n := int64(len(l.asks.Names)); {
		case f == nil && units && n == 0:
			f = unacceptable(api.CheckNames(nil))
		case f == nil && units && quantity && l.asks.Quantity != n:
			f = unacceptable(fmt.Errorf("quantity: is %d, and %d units are named; leave it out", l.asks.Quantity, n))
		}
		return f
	case "settle":
		m := new(streampb.Settlement)
		r.Asks = &streampb.Request_Settle{Settle: m}
		return p.members(func(field []byte) (f *fault) { return streamSettlement(p, m, field) })
	case "user":
		user, f := p.string("user")
		r.Asks = &streampb.Request_User{User: &streampb.User{User: user}}
		return f
	case "find":
		id, f := p.claimID("find")
		r.Asks = &streampb.Request_Find{Find: &streampb.Find{Claim: id}}
		return f
	case "cancel":
		truly, f := p.truth("cancel")
		if f == nil && !truly {
			f = malformed("cancel: may only be true")
		}
		r.Asks = &streampb.Request_Cancel{Cancel: new(streampb.Cancel)}
		return f
	}
	return malformed("%s: unknown field; a request has id, timeoutMs, before and limit of a page, and one of claim, settle, user, find and cancel", name(field))
}

// streamSettlement parses a field of a settlement.
func streamSettlement(p *parser, m *streampb.Settlement, field []byte) (f *fault) {
	switch string(field) {
	case "claim":
		m.Claim, f = p.claimID("settle.claim")
	case "how":
		m.How, f = p.string("settle.how")
	case "payment":
		m.Payment, f = p.string("settle.payment")
	case "who":
		m.Who, f = p.string("settle.who")
	case "reason":
		m.Reason, f = p.string("settle.reason")
	default:
		f = malformed("settle.%s: unknown field; there are claim, how, payment, who and reason", name(field))
	}
	return f
}

// quantityFault says that a quantity of 0 is none: in a message without one it is 1.
func quantityFault(quantity int64) *fault {
	if err := api.CheckQuantity(quantity); err != nil {
		return unacceptable(err)
	}
	return nil
}

func (p *parser) string(what string) (string, *fault) {
	text, f := p.text(what)
	return string(text), f
}

// claimID reads the name of a claim. One that cannot be any is that of none.
func (p *parser) claimID(what string) (*streampb.ClaimID, *fault) {
	text, f := p.text(what)
	if f != nil {
		return nil, f
	}
	id, ok := shard.ParseClaimID(string(text))
	if !ok {
		id = shard.ClaimID{Shard: noShard}
	}
	return &streampb.ClaimID{Shard: uint32(id.Shard), Slot: id.Slot, Index: uint32(id.Index), Unit: id.Unit}, nil
}

// noShard is one that no sale has.
const noShard = 1<<31 - 1

func (l *linesForm) answer(b []byte, u *under) []byte {
	a := &u.answer
	sale, server := u.stream.sale, u.stream.server
	if done := u.kind == claims && a.Accepted() || u.kind == settles && a.Outcome == u.how.Done(); done {
		status := prepared[a.Outcome].row.Status
		if a.Replayed || u.kind == settles {
			status = http.StatusOK
		}
		b, at := opened(b, u.id, status)
		return closed(appendClaim(b, a.Outcome, sale.name, &a.Claim), at, u, 0)
	}
	p := server.refusal(sale, a)
	b, at := opened(b, u.id, 0)
	return closed(p.appendTo(b), at, u, p.retryAfter)
}

func (l *linesForm) found(b []byte, u *under) []byte {
	sale := u.stream.sale.name
	if u.outcome != "" {
		p := notFound(u.outcome)
		b, at := opened(b, u.id, 0)
		return closed(p.appendTo(b), at, u, p.retryAfter)
	}
	b, at := opened(b, u.id, http.StatusOK)
	if u.kind == looksAtClaim {
		return closed(appendClaim(b, u.claims[0].State, sale, &u.claims[0]), at, u, 0)
	}
	b = appendString(append(b, `{"sale":`...), sale)
	b = appendString(append(b, `,"user":`...), u.user)
	b = appendClaims(append(b, `,"claims":`...), sale, u.claims)
	if u.next != "" {
		b = appendString(append(b, `,"next":`...), u.next)
	}
	return closed(append(b, '}'), at, u, 0)
}

func (*linesForm) goingAway(b []byte) []byte { return append(b, `{"goingAway":true}`+"\n"...) }

func (*linesForm) problem(b []byte, id uint64, p *problem) []byte {
	b, at := opened(b, id, 0)
	return closed(p.appendTo(b), at, nil, 0)
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
		b = append(append(b, `,"retryAfter":`...), retryAfterHeader(retryAfter)[0]...)
	}
	if u != nil {
		if place := u.place(); place.Shards > 0 {
			b = strconv.AppendInt(append(b, `,"shard":`...), int64(place.Shard), 10)
			b = strconv.AppendInt(append(b, `,"shards":`...), int64(place.Shards), 10)
			b = appendString(append(b, `,"owner":`...), place.Owner)
		}
	}
	return append(b, '}', '\n')
}
