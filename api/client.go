package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"salectl/api/streampb"
)

// Config is what a Client needs. Servers is required, and Sale for all but Ready
// and Alive.
type Config struct {
	// Servers are the base URLs of the processes that serve the sale, such as
	// http://127.0.0.1:8080. A request goes to the one that decided last, and then
	// to the next. For Ready and Alive it is an admin address.
	Servers []string
	Sale    string // the name

	// Token is sent as a bearer token. Empty: none is sent.
	Token string

	// Transport makes the connections. nil: http.DefaultTransport, with TLS if that is set.
	Transport http.RoundTripper

	// TLS is whom the client believes over https, and what it proves itself with. nil: those
	// whom the system trusts, and nothing. A Transport has its own.
	TLS *tls.Config

	// Timeout is how long one attempt may take. A server answers within 5 s, if
	// only with Unknown. Zero: DefaultTimeout.
	Timeout time.Duration

	// MaxWait bounds the wait before the next attempt. Zero: as long as a server's
	// Retry-After says, and at most a second after an attempt without an answer.
	MaxWait time.Duration

	// Later also sends claims again whose answer may be another one later: those
	// with NoneNow, NotOpen or Paused.
	Later bool

	// Stream has claims, settlements other than refunds, and look-ups go over one stream
	// to each server, many at a time, in place of a request of HTTP for each. The answers
	// are the same. Transport, if set, has to speak HTTP/2; an *http.Transport is copied,
	// and its copy does.
	Stream bool

	// FollowOwners also asks servers that Servers does not name, where an answer says that
	// one decides on a user's claims. It gets the token, too: set it where whoever answers
	// is believed, and by https where others can read along.
	FollowOwners bool

	// Attempted, if set, hears of each attempt to claim or to settle as it ends. If it
	// returns false the request is not sent again, whatever became of it.
	Attempted func(Attempt) (again bool)

	// Jitter is a random number from 0 to below 1, and Sleep waits, or returns why
	// its context has ended. nil: the host's.
	Jitter func() float64
	Sleep  func(context.Context, time.Duration) error
}

// DefaultTimeout is how long an attempt may take where Config does not say: a
// little more than a server takes.
const DefaultTimeout = 6 * time.Second

// The wait after an attempt that had no answer: doubled each time, up to a bound
// where Config does not say.
const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = time.Second
)

// maxAnswer bounds what is read of one answer. A user may have many claims.
const maxAnswer = 16 << 20

// Client speaks to the servers of one sale. All methods are safe for concurrent
// use.
type Client struct {
	cfg     Config
	http    http.Client
	servers []*server
	header  http.Header // of every request

	decided atomic.Int32 // the server that decided on a claim last

	places    atomic.Pointer[places] // nil: nothing was learned
	following sync.Mutex             // held while a server is added to followed
	followed  atomic.Pointer[[]*server]
}

// server is where one process listens.
type server struct {
	base   string // without a slash at its end
	claims string // URL to which claims are posted; those of settlements begin with it
	host   string // and port

	called atomic.Pointer[string] // what the process calls itself; nil: not known
	silent atomic.Int64           // when an attempt had no answer, by the host's clock; 0: never
	link   *link
}

// NewClient returns a Client, or an error that says which URL is none.
func NewClient(cfg Config) (*Client, error) {
	if len(cfg.Servers) == 0 {
		return nil, errors.New("no server is named; give its URL, such as http://127.0.0.1:8080")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
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
			transport.TLSClientConfig = cfg.TLS.Clone() // a transport changes what it is given
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

// ParseServer reads the base URL of a server.
func ParseServer(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q is no URL of a server; write it like http://127.0.0.1:8080", text)
	}
	return u, nil
}

func (c *Client) newServer(u *url.URL) *server {
	base := strings.TrimSuffix(u.String(), "/")
	s := &server{base: base, claims: base + claimsPath(c.cfg.Sale), host: hostOf(u)}
	s.link = &link{client: c, server: s}
	return s
}

// Close closes connections that are kept for later requests, and all streams: what still
// waits on one is sent again on another.
func (c *Client) Close() {
	c.http.CloseIdleConnections()
	for _, s := range c.servers {
		s.link.close()
	}
	if followed := c.followed.Load(); followed != nil {
		for _, s := range *followed {
			s.link.close()
		}
	}
}

// UnexpectedError says that what answered is no server of a sale, or one that does
// not let the client in.
type UnexpectedError struct {
	Server     string // its base URL
	StatusCode int
	Status     string // such as "404 Not Found"
	Detail     string // of its problem document; "" if it sent none
	RetryAfter time.Duration

	said Problem
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
	return text + ", which is not what salectl serve would say"
}

// speaksTLS is what to do where a server speaks TLS and the client did not.
const speaksTLS = "it speaks TLS: begin its URL with https://"

// passing reports whether the answer may come from a proxy in front of a server that
// is away for the moment.
func (e *UnexpectedError) passing() bool {
	return e.StatusCode >= 500 && e.StatusCode != http.StatusHTTPVersionNotSupported || e.StatusCode == http.StatusTooManyRequests
}

// Status returns the sale as the process that serves it sees it. The error is a
// *Problem if a server of the sale says why it cannot tell.
func (c *Client) Status(ctx context.Context) (Sale, error) {
	var sale Sale
	err := c.look(ctx, salePath(c.cfg.Sale), &sale, func() bool { return sale.Sale == c.cfg.Sale })
	return sale, err
}

// User returns the newest claims of a user. Errors are those of Status.
func (c *Client) User(ctx context.Context, user string) (User, error) {
	return c.UserPage(ctx, user, Page{})
}

// UserPage returns a page of a user's claims. A cursor that is none is a *Problem with BadRequest.
func (c *Client) UserPage(ctx context.Context, user string, p Page) (has User, err error) {
	if c.cfg.Stream {
		has.Claims, has.Next, err = c.lookOver(ctx, func(shards int) int { return shardOf(user, shards) },
			&streampb.Request{Asks: &streampb.Request_User{User: &streampb.User{User: user, Before: p.Before, Limit: uint32(p.Limit)}}})
		if err != nil {
			return has, err
		}
		has.Sale, has.User = c.cfg.Sale, user
		return has, nil
	}
	err = c.look(ctx, UserPath(c.cfg.Sale, user)+p.query(), &has, func() bool { return has.Sale == c.cfg.Sale && has.User == user })
	return has, err
}

// LookUp returns one claim by its id, as the ledger has it, with the newest of its refunds due.
// Errors are those of Status; that of a claim that nobody was given is a *Problem with NoSuchClaim.
func (c *Client) LookUp(ctx context.Context, claim string) (Claim, error) {
	return c.LookUpPage(ctx, claim, Page{})
}

// LookUpPage is LookUp with a page of the claim's refunds due.
func (c *Client) LookUpPage(ctx context.Context, claim string, p Page) (Claim, error) {
	var found Claim
	if id, ok := ParseClaimID(claim); ok && c.cfg.Stream {
		claims, _, err := c.lookOver(ctx, func(int) int { return id.Shard },
			&streampb.Request{Asks: &streampb.Request_Find{Find: &streampb.Find{Claim: id.ToStream(), Before: p.Before, Limit: uint32(p.Limit)}}})
		if err == nil && len(claims) == 1 {
			found = claims[0]
		}
		return found, err
	}
	err := c.look(ctx, claimPath(c.cfg.Sale, claim)+p.query(), &found, func() bool { return found.Sale == c.cfg.Sale && found.ID == claim })
	return found, err
}

// Ready asks the first server, an admin address, whether its process can sell.
func (c *Client) Ready(ctx context.Context) (Readiness, error) {
	var ready Readiness
	response, body, err := c.get(ctx, c.servers[0].base+ReadyPath)
	if err != nil {
		return ready, err
	}
	defer buffers.Put(body)
	if json.Unmarshal(body.Bytes(), &ready) != nil || ready.Sales == nil {
		return Readiness{}, unexpected(c.servers[0].base, response, body)
	}
	return ready, nil
}

// Alive asks the first server, an admin address, whether its process runs.
func (c *Client) Alive(ctx context.Context) error {
	response, body, err := c.get(ctx, c.servers[0].base+AlivePath)
	if err != nil {
		return err
	}
	defer buffers.Put(body)
	if response.StatusCode != http.StatusOK {
		return unexpected(c.servers[0].base, response, body)
	}
	return nil
}

// look reads an answer to a GET from the first server that can tell. told says
// whether the answer is what was asked for.
func (c *Client) look(ctx context.Context, path string, into any, told func() bool) (most error) {
	at := int(c.decided.Load())
	for range c.servers {
		s := c.servers[at%len(c.servers)]
		err := c.lookAt(ctx, s.base, path, into, told)
		if err == nil || ctx.Err() != nil {
			return err
		}
		most = saysMore(most, err)
		at++
	}
	return most
}

// saysMore returns which of two errors of a look says more of what was asked for; of two
// that say as much, the later one.
func saysMore(before, after error) error {
	if says(before) > says(after) {
		return before
	}
	return after
}

// says is how much an error says: most that of a server which has looked; less that of one
// which could not at the moment; less yet that of one which does not serve the sale; nothing
// that of whatever is no server of a sale, or does not answer.
func says(err error) int {
	var problem *Problem
	if !errors.As(err, &problem) {
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

func (c *Client) lookAt(ctx context.Context, base, path string, into any, told func() bool) error {
	response, body, err := c.get(ctx, base+path)
	if err != nil {
		return err
	}
	defer buffers.Put(body)
	if response.StatusCode == http.StatusOK {
		if json.Unmarshal(body.Bytes(), into) == nil && told() {
			return nil
		}
		return unexpected(base, response, body)
	}
	problem := new(Problem)
	if json.Unmarshal(body.Bytes(), problem) == nil && problem.Outcome != "" {
		return problem
	}
	return unexpected(base, response, body)
}

func (c *Client) get(ctx context.Context, url string) (*http.Response, *bytes.Buffer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, err
	}
	request.Header = c.header
	return c.do(request)
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// do sends a request and reads the answer to its end. Whoever gets the buffer puts
// it back.
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
	var said Problem
	_ = json.Unmarshal(body.Bytes(), &said)                                                                          // it may be anything
	if r.StatusCode == http.StatusBadRequest && strings.Contains(body.String(), "HTTP request to an HTTPS server") { // net/http's words
		said.Detail = speaksTLS
	}
	return &UnexpectedError{Server: base, StatusCode: r.StatusCode, Status: r.Status, Detail: said.Detail, RetryAfter: retryAfter(r.Header), said: said}
}

// retryAfter reads the header's seconds; 0 where it is missing.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// Sleep waits for d, or returns why ctx has ended before.
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
