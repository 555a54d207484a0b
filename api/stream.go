package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"

	"salectl/api/streampb"
)

// TypeStream is the media type of a stream of length-prefixed protobuf messages.
const TypeStream = "application/vnd.salectl.stream+protobuf"

// StreamPath returns the path of a sale's stream.
func StreamPath(sale string) string { return salePath(sale) + "/stream" }

// AddressHeader is the header of a stream's answer with the address of the process, as it
// names itself to others.
const AddressHeader = "Salectl-Address"

// PeerHeader is the header of a request for a stream from another process of the sale. The
// first message of such a stream is a hello.
const PeerHeader = "Salectl-Peer"

// StreamConfig is the configuration of a StreamConn. Server, Sale and Received are required.
type StreamConfig struct {
	Server string // base URL, such as http://127.0.0.1:8080
	Sale   string // name of the sale
	Token  string // bearer token; "": none
	Peer   bool   // the caller is another process of the sale

	// Transport makes the connection and must support HTTP/2. An *http.Transport is copied, and
	// the copy configured for one stream. nil: a new one for this stream alone.
	Transport http.RoundTripper

	// TLS configures https: trusted authorities and the client's certificate; nil: those of
	// the system, and none. It is ignored if Transport is set.
	TLS *tls.Config

	// Received is called with each message of the server, in order and never concurrently.
	// Reading stops until it returns.
	Received func(*streampb.Reply)
	// Closed, if set, is called once, after the last Received. The error is nil if the server
	// has ended the stream normally.
	Closed func(error)

	reuse bool // Received keeps no message
}

// mostGathered is the number of unsent bytes above which Send waits.
const mostGathered = 256 << 10

// StreamConn is one stream of a sale, with many concurrent requests. All methods are safe for
// concurrent use.
type StreamConn struct {
	cfg     StreamConfig
	address string
	out     *gathered
	body    io.ReadCloser
	cancel  context.CancelFunc
	done    chan struct{}
}

// DialStream opens a stream. ctx applies to the opening only. The error is an *UnexpectedError
// if a server has answered and opened none.
func DialStream(ctx context.Context, cfg StreamConfig) (*StreamConn, error) {
	transport, release := streamTransport(&cfg)
	c := &StreamConn{cfg: cfg, out: new(gathered), done: make(chan struct{})}
	c.out.some.L, c.out.room.L = &c.out.mu, &c.out.mu
	open, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = func() { cancel(); release() }
	stop := context.AfterFunc(ctx, cancel)
	response, err := c.open(open, transport)
	if !stop() && err == nil {
		response.Body.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		c.out.end(errStreamClosed)
		c.cancel()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	c.address, c.body = response.Header.Get(AddressHeader), response.Body
	go c.receive()
	return c, nil
}

func (c *StreamConn) open(ctx context.Context, transport http.RoundTripper) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.cfg.Server+StreamPath(c.cfg.Sale), c.out)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", TypeStream)
	if c.cfg.Peer {
		request.Header.Set(PeerHeader, "true")
	}
	if c.cfg.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("open a stream at %s: %w", c.cfg.Server, err)
	}
	if response.StatusCode == http.StatusOK && response.Header.Get("Content-Type") == TypeStream {
		return response, nil
	}
	defer response.Body.Close()
	var body bytes.Buffer
	_, _ = body.ReadFrom(io.LimitReader(response.Body, maxRefusal)) // the body may be anything
	return nil, unexpected(c.cfg.Server, response, &body)
}

// maxRefusal bounds the bytes read of an answer that opens no stream.
const maxRefusal = 64 << 10

// Address returns the name of the process for itself; "" if it sent none.
func (c *StreamConn) Address() string { return c.address }

// Send queues a message, which is sent together with others. It blocks while the server reads
// too little of earlier messages. The caller may reuse the message afterwards. An error means
// that the stream has ended.
func (c *StreamConn) Send(r *streampb.Request) error { return c.out.add(context.Background(), true, r) }

// ErrStreamFull reports that a server reads too little of what is sent.
var ErrStreamFull = errors.New("the stream is full: the server does not read it")

// TrySend queues several messages, all or none. It returns ErrStreamFull where Send would
// wait.
func (c *StreamConn) TrySend(all ...*streampb.Request) error {
	return c.out.add(context.Background(), false, all...)
}

// CloseSend ends the requests. The server answers those that were sent and ends the stream.
func (c *StreamConn) CloseSend() { c.out.end(io.EOF) }

// Close ends the stream at once; the outcome of pending requests is unknown. It returns after
// Closed has. Received and Closed must not call it, but may call Abort.
func (c *StreamConn) Close() {
	c.Abort()
	<-c.done
}

// Abort is Close without waiting.
func (c *StreamConn) Abort() {
	c.out.end(errStreamClosed)
	c.cancel()
}

var errStreamClosed = errors.New("the stream is closed")

// receive reads messages until the stream ends.
func (c *StreamConn) receive() {
	defer close(c.done)
	err := c.read()
	c.out.end(errStreamClosed)
	c.body.Close()
	c.cancel()
	if c.cfg.Closed != nil {
		c.cfg.Closed(err)
	}
}

func (c *StreamConn) read() error {
	in, decoder := streampb.NewReader(c.body, streampb.MaxReply), new(streampb.Decoder)
	for {
		message, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if !c.cfg.reuse {
			decoder = new(streampb.Decoder)
		}
		var reply *streampb.Reply
		if err == nil {
			reply, err = decoder.Reply(message)
		}
		if err != nil {
			return fmt.Errorf("the answers cannot be read: %w", err)
		}
		c.cfg.Received(reply)
	}
}

// streamTransport returns the transport of one stream: by HTTP/2 with or without TLS, unless
// StreamConfig has one of another type. release closes its connections.
func streamTransport(cfg *StreamConfig) (_ http.RoundTripper, release func()) {
	var own *http.Transport
	switch t := cfg.Transport.(type) {
	case nil:
		own = &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second,
			TLSClientConfig:     cfg.TLS.Clone(), // a transport modifies its configuration
		}
	case *http.Transport:
		own = t.Clone()
	default:
		return t, func() {}
	}
	own.Protocols = new(http.Protocols)
	own.Protocols.SetHTTP2(true)
	own.Protocols.SetUnencryptedHTTP2(true)
	// Pings detect a server that has disappeared without closing its connection.
	own.HTTP2 = cmp.Or(own.HTTP2, new(http.HTTP2Config))
	own.HTTP2.SendPingTimeout, own.HTTP2.PingTimeout = 5*time.Second, 5*time.Second
	own.DisableCompression, own.DisableKeepAlives = true, false
	return own, own.CloseIdleConnections
}

// gathered is the body of a request. Its reader takes all messages that were added since the
// last read.
type gathered struct {
	mu    sync.Mutex
	some  sync.Cond // signals data or the end
	room  sync.Cond // signals room
	buf   []byte
	ended error // nil: more may follow
}

func (g *gathered) fullLocked() bool { return len(g.buf) > mostGathered && g.ended == nil }

// add adds messages, all or none. If there is no room it waits, or without wait fails.
func (g *gathered) add(ctx context.Context, wait bool, all ...*streampb.Request) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if wait && g.fullLocked() {
		defer context.AfterFunc(ctx, func() {
			g.mu.Lock()
			g.room.Broadcast()
			g.mu.Unlock()
		})()
		for g.fullLocked() && ctx.Err() == nil {
			g.room.Wait()
		}
	}
	switch {
	case g.ended != nil:
		return errStreamClosed
	case g.fullLocked() && wait:
		return context.Cause(ctx)
	case g.fullLocked():
		return ErrStreamFull
	case len(g.buf) == 0:
		g.some.Signal()
	}
	for _, r := range all {
		g.buf = streampb.Append(g.buf, r)
	}
	return nil
}

// Read implements io.Reader.
func (g *gathered) Read(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.buf) == 0 && g.ended == nil {
		g.some.Wait()
		if len(g.buf) > 0 { // let other senders add their messages first
			g.mu.Unlock()
			runtime.Gosched()
			g.mu.Lock()
		}
	}
	if len(g.buf) == 0 || g.ended == errStreamClosed {
		return 0, g.ended
	}
	full := len(g.buf) > mostGathered
	n := copy(p, g.buf)
	g.buf = g.buf[:copy(g.buf, g.buf[n:])]
	if full {
		g.room.Broadcast()
	}
	return n, nil
}

// Close implements io.Closer: the request with this body has ended.
func (g *gathered) Close() error {
	g.end(errStreamClosed)
	return nil
}

// end sets why no more messages follow.
func (g *gathered) end(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended == nil || g.ended == io.EOF {
		g.ended = why
	}
	g.some.Broadcast()
	g.room.Broadcast()
}
