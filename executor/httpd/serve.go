package httpd

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"salectl/api"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/wire"
)

// Timeouts of a connection, in addition to Config.ClaimTimeout.
const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = 5 * time.Second
	writeTimeout  = 10 * time.Second
)

// Serve answers buyers on listener until ctx ends. Then it drains: readyz returns 503, new claims get
// 503 `draining` (after Retired they are forwarded), no connection is accepted, and requests in flight
// are answered. It returns nil, or an error if some had no answer within DrainTimeout. It always closes
// the listener.
func (server *Server) Serve(ctx context.Context, listener net.Listener) error {
	handler := server.config.Certificates.Require(needsNoCertificate, server.answerBuyer)
	if server.config.Tokens == nil { // without tokens, web pages could use the server
		handler = access.WithHosts(listener.Addr(), server.config.Hosts, handler)
	}
	inner := server.httpServer(handler)
	// HTTP/2 is enabled beside HTTP/1.1 on the same listener, even without TLS (by prior knowledge).
	// Pings detect vanished clients, whose streams would otherwise stay open forever.
	inner.Protocols = new(http.Protocols)
	inner.Protocols.SetHTTP1(true)
	inner.Protocols.SetHTTP2(true)
	inner.Protocols.SetUnencryptedHTTP2(true)
	inner.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams:      maxOfConnection,
		MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: maxUnread,
		SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second,
		WriteByteTimeout: writeTimeout,
	}
	server.buyers.Store(inner)
	return server.serve(ctx, access.NewListener(listener, server.config.Connections), inner, func() {
		if !server.retired.Load() { // otherwise peers decide the claims that still arrive
			server.draining.Store(true)
		}
		server.streams.GoAway(nil)
		server.feeds.Leave()
	})
}

// Retire declares that this process is about to exit while it still answers. readyz returns 503,
// and connections are closed after their request.
func (server *Server) Retire() {
	server.leaving.Store(true)
	if inner := server.buyers.Load(); inner != nil {
		inner.SetKeepAlivesEnabled(false)
	}
}

// Retired declares that peers decide all claims from now on. After Serve ends, further claims are
// forwarded and not refused.
func (server *Server) Retired() { server.retired.Store(true) }

// ServeAdmin answers operators on listener until ctx ends. It should end after Serve has returned,
// so that readyz can report the drain.
func (server *Server) ServeAdmin(ctx context.Context, listener net.Listener) error {
	handler := server.config.Certificates.Require(needsNoCertificate, server.adminHandler())
	inner := server.httpServer(access.WithHosts(listener.Addr(), server.config.Hosts, handler))
	recorded, stop := context.WithCancel(ctx)
	var recording sync.WaitGroup
	recording.Go(func() { server.dashboard.Record(recorded) })
	defer recording.Wait()
	defer stop()
	return server.serve(ctx, access.NewListener(listener, AdminConnections), inner, server.dashboard.Close)
}

// needsNoCertificate reports whether a request needs no client certificate, because its sender
// often has none: a message of a payment service, which is signed, or a probe of a load balancer.
func needsNoCertificate(r *http.Request) bool {
	path := r.URL.EscapedPath()
	rest, _ := strings.CutPrefix(path, api.SalesPath)
	_, below, _ := strings.Cut(rest, "/")
	return "/"+below == paymentPath || path == api.AlivePath || path == api.ReadyPath
}

// serve serves until ctx ends. Then it calls ending and drains.
func (server *Server) serve(ctx context.Context, listener *access.Listener, inner *http.Server, ending func()) error {
	inner.ConnState = listener.ConnState
	done := make(chan error, 1)
	go func() {
		if server.config.Certificates.Leaf() != nil {
			inner.TLSConfig = server.config.Certificates.ServerConfig()
			done <- inner.ServeTLS(listener, "", "")
		} else {
			done <- inner.Serve(listener)
		}
	}()

	select {
	case err := <-done:
		inner.Close()
		return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}

	ending()
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), server.config.DrainTimeout)
	defer cancel()
	err := inner.Shutdown(bound)
	if err != nil {
		inner.Close()
		err = fmt.Errorf("drain %s: requests that were still pending after %s were cut off: %w", listener.Addr(), server.config.DrainTimeout, err)
	}
	if serveErr := <-done; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

// Limits of an HTTP/2 connection.
const (
	maxOfConnection = 100       // concurrent requests
	streamWindow    = 64 << 10  // bytes that a request may send before they are read
	maxUnread       = 128 << 10 // bytes that all its requests may send before they are read; unauthenticated clients may send them
)

// httpServer returns an http.Server with timeouts and limits.
func (server *Server) httpServer(handler wire.Handler) *http.Server {
	// net/http counts both from the start of reading a request. A read deadline that passes while a
	// claim waits for its append would cancel the claim's context, as if the client had gone. So
	// both include ClaimTimeout.
	read := headerTimeout + bodyTimeout + server.config.ClaimTimeout
	return &http.Server{
		Handler:           server.identified(access.WithBoundedHeader(handler)),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       read,
		WriteTimeout:      read + writeTimeout,
		IdleTimeout:       server.config.IdleTimeout,
		MaxHeaderBytes:    access.MaxHeaderRead, // see access.WithBoundedHeader
		ErrorLog:          log.New(connectionLog{server.config.Log}, "", 0),
	}
}

// connectionLog logs connection errors of net/http. A connection that ends before its TLS handshake
// is no warning: load balancers probe listeners this way.
type connectionLog struct{ log *slog.Logger }

func (l connectionLog) Write(line []byte) (int, error) {
	text, level := strings.TrimSpace(string(line)), slog.LevelWarn
	if strings.Contains(text, "TLS handshake error") && strings.HasSuffix(text, ": EOF") {
		level = slog.LevelDebug
	}
	l.log.Log(context.Background(), level, text)
	return len(line), nil
}

// identified sets the X-Request-Id of responses and, at level debug, logs each request. A request
// without an id gets one only if it is logged.
func (server *Server) identified(handler wire.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !server.config.Log.Enabled(r.Context(), slog.LevelDebug) {
			if r.Header[api.RequestIDHeader] != nil {
				wire.RequestID(w, r)
			}
			handler.ServeHTTP(w, r)
			return
		}
		attrs := append(wire.LogAttrs(w, r), "method", r.Method, "path", r.URL.EscapedPath())
		response := &wire.Recorder{ResponseWriter: w, Status: http.StatusOK}
		began := server.config.Clock().Mono
		defer func() {
			if rest, ok := strings.CutPrefix(r.URL.EscapedPath(), api.SalesPath); ok {
				if name, _, _ := strings.Cut(rest, "/"); server.sales()[name] != nil {
					attrs = append(attrs, "sale", name)
				}
			}
			attrs = append(attrs, "status", response.Status)
			if response.Outcome != "" {
				attrs = append(attrs, "outcome", string(response.Outcome))
			}
			took := (server.config.Clock().Mono - began).Round(time.Microsecond)
			server.config.Log.DebugContext(context.WithoutCancel(r.Context()), "request answered", append(attrs, "duration", took)...)
		}()
		handler.ServeHTTP(response, r)
	}
}
