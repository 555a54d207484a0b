// Package links carries what the processes of a sale ask and tell each other over the
// stream that clients use too: requests as any client sends them, marked as forwarded, and
// between them what executor.Tell says, as JSON.
//
// A process makes a link to each of its peers. On it go its own requests and what it has
// to tell; the answers come back on the same. So between two processes there are two.
package links

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor"
	"salectl/executor/shard"
)

// Config is what links are made with.
type Config struct {
	Sale      string
	Token     string            // of all processes of the sale; "": none is asked for
	Transport http.RoundTripper // speaks HTTP/2; nil: a usual one
	Log       *slog.Logger
}

// Dialer returns what makes links to peers.
func Dialer(c Config) executor.Dial {
	return func(ctx context.Context, from, to executor.Peer, hear executor.Hearing) (executor.Link, error) {
		l := &link{hear: hear}
		conn, err := api.DialStream(ctx, api.StreamConfig{
			Server: "http://" + to.Address, Sale: c.Sale, Token: c.Token, Transport: c.Transport,
			Received: l.received, Closed: hear.Closed,
		})
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, conn.Abort)
		l.conn = conn
		hello := &streampb.Hello{PeerId: from.ID, Address: from.Address, Version: from.Version}
		if err := conn.Send(&streampb.Request{Asks: &streampb.Request_Hello{Hello: hello}}); err != nil {
			conn.Abort()
		}
		return l, nil
	}
}

// link is the way to one peer.
type link struct {
	conn *api.StreamConn
	hear executor.Hearing
}

// Ask is executor.Link's.
func (l *link) Ask(e shard.Errand) bool {
	return l.conn.TrySend(requestOf(e)) == nil
}

// Tell is executor.Link's.
func (l *link) Tell(t *executor.Tell) bool {
	text, err := json.Marshal(t)
	return err == nil && l.conn.TrySend(&streampb.Request{Asks: &streampb.Request_Peer{Peer: text}}) == nil
}

// requestOf is an errand as it goes over a stream.
func requestOf(e shard.Errand) *streampb.Request {
	r := &streampb.Request{Id: e.ID, Forwarded: true}
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
	e := shard.Errand{ID: r.GetId()}
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
	Sales map[string]*executor.Executor // by name
	Log   *slog.Logger
}

// Accept is httpd.Peers'.
func (h *Host) Accept(sale string, hello *streampb.Hello, send func(*streampb.Reply) error) (heard func(*streampb.Request), gone func(error)) {
	e := h.Sales[sale]
	if e == nil {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	v := e.Accept(executor.Peer{ID: hello.GetPeerId(), Address: hello.GetAddress(), Version: hello.GetVersion()}, &replies{send: send})
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
