// Package streampb has the messages of a stream of a sale: Go code for stream.proto, and
// the framing of its messages.
//
// After a change to stream.proto run go generate here. It needs protoc 3.21 or later and, on
// the PATH, the plugins of the versions that the generated files name: protoc-gen-go (go install
// google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11) and protoc-gen-go-vtproto (go install
// github.com/planetscale/vtprotobuf/cmd/protoc-gen-go-vtproto@v0.6.0). The code of the latter
// takes a tenth of the time of proto.Marshal and a third of that of proto.Unmarshal. It does not
// check that texts are UTF-8: package api checks those of requests.
package streampb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

//go:generate protoc --proto_path=../.. --go_out=../.. --go_opt=paths=source_relative --go-vtproto_out=../.. --go-vtproto_opt=paths=source_relative,features=marshal+unmarshal_unsafe+size+pool,pool=salectl/api/streampb.NewClaim,pool=salectl/api/streampb.Answer,pool=salectl/api/streampb.Claim,pool=salectl/api/streampb.ClaimID api/streampb/stream.proto

// Maximum sizes in bytes of a message to a server, and of a server's: a user may have many
// claims.
const (
	MaxMessage = 64 << 10
	MaxReply   = 16 << 20
)

// Append appends a length-prefixed message, a *Request or a *Reply.
func Append(b []byte, m interface {
	SizeVT() int
	MarshalToSizedBufferVT(b []byte) (int, error)
}) []byte {
	size := m.SizeVT()
	b = slices.Grow(binary.AppendUvarint(b, uint64(size)), size)
	b = b[:len(b)+size]
	if _, err := m.MarshalToSizedBufferVT(b[len(b)-size:]); err != nil {
		panic(err) // the message was changed meanwhile
	}
	return b
}

// ErrTooLong reports a message above its maximum size, ErrNoLength that none begins where one must.
var (
	ErrTooLong  = errors.New("the message is too long")
	ErrNoLength = errors.New("there is no length where a message is to begin")
)

// Cut splits the first message off b, without its length. Without an error, nil means that the
// message is incomplete.
func Cut(b []byte, most int) (message, rest []byte, err error) {
	n, size := binary.Uvarint(b)
	switch {
	case size < 0 || size == 0 && len(b) >= binary.MaxVarintLen64:
		return nil, b, ErrNoLength
	case size > 0 && n > uint64(most):
		return nil, b, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrTooLong, n, most)
	case size == 0 || uint64(len(b)-size) < n:
		return nil, b, nil
	}
	end := size + int(n)
	return b[size:end:end], b[end:], nil
}

// Reader reads the messages of a stream.
type Reader struct {
	in   io.Reader
	most int
	buf  []byte
	rest []byte // the part of buf that is not returned yet
	err  error  // of in
}

// NewReader returns a Reader of messages of at most a size in bytes.
func NewReader(in io.Reader, most int) *Reader {
	return &Reader{in: in, most: most, buf: make([]byte, 32<<10)}
}

// Next returns the next message, without its length. It is overwritten by the next call. The error is
// one of Cut or of the input: io.EOF at its end, io.ErrUnexpectedEOF if that is within a message.
func (r *Reader) Next() (message []byte, err error) {
	for {
		if message, r.rest, err = Cut(r.rest, r.most); message != nil || err != nil {
			return message, err
		}
		switch {
		case r.err == io.EOF && len(r.rest) > 0:
			return nil, io.ErrUnexpectedEOF
		case r.err != nil:
			return nil, r.err
		}
		n := copy(r.buf, r.rest)
		if n > len(r.buf)/2 { // a long message
			r.buf = append(r.buf, make([]byte, len(r.buf))...)
		}
		more := 0
		more, r.err = r.in.Read(r.buf[n:])
		r.rest = r.buf[:n+more]
	}
}

// Decoder decodes messages in sequence. A result is overwritten by the next one, except for
// its strings, which share one copy of the message. The zero value is ready to use.
type Decoder struct {
	request  Request
	claim    Request_Claim // the kind of most requests, used again
	newClaim NewClaim

	reply     Reply
	answer    Reply_Answer // the kind of most replies, used again
	newAnswer Answer
}

var errMalformed = errors.New("the message is not a protobuf message of the stream")

// Request decodes a message to a server.
func (d *Decoder) Request(b []byte) (*Request, error) {
	d.request.Reset()
	d.newClaim.ResetVT()
	d.claim.Claim = &d.newClaim
	d.request.Kind = &d.claim // UnmarshalVTUnsafe puts a claim into it, and replaces it by any other kind
	b = bytes.Clone(b)
	err := d.request.UnmarshalVTUnsafe(b)
	if d.request.Kind == &d.claim && d.newClaim.User == "" { // perhaps the message has no kind
		d.request.Reset()
		err = d.request.UnmarshalVTUnsafe(b)
	}
	if err != nil {
		return nil, errMalformed
	}
	return &d.request, nil
}

// Reply decodes a message of a server.
func (d *Decoder) Reply(b []byte) (*Reply, error) {
	d.reply.Reset()
	d.newAnswer.ResetVT()
	d.answer.Answer = &d.newAnswer
	d.reply.Kind = &d.answer // as for requests
	b = bytes.Clone(b)
	err := d.reply.UnmarshalVTUnsafe(b)
	if a := &d.newAnswer; d.reply.Kind == &d.answer && a.Outcome == "" && a.Claim == nil && len(a.Claims) == 0 {
		d.reply.Reset()
		err = d.reply.UnmarshalVTUnsafe(b)
	}
	if err != nil {
		return nil, errMalformed
	}
	return &d.reply, nil
}
