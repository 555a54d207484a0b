package stream

import (
	"errors"
	"io"
	"os"
	"time"

	"salectl/executor/httpd/wire"
)

// receive passes on messages, with the time at which they were read, until there are no more or take
// returns false. It returns nil if the stream has ended as it should, also since the server goes away;
// io.ErrUnexpectedEOF if it has ended within a message; and else why it is broken.
func (stream *stream) receive(body io.Reader, take func(message []byte, now time.Duration) bool) error {
	buf, n := make([]byte, 32<<10), 0
	for {
		more, err := body.Read(buf[n:])
		now := stream.config.Clock().Mono
		n += more
		rest := buf[:n]
		for {
			message, after, f := stream.codec.next(rest)
			if f != nil {
				stream.say(0, f)
				return nil
			}
			if message == nil {
				break
			}
			rest = after
			if !take(message, now) {
				return nil
			}
		}
		switch {
		case err == io.EOF && len(rest) > 0:
			return io.ErrUnexpectedEOF
		case err == io.EOF || err != nil && stream.hasLeft(err):
			return nil
		case err != nil:
			return err
		}
		if n = copy(buf, rest); n > len(buf)/2 { // a long message
			buf = append(buf, make([]byte, len(buf))...)
		}
	}
}

// hasLeft reports whether reading has ended because the server goes away.
func (stream *stream) hasLeft(err error) bool {
	stream.mu.Lock()
	defer stream.mu.Unlock()
	return stream.late && errors.Is(err, os.ErrDeadlineExceeded)
}

// say sends a problem of a request, or with id 0 of the stream.
func (stream *stream) say(id uint64, p *wire.Problem) {
	stream.awaitRoom() // the client may send faults and read nothing
	stream.mu.Lock()
	defer stream.mu.Unlock()
	stream.extra = stream.codec.appendProblem(stream.extra, id, p)
	stream.news.Signal()
}

// awaitRoom waits while too much waits to be sent.
func (stream *stream) awaitRoom() {
	stream.mu.Lock()
	defer stream.mu.Unlock()
	for len(stream.extra) > maxUnsent && stream.broken == nil {
		stream.room.Wait()
	}
}
