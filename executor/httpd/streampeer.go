package httpd

import (
	"io"
	"net/http"

	"salectl/api/streampb"
)

// Peers takes streams of other processes of a sale.
type Peers interface {
	// Accept takes the stream of a process, or refuses it with heard nil. heard is called
	// with each of its messages, one after the other, which are the peer's to keep, and
	// ends the stream by returning false. gone is called once, behind the last of them; the
	// error is nil unless the stream has failed. send has a message sent and never waits: an error says that the stream is
	// over, or that the process reads too little, which ends it.
	Accept(sale string, hello *streampb.Hello, send func(*streampb.Reply) error) (heard func(*streampb.Request) bool, gone func(error))
}

// link hands the stream over to a process of the sale. rest is what was read already.
func (x *stream) link(hello *streampb.Hello, body io.Reader, rest []byte) {
	if missing := x.by.may(MayOperate); missing != nil {
		x.say(0, missing)
		x.end(nil)
		return
	}
	protobuf, ok := x.form.(*protobufForm)
	if !ok || x.server.peers == nil {
		x.say(0, &problem{status: http.StatusForbidden, title: "Forbidden",
			detail: "hello: this server takes no streams of other processes of the sale here. A client's first message is a request."})
		x.end(nil)
		return
	}
	x.mu.Lock()
	x.linked = true
	x.mu.Unlock()
	heard, gone := x.server.peers.Accept(x.sale.name, hello, x.send)
	if heard == nil {
		x.end(nil)
		return
	}
	err := x.listen(protobuf, body, rest, heard)
	x.end(err)
	if gone != nil {
		gone(err)
	}
}

// listen passes on messages until there are no more, or the token of the other process is
// good no more. A process that has another token by then has shown it before, so that a
// rotation cuts no link.
func (x *stream) listen(p *protobufForm, body io.Reader, rest []byte, heard func(*streampb.Request) bool) error {
	buf := append(make([]byte, 0, 64<<10), rest...)
	for {
		rest := buf
		for {
			message, after, f := p.cut(rest)
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
				x.refuse(0, malformed("%v", err))
				return nil
			}
			if again, ok := r.Asks.(*streampb.Request_Hello); ok {
				x.by = x.server.accessBy(again.Hello.GetToken())
				continue
			}
			if missing := x.by.may(MayOperate); missing != nil {
				x.say(0, missing)
				return nil
			}
			if !heard(r) {
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

// send is what Peers sends with.
func (x *stream) send(r *streampb.Reply) error {
	x.mu.Lock()
	if x.over || x.broken != nil {
		x.mu.Unlock()
		return errStreamOver
	}
	if len(x.extra) > mostUnsent {
		x.mu.Unlock()
		x.end(errStreamFull)
		return errStreamFull
	}
	if len(x.extra) == 0 {
		x.news.Signal()
	}
	x.extra = streampb.AppendReply(x.extra, r)
	x.mu.Unlock()
	return nil
}
