package stream

import (
	"errors"
	"io"

	"salectl/api/streampb"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/wire"
)

var errOver = errors.New("the stream is over")

// link passes the messages of another process on to the sale. The goroutine of the handler uses it.
type link struct {
	*stream
	grant  access.Grant // of the newest hello
	handle func(*streampb.Request) bool
	gone   func()
}

// servePeer hands the stream over to the sale when its first message is a hello.
func (stream *stream) servePeer(body io.Reader) {
	l := &link{stream: stream, grant: stream.grant}
	err := stream.receive(body, l.take)
	if err == io.ErrUnexpectedEOF {
		err = nil // the process has ended it
	}
	stream.end(err)
	if l.gone != nil {
		l.gone()
	}
}

// take takes a message when the process has read enough; false: no more is to be read.
func (link *link) take(message []byte) bool {
	r, err := new(streampb.Decoder).Request(message)
	if err != nil {
		link.refuse(0, wire.Malformed("%v", err))
		return false
	}
	link.awaitRoom()
	hello, ok := r.Kind.(*streampb.Request_Hello)
	switch {
	case link.handle == nil && !ok:
		link.refuse(0, wire.Malformed("hello: missing; the stream of another process of the sale begins with one"))
		return false
	case link.handle == nil:
		link.handle, link.gone = link.sale.Accept(hello.Hello, link.send)
		return link.handle != nil
	case ok:
		link.grant = link.config.Tokens.OfToken(hello.Hello.GetToken())
		return true
	}
	if missing := link.grant.May(access.MayOperate); missing != nil {
		link.refuse(0, missing)
		return false
	}
	return link.handle(r)
}

// send is what the sale sends with.
func (link *link) send(r *streampb.Reply) error {
	link.mu.Lock()
	defer link.mu.Unlock()
	if link.over || link.broken != nil {
		return errOver
	}
	link.outbox.sendLocked(r)
	return nil
}
