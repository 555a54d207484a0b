// Package links carries what the processes of a sale ask and tell each other over the
// stream that clients use too: requests as any client sends them, marked as forwarded, and
// between them what executor.Tell says, as JSON.
//
// A process makes a link to each of its peers. On it go its own requests and what it has
// to tell; the answers come back on the same. So between two processes there are two.
package links

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor"
	"salectl/executor/shard"
)

// Config is what links are made with.
type Config struct {
	Sale      string
	Token     func() string     // what is shown to other processes, now; nil, "": nothing
	Transport http.RoundTripper // speaks HTTP/2; nil: a usual one

	// TLS is, for each link that is made, whom it believes and what it proves itself with;
	// nil: as by api.StreamConfig.
	TLS func() *tls.Config
	// Secure: the token is shown over TLS alone. Whoever writes to the lock nodes could else
	// have it sent anywhere.
	Secure bool

	Log *slog.Logger
}

// Dialer returns what makes links to peers.
func Dialer(c Config) executor.Dial {
	refused := &refusals{log: c.Log.With("sale", c.Sale), by: make(map[string]string)}
	return func(ctx context.Context, from, to executor.Peer, hear executor.Hearing) (executor.Link, error) {
		l := &link{hear: hear, token: c.Token, refused: func(why string) { refused.tell(to.Address, why) }}
		token := l.now()
		l.shown.Store(&token)
		base := api.BaseURL(to.Address)
		if c.Secure && !strings.HasPrefix(base, "https://") {
			l.refused(errPlain.Error())
			return nil, errPlain
		}
		var over *tls.Config
		if c.TLS != nil {
			over = c.TLS()
		}
		conn, err := api.DialStream(ctx, api.StreamConfig{
			Server: base, Sale: c.Sale, Token: token, Transport: c.Transport, TLS: over,
			Received: l.received, Closed: hear.Closed,
		})
		if err != nil {
			if reason := refusal(err); reason != "" {
				l.refused(reason)
			}
			return nil, err
		}
		context.AfterFunc(ctx, conn.Abort)
		l.conn = conn
		hello := &streampb.Hello{ToId: to.ID, PeerId: from.ID, Address: from.Address, Version: from.Version}
		if err := conn.Send(&streampb.Request{Asks: &streampb.Request_Hello{Hello: hello}}); err != nil {
			conn.Abort()
		}
		return l, nil
	}
}

// link is the way to one peer.
type link struct {
	conn  *api.StreamConn
	hear  executor.Hearing
	token func() string

	refused func(why string) // logs why the peer takes nothing

	shown atomic.Pointer[string] // the token that the peer has seen last
}

// Ask is executor.Link's.
func (l *link) Ask(e shard.Errand) bool { return l.send(requestOf(e)) }

// Tell is executor.Link's.
func (l *link) Tell(t *executor.Tell) bool {
	text, err := json.Marshal(t)
	return err == nil && l.send(&streampb.Request{Asks: &streampb.Request_Peer{Peer: text}})
}

// now is the token of now.
func (l *link) now() string {
	if l.token == nil {
		return ""
	}
	return l.token()
}

// send sends a message, and before it the token, if that is another one since.
func (l *link) send(r *streampb.Request) bool {
	if now := l.now(); now != *l.shown.Load() {
		if l.conn.TrySend(&streampb.Request{Asks: &streampb.Request_Hello{Hello: &streampb.Hello{Token: now}}}) != nil {
			return false
		}
		l.shown.Store(&now) // not before: nobody else is to send anything that comes first
	}
	return l.conn.TrySend(r) == nil
}

// refusals logs of each peer once why it takes no links: they are tried again and again.
type refusals struct {
	log *slog.Logger

	mu sync.Mutex
	by map[string]string // the reason that was logged last, by address
}

func (r *refusals) tell(address, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by[address] != why {
		r.by[address] = why
		r.log.Warn("another process of the sale takes no link from this one", "peer", address, "why", why)
	}
}

// refusal says why a peer that runs takes no link; "" of an error that may pass by itself,
// as when the peer is down.
func refusal(err error) string {
	var unexpected *api.UnexpectedError
	var unverified *tls.CertificateVerificationError
	var alert tls.AlertError
	switch {
	case errors.As(err, &unexpected) && unexpected.StatusCode < http.StatusInternalServerError && unexpected.StatusCode != http.StatusNotFound:
		return err.Error()
	case errors.As(err, &unverified):
		return unverified.Error()
	case errors.As(err, &alert):
		return alert.Error()
	}
	return ""
}

var errPlain = errors.New("it speaks no TLS, and this process shows its token over TLS alone: start it with --tls-cert and --tls-key")

// requestOf is an errand as it goes over a stream.
func requestOf(e shard.Errand) *streampb.Request {
	r := &streampb.Request{Id: e.ID, Forwarded: true, Run: e.UID}
	switch {
	case e.GiveUp:
		r.Asks = &streampb.Request_Cancel{Cancel: &streampb.Cancel{}}
	case e.Claim != nil:
		r.Asks = &streampb.Request_Claim{Claim: &streampb.NewClaim{
			User: e.Claim.User, Key: e.Claim.Key, Quantity: e.Claim.Quantity, Units: e.Claim.Units, Adjacent: e.Claim.Adjacent,
		}}
	case e.Settle != nil:
		r.Asks = &streampb.Request_Settle{Settle: e.Settle.ToStream()}
	case e.Find != nil:
		r.Asks = &streampb.Request_Find{Find: &streampb.Find{Claim: e.Find.ToStream()}}
	default:
		r.Asks = &streampb.Request_User{User: &streampb.User{User: e.User}}
	}
	return r
}

// errandOf is requestOf backwards; false: it is none.
func errandOf(r *streampb.Request) (shard.Errand, bool) {
	e := shard.Errand{ID: r.GetId(), UID: r.GetRun()}
	switch asks := r.GetAsks().(type) {
	case *streampb.Request_Cancel:
		e.GiveUp = true
	case *streampb.Request_Claim:
		e.Claim = &shard.Request{
			User: asks.Claim.GetUser(), Key: asks.Claim.GetKey(), Quantity: max(asks.Claim.GetQuantity(), 1),
			Units: asks.Claim.GetUnits(), Adjacent: asks.Claim.GetAdjacent(),
		}
	case *streampb.Request_Settle:
		x := shard.SettlementOf(asks.Settle)
		e.Settle = &x
	case *streampb.Request_Find:
		id := shard.ClaimIDOf(asks.Find.GetClaim())
		e.Find = &id
	case *streampb.Request_User:
		e.User = asks.User.GetUser()
	default:
		return e, false
	}
	return e, true
}

// received takes in what a peer says.
func (l *link) received(r *streampb.Reply) {
	switch says := r.GetSays().(type) {
	case *streampb.Reply_Answer:
		l.hear.Answered(r.GetId(), shard.AnswerOf(says.Answer))
	case *streampb.Reply_Claims:
		l.hear.Answered(r.GetId(), found(says.Claims))
	case *streampb.Reply_Problem: // of the link
		l.refused(says.Problem.GetDetail())
	case *streampb.Reply_NotMine:
		if says.NotMine.GetTried() {
			tried := shard.Undecided
			tried.Elsewhere = true
			l.hear.Answered(r.GetId(), tried)
			return
		}
		l.hear.Bounced(r.GetId(), shard.Route{
			Owner: says.NotMine.GetOwnerId(), Address: says.NotMine.GetOwner(), Epoch: says.NotMine.GetEpoch(),
		})
	}
}

// found is what a look has found.
func found(m *streampb.Claims) shard.Answer {
	a := shard.Answer{Outcome: api.Outcome(m.GetOutcome()), Claims: shard.ClaimsOf(m.GetClaims())}
	if len(a.Claims) == 1 {
		a.Claim = a.Claims[0]
	}
	return a
}

// Host takes the links of peers for the sales of a process. It is httpd.Peers.
type Host struct {
	Log *slog.Logger

	sales sync.Map // of *executor.Executor, by name
}

// Add has the links of a sale's processes taken from now on.
func (h *Host) Add(e *executor.Executor) { h.sales.Store(e.Sale(), e) }

// Remove has them taken no more.
func (h *Host) Remove(e *executor.Executor) { h.sales.Delete(e.Sale()) }

// Accept is httpd.Peers'.
func (h *Host) Accept(sale string, hello *streampb.Hello, send func(*streampb.Reply) error) (heard func(*streampb.Request), gone func(error)) {
	of, ok := h.sales.Load(sale)
	if !ok {
		return nil, nil
	}
	e := of.(*executor.Executor)
	ctx, cancel := context.WithCancel(context.Background())
	v := e.Accept(executor.Peer{ID: hello.GetPeerId(), Address: hello.GetAddress(), Version: hello.GetVersion()}, hello.GetToId(), &replies{send: send})
	if v == nil {
		cancel()
		return nil, nil
	}
	v.Greet(ctx)
	heard = func(r *streampb.Request) {
		if text := r.GetPeer(); text != nil {
			t := new(executor.Tell)
			if err := json.Unmarshal(text, t); err != nil {
				h.Log.Warn("a peer says what cannot be read", "sale", sale, "peer", hello.GetAddress(), "why", err)
				return
			}
			v.Tell(ctx, t)
			return
		}
		if errand, ok := errandOf(r); ok {
			v.Ask(ctx, errand)
		}
	}
	return heard, func(error) {
		cancel()
		v.Gone()
	}
}

// replies sends back what a peer has asked.
type replies struct {
	send func(*streampb.Reply) error
}

// Answered is executor.Replies'.
func (r *replies) Answered(errand uint64, a shard.Answer) {
	if a.Elsewhere {
		r.notMine(errand, &streampb.NotMine{Tried: true})
		return
	}
	reply := &streampb.Reply{Id: errand}
	if executor.IsLook(errand) {
		if a.Claim.User != "" {
			a.Claims = []shard.Claim{a.Claim}
		}
		reply.Says = &streampb.Reply_Claims{Claims: &streampb.Claims{Outcome: string(a.Outcome), Claims: shard.ClaimsToStream(a.Claims)}}
	} else {
		m := new(streampb.Answer)
		a.ToStream(m)
		reply.Says = &streampb.Reply_Answer{Answer: m}
	}
	_ = r.send(reply) // a link that is over is known to be by its maker
}

// Bounced is executor.Replies'.
func (r *replies) Bounced(errand uint64, to shard.Route) {
	r.notMine(errand, &streampb.NotMine{Owner: to.Address, OwnerId: to.Owner, Epoch: to.Epoch})
}

func (r *replies) notMine(errand uint64, m *streampb.NotMine) {
	_ = r.send(&streampb.Reply{Id: errand, Says: &streampb.Reply_NotMine{NotMine: m}})
}
