package peers

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
	"salectl/executor/ownership"
)

// Config configures links. All but Secure is required.
type Config struct {
	Sale  string
	Token func() string      // returns the current token for other processes; "": none
	TLS   func() *tls.Config // returns the configuration of each new link, as that of api.StreamConfig
	// Secure refuses links without TLS, so that the token is sent over TLS only. Otherwise anyone
	// who can write to the lock nodes could have it sent to any address.
	Secure bool

	Log *slog.Logger
}

// Dialer returns the function that makes links to peers.
func Dialer(c Config) Dial {
	c.Log = c.Log.With("sale", c.Sale)
	d := &dialer{Config: c}
	return d.dial
}

// dialer makes links.
type dialer struct {
	Config
	refusals sync.Map // of string: why a peer refuses links, as logged last, by address
}

// dial implements Dial.
func (d *dialer) dial(ctx context.Context, from, to ownership.Process, replies Replies, closed func(error)) (Link, error) {
	l := &link{dialer: d, to: to.Address, replies: replies}
	token := d.Token()
	l.shown.Store(&token)
	base := api.BaseURL(to.Address)
	if d.Secure && !strings.HasPrefix(base, "https://") {
		l.refused(errPlain.Error())
		return nil, errPlain
	}
	conn, err := api.DialStream(ctx, api.StreamConfig{
		Server: base, Sale: d.Sale, Token: token, Peer: true, TLS: d.TLS(), Received: l.received, Closed: closed,
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

// link is the connection to one peer.
type link struct {
	*dialer
	to      string // address of the peer
	conn    *api.StreamConn
	replies Replies
	shown   atomic.Pointer[string] // token last sent to the peer
}

// refused logs why the peer refuses links: once for each reason, since links are retried indefinitely.
func (l *link) refused(why string) {
	if last, _ := l.refusals.Swap(l.to, why); last != why {
		l.Log.Warn("another process of the sale refuses a link from this one", "peer", l.to, "why", why)
	}
}

// Forward implements Link.
func (l *link) Forward(m *streampb.Request) bool { return l.send(m) }

// Update implements Link.
func (l *link) Update(t *ownership.PeerUpdate) bool {
	all, err := EncodeUpdate(t, streampb.MaxMessage)
	if err != nil {
		l.Log.Error("a message to another process of the sale cannot be sent", "peer", l.to, "why", err)
		return false
	}
	return l.send(all...)
}

// send sends all messages or none, preceded by the token if it has changed.
func (l *link) send(all ...*streampb.Request) bool {
	if now := l.Token(); now != *l.shown.Load() {
		if l.conn.TrySend(&streampb.Request{Kind: &streampb.Request_Hello{Hello: &streampb.Hello{Token: now}}}) != nil {
			return false
		}
		l.shown.Store(&now) // only after it is sent: no concurrent message may come first
	}
	return l.conn.TrySend(all...) == nil
}

// refusal returns the reason why a running peer refuses a link, or "" for an error that may be
// transient, such as a peer that is down.
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

var errPlain = errors.New("it does not use TLS, but this process sends its token over TLS only: start it with --tls-cert and --tls-key")

// received handles a reply of the peer.
func (l *link) received(r *streampb.Reply) {
	if problem, ok := r.GetKind().(*streampb.Reply_Problem); ok { // about the link itself
		l.refused(problem.Problem.GetDetail())
		return
	}
	ReceiveReply(r, l.replies)
}
