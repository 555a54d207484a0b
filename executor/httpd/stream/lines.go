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
	sale    string
	now     clock.Clock
	message message // decoded last
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
func (codec *lines) decode(line []byte) (*message, *wire.Problem) {
	m, p := &codec.message, wire.Parser{In: line}
	*m = message{}
	var page api.Page
	asks := false
	f := p.Body(`{"id": 1, "claim": {"user": "u-1", "key": "k-1", "quantity": 1}}`, func(field []byte) (f *wire.Problem) {
		var n int64
		switch string(field) {
		case "id":
			if n, f = p.Integer("id"); f == nil && (n < 1 || p.Overflowed) {
				return wire.Malformed("id: must be from 1 to %d", math.MaxInt64)
			}
			m.id = uint64(n)
			return f
		case "timeoutMs":
			if n, f = p.Integer("timeoutMs"); f == nil && (n < 0 || p.Overflowed) {
				return wire.Malformed("timeoutMs: must be from 0 to %d", math.MaxInt64)
			}
			m.timeout = time.Duration(min(n, math.MaxInt32)) * time.Millisecond
			return f
		case "before":
			page.Before, f = p.String("before")
			return f
		case "limit":
			if n, f = p.Integer("limit"); n < 1 {
				n = -1
			}
			page.Limit = int(min(n, math.MaxInt32))
			return f
		}
		if asks {
			return wire.Malformed("%s: a request has one kind of content, and this one already has another", wire.QuoteName(field))
		}
		asks = true
		return m.parse(&p, field)
	})
	switch {
	case f != nil:
	case !asks:
		f = wire.Malformed(asksNothing)
	case page == api.Page{}:
	case m.Query == nil:
		f = wire.Malformed("before, limit: are of user and find")
	default:
		m.Query.Page = page
	}
	return m, f
}

// parse parses the value of the field that has the content of a request.
func (message *message) parse(parser *wire.Parser, field []byte) (f *wire.Problem) {
	switch string(field) {
	case "claim":
		message.Quantity = 1
		return parser.Object(message.parseClaim(parser))
	case "settle":
		message.Settle = new(executor.Settlement)
		return parser.Object(func(field []byte) *wire.Problem { return parseSettlement(parser, message.Settle, field) })
	case "user":
		message.Query = new(executor.Query)
		message.Query.User, f = parser.String("user")
		message.wrong = api.CheckUser(message.Query.User)
		return f
	case "find":
		message.Query = new(executor.Query)
		message.Query.Claim, f = parser.ClaimID("find")
		return f
	case "cancel":
		if message.cancel, f = parser.Bool("cancel"); f == nil && !message.cancel {
			f = wire.Malformed("cancel: may only be true")
		}
		return f
	}
	return wire.Malformed("%s: unknown field; a request has id, timeoutMs, before and limit of a page, and one of claim, settle, user, find and cancel", wire.QuoteName(field))
}

// parseClaim returns a function that parses a field of a claim.
func (message *message) parseClaim(parser *wire.Parser) func(field []byte) *wire.Problem {
	return func(field []byte) (f *wire.Problem) {
		switch string(field) {
		case "user":
			message.User, f = parser.String("claim.user")
		case "key":
			if message.Key, f = parser.String("claim.key"); f == nil && message.Key == "" {
				f = wire.Malformed("claim.key: empty; leave it out or give a key")
			}
		case "quantity":
			message.quantity = true
			message.Quantity, f = parser.Integer("claim.quantity")
		case "units":
			if message.Names, f = parser.Strings("claim.units"); len(message.Names) == 0 {
				message.wrong = api.CheckNames(nil)
			}
		case "adjacent":
			message.Adjacent, f = parser.Bool("claim.adjacent")
		default:
			f = wire.Malformed("claim.%s: unknown field; a claim has user, key, quantity, units and adjacent", wire.QuoteName(field))
		}
		return f
	}
}

// parseSettlement parses a field of a settlement.
func parseSettlement(p *wire.Parser, x *executor.Settlement, field []byte) (f *wire.Problem) {
	var how string
	into := map[string]*string{"how": &how, "payment": &x.Payment, "who": &x.Who, "reason": &x.Reason}[string(field)]
	switch {
	case string(field) == "claim":
		x.Claim, f = p.ClaimID("settle.claim")
		return f
	case into == nil:
		return wire.Malformed("settle.%s: unknown field; there are claim, how, payment, who and reason", wire.QuoteName(field))
	}
	if *into, f = p.String("settle." + string(field)); how != "" {
		x.How = api.How(how)
	}
	return f
}

func (codec *lines) appendAnswer(b []byte, r *inflight, at executor.Place) []byte {
	a := &r.answer
	if r.settled() {
		status := http.StatusOK
		if r.asked.IsClaim() && !a.Replayed {
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
	if r.asked.Query.User == "" {
		b = wire.AppendClaim(b, a.Claim.State, codec.sale, &a.Claim)
	} else {
		b = wire.AppendUser(b, codec.sale, r.asked.Query.User, a.Claims, a.Next)
	}
	return endLine(b, brace, at, 0)
}

func (*lines) appendGoingAway(b []byte) []byte { return append(b, `{"goingAway":true}`+"\n"...) }

func (*lines) appendProblem(b []byte, id uint64, p *wire.Problem) []byte {
	return appendProblemLine(b, id, p, executor.Place{})
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
