package stream

import (
	"cmp"
	"errors"
	"mime"
	"net/http"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor"
	"salectl/executor/httpd/wire"
)

// codec is an encoding of messages: protobuf, or lines of JSON. The reader of a stream uses next and
// decode, the writer the others, except that any goroutine may use appendGoingAway and appendProblem.
type codec interface {
	mediaType() string
	// next returns the first message of b and what follows it; nil without a problem: the message
	// is incomplete.
	next(b []byte) (message, rest []byte, f *wire.Problem)
	// decode decodes a message; the next call overwrites the result. A problem of a message whose
	// id is known concerns that request alone; else it ends the stream.
	decode(b []byte) (*message, *wire.Problem)

	appendAnswer(b []byte, r *inflight, at executor.Place) []byte // of a claim or settlement
	appendLookup(b []byte, r *inflight, at executor.Place) []byte
	appendGoingAway(b []byte) []byte
	// appendProblem appends what is wrong with a message or, with id 0, with the stream.
	appendProblem(b []byte, id uint64, p *wire.Problem) []byte
}

// message is a message of a client: a request, unless cancel is set.
type message struct {
	executor.Request
	id       uint64        // 0: missing
	timeout  time.Duration // 0: none
	cancel   bool          // the request of this id
	quantity bool          // a claim has a quantity
	wrong    error         // why the request is refused
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
		if f := wire.NormalizeNames(&message.Request, message.quantity); f != nil {
			err = cmp.Or(err, errors.New(f.Detail))
		}
	}
	if err == nil && message.Key != "" {
		err = api.CheckKey(message.Key)
	}
	return err
}

// codecOf returns the codec that a client has chosen by Content-Type, for messages about a sale.
func codecOf(contentType []string, sale string, now clock.Clock) (codec, *wire.Problem) {
	if len(contentType) == 1 {
		switch media, _, _ := mime.ParseMediaType(contentType[0]); media {
		case api.TypeStream:
			return &protobuf{now: now}, nil
		case api.TypeLines:
			return &lines{sale: sale, now: now}, nil
		}
	}
	return nil, wire.BadRequest(http.StatusUnsupportedMediaType, "Content-Type: must be "+api.TypeStream+" or "+api.TypeLines+", given once")
}
