package stream

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/backends/clock"
	"salectl/executor"
	"salectl/executor/httpd/wire"
)

// lines is the codec of JSON objects, one a line. A response is the document that HTTP has, with the
// id of the request, the status and the values of headers in it.
type lines struct {
	sale string
	now  clock.Clock

	// What follows is used again for each request.
	request streampb.Request
	claim   streampb.Request_Claim
	asks    streampb.NewClaim
}

func (*lines) mediaType() string { return api.TypeLines }

func (*lines) next(b []byte) (message, rest []byte, f *wire.Problem) {
	for {
		end := bytes.IndexByte(b, '\n')
		switch {
		case end > streampb.MaxMessage || end < 0 && len(b) > streampb.MaxMessage:
			return nil, b, wire.BadRequest(http.StatusRequestEntityTooLarge, fmt.Sprintf("the line is too long: at most %d bytes are allowed", streampb.MaxMessage))
		case end < 0:
			return nil, b, nil
		}
		message, b = b[:end:end], b[end+1:]
		if len(bytes.TrimSpace(message)) > 0 {
			return message, b, nil
		}
	}
}

// decode decodes a line. With a problem it returns what it has read so far, which may have an id.
func (codec *lines) decode(line []byte) (*streampb.Request, *wire.Problem) {
	r := &codec.request
	r.Reset()
	p := wire.Parser{In: line}
	seen := 0
	var page api.Page
	f := p.Body(`{"id": 1, "claim": {"user": "u-1", "key": "k-1", "quantity": 1}}`, func(field []byte) *wire.Problem {
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
			var f *wire.Problem
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
		return codec.decodeAsks(&p, r, field)
	})
	if f == nil && page != (api.Page{}) {
		f = setPage(r, page)
	}
	return r, f
}

// setPage sets the page of a lookup.
func setPage(r *streampb.Request, p api.Page) *wire.Problem {
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

// decodeAsks decodes what a request asks for.
func (codec *lines) decodeAsks(parser *wire.Parser, r *streampb.Request, field []byte) *wire.Problem {
	switch string(field) {
	case "claim":
		codec.asks.Reset()
		codec.claim.Claim, r.Asks = &codec.asks, &codec.claim
		codec.asks.Quantity = 1
		var units, quantity bool
		f := parser.Object(func(field []byte) (f *wire.Problem) {
			switch string(field) {
			case "user":
				codec.asks.User, f = parser.String("claim.user")
			case "key":
				if codec.asks.Key, f = parser.String("claim.key"); f == nil && codec.asks.Key == "" {
					f = wire.Malformed("claim.key: empty; leave it out or give a key")
				}
			case "quantity":
				quantity = true
				if codec.asks.Quantity, f = parser.Integer("claim.quantity"); f == nil { // 0 is none: in a message without one it is 1
					if err := api.CheckQuantity(codec.asks.Quantity); err != nil {
						f = wire.Unacceptable(err)
					}
				}
			case "units":
				units = true
				codec.asks.Names, f = parser.Strings("claim.units")
			case "adjacent":
				codec.asks.Adjacent, f = parser.Bool("claim.adjacent")
			default:
				f = wire.Malformed("claim.%s: unknown field; a claim has user, key, quantity, units and adjacent", wire.QuoteName(field))
			}
			return f
		})
		switch n := int64(len(codec.asks.Names)); {
		case f == nil && units && n == 0:
			f = wire.Unacceptable(api.CheckNames(nil))
		case f == nil && units && quantity && codec.asks.Quantity != n:
			f = wire.Unacceptable(fmt.Errorf("quantity: is %d, and %d units are named; leave it out", codec.asks.Quantity, n))
		}
		return f
	case "settle":
		m := new(streampb.Settlement)
		r.Asks = &streampb.Request_Settle{Settle: m}
		return parser.Object(func(field []byte) (f *wire.Problem) { return decodeSettlement(parser, m, field) })
	case "user":
		user, f := parser.String("user")
		r.Asks = &streampb.Request_User{User: &streampb.User{User: user}}
		return f
	case "find":
		id, f := parser.ClaimID("find")
		r.Asks = &streampb.Request_Find{Find: &streampb.Find{Claim: id}}
		return f
	case "cancel":
		truly, f := parser.Bool("cancel")
		if f == nil && !truly {
			f = wire.Malformed("cancel: may only be true")
		}
		r.Asks = &streampb.Request_Cancel{Cancel: new(streampb.Cancel)}
		return f
	}
	return wire.Malformed("%s: unknown field; a request has id, timeoutMs, before and limit of a page, and one of claim, settle, user, find and cancel", wire.QuoteName(field))
}

// decodeSettlement decodes a field of a settlement.
func decodeSettlement(p *wire.Parser, m *streampb.Settlement, field []byte) (f *wire.Problem) {
	if string(field) == "claim" {
		m.Claim, f = p.ClaimID("settle.claim")
		return f
	}
	into := map[string]*string{"how": &m.How, "payment": &m.Payment, "who": &m.Who, "reason": &m.Reason}[string(field)]
	if into == nil {
		return wire.Malformed("settle.%s: unknown field; there are claim, how, payment, who and reason", wire.QuoteName(field))
	}
	*into, f = p.String("settle." + string(field))
	return f
}

func (codec *lines) appendAnswer(b []byte, r *inflight, at executor.Place) []byte {
	a := &r.answer
	if r.settled() {
		status := http.StatusOK
		if r.kind == claim && !a.Replayed {
			status = a.Outcome.Row().Status
		}
		b, brace := beginLine(b, r.id, status)
		return endLine(wire.AppendClaim(b, a.Outcome, codec.sale, &a.Claim), brace, at, 0)
	}
	return appendProblemLine(b, r.id, wire.Refusal(codec.sale, codec.now, a), at)
}

func (codec *lines) appendLookup(b []byte, r *inflight, at executor.Place) []byte {
	a := &r.answer
	if a.Outcome != "" {
		return appendProblemLine(b, r.id, wire.LookupProblem(a.Outcome), at)
	}
	b, brace := beginLine(b, r.id, http.StatusOK)
	if r.kind == claimLookup {
		b = wire.AppendClaim(b, a.Claim.State, codec.sale, &a.Claim)
	} else {
		b = wire.AppendUser(b, codec.sale, r.user, a.Claims, a.Next)
	}
	return endLine(b, brace, at, 0)
}

func (*lines) appendGoingAway(b []byte) []byte { return append(b, `{"goingAway":true}`+"\n"...) }

func (*lines) appendProblem(b []byte, id uint64, p *wire.Problem) []byte {
	b, brace := beginLine(b, id, 0)
	return endLine(p.Append(b), brace, executor.Place{}, 0)
}

// appendProblemLine appends a problem with what HTTP has in headers.
func appendProblemLine(b []byte, id uint64, p *wire.Problem, at executor.Place) []byte {
	b, brace := beginLine(b, id, 0)
	return endLine(p.Append(b), brace, at, p.RetryAfter)
}

// beginLine begins an object with an id and, if it is not 0, a status. The object that is appended
// next, at brace, continues it.
func beginLine(b []byte, id uint64, status int) (_ []byte, brace int) {
	b = strconv.AppendUint(append(b, `{"id":`...), id, 10)
	if status != 0 {
		b = strconv.AppendInt(append(b, `,"status":`...), int64(status), 10)
	}
	return b, len(b)
}

// endLine joins the object at brace to the one before it, and adds what HTTP has in headers.
func endLine(b []byte, brace int, at executor.Place, retryAfter time.Duration) []byte {
	b[brace] = ','
	b = b[:len(b)-1]
	if retryAfter > 0 {
		b = append(append(b, `,"retryAfter":`...), wire.RetryAfterHeader(retryAfter)[0]...)
	}
	if at.Shards > 0 {
		b = strconv.AppendInt(append(b, `,"shard":`...), int64(at.Shard), 10)
		b = strconv.AppendInt(append(b, `,"shards":`...), int64(at.Shards), 10)
		b = wire.AppendString(append(b, `,"owner":`...), at.Owner)
	}
	return append(b, '}', '\n')
}
