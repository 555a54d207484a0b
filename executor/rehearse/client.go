package rehearse

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"syscall"
	"time"
)

// maxAnswer bounds what is read of one answer; the largest has a thousand units.
const maxAnswer = 1 << 20

// client speaks to one sale.
type client struct {
	http  *http.Client
	sale  string // its URL
	token string
}

// reply is one answer to a claim, read as a buyer's program would read it.
type reply struct {
	status     int
	retryAfter time.Duration

	Outcome string    `json:"outcome"`
	Claim   string    `json:"claim"`
	Sale    string    `json:"sale"`
	User    string    `json:"user"`
	Units   []int64   `json:"units"`
	At      time.Time `json:"at"`

	// Of a red packet.
	Amounts  []string `json:"amounts"`
	Currency string   `json:"currency"`
}

// newClient makes a client with a connection for each worker. It takes no proxy
// and follows no redirect, and so goes nowhere but where it is told.
func newClient(c Config) *client {
	dialer := &net.Dialer{Control: onlyLoopback}
	return &client{
		sale:  c.URL + "/v1/sales/" + url.PathEscape(c.Sale),
		token: c.Token,
		http: &http.Client{
			Timeout: c.Timeout,
			Transport: &http.Transport{
				DialContext:         dialer.DialContext,
				MaxIdleConnsPerHost: c.Concurrency,
				MaxConnsPerHost:     c.Concurrency,
				DisableCompression:  true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// onlyLoopback sees the address that a connection is really made to.
func onlyLoopback(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !to.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%w: %s is not loopback", ErrElsewhere, address)
	}
	return nil
}

func (c *client) close() { c.http.CloseIdleConnections() }

// check asks for the sale once, so that a wrong URL, name or token is one clear
// error and not a report full of refusals.
func (c *client) check(ctx context.Context) error {
	r, err := c.do(ctx, http.MethodGet, c.sale, nil, "")
	if err != nil {
		return fmt.Errorf("rehearse: %w: %w", ErrNoAnswer, err)
	}
	if r.status != http.StatusOK {
		return fmt.Errorf("rehearse: GET %s answered %d %s; is the sale served there?", c.sale, r.status, r.Outcome)
	}
	return nil
}

// claim sends one claim. An error means that there was no answer, or none that
// could be read to its end: perhaps it was accepted.
func (c *client) claim(ctx context.Context, k click) (reply, error) {
	body, err := json.Marshal(struct {
		User     string `json:"user"`
		Quantity int64  `json:"quantity"`
	}{k.user, k.quantity})
	if err != nil {
		return reply{}, err
	}
	return c.do(ctx, http.MethodPost, c.sale+"/claims", body, k.key)
}

func (c *client) do(ctx context.Context, method, url string, body []byte, key string) (reply, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	if body != nil {
		// With this key net/http, too, sends a claim again when a kept
		// connection turns out to be closed. That is what keys are for.
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Idempotency-Key", key)
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return reply{}, err
	}
	r := reply{status: response.StatusCode, retryAfter: retryAfter(response.Header)}
	if json.Unmarshal(text, &r) != nil || r.Outcome == "" {
		// Not from this API, or a fault of it. The status still says something,
		// and an accepted claim without its name is found by the judge.
		r = reply{status: r.status, retryAfter: r.retryAfter, Outcome: fmt.Sprintf("http_%d", r.status)}
	}
	return r, nil
}

// retryAfter reads the header's seconds; a second where it is missing.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return time.Second
	}
	return time.Duration(seconds) * time.Second
}

// accepted says whether the buyer has units.
func (r *reply) accepted() bool {
	return r.status == http.StatusOK || r.status == http.StatusCreated
}

// later says that the server asks the buyer to come back with the same key.
func (r *reply) later() bool {
	return r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable
}

// label is what the answer counts as in a report.
func (r *reply) label() string {
	if r.status == http.StatusOK {
		return "replayed"
	}
	return r.Outcome
}
