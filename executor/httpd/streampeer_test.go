package httpd

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor"
)

// party is a process of a sale that others link to.
type party struct {
	hello chan *streampb.Hello
	sale  string
	heard chan *streampb.Request
	gone  chan error
	send  func(*streampb.Reply) error
	shy   bool // refuses
	ends  bool // the stream, at the first message
}

func newParty() *party {
	return &party{hello: make(chan *streampb.Hello, 1), heard: make(chan *streampb.Request, 10_000), gone: make(chan error, 1)}
}

func (p *party) Accept(sale string, hello *streampb.Hello, send func(*streampb.Reply) error) (func(*streampb.Request) bool, func(error)) {
	p.sale, p.send = sale, send
	p.hello <- hello
	if p.shy {
		return nil, nil
	}
	heard := func(r *streampb.Request) bool {
		p.heard <- r
		return !p.ends
	}
	return heard, func(err error) { p.gone <- err }
}

func hello(id string) *streampb.Request {
	return &streampb.Request{Asks: &streampb.Request_Hello{Hello: &streampb.Hello{PeerId: id, Address: "there:2", Version: "v1"}}}
}

// A process that says hello is handed over: each of its messages is heard, in order, and
// what is sent reaches it.
func TestPeers(t *testing.T) {
	p := newParty()
	v := serve(t, New(Config{Sales: []executor.Service{&fake{name: "movie", claim: sells}}, Peers: p}))
	l := listen(t, v, nil)
	l.send(hello("b"))
	if h := <-p.hello; p.sale != "movie" || h.PeerId != "b" || h.Address != "there:2" || h.Version != "v1" {
		t.Errorf("%s says %v", p.sale, h)
	}
	const n = 1000
	for i := range uint64(n) {
		l.send(&streampb.Request{Id: i, Forwarded: true, Asks: &streampb.Request_Peer{Peer: fmt.Append(nil, i)}})
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
	if err := p.send(&streampb.Reply{Id: 9, Says: &streampb.Reply_NotMine{NotMine: &streampb.NotMine{Shard: 1, Owner: "x:1", Epoch: 3}}}); err != nil {
		t.Fatal(err)
	}
	if r := l.hears(); r.Id != 9 || r.GetNotMine().GetEpoch() != 3 {
		t.Errorf("heard %v", r)
	}
	l.CloseSend()
	if err := <-p.gone; err != nil {
		t.Errorf("gone with %v", err)
	}
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
	v := serve(t, New(Config{Sales: []executor.Service{&fake{name: "movie"}}, Peers: p}))
	l := listen(t, v, nil)
	l.send(hello("b"))
	<-p.hello
	l.Abort()
	if err := <-p.gone; err == nil {
		t.Error("a link that was cut ends in good order")
	}
	whole := append(streampb.AppendRequest(nil, hello("c")), 3, 0xff, 0xff, 0xff)
	if all := replies(t, raw(t, v, api.TypeStream, strings.NewReader(string(whole)))); len(all) != 1 || all[0].GetProblem().GetStatus() != 400 {
		t.Errorf("garbage: %v", all)
	}
	<-p.hello
	<-p.gone
}

// TestPeersAreEnded: a stream ends when the one who hears it wants no more.
func TestPeersAreEnded(t *testing.T) {
	p := newParty()
	p.ends = true
	v := serve(t, New(Config{Sales: []executor.Service{&fake{name: "movie"}}, Peers: p}))
	l := listen(t, v, nil)
	l.send(hello("b"))
	<-p.hello
	l.send(claimOf(5, "ada"))
	if err := errors.Join(<-p.gone, <-l.closed); err != nil {
		t.Error(err)
	}
}

// Whoever reads too little loses the link, and sending never waits.
func TestPeersThatDoNotRead(t *testing.T) {
	p := newParty()
	v := serve(t, New(Config{Sales: []executor.Service{&fake{name: "movie"}}, Peers: p}))
	read := make(chan struct{})
	l := listen(t, v, func(c *api.StreamConfig) {
		c.Transport = patient()
		c.Received = func(*streampb.Reply) { <-read }
	})
	l.send(hello("b"))
	<-p.hello
	big := &streampb.Reply{Says: &streampb.Reply_Peer{Peer: make([]byte, 100_000)}}
	var err error
	for range 100 {
		if err = p.send(big); err != nil {
			break
		}
	}
	if !errors.Is(err, errStreamFull) {
		t.Errorf("after 10 MB: %v", err)
	}
	close(read)
	if err := <-p.gone; err == nil {
		t.Error("the link ends in good order")
	}
	if err := <-l.closed; err == nil {
		t.Error("and at the other end")
	}
}

// Who is not let in is told, or loses the stream.
func TestPeersAreRefused(t *testing.T) {
	v := serve(t, New(Config{Sales: []executor.Service{&fake{name: "movie"}}}))
	l := listen(t, v, nil)
	l.send(hello("b"))
	if r := l.hears(); r.GetProblem().GetStatus() != 403 || !strings.Contains(r.GetProblem().Detail, "no streams of other processes") {
		t.Errorf("heard %v", r)
	}
	if err := <-l.closed; err != nil {
		t.Error(err)
	}
	p := newParty()
	p.shy = true
	l = listen(t, serve(t, New(Config{Sales: []executor.Service{&fake{name: "movie"}}, Peers: p})), nil)
	l.send(hello("b"))
	if err := <-l.closed; err != nil {
		t.Error(err)
	}
}

// Links are told that the server goes away, and last until the other process ends them.
func TestPeersDrain(t *testing.T) {
	p := newParty()
	v := serve(t, New(Config{Sales: []executor.Service{&fake{name: "movie"}}, Peers: p, DrainTimeout: time.Hour}))
	l := listen(t, v, nil)
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
