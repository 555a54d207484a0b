package stream

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/backends/clock"
	"salectl/executor"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/httpdtest"
	"salectl/executor/httpd/wire"
	"salectl/executor/request"
	"salectl/internal/wait"
)

// counted is a Sale that counts nothing.
type counted struct{ executor.Service }

func (counted) Removed() bool                             { return false }
func (counted) Count(api.How, api.Outcome, time.Duration) {}

// serve serves streams of one sale to the senders of some tokens, and returns the URL.
func serve(t *testing.T, s *Server, sale executor.Service, tokens string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	httpdtest.WriteFile(t, path, tokens)
	known, err := access.ReadTokens(path, false)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(wire.Handler(func(w http.ResponseWriter, r *http.Request) *wire.Problem {
		return s.Serve(w, r, counted{sale}, known.OfRequest(r))
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

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
	size := sizeOf(large...) + sizeOf(executor.Claim{})
	sale := &httpdtest.Fake{Name: "movie", UserFunc: func(string) ([]executor.Claim, api.Outcome) { return large, "" }}
	s := New(Config{
		Limit: 10, AwaitOpened: func(context.Context) {}, Draining: func() bool { return false },
		ClaimTimeout: time.Hour, DrainTimeout: time.Hour, WriteTimeout: time.Hour, Clock: clock.System(),
	})
	const most = 40 << 20
	s.memory = access.NewMemory(most)
	server := serve(t, s, sale, "one claim\ntwo operate\nthree operate\n")
	read := make(chan struct{})
	look := func(id uint64) *streampb.Request {
		return &streampb.Request{Id: id, Kind: &streampb.Request_Query{Query: &streampb.Query{User: "ada"}}}
	}
	all := make([]chan error, 6)
	heard := make([]int, len(all))
	for i := range heard {
		token := []string{"two", "three"}[i%2]
		all[i] = make(chan error, 1)
		conn, err := api.DialStream(t.Context(), api.StreamConfig{
			Server: server, Sale: "movie", Token: token, Transport: httpdtest.SmallBuffers(),
			Received: func(*streampb.Reply) { <-read; heard[i]++ }, Closed: func(err error) { all[i] <- err },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		for id := range uint64(asked) {
			if err := conn.Send(look(id + 1)); err != nil {
				t.Fatal(err)
			}
		}
		conn.CloseSend()
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
	s.mu.Lock()
	for x := range s.open {
		x.mu.Lock()
		if held := x.requests.bytes; held > maxBytes+maxBytes/bytesOfUser*beyond || beyond > 0 && held%size != 0 {
			t.Errorf("%d bytes are kept for a stream, of replies of %d", held, size)
		}
		x.mu.Unlock()
	}
	s.mu.Unlock()
	close(read)
	for i, closed := range all {
		if err := <-closed; err != nil || heard[i] != asked {
			t.Errorf("%d of %d replies, and the stream ends with %v", heard[i], asked, err)
		}
	}
	wait.Until(t, "nothing is kept any more", func() bool { return s.memory.InUse() == 0 })
	for token, m := range s.byTokens {
		if m.InUse() != 0 {
			t.Errorf("%d bytes are kept for a token %x", m.InUse(), token[:2])
		}
	}
}

// TestReplyBytesOfPages: a stream reserves for a look-up as much as the largest page without payloads
// takes.
func TestReplyBytesOfPages(t *testing.T) {
	largest := func(due int) executor.Claim {
		b := &api.Books{Who: strings.Repeat("w", api.MaxWho), Why: strings.Repeat("r", api.MaxReason), Payment: strings.Repeat("p", api.MaxPayment)}
		for range due {
			b.RefundDue = append(b.RefundDue, strings.Repeat("p", api.MaxPayment))
		}
		return executor.Claim{Units: make([]int64, api.MaxQuantity), Books: b}
	}
	for _, limit := range []int{0, 1, 10, 11, api.MaxPage} {
		r := &executor.Request{Query: &executor.Query{Page: api.Page{Limit: limit}}}
		if size, reserved := sizeOf(executor.Claim{}, largest(max(limit, api.DefaultRefunds))), likelySize(r); size > reserved {
			t.Errorf("a claim with %d refunds due has %d bytes, %d are reserved", limit, size, reserved)
		}
	}
	// A page of claims has request.PageBytes: see peers.TestPages.
	if size, reserved := request.PageBytes+sizeOf(executor.Claim{}), likelySize(&executor.Request{Query: &executor.Query{User: "u"}}); size > reserved {
		t.Errorf("a page has %d bytes, %d are reserved", size, reserved)
	}
}
