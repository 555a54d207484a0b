package httpd

import (
	"errors"
	"sync/atomic"
	"testing"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor"
	"salectl/internal/wait"
)

// TestStreamBytes has clients read nothing of large replies: what the server keeps for each of
// them, for their token and for all is bounded, and no reply is lost.
func TestStreamBytes(t *testing.T) {
	t.Run("replies as expected", func(t *testing.T) { testStreamBytes(t, 100, 500) })
	t.Run("larger replies", func(t *testing.T) { testStreamBytes(t, 1000, 20) })
}

func testStreamBytes(t *testing.T, units, asked int) {
	large := make([]executor.Claim, 100)
	for i := range large {
		large[i] = soldTo("ada").Claim
		large[i].Units = make([]int64, units)
	}
	size := bytesOf(large...) + bytesOf(executor.Claim{})
	sale := &fake{name: "movie", user: func(string) ([]executor.Claim, api.Outcome) { return large, "" }}
	s := New(Config{Sales: []executor.Service{sale}, Tokens: tokensOf(t, "one claim\ntwo operate\nthree operate\n")})
	s.memory.most = 40 << 20
	v := serve(t, s)
	read := make(chan struct{})
	look := func(id uint64) *streampb.Request {
		return &streampb.Request{Id: id, Asks: &streampb.Request_User{User: &streampb.User{User: "ada"}}}
	}
	var all []*listener
	heard := make([]int, 6)
	for i := range heard {
		token := []string{"two", "three"}[i%2]
		l := listen(t, v, func(c *api.StreamConfig) {
			c.Token, c.Transport = token, patient()
			c.Received = func(*streampb.Reply) { <-read; heard[i]++ }
		})
		for id := range uint64(asked) {
			l.send(look(id + 1))
		}
		l.CloseSend()
		all = append(all, l)
	}
	same, before := 0, int64(0)
	wait.Until(t, "the server reads no more", func() bool {
		used := s.memory.used.Load()
		if same++; used != before || used == 0 {
			same, before = 0, used
		}
		return same == 20
	})
	beyond := max(0, size-bytesOfUser) // of each reply, which is larger than expected
	if used, most := s.memory.used.Load(), s.memory.most+s.memory.most/bytesOfUser*beyond; used > most || used < s.memory.most/2 {
		t.Errorf("replies of %d bytes are kept, at most %d are to be", used, most)
	}
	for x := range s.openStreams() {
		x.mu.Lock()
		if held := x.held; held > mostOfStream+mostOfStream/bytesOfUser*beyond || beyond > 0 && held%size != 0 {
			t.Errorf("%d bytes are kept for a stream, of replies of %d", held, size)
		}
		x.mu.Unlock()
	}
	close(read)
	for i, l := range all {
		if err := <-l.closed; err != nil || heard[i] != asked {
			t.Errorf("%d of %d replies, and the stream ends with %v", heard[i], asked, err)
		}
	}
	wait.Until(t, "nothing is kept any more", func() bool { return s.memory.used.Load() == 0 })
	for token, m := range s.streams.memory {
		if m.used.Load() != 0 {
			t.Errorf("%d bytes are kept for a token %x", m.used.Load(), token[:2])
		}
	}
}

// A request on a stream waits while those of its token count for too much, and others do not.
func TestReplyMemory(t *testing.T) {
	m := newReplyMemory(100)
	never := func() bool { return false }
	m.take(500, never) // alone
	took := make(chan error, 1)
	go func() { m.take(60, never); took <- nil }()
	wait.Until(t, "a request waits", func() bool { return m.waiting.Load() == 1 })
	select {
	case <-took:
		t.Error("it takes what is not there")
	default:
	}
	m.add(-500)
	<-took
	var over atomic.Bool
	go func() {
		m.take(50, over.Load)
		took <- errors.New("over")
	}()
	wait.Until(t, "another waits", func() bool { return m.waiting.Load() == 1 })
	over.Store(true)
	m.wake()
	<-took
	if used := m.used.Load(); used != 110 { // its stream gives all back
		t.Errorf("%d bytes are taken", used)
	}
}

func (s *Server) openStreams() map[*stream]struct{} {
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	all := make(map[*stream]struct{})
	for x := range s.streams.open {
		all[x] = struct{}{}
	}
	return all
}
