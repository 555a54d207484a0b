package httpd

import (
	"fmt"
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

// link is listen for another process of the sale.
func link(t *testing.T, server string, change func(*api.StreamConfig)) *listener {
	t.Helper()
	return listen(t, server, func(c *api.StreamConfig) {
		c.Peer = true
		if change != nil {
			change(c)
		}
	})
}

// A process that says hello is handed over: each of its messages is heard, in order, and
// what is sent reaches it.
func TestPeers(t *testing.T) {
	p := newParty()
	v := serve(t, New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie", ClaimFunc: sells, AcceptFunc: p.Accept}}}))
	l := link(t, v.url, nil)
	l.send(hello("b"))
	if h := <-p.hello; h.PeerId != "b" || h.Address != "there:2" || h.Version != "v1" {
		t.Errorf("the sale hears %v", h)
	}
	const n = 1000
	for i := range uint64(n) {
		l.send(&streampb.Request{Id: i, Forwarded: true, Kind: &streampb.Request_Peer{Peer: fmt.Append(nil, i)}})
	}
	var all []*streampb.Request
	for range n {
		all = append(all, <-p.heard)
	}
	for i, r := range all { // they are the peer's to keep
		if r.Id != uint64(i) || !r.Forwarded || string(r.GetPeer()) != fmt.Sprint(i) {
			t.Fatalf("the message %d is %v", i, r)
		}
	}
	l.send(claimOf(5, "ada"))
	if r := <-p.heard; r.GetClaim().GetUser() != "ada" {
		t.Errorf("a claim comes as %v", r)
	}
	if err := p.send(&streampb.Reply{Id: 9, Kind: &streampb.Reply_Answer{Answer: &streampb.Answer{Owner: "x:1", Epoch: 3}}}); err != nil {
		t.Fatal(err)
	}
	if r := l.hears(); r.Id != 9 || r.GetAnswer().GetEpoch() != 3 {
		t.Errorf("heard %v", r)
	}
	l.CloseSend()
	<-p.gone
	if err := <-l.closed; err != nil {
		t.Errorf("closed with %v", err)
	}
	if p.send(&streampb.Reply{}) == nil {
		t.Error("it may send over a stream that is over")
	}
}

// A link ends with its connection, and by garbage.
func TestPeersLoseTheirLink(t *testing.T) {
	p := newParty()
	v := serve(t, New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie", AcceptFunc: p.Accept}}}))
	l := link(t, v.url, nil)
	l.send(hello("b"))
	<-p.hello
	l.Abort()
	<-p.gone
	p.gone = make(chan struct{})
	whole := append(streampb.Append(nil, hello("c")), 3, 0xff, 0xff, 0xff)
	if all := replies(t, raw(t, v, api.TypeStream, strings.NewReader(string(whole)), api.PeerHeader)); len(all) != 1 || all[0].GetProblem().GetStatus() != 400 {
		t.Errorf("garbage: %v", all)
	}
	<-p.hello
	<-p.gone
}

// TestPeersAreEnded: a stream ends when the one who hears it wants no more.
func TestPeersAreEnded(t *testing.T) {
	p := newParty()
	p.ends = true
	v := serve(t, New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie", AcceptFunc: p.Accept}}}))
	l := link(t, v.url, nil)
	l.send(hello("b"))
	<-p.hello
	l.send(claimOf(5, "ada"))
	<-p.gone
	if err := <-l.closed; err != nil {
		t.Error(err)
	}
}

// A peer that does not read its replies is not read from either. Its link lasts, and nothing is
// lost.
func TestPeersThatDoNotRead(t *testing.T) {
	const maxUnsent = 4 << 20 // before nothing more is read
	p := newParty()
	s := New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie", AcceptFunc: p.Accept}}})
	setWriteTimeout(s, time.Hour)
	v := serve(t, s)
	var taken atomic.Uint64
	big := make([]byte, 10_000)
	p.answers = func(r *streampb.Request) {
		taken.Add(1)
		if err := p.send(&streampb.Reply{Id: r.Id, Kind: &streampb.Reply_Peer{Peer: big}}); err != nil {
			t.Errorf("a reply cannot be sent: %v", err)
		}
	}
	read, heard := make(chan struct{}), uint64(0)
	release := sync.OnceFunc(func() { close(read) })
	l := link(t, v.url, func(c *api.StreamConfig) {
		c.Transport = httpdtest.SmallBuffers()
		c.Received = func(*streampb.Reply) { <-read; heard++ }
	})
	t.Cleanup(release) // before the client closes the stream, which waits for Received
	l.send(hello("b"))
	<-p.hello
	sent := l.fill(func() bool { return taken.Load()*uint64(len(big)) > maxUnsent })
	// The writer has some of it in hand, and the windows of HTTP/2 have some.
	if n := taken.Load(); n*uint64(len(big)) > 2*maxUnsent+1<<20 || n >= sent {
		t.Errorf("%d of %d requests were taken in", n, sent)
	}
	release()
	l.CloseSend()
	<-p.gone
	if err := <-l.closed; err != nil || heard != sent {
		t.Errorf("%d of %d replies, and the stream ends with %v", heard, sent, err)
	}
}

// The streams of clients take none from other processes of the sale.
func TestPeersHaveStreamsOfTheirOwn(t *testing.T) {
	p := newParty()
	v := serve(t, New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie", ClaimFunc: sells, AcceptFunc: p.Accept}}, Streams: 1}))
	client := listen(t, v.url, nil)
	if _, err := api.DialStream(t.Context(), api.StreamConfig{Server: v.url, Sale: "movie", Received: func(*streampb.Reply) {}}); err == nil || !strings.Contains(err.Error(), "429") {
		t.Errorf("a second client: %v", err)
	}
	l := link(t, v.url, nil)
	l.send(hello("b"))
	<-p.hello
	l.CloseSend()
	<-p.gone
	if err := <-l.closed; err != nil {
		t.Error(err)
	}
	client.send(claimOf(1, "ada"))
	if said := client.outcome(1); said != "sold" {
		t.Errorf("the client hears %s", said)
	}
	// And a stream of a client is none of a peer's.
	client.send(hello("c"))
	if r := client.hears(); r.GetProblem().GetStatus() != 400 || !strings.Contains(r.GetProblem().Detail, "hello") {
		t.Errorf("heard %v", r)
	}
	l = link(t, v.url, nil)
	l.send(claimOf(1, "ada"))
	if r := l.hears(); r.GetProblem().GetStatus() != 400 || !strings.Contains(r.GetProblem().Detail, "hello") {
		t.Errorf("heard %v", r)
	}
}

// A refused peer loses its stream.
func TestPeersAreRefused(t *testing.T) {
	p := newParty()
	p.shy = true
	l := link(t, serve(t, New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie", AcceptFunc: p.Accept}}})).url, nil)
	l.send(hello("b"))
	if err := <-l.closed; err != nil {
		t.Error(err)
	}
}

// Links are told that the server goes away, and last until the other process ends them.
func TestPeersDrain(t *testing.T) {
	p := newParty()
	v := serve(t, New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie", AcceptFunc: p.Accept}}, DrainTimeout: time.Hour}))
	l := link(t, v.url, nil)
	l.send(hello("b"))
	<-p.hello
	v.end()
	if r := l.hears(); r.GetGoingAway() == nil {
		t.Fatalf("heard %v", r)
	}
	l.send(claimOf(1, "ada"))
	if r := <-p.heard; r.Id != 1 {
		t.Errorf("heard %v", r)
	}
	l.CloseSend()
	<-p.gone
	if <-v.done; v.err != nil {
		t.Errorf("Serve: %v", v.err)
	}
}
