package api

import (
	"bytes"
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

// TypeStream is the media type of a stream of protobuf messages, each with its length
// before it, and TypeLines that of one JSON object a line.
const (
	TypeStream = "application/vnd.salectl.stream+protobuf"
	TypeLines  = "application/x-ndjson"
)

// StreamPath is where a sale's stream is.
func StreamPath(sale string) string { return salePath(sale) + "/stream" }

// AddressHeader is the header of a stream's answer that has the address of the process, as
// it names itself to others.
const AddressHeader = "Salectl-Address"

// PeerHeader is the header of a request for a stream that another process of the sale makes.
// The first message of such a stream is a hello.
const PeerHeader = "Salectl-Peer"

// StreamConfig is what a StreamConn needs. Server, Sale and Received are required.
type StreamConfig struct {
	Server string // base URL, such as http://127.0.0.1:8080
	Sale   string // the name
	Token  string // sent as a bearer token; "": none is sent
	Peer   bool   // the caller is another process of the sale

	// Transport makes the connection, which has to speak HTTP/2. nil: one that does, for
	// this stream alone.
	Transport http.RoundTripper

	// TLS is whom it believes over https, and what it proves itself with; nil: those whom the
	// system trusts, and nothing. A Transport has its own.
	TLS *tls.Config

	// Received is called with each message of the server, one after the other, in the order
	// in which they come. While it does not return nothing is read.
	Received func(*streampb.Reply)
	// Closed, if set, is called once, after the last Received. The error is nil if the
	// server has ended the stream in good order.
	Closed func(error)

	reuse bool              // Received keeps no message
	like  http.RoundTripper // in place of Transport: connections are made as by it
}

// mostGathered is how many bytes wait to be sent before Send waits.
const mostGathered = 256 << 10

// StreamConn is one stream of a sale: many requests and their answers, each as it comes.
// All methods are safe for concurrent use.
type StreamConn struct {
	cfg     StreamConfig
	address string
	out     *gathered
	body    io.ReadCloser
	cancel  context.CancelFunc
	done    chan struct{}
}

// DialStream opens a stream. ctx is of the opening alone. The error is an *UnexpectedError
// if a server has answered that opens none.
func DialStream(ctx context.Context, cfg StreamConfig) (*StreamConn, error) {
	transport, own := cfg.Transport, (*http.Transport)(nil)
	if transport == nil {
		transport, own = likeTransport(cfg.like, cfg.TLS)
	}
	c := &StreamConn{cfg: cfg, out: newGathered(), done: make(chan struct{})}
	open, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = func() {
		cancel()
		if own != nil {
			own.CloseIdleConnections()
		}
	}
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
	var said bytes.Buffer
	_, _ = said.ReadFrom(io.LimitReader(response.Body, maxRefusal)) // it may be anything
	return nil, unexpected(c.cfg.Server, response, &said)
}

// maxRefusal bounds what is read of the answer of a server that opens no stream.
const maxRefusal = 64 << 10

// Address is what the process that has answered calls itself; "" if it does not say.
func (c *StreamConn) Address() string { return c.address }

// Send sends a message, together with others that are sent meanwhile. It returns before it
// is sent; it waits while the server reads too little of what was sent before. The message
// is the caller's again when it returns. An error says that the stream is over.
func (c *StreamConn) Send(r *streampb.Request) error { return c.send(context.Background(), r) }

func (c *StreamConn) send(ctx context.Context, r *streampb.Request) error {
	return c.out.add(ctx, true, r)
}

// sendClaim is send of a request that claims units.
func (c *StreamConn) sendClaim(ctx context.Context, id uint64, r *Request) error {
	if len(r.Units) > 0 {
		asks := &streampb.NewClaim{User: r.User, Key: r.Key, Quantity: r.Quantity, Names: r.Units}
		return c.send(ctx, &streampb.Request{Id: id, Asks: &streampb.Request_Claim{Claim: asks}})
	}
	if err := c.out.lock(ctx, true); err != nil {
		return err
	}
	c.out.buf = streampb.AppendClaim(c.out.buf, id, r.User, r.Key, r.Quantity, r.Adjacent)
	c.out.mu.Unlock()
	return nil
}

// ErrStreamFull says that a server reads too little of what is sent.
var ErrStreamFull = errors.New("the stream is full: the server does not read what was sent")

// TrySend is Send of several messages, all or none, but returns ErrStreamFull where that would wait.
func (c *StreamConn) TrySend(all ...*streampb.Request) error {
	return c.out.add(context.Background(), false, all...)
}

// CloseSend says that there will be no more requests. The server answers those that were
// sent, and ends the stream.
func (c *StreamConn) CloseSend() { c.out.end(io.EOF) }

// Close ends the stream at once: what becomes of requests that have no answer is not known.
// It returns when Closed has. It is not to be called by Received or Closed, which may call
// Abort.
func (c *StreamConn) Close() {
	c.Abort()
	<-c.done
}

// Abort is Close, but waits for nothing.
func (c *StreamConn) Abort() {
	c.out.end(errStreamClosed)
	c.cancel()
}

var errStreamClosed = errors.New("the stream is closed")

// receive reads messages until there are no more.
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

// streamChunk is how much is read at a time.
const streamChunk = 64 << 10

func (c *StreamConn) read() error {
	buf, from, to := make([]byte, streamChunk), 0, 0
	decoder := new(streampb.Decoder)
	for {
		n, err := c.body.Read(buf[to:])
		to += n
		rest := buf[from:to]
		for {
			message, after, err := streampb.Cut(rest, streampb.MaxReply)
			if err != nil {
				return fmt.Errorf("the answers of %s cannot be read: %w", c.cfg.Server, err)
			}
			if message == nil {
				break
			}
			rest = after
			if !c.cfg.reuse {
				decoder = new(streampb.Decoder)
			}
			reply, err := decoder.Reply(message)
			if err != nil {
				return fmt.Errorf("the answers of %s cannot be read: %w", c.cfg.Server, err)
			}
			c.cfg.Received(reply)
		}
		switch {
		case err == io.EOF && len(rest) == 0:
			return nil
		case err == io.EOF:
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
		buf, from, to = makeRoom(buf, to-len(rest), to)
	}
}

// makeRoom returns a buffer with what is unread of buf, and room behind it.
func makeRoom(buf []byte, from, to int) ([]byte, int, int) {
	switch unread := to - from; {
	case unread == 0:
		return buf, 0, 0
	case unread > len(buf)/2: // a long one
		longer := make([]byte, 2*len(buf))
		return longer, 0, copy(longer, buf[from:to])
	default:
		return buf, 0, copy(buf, buf[from:to])
	}
}

// streamTransport makes one connection, by HTTP/2 with or without TLS.
func streamTransport() *http.Transport {
	return &http.Transport{
		Protocols: streamProtocols(), HTTP2: streamSettings, DisableCompression: true,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
	}
}

// streamProtocols is HTTP/2 alone, with TLS and without.
func streamProtocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// streamSettings have a server found out that has gone without a word.
var streamSettings = &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 5 * time.Second}

// gathered is what is to be sent, as the body of a request: whoever reads it takes all that
// has come together since.
type gathered struct {
	mu    sync.Mutex
	some  sync.Cond // there is something, or the end
	room  sync.Cond // there is less
	buf   []byte
	ended error // nil: more may come
}

func newGathered() *gathered {
	g := new(gathered)
	g.some.L, g.room.L = &g.mu, &g.mu
	return g
}

func (g *gathered) add(ctx context.Context, wait bool, all ...*streampb.Request) error {
	if err := g.lock(ctx, wait); err != nil {
		return err
	}
	for _, r := range all {
		g.buf = streampb.AppendRequest(g.buf, r)
	}
	g.mu.Unlock()
	return nil
}

// lock takes mu, once there is room for a message, which whoever called appends to buf.
func (g *gathered) lock(ctx context.Context, wait bool) error {
	g.mu.Lock()
	if err := g.fullLocked(ctx, wait); err != nil {
		g.mu.Unlock()
		return err
	}
	if len(g.buf) == 0 {
		g.some.Signal()
	}
	return nil
}

func (g *gathered) fullLocked(ctx context.Context, wait bool) error {
	if len(g.buf) > mostGathered && g.ended == nil {
		if !wait {
			return ErrStreamFull
		}
		if err := g.waitLocked(ctx); err != nil {
			return err
		}
	}
	if g.ended != nil {
		return errStreamClosed
	}
	return nil
}

// waitLocked waits for room.
func (g *gathered) waitLocked(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		g.mu.Lock()
		g.room.Broadcast()
		g.mu.Unlock()
	})
	defer stop()
	for len(g.buf) > mostGathered && g.ended == nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		g.room.Wait()
	}
	return nil
}

// Read is io.Reader's.
func (g *gathered) Read(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.buf) == 0 && g.ended == nil {
		g.some.Wait()
		if len(g.buf) > 0 { // whoever else is about to send does so first
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

// Close is io.Closer's: the request that it is the body of is over.
func (g *gathered) Close() error {
	g.end(errStreamClosed)
	return nil
}

// end says why there will be no more.
func (g *gathered) end(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended == nil || g.ended == io.EOF {
		g.ended = why
	}
	g.some.Broadcast()
	g.room.Broadcast()
}
