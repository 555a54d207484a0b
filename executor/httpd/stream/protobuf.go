package stream

import (
	"errors"
	"net/http"
	"time"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/backends/clock"
	"salectl/executor"
	"salectl/executor/httpd/wire"
	"salectl/executor/request"
)

// protobuf is the codec of protobuf messages.
type protobuf struct {
	now     clock.Clock
	decoder streampb.Decoder
	message message // decoded last

	// What follows is used again for each answer.
	reply  streampb.Reply
	says   streampb.Reply_Answer
	answer streampb.Answer
	claim  streampb.Claim
}

func (*protobuf) mediaType() string { return api.TypeStream }

func (*protobuf) next(b []byte) (message, rest []byte, f *wire.Problem) {
	message, rest, err := streampb.Cut(b, streampb.MaxMessage)
	switch {
	case errors.Is(err, streampb.ErrTooLong):
		f = wire.BadRequest(http.StatusRequestEntityTooLarge, err.Error())
	case err != nil:
		f = wire.Malformed("%v", err)
	}
	return message, rest, f
}

func (codec *protobuf) decode(b []byte) (*message, *wire.Problem) {
	m := &codec.message
	*m = message{}
	r, err := codec.decoder.Request(b)
	if err != nil {
		return m, wire.Malformed("%v", err)
	}
	asks, known := request.RequestOf(r)
	m.Request, m.id, m.timeout = asks, r.Id, time.Duration(r.TimeoutMs)*time.Millisecond
	switch asks := r.Asks.(type) {
	case *streampb.Request_Hello:
		m.id = 0
		return m, wire.Malformed("hello: only other processes of the sale send it, on a stream with the header %s", api.PeerHeader)
	case *streampb.Request_Cancel:
		m.cancel, known = true, true
	case *streampb.Request_User:
		m.wrong = api.CheckUser(m.Query.User)
	case *streampb.Request_Claim:
		m.quantity = asks.Claim.GetQuantity() > 1
		if len(m.Units) > 0 {
			m.wrong = errors.New("units: only processes of the sale use unit numbers: put the names of the wanted units into names")
		}
	}
	if !known {
		return m, wire.Malformed(asksNothing)
	}
	return m, nil
}

const asksNothing = "the request has no known content: use claim, settle, user, find or cancel"

func (codec *protobuf) appendAnswer(b []byte, r *inflight, at executor.Place) []byte {
	a := &codec.answer
	a.Claim = &codec.claim
	r.answer.ToStream(a)
	a.Owner, a.Shard, a.Shards = at.Owner, uint32(at.Shard), uint32(at.Shards)
	if a.ServerTimeNs = 0; r.answer.Outcome.Row().Timed {
		a.ServerTimeNs = codec.now().Wall.UnixNano()
	}
	codec.says.Answer = a
	codec.reply.Id, codec.reply.Says = r.id, &codec.says
	return streampb.Append(b, &codec.reply)
}

func (codec *protobuf) appendLookup(b []byte, r *inflight, at executor.Place) []byte {
	a := &r.answer
	found := &streampb.Claims{Outcome: string(a.Outcome), Owner: at.Owner, Shard: uint32(at.Shard), Shards: uint32(at.Shards)}
	switch {
	case a.Outcome != "":
	case r.asked.Query.User == "":
		found.Claims = request.ClaimsToStream([]executor.Claim{a.Claim})
	default:
		found.Claims, found.Next = request.ClaimsToStream(a.Claims), a.Next
	}
	return streampb.Append(b, &streampb.Reply{Id: r.id, Says: &streampb.Reply_Claims{Claims: found}})
}

func (*protobuf) appendGoingAway(b []byte) []byte {
	return streampb.Append(b, &streampb.Reply{Says: &streampb.Reply_GoingAway{GoingAway: &streampb.GoingAway{}}})
}

func (*protobuf) appendProblem(b []byte, id uint64, p *wire.Problem) []byte {
	return streampb.Append(b, &streampb.Reply{Id: id, Says: &streampb.Reply_Problem{Problem: &streampb.Problem{
		Status: uint32(p.Status), Title: p.Title, Detail: p.Detail, Outcome: string(p.Outcome),
	}}})
}
