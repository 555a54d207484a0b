package httpd

import (
	"io"

	"salectl/api/streampb"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/wire"
)

// Peers takes streams of other processes of a sale.
type Peers interface {
	// Accept takes the stream of a process, or refuses it with heard nil. heard is called
	// with each of its messages, one after the other, which are the peer's to keep, and
	// ends the stream by returning false. While the process reads too little of what was sent,
	// heard is not called. gone is called once, behind the last of them; the error is nil unless
	// the stream has failed. send has a message sent and never waits: an error says that the
	// stream is over.
	Accept(sale string, hello *streampb.Hello, send func(*streampb.Reply) error) (heard func(*streampb.Request) bool, gone func(error))
}

// link hands the stream over to a process of the sale, as its first message says hello.
func (x *stream) link(body io.Reader) {
	var gone func(error)
	var heard func(*streampb.Request) bool
	err := x.listen(body, func(r *streampb.Request) bool {
		again, ok := r.Asks.(*streampb.Request_Hello)
		switch {
		case heard == nil && !ok:
			x.refuse(0, wire.Malformed("hello: missing; the stream of another process of the sale begins with one"))
			return false
		case heard == nil:
			heard, gone = x.server.peers.Accept(x.sale.name, again.Hello, x.send)
			return heard != nil
		case ok:
			x.by = x.server.tokens.OfToken(again.Hello.GetToken())
			return true
		}
		if missing := x.by.May(access.MayOperate); missing != nil {
			x.say(0, missing)
			return false
		}
		return heard(r)
	})
	x.end(err)
	if gone != nil {
		gone(err)
	}
}

// listen passes on messages until there are no more, or take wants none. A message waits until
// the other process has read enough of what was sent before.
func (x *stream) listen(body io.Reader, take func(*streampb.Request) bool) error {
	buf := make([]byte, 0, 64<<10)
	for {
		rest := buf
		for {
			message, after, f := x.form.cut(rest)
			if f != nil {
				x.refuse(0, f)
				return nil
			}
			if message == nil {
				break
			}
			rest = after
			r, err := new(streampb.Decoder).Request(message)
			if err != nil {
				x.refuse(0, wire.Malformed("%v", err))
				return nil
			}
			x.awaitRoom()
			if !take(r) {
				return nil
			}
		}
		buf = buf[:copy(buf, rest)]
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if n == 0 && (err == io.EOF || err != nil && x.left(err)) {
			return nil
		}
		if n == 0 && err != nil {
			return err
		}
	}
}

// awaitRoom waits while too much waits to be sent.
func (x *stream) awaitRoom() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(x.extra) > mostUnsent && x.broken == nil {
		x.room.Wait()
	}
}

// send is what Peers sends with.
func (x *stream) send(r *streampb.Reply) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over || x.broken != nil {
		return errStreamOver
	}
	if len(x.extra) == 0 {
		x.news.Signal()
	}
	x.extra = streampb.AppendReply(x.extra, r)
	return nil
}
