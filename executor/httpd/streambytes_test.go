package httpd

import (
	"testing"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/httpdtest"
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
		large[i] = httpdtest.SoldTo("ada").Claim
		large[i].Units = make([]int64, units)
	}
	size := bytesOf(large...) + bytesOf(executor.Claim{})
	sale := &httpdtest.Fake{Name: "movie", UserFunc: func(string) ([]executor.Claim, api.Outcome) { return large, "" }}
	s := New(Config{Sales: []executor.Service{sale}, Tokens: tokensOf(t, "one claim\ntwo operate\nthree operate\n")})
	const most = 40 << 20
	s.memory = access.NewMemory(most)
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
		used := s.memory.InUse()
		if same++; used != before || used == 0 {
			same, before = 0, used
		}
		return same == 20
	})
	beyond := max(0, size-bytesOfUser) // of each reply, which is larger than expected
	if used, limit := s.memory.InUse(), int64(most+most/bytesOfUser*beyond); used > limit || used < most/2 {
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
	wait.Until(t, "nothing is kept any more", func() bool { return s.memory.InUse() == 0 })
	for token, m := range s.streams.memory {
		if m.InUse() != 0 {
			t.Errorf("%d bytes are kept for a token %x", m.InUse(), token[:2])
		}
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
