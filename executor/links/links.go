// Package links carries what the processes of a sale ask and tell each other over the
// stream that clients use too: requests as any client sends them, marked as forwarded, and
// between them each ownership.PeerUpdate, as JSON.
//
// A process makes a link to each of its peers. On it go its own requests and what it has
// to tell; the answers come back on the same. So between two processes there are two.
package links

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor"
	"salectl/executor/ownership"
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
	return func(ctx context.Context, from, to executor.Peer, receiver executor.LinkReceiver) (executor.Link, error) {
		l := &link{receiver: receiver, token: c.Token, log: c.Log.With("sale", c.Sale), refused: func(why string) { refused.tell(to.Address, why) }}
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
			Server: base, Sale: c.Sale, Token: token, Peer: true, Transport: c.Transport, TLS: over,
			Received: l.received, Closed: receiver.Closed,
		})
		if err != nil {
			if reason := refusal(err); reason != "" {
				l.refused(reason)
			}
			return nil, err
		}
		context.AfterFunc(ctx, conn.Abort)
		l.conn = conn
		if err := conn.Send(EncodeHello(from, to)); err != nil {
			conn.Abort()
		}
		return l, nil
	}
}

// link is the way to one peer.
type link struct {
	conn     *api.StreamConn
	receiver executor.LinkReceiver
	token    func() string

	log     *slog.Logger
	refused func(why string) // logs why the peer takes nothing

	shown atomic.Pointer[string] // the token that the peer has seen last
}

// Forward is executor.Link's.
func (l *link) Forward(e shard.ForwardedRequest) bool { return l.send(EncodeRequest(e)) }

// Update is executor.Link's.
func (l *link) Update(t *ownership.PeerUpdate) bool {
	all, err := EncodeUpdate(t, streampb.MaxMessage)
	if err != nil {
		l.log.Error("what another process of the sale is to be told cannot be sent", "peer", l.conn.Address(), "why", err)
		return false
	}
	return l.send(all...)
}

// now is the token of now.
func (l *link) now() string {
	if l.token == nil {
		return ""
	}
	return l.token()
}

// send sends messages, all or none, and before them the token, if that is another one since.
func (l *link) send(all ...*streampb.Request) bool {
	if now := l.now(); now != *l.shown.Load() {
		if l.conn.TrySend(&streampb.Request{Asks: &streampb.Request_Hello{Hello: &streampb.Hello{Token: now}}}) != nil {
			return false
		}
		l.shown.Store(&now) // not before: nobody else is to send anything that comes first
	}
	return l.conn.TrySend(all...) == nil
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

// received takes in what a peer says.
func (l *link) received(r *streampb.Reply) {
	if says, ok := r.GetSays().(*streampb.Reply_Problem); ok { // of the link
		l.refused(says.Problem.GetDetail())
		return
	}
	ReceiveReply(r, l.receiver)
}

// Host takes the links of peers for the sales of a process. It is stream.Peers of package httpd/stream.
type Host struct {
	Log *slog.Logger

	sales sync.Map // of *executor.Executor, by name
}

// Add has the links of a sale's processes taken from now on.
func (h *Host) Add(e *executor.Executor) { h.sales.Store(e.Sale(), e) }

// Remove has them taken no more.
func (h *Host) Remove(e *executor.Executor) { h.sales.Delete(e.Sale()) }

// Accept is that of stream.Peers.
func (h *Host) Accept(sale string, hello *streampb.Hello, send func(*streampb.Reply) error) (heard func(*streampb.Request) bool, gone func(error)) {
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
	v.Discover(ctx)
	heard = func(r *streampb.Request) bool {
		err := ReceiveRequest(r, func(e shard.ForwardedRequest) { v.Serve(ctx, e) }, func(t *ownership.PeerUpdate) { v.Update(ctx, t) })
		if err != nil {
			h.Log.Warn("a peer says what cannot be read", "sale", sale, "peer", hello.GetAddress(), "why", err)
		}
		return !v.Over()
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

// Answered is executor.Replies'. A link that is over is known to be by its maker.
func (r *replies) Answered(id uint64, a shard.Answer) { _ = r.send(EncodeReply(id, a)) }

// Bounced is executor.Replies'.
func (r *replies) Bounced(id uint64, to shard.Route) { _ = r.send(EncodeBounce(id, to)) }
