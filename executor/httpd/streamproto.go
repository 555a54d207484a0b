package httpd

import (
	"errors"
	"net/http"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor/httpd/wire"
	"salectl/executor/shard"
)

// protobufForm is the form of messages in protobuf.
type protobufForm struct {
	decoder streampb.Decoder

	// reply is used again for each answer.
	reply  streampb.Reply
	says   streampb.Reply_Answer
	spoken streampb.Answer
	claim  streampb.Claim
}

func (*protobufForm) media() string { return api.TypeStream }

func (*protobufForm) cut(b []byte) (message, rest []byte, f *wire.Fault) {
	message, rest, err := streampb.Cut(b, streampb.MaxMessage)
	switch {
	case errors.Is(err, streampb.ErrTooLong):
		f = &wire.Fault{Status: http.StatusRequestEntityTooLarge, Detail: err.Error()}
	case err != nil:
		f = wire.Malformed("%v", err)
	}
	return message, rest, f
}

func (p *protobufForm) request(message []byte) (*streampb.Request, *wire.Fault) {
	r, err := p.decoder.Request(message)
	if err != nil {
		return nil, wire.Malformed("%v", err)
	}
	return r, nil
}

func (p *protobufForm) answer(b []byte, u *under) []byte {
	a := &p.spoken
	a.Claim = &p.claim
	u.answer.ToStream(a)
	place := u.place()
	a.Owner, a.Shard, a.Shards = place.Owner, uint32(place.Shard), uint32(place.Shards)
	if a.ServerTimeNs = 0; wire.Timed(u.answer.Outcome) {
		a.ServerTimeNs = u.stream.server.now().Wall.UnixNano()
	}
	p.says.Answer = a
	p.reply.Id, p.reply.Says = u.id, &p.says
	return streampb.AppendReply(b, &p.reply)
}

func (p *protobufForm) found(b []byte, u *under) []byte {
	place := u.place()
	found := &streampb.Claims{Outcome: string(u.outcome), Owner: place.Owner, Shard: uint32(place.Shard), Shards: uint32(place.Shards)}
	if u.outcome == "" {
		found.Claims, found.Next = shard.ClaimsToStream(u.claims), u.next
	}
	return streampb.AppendReply(b, &streampb.Reply{Id: u.id, Says: &streampb.Reply_Claims{Claims: found}})
}

func (p *protobufForm) goingAway(b []byte) []byte {
	return streampb.AppendReply(b, &streampb.Reply{Says: &streampb.Reply_GoingAway{GoingAway: &streampb.GoingAway{}}})
}

func (p *protobufForm) problem(b []byte, id uint64, said *wire.Problem) []byte {
	return streampb.AppendReply(b, &streampb.Reply{Id: id, Says: &streampb.Reply_Problem{Problem: &streampb.Problem{
		Status: uint32(said.Status), Title: said.Title, Detail: said.Detail, Outcome: string(said.Outcome),
	}}})
}
