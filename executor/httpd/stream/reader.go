package stream

import (
	"errors"
	"io"
	"os"
	"time"

	"salectl/api"
	"salectl/executor/httpd/wire"
)

// receive passes on messages, with the time at which they were read, until there are no more or take
// returns false. It returns nil if the stream has ended as it should, also since the server goes away;
// io.ErrUnexpectedEOF if it has ended within a message; and else why it is broken.
func (s *stream) receive(body io.Reader, take func(message []byte, now time.Duration) bool) error {
	buf, n := make([]byte, 32<<10), 0
	for {
		more, err := body.Read(buf[n:])
		now := s.config.Clock().Mono
		n += more
		rest := buf[:n]
		for {
			message, after, f := s.codec.next(rest)
			if f != nil {
				s.refuse(0, f)
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
		case err == io.EOF || err != nil && s.hasLeft(err):
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
func (s *stream) hasLeft(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.late && errors.Is(err, os.ErrDeadlineExceeded)
}

// refuse sends what is wrong with a request, or with id 0 with the stream.
func (s *stream) refuse(id uint64, f *wire.Fault) {
	p := wire.ProblemOf(api.BadRequest)
	p.Status, p.Detail = f.Status, f.Detail
	s.say(id, &p)
}

// say sends a problem of a request, or with id 0 of the stream.
func (s *stream) say(id uint64, p *wire.Problem) {
	s.awaitRoom() // the client may send faults and read nothing
	s.mu.Lock()
	defer s.mu.Unlock()
	s.extra = s.codec.appendProblem(s.extra, id, p)
	s.news.Signal()
}

// awaitRoom waits while too much waits to be sent.
func (s *stream) awaitRoom() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.extra) > maxUnsent && s.broken == nil {
		s.room.Wait()
	}
}
