package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"salectl/api/streampb"
)

// Config is the configuration of a Client. Servers is required; so is Sale, except for Ready
// and Alive.
type Config struct {
	// Servers are the base URLs of the sale's processes, such as http://127.0.0.1:8080. A
	// request goes to the server that decided last, then to the next. Ready and Alive take an
	// admin address.
	Servers []string
	Sale    string // name of the sale

	// Token is sent as a bearer token. "": none is sent.
	Token string

	// Transport makes the connections. nil: http.DefaultTransport; with TLS or Token a copy of
	// it that uses TLS and Proxy.
	Transport http.RoundTripper

	// TLS configures https: trusted authorities and the client's certificate. nil: those of
	// the system, and none. It is ignored if Transport is set.
	TLS *tls.Config

	// Timeout bounds one attempt. A server answers within 5 s, if only with Unknown. Zero:
	// DefaultTimeout.
	Timeout time.Duration

	// MaxWait bounds the wait before the next attempt. Zero: a server's Retry-After is the
	// bound, and one second after an attempt without an answer.
	MaxWait time.Duration

	// Later also repeats claims whose answer may change: NoneNow, NotOpen and Paused.
	Later bool

	// Stream sends claims, settlements other than refunds, and queries concurrently over one
	// stream to each server, instead of one HTTP request for each. The answers are the same.
	// Transport, if set, must support HTTP/2; an *http.Transport is copied and the copy
	// configured for it.
	Stream bool

	// FollowOwners also sends requests to servers outside Servers that an answer names as the owner of a
	// user's shard. They receive the token, too: set it only where the answers are trusted,
	// and with https where the network is not.
	FollowOwners bool

	// Attempted, if set, is called at the end of each attempt to claim or to settle. If it
	// returns false, the request is not sent again, whatever its result.
	Attempted func(Attempt) (again bool)

	// Jitter returns a random number in [0, 1). Sleep waits, or returns why its context has
	// ended. nil: the host's.
	Jitter func() float64
	Sleep  func(context.Context, time.Duration) error
}

// DefaultTimeout is the default of Config.Timeout: a little more than a server takes.
const DefaultTimeout = 6 * time.Second

// Wait after an attempt without an answer: doubled each time, up to maxBackoff by default.
const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = time.Second
)

// maxAnswer bounds the bytes read of one answer. A user may have many claims.
const maxAnswer = 16 << 20

// Client sends requests to the servers of one sale. All methods are safe for concurrent use.
type Client struct {
	cfg     Config
	http    http.Client
	servers []*server
	header  http.Header // of every request

	decided atomic.Int32 // index of the server that last decided a claim

	// owners has the owner of each shard: 1 + the index of the server; 0: unknown. A wrong one only
	// costs a detour: every process answers or names the owner.
	owners    atomic.Pointer[[]atomic.Int32]
	following sync.Mutex // held while a server is added to followed
	followed  atomic.Pointer[[]*server]
}

// server is one process of the sale.
type server struct {
	base   string // without a trailing slash
	claims string // URL of claims, and prefix of those of settlements
	host   string // with the port

	called atomic.Pointer[string] // name of the process for itself; nil: unknown
	silent atomic.Int64           // host's clock: last attempt without an answer; 0: none
	link   *link
}

// NewClient returns a Client, or an error that names an invalid URL.
func NewClient(cfg Config) (*Client, error) {
	if len(cfg.Servers) == 0 {
		return nil, errors.New("no server is named; set its URL, such as http://127.0.0.1:8080")
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	if cfg.Jitter == nil {
		cfg.Jitter = rand.Float64
	}
	if cfg.Sleep == nil {
		cfg.Sleep = Sleep
	}
	if cfg.Transport == nil && (cfg.TLS != nil || cfg.Token != "") {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.Proxy = Proxy
		if cfg.TLS != nil {
			transport.TLSClientConfig = cfg.TLS.Clone() // a transport modifies its configuration
		}
		cfg.Transport = transport
	}
	c := &Client{cfg: cfg, header: http.Header{}, http: http.Client{
		Transport: cfg.Transport, Timeout: cfg.Timeout,
		// A redirect would be followed with a GET, and with the token.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if cfg.Token != "" {
		c.header.Set("Authorization", "Bearer "+cfg.Token)
	}
	for _, text := range cfg.Servers {
		u, err := ParseServer(text)
		if err != nil {
			return nil, err
		}
		c.servers = append(c.servers, c.newServer(u))
	}
	return c, nil
}

// ParseServer parses the base URL of a server.
func ParseServer(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q is not the URL of a server; write it like http://127.0.0.1:8080", text)
	}
	return u, nil
}

func (c *Client) newServer(u *url.URL) *server {
	base := strings.TrimSuffix(u.String(), "/")
	s := &server{base: base, claims: base + claimsPath(c.cfg.Sale), host: hostOf(u)}
	s.link = &link{client: c, server: s, open: make(map[*linked]struct{})}
	return s
}

// Close closes idle connections and all streams. Requests that wait on a stream are sent again
// on another.
func (c *Client) Close() {
	c.http.CloseIdleConnections()
	servers := c.servers
	if followed := c.followed.Load(); followed != nil {
		servers = slices.Concat(servers, *followed)
	}
	for _, s := range servers {
		s.link.close()
	}
}

// UnexpectedError reports an answer that is not from a server of the sale, or from one that
// does not admit the client.
type UnexpectedError struct {
	Server     string // base URL
	StatusCode int
	Status     string // such as "404 Not Found"
	Detail     string // from its problem document; "" without one
	RetryAfter time.Duration

	problem Problem
}

func (e *UnexpectedError) Error() string {
	text := fmt.Sprintf("%s answers %s", e.Server, e.Status)
	switch {
	case e.StatusCode == http.StatusBadRequest && e.Detail == speaksTLS:
		return text + ": " + e.Detail
	case (e.StatusCode == http.StatusUnauthorized || e.StatusCode == http.StatusForbidden || e.StatusCode == http.StatusHTTPVersionNotSupported) && e.Detail != "":
		return text + ": " + e.Detail
	case e.StatusCode == http.StatusUnauthorized, e.passing():
		return text
	}
	return text + ", which is not a response of salectl serve"
}

// speaksTLS is the detail if a server requires TLS and the client did not use it.
const speaksTLS = "the server uses TLS: begin its URL with https://"

// passing reports whether the answer may come from a proxy whose server is temporarily away.
func (e *UnexpectedError) passing() bool {
	return e.StatusCode >= 500 && e.StatusCode != http.StatusHTTPVersionNotSupported || e.StatusCode == http.StatusTooManyRequests
}

// Status returns the sale as seen by the process that serves it. The error is a *Problem if a
// server of the sale reports why it cannot answer.
func (c *Client) Status(ctx context.Context) (Sale, error) {
	var sale Sale
	err := c.get(ctx, salePath(c.cfg.Sale), &sale, func() bool { return sale.Sale == c.cfg.Sale })
	return sale, err
}

// User returns a page of a user's claims. Errors are those of Status; for an invalid cursor, a
// *Problem with BadRequest.
func (c *Client) User(ctx context.Context, user string, p Page) (has User, err error) {
	if c.cfg.Stream {
		has.Claims, has.Next, err = c.queryOver(ctx, func(shards int) int { return shardOf(user, shards) }, &streampb.Query{User: user}, p)
		if err != nil {
			return has, err
		}
		has.Sale, has.User = c.cfg.Sale, user
		return has, nil
	}
	err = c.get(ctx, UserPath(c.cfg.Sale, user)+p.query(), &has, func() bool { return has.Sale == c.cfg.Sale && has.User == user })
	return has, err
}

// LookUp returns one claim by its id from the ledger, with a page of its refunds due. Errors are
// those of Status; for a claim that does not exist, a *Problem with NoSuchClaim.
func (c *Client) LookUp(ctx context.Context, claim string, p Page) (Claim, error) {
	var found Claim
	if id, ok := ParseClaimID(claim); ok && c.cfg.Stream {
		claims, _, err := c.queryOver(ctx, func(int) int { return id.Shard }, &streampb.Query{Claim: id.ToStream()}, p)
		if err == nil && len(claims) == 1 {
			found = claims[0]
		}
		return found, err
	}
	path := claimsPath(c.cfg.Sale) + "/" + url.PathEscape(claim) + p.query()
	err := c.get(ctx, path, &found, func() bool { return found.Sale == c.cfg.Sale && found.ID == claim })
	return found, err
}

// Ready queries whether the process at the first server, an admin address, can sell.
func (c *Client) Ready(ctx context.Context) (Readiness, error) {
	var ready Readiness
	response, body, err := c.send(ctx, http.MethodGet, c.servers[0].base+ReadyPath, nil)
	if err != nil {
		return ready, err
	}
	defer buffers.Put(body)
	if json.Unmarshal(body.Bytes(), &ready) != nil || ready.Sales == nil {
		return Readiness{}, unexpected(c.servers[0].base, response, body)
	}
	return ready, nil
}

// get decodes the answer to a GET from the first server that has one. matches reports whether
// the decoded answer is the requested one.
func (c *Client) get(ctx context.Context, path string, into any, matches func() bool) error {
	return c.inTurn(ctx, int(c.decided.Load()), func(s *server) error {
		response, body, err := c.send(ctx, http.MethodGet, s.base+path, nil)
		if err != nil {
			return err
		}
		return decode(s.base, response, body, into, matches)
	})
}

// inTurn calls query for the servers, beginning with the one with the index at, until one answers.
// Otherwise it returns the most informative error, of equal ones the last.
func (c *Client) inTurn(ctx context.Context, at int, query func(*server) error) (most error) {
	tries := len(c.servers)
	if at >= tries { // a discovered server
		tries++
	}
	for range tries {
		err := query(c.server(at))
		if err == nil || ctx.Err() != nil {
			return err
		}
		if informative(err) >= informative(most) {
			most = err
		}
		if at++; at >= len(c.servers) {
			at = 0
		}
	}
	return most
}

// informative ranks an error. The order is: a server that has decided, one that temporarily could
// not, one that does not serve the sale. 0 is for anything that is no server of a sale or does
// not answer.
func informative(err error) int {
	problem, is := errors.AsType[*Problem](err)
	if !is {
		return 0
	}
	switch row := problem.Outcome.row(); {
	case row.Decides:
		return 3
	case row.Retry == Again:
		return 2
	}
	return 1
}

// decode decodes an answer of a sale, and returns the buffer to the pool.
func decode(base string, response *http.Response, body *bytes.Buffer, into any, matches func() bool) error {
	defer buffers.Put(body)
	problem := new(Problem)
	switch {
	case response.StatusCode == http.StatusOK:
		if json.Unmarshal(body.Bytes(), into) == nil && matches() {
			return nil
		}
	case json.Unmarshal(body.Bytes(), problem) == nil && problem.Outcome != "":
		return problem
	}
	return unexpected(base, response, body)
}

// send sends a request, with a body unless that is nil, as do does.
func (c *Client) send(ctx context.Context, method, url string, body any) (*http.Response, *bytes.Buffer, error) {
	header, in := c.header, io.Reader(nil)
	if body != nil { // a GET has none, which proxies may refuse
		text, err := json.Marshal(body)
		if err != nil {
			return nil, nil, err
		}
		header, in = c.header.Clone(), bytes.NewReader(text)
		header.Set("Content-Type", TypeJSON)
	}
	request, err := http.NewRequestWithContext(ctx, method, url, in)
	if err != nil {
		return nil, nil, err
	}
	request.Header = header
	return c.do(request)
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// do sends a request and reads the whole answer. The caller returns the buffer to the pool.
func (c *Client) do(request *http.Request) (*http.Response, *bytes.Buffer, error) {
	response, err := c.http.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body := buffers.Get().(*bytes.Buffer)
	body.Reset()
	if _, err := body.ReadFrom(io.LimitReader(response.Body, maxAnswer)); err != nil {
		buffers.Put(body)
		return nil, nil, err
	}
	return response, body, nil
}

func unexpected(base string, r *http.Response, body *bytes.Buffer) error {
	var problem Problem
	_ = json.Unmarshal(body.Bytes(), &problem)                                                                       // the body may be anything
	if r.StatusCode == http.StatusBadRequest && strings.Contains(body.String(), "HTTP request to an HTTPS server") { // text of net/http
		problem.Detail = speaksTLS
	}
	return &UnexpectedError{Server: base, StatusCode: r.StatusCode, Status: r.Status, Detail: problem.Detail, RetryAfter: retryAfter(r.Header), problem: problem}
}

// retryAfter returns the header's value; 0 if it is missing.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// Sleep waits for d, or returns the cause of ctx if it ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Proxy is http.ProxyFromEnvironment for an http.Transport, but sends no token to a proxy: a
// request with a token and without TLS goes to its server directly.
func Proxy(r *http.Request) (*url.URL, error) { return proxyBy(r, http.ProxyFromEnvironment) }

func proxyBy(r *http.Request, environment func(*http.Request) (*url.URL, error)) (*url.URL, error) {
	if r.URL.Scheme == "http" && r.Header.Get("Authorization") != "" {
		return nil, nil
	}
	return environment(r)
}
