package httpd

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor"
	"salectl/executor/httpd/httpdtest"
	"salectl/executor/httpd/stream"
	"salectl/internal/wait"
)

// listener is a client of a stream that keeps what it hears.
type listener struct {
	*api.StreamConn
	t      testing.TB
	heard  chan *streampb.Reply
	closed chan error
}

// listen opens a stream at a server.
func listen(t testing.TB, server string, change func(*api.StreamConfig)) *listener {
	t.Helper()
	l := &listener{t: t, heard: make(chan *streampb.Reply, 100_000), closed: make(chan error, 1)}
	cfg := api.StreamConfig{
		Server: server, Sale: "movie",
		Received: func(r *streampb.Reply) { l.heard <- r }, Closed: func(err error) { close(l.heard); l.closed <- err },
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if l.StreamConn, err = api.DialStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func (l *listener) send(r *streampb.Request) {
	l.t.Helper()
	if err := l.Send(r); err != nil {
		l.t.Fatal(err)
	}
}

func claimOf(id uint64, user string) *streampb.Request {
	return &streampb.Request{Id: id, Kind: &streampb.Request_Claim{Claim: &streampb.NewClaim{User: user, Quantity: 1}}}
}

// hears returns the next message.
func (l *listener) hears() *streampb.Reply {
	l.t.Helper()
	r, ok := <-l.heard
	if !ok {
		l.t.Fatalf("the stream is closed: %v", <-l.closed)
	}
	return r
}

// outcome returns that of the next message, which is the answer to a request.
func (l *listener) outcome(id uint64) string {
	l.t.Helper()
	r := l.hears()
	if r.Id != id || r.GetAnswer() == nil {
		l.t.Fatalf("heard %v, want the answer to %d", r, id)
	}
	return r.GetAnswer().Outcome
}

// everyAnswer returns every answer that an executor may give, by the user who gets it.
func everyAnswer() map[string]executor.Answer {
	sold := httpdtest.SoldTo("ada")
	held := sold
	held.Outcome, held.Claim.State, held.Claim.HeldUntil = api.Held, api.Held, benchTime.Add(time.Minute)
	few := sold
	few.Claim.Requested, few.Replayed = 3, true
	answers := map[string]executor.Answer{
		"sold": sold, "held": held, "few": few,
		"limit":    {Outcome: api.LimitReached, Claims: []executor.Claim{sold.Claim, held.Claim}},
		"expired":  {Outcome: api.Expired, Claim: held.Claim, Message: "it was not paid"},
		"ruled":    {Outcome: api.NotEligible, Rule: "members", Reason: "denied", Message: "Members only."},
		"not-open": {Outcome: api.NotOpen, OpensAt: benchTime, RetryAfter: 90 * time.Second},
		"unknown":  {Outcome: api.Unknown, RetryAfter: time.Second},
		"odd":      {Outcome: "odd"},
	}
	for _, row := range api.Outcomes() {
		if !row.Outcome.Accepted() && row.Outcome != api.Returned { // which answers a return alone
			answers["plain-"+string(row.Outcome)] = executor.Answer{Outcome: row.Outcome}
		}
	}
	return answers
}

// sells answers claims at once.
func sells(_ context.Context, r executor.Request) executor.Answer { return httpdtest.SoldTo(r.User) }

// fill sends claims until no more are taken, and enough says that they should not be. It returns
// how many it has sent.
func (l *listener) fill(enough func() bool) (sent uint64) {
	l.t.Helper()
	full := 0 // polls in a row that sent nothing
	wait.UntilNil(l.t, "the server reads no more", func() error {
		before := sent
		for {
			err := l.TrySend(claimOf(sent+1, "ada"))
			if errors.Is(err, api.ErrStreamFull) {
				break
			}
			if err != nil {
				l.t.Fatal(err)
			}
			sent++
		}
		taken := enough()
		if full++; sent != before || !taken {
			full = 0
		}
		if full < 20 {
			return fmt.Errorf("%d requests sent, %d of them since the last poll; enough of them were taken: %t", sent, sent-before, taken)
		}
		return nil
	})
	return sent
}

// setWriteTimeout replaces the streams of a server that does not serve yet. They end after d if their
// clients read nothing.
func setWriteTimeout(s *Server, d time.Duration) {
	config := s.streamConfig()
	config.WriteTimeout = d
	s.streams = stream.New(config)
}

// prompt answers within Begin.
type prompt struct{ httpdtest.Fake }

func (p *prompt) Begin(r executor.Request, answered func(executor.Answer)) (cancel func()) {
	answered(p.ClaimFunc(context.Background(), r))
	return func() {}
}

// party is a process of a sale that others link to.
type party struct {
	hello chan *streampb.Hello
	heard chan *streampb.Request
	gone  chan struct{}
	send  func(*streampb.Reply) error
	shy   bool // refuses
	ends  bool // the stream, at the first message

	answers func(*streampb.Request) // in place of heard
}

func newParty() *party {
	return &party{hello: make(chan *streampb.Hello, 1), heard: make(chan *streampb.Request, 10_000), gone: make(chan struct{})}
}

func (p *party) Accept(hello *streampb.Hello, send func(*streampb.Reply) error) (func(*streampb.Request) bool, func()) {
	p.send = send
	p.hello <- hello
	if p.shy {
		return nil, nil
	}
	heard := func(r *streampb.Request) bool {
		if p.answers != nil {
			p.answers(r)
			return true
		}
		p.heard <- r
		return !p.ends
	}
	return heard, func() { close(p.gone) }
}

func hello(id string) *streampb.Request {
	return &streampb.Request{Kind: &streampb.Request_Hello{Hello: &streampb.Hello{PeerId: id, Address: "there:2", Version: "v1"}}}
}
