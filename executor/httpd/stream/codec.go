package stream

import (
	"cmp"
	"errors"
	"time"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/backends/clock"
	"salectl/executor"
	"salectl/executor/httpd/wire"
	"salectl/executor/request"
)

// message is a message of a client: a request, unless cancel is set.
type message struct {
	executor.Request
	id       uint64        // 0: missing
	size     int           // bytes of the message, which the strings of the request keep in memory
	timeout  time.Duration // 0: none
	cancel   bool          // the request of this id
	quantity bool          // a claim has a quantity
	wrong    error         // why the request is refused
}

// decode decodes a message; decoder overwrites it at its next use. A problem of a message whose id is
// known concerns that request alone; else it ends the stream.
func decode(decoder *streampb.Decoder, b []byte) (m message, f *wire.Problem) {
	r, err := decoder.Request(b)
	if err != nil {
		return m, wire.Malformed("%v", err)
	}
	known := false
	m.Request, known = request.RequestOf(r)
	m.id, m.size, m.timeout = r.Id, len(b), time.Duration(r.TimeoutMs)*time.Millisecond
	switch kind := r.Kind.(type) {
	case *streampb.Request_Hello:
		m.id = 0
		return m, wire.Malformed("hello: only other processes of the sale send it, on a stream with the header %s", api.PeerHeader)
	case *streampb.Request_Cancel:
		m.cancel, known = true, true
	case *streampb.Request_Query:
		if kind.Query.GetClaim() == nil {
			m.wrong = api.CheckUser(m.Query.User)
		} else if m.Query.User != "" {
			m.wrong = errors.New("query: name either a user or a claim")
		}
	case *streampb.Request_Claim:
		m.quantity = kind.Claim.GetQuantity() > 1
		if len(m.Units) > 0 {
			m.wrong = errors.New("units: only processes of the sale use unit numbers: put the names of the wanted units into names")
		}
	}
	if !known {
		return m, wire.Malformed("the request has no known content: use claim, settle, query or cancel")
	}
	return m, nil
}

// check checks the values of a request.
func (message *message) check() error {
	switch settle := message.Settle; {
	case message.wrong != nil:
		return message.wrong
	case settle != nil && settle.How == api.Refund:
		return errors.New("how: send refunds to the admin address")
	case settle != nil:
		return settle.Check(settle.How)
	case message.Query != nil:
		return message.Query.Page.Check()
	}
	err := cmp.Or(api.CheckUser(message.User), api.CheckQuantity(message.Quantity))
	if len(message.Names) > 0 {
		if f := wire.CheckNamedUnits(&message.Request, message.quantity); f != nil {
			err = cmp.Or(err, errors.New(f.Detail))
		}
	}
	if err == nil && message.Key != "" {
		err = api.CheckKey(message.Key)
	}
	return err
}

// encoder encodes the answers of a writer. Its parts are used again for each.
type encoder struct {
	reply  streampb.Reply
	kind   streampb.Reply_Answer
	answer streampb.Answer
	claim  streampb.Claim
}

// appendAnswer appends the answer to a request.
func (encoder *encoder) appendAnswer(b []byte, r *inflight, at executor.Place, now clock.Clock) []byte {
	a := &encoder.answer
	a.Claim = &encoder.claim
	r.answer.ToStream(a)
	a.Owner, a.Shard, a.Shards = at.Owner, uint32(at.Shard), uint32(at.Shards)
	if a.ServerTimeNs = 0; r.answer.Outcome.Row().Timed {
		a.ServerTimeNs = now().Wall.UnixNano()
	}
	encoder.kind.Answer = a
	encoder.reply.Id, encoder.reply.Kind = r.id, &encoder.kind
	return streampb.Append(b, &encoder.reply)
}
