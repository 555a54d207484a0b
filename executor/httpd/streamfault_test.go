package httpd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor"
	"salectl/executor/httpd/httpdtest"
)

// raw opens a stream whose bytes are the test's. It returns all of the answer.
func raw(t *testing.T, v *serving, contentType string, body io.Reader, headers ...string) string {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), "POST", v.url+api.StreamPath("movie"), body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	for _, h := range headers {
		r.Header.Set(h, "true")
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("the answer ends with %v", err)
	}
	return string(said)
}

// replies takes an answer of protobuf apart.
func replies(t *testing.T, said string) (all []*streampb.Reply) {
	t.Helper()
	for rest := []byte(said); len(rest) > 0; {
		message, after, err := streampb.Cut(rest, streampb.MaxReply)
		if err != nil || message == nil {
			t.Fatalf("the answer is cut short: %v", err)
		}
		r, err := new(streampb.Decoder).Reply(message)
		if err != nil {
			t.Fatal(err)
		}
		all, rest = append(all, r), after
	}
	return all
}

// endless is the body of a client that goes on to send.
type endless struct{ io.Reader }

func (e endless) Read(b []byte) (int, error) {
	if n, err := e.Reader.Read(b); n > 0 || err != io.EOF {
		return n, nil
	}
	for i := range b { // large frames: a server ends a connection for too many small ones on a closed stream
		b[i] = 'x'
	}
	return len(b), nil
}

// What cannot be taken apart ends the stream, after the answers to what came before.
func TestStreamOfGarbage(t *testing.T) {
	v := serve(t, New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie", ClaimFunc: sells}}}))
	good := streampb.Append(nil, claimOf(7, "ada"))
	for name, c := range map[string]struct {
		bytes  []byte
		status uint32
		detail string
	}{
		"no length":           {bytes.Repeat([]byte{0xff}, 20), 400, "no length"},
		"too long":            {append([]byte{0x81, 0x80, 0x04}, make([]byte, 100)...), 413, "65537 bytes, at most 65536"},
		"no protobuf":         {[]byte{3, 0xff, 0xff, 0xff}, 400, "not a protobuf"},
		"no id":               {streampb.Append(nil, claimOf(0, "ada")), 400, "id: missing"},
		"a late hello":        {streampb.Append(nil, &streampb.Request{Kind: &streampb.Request_Hello{Hello: &streampb.Hello{}}}), 400, "hello"},
		"cut within a number": {[]byte{0x80}, 400, "within a message"},
	} {
		for _, goesOn := range []bool{false, true} {
			if name == "cut within a number" && goesOn {
				continue
			}
			var body io.Reader = bytes.NewReader(append(bytes.Clone(good), c.bytes...))
			if goesOn {
				body = endless{body}
			}
			all := replies(t, raw(t, v, api.TypeStream, body))
			if len(all) != 2 {
				t.Errorf("%s: %v", name, all)
				continue
			}
			if all[0].Id == 0 {
				all[0], all[1] = all[1], all[0]
			}
			if p := all[1].GetProblem(); all[0].GetAnswer().GetOutcome() != "sold" || p.GetStatus() != c.status || !strings.Contains(p.GetDetail(), c.detail) {
				t.Errorf("%s: %v, want %d %s", name, all, c.status, c.detail)
			}
		}
	}
}

// cutting is a transport whose connections a test cuts.
func cutting(cut chan<- net.Conn) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: protocols, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			cut <- c
		}
		return c, err
	}}
}

// Where the connection is cut, what is under way is given up and the client hears of it.
func TestStreamIsCut(t *testing.T) {
	gone := make(chan error, 2)
	g := &httpdtest.Fake{Name: "movie", ClaimFunc: func(ctx context.Context, _ executor.Request) executor.Answer {
		gone <- nil
		<-ctx.Done()
		gone <- ctx.Err()
		return executor.Answer{Outcome: api.Unknown}
	}}
	v := serve(t, New(Config{Sales: []executor.Service{g}, ClaimTimeout: time.Hour}))
	conns := make(chan net.Conn, 1)
	l := listen(t, v.url, func(c *api.StreamConfig) { c.Transport = cutting(conns) })
	l.send(claimOf(1, "ada"))
	<-gone
	(<-conns).Close()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the claim's context ended with %v", err)
	}
	if err := <-l.closed; err == nil {
		t.Error("the client takes the stream for ended")
	}
	v.end()
	if <-v.done; v.err != nil {
		t.Errorf("Serve: %v", v.err)
	}
}

// A stream is read no further while it has 8192 requests without an answer, or with an answer that the
// client has not read. Nothing is lost.
func TestStreamBackpressure(t *testing.T) {
	const inFlight = 8192 // at most, of a stream
	sale := &keeping{Fake: httpdtest.Fake{Name: "movie"}}
	s := New(Config{Sales: []executor.Service{sale}})
	setWriteTimeout(s, time.Hour)
	v := serve(t, s)
	read := make(chan struct{})
	release := sync.OnceFunc(func() { close(read) })
	heard := make(map[uint64]bool)
	l := listen(t, v.url, func(c *api.StreamConfig) {
		c.Transport = httpdtest.SmallBuffers()
		c.Received = func(r *streampb.Reply) { <-read; heard[r.Id] = true }
	})
	t.Cleanup(release) // before the client closes the stream, which waits for Received
	// No answer is sent meanwhile: HTTP/2 sends no window for requests behind an answer that has no window.
	sent := l.fill(func() bool { return sale.begun.Load() >= inFlight })
	if n := sale.begun.Load(); n != inFlight || sent <= inFlight {
		t.Errorf("%d of %d requests were taken in, want %d", n, sent, inFlight)
	}
	sale.answerAll()
	// A few answers are gone to where the client has room for them, and no others.
	if n := sale.begun.Load(); n > inFlight+(256<<10)/40 {
		t.Errorf("%d requests were taken in while no answer was read", n)
	}
	release()
	l.CloseSend()
	if err := <-l.closed; err != nil || uint64(len(heard)) != sent {
		t.Errorf("%d of %d answers, and the stream ends with %v", len(heard), sent, err)
	}
}

// keeping keeps its requests until answerAll, and answers within Begin from then on.
type keeping struct {
	httpdtest.Fake
	begun atomic.Int64

	mu   sync.Mutex
	kept []func() // nil after answerAll
	open bool
}

func (k *keeping) Begin(r executor.Request, answered func(executor.Answer)) (cancel func()) {
	k.begun.Add(1)
	answer := func() { answered(httpdtest.SoldTo(r.User)) }
	k.mu.Lock()
	open := k.open
	if !open {
		k.kept = append(k.kept, answer)
	}
	k.mu.Unlock()
	if open {
		answer()
	}
	return func() {}
}

func (k *keeping) answerAll() {
	k.mu.Lock()
	all := k.kept
	k.kept, k.open = nil, true
	k.mu.Unlock()
	for _, answer := range all {
		answer()
	}
}

// A client that reads nothing for too long loses its stream.
func TestStreamStalls(t *testing.T) {
	sale := &prompt{httpdtest.Fake{Name: "movie", ClaimFunc: sells}}
	s := New(Config{Sales: []executor.Service{sale}})
	setWriteTimeout(s, time.Millisecond)
	v := serve(t, s)
	read := make(chan struct{})
	l := listen(t, v.url, func(c *api.StreamConfig) {
		c.Transport = httpdtest.SmallBuffers()
		c.Received = func(r *streampb.Reply) { <-read }
	})
	for id := uint64(1); l.Send(claimOf(id, fmt.Sprint("user-", id))) == nil; id++ {
	}
	close(read)
	if err := <-l.closed; err == nil {
		t.Error("the stream ends in good order")
	}
}

// A server that goes away says so, answers what is under way, and takes nothing more.
func TestStreamDrains(t *testing.T) {
	g := newGate()
	v := serve(t, New(Config{Sales: []executor.Service{g}}))
	l := listen(t, v.url, nil)
	l.send(claimOf(1, "ada"))
	<-g.inside
	v.end()
	if r := l.hears(); r.Id != 0 || r.GetGoingAway() == nil {
		t.Fatalf("heard %v, want that the server goes away", r)
	}
	l.send(claimOf(2, "bob"))
	if got := l.outcome(2); got != "draining" {
		t.Errorf("a new request got %s", got)
	}
	close(g.open)
	if got := l.outcome(1); got != "sold" {
		t.Errorf("what was under way got %s", got)
	}
	l.CloseSend()
	if err := <-l.closed; err != nil {
		t.Errorf("the stream ends with %v", err)
	}
	if <-v.done; v.err != nil {
		t.Errorf("Serve: %v", v.err)
	}
}

// A stream that begins when all were told that the server goes away is told, too, also where
// peers decide on what comes still.
func TestStreamBeginsLate(t *testing.T) {
	s := New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie", ClaimFunc: sells}}})
	v := serve(t, s)
	s.Retired()
	s.streams.GoAway(nil)
	l := listen(t, v.url, nil)
	if r := l.hears(); r.GetGoingAway() == nil {
		t.Fatalf("heard %v", r)
	}
	if err := <-l.closed; err != nil {
		t.Errorf("the stream ends with %v", err)
	}
}

// A client that does not end its stream does not keep the server.
func TestStreamIsLeft(t *testing.T) {
	v := serve(t, New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie", ClaimFunc: sells}}}))
	l := listen(t, v.url, nil)
	v.end()
	if r := l.hears(); r.GetGoingAway() == nil {
		t.Fatalf("heard %v", r)
	}
	if err := <-l.closed; err != nil {
		t.Errorf("the stream ends with %v", err)
	}
	if <-v.done; v.err != nil {
		t.Errorf("Serve: %v", v.err)
	}
}
