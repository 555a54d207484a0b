// Package rehearse sends a crowd of simulated buyers to a server and reports
// what they saw.
//
// It is a buyer and no more: it knows a sale by its HTTP answers alone, and
// judges them by what a buyer could complain of (judge.go). Where claims are held
// until they are paid, it pays some and not others (payer.go), and follows each hold by
// what its buyer was told (holds.go). Of a draw it hears what came of its entries
// (draw.go). What the ledger says is for an audit to find out;
// Report.Compare and Report.CompareDraw take it claim by claim. The load only ever goes to this machine.
package rehearse

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/spec"
)

// Config says who comes to which sale. URL, Sale, Users, PerUserLimit and Stock
// are required.
type Config struct {
	// URL is where the server listens, like http://127.0.0.1:8080. It must be
	// on this machine.
	URL  string
	Sale string

	// Token is sent as a bearer token, if the server asks for one.
	Token string

	// Users is the number of buyers; DefaultUsers suggests one.
	Users int

	// Concurrency is how many of them are in the shop at once, each on a
	// keep-alive connection. Zero: DefaultConcurrency.
	Concurrency int

	// Seed decides who clicks what, and how often. Which of them are lucky
	// depends on the race.
	Seed uint64

	// PerUserLimit and Stock are the sale's. Buyers choose their quantities by
	// them, and are judged by them.
	PerUserLimit int64
	Stock        int64

	// Partial says that a claim for more than there is gets what there is.
	Partial bool

	// Names are users of the sale, whose names buyers take in this order, and again from the
	// first when there are more buyers. Empty: buyers have the names that Name makes up.
	Names []string

	// Refused is what the rules of the sale say to a claim at a time: the name of the rule
	// that refuses it, or "". Nil: the sale has no rules. With Payment too, nobody comes for
	// units that came back, since who may have them may have as many as the limit allows.
	Refused func(user string, quantity int64, key string, at time.Time) (rule string)

	// RedPacket is what the units are worth, nil if they are no packets of
	// money. Buyers are told their amounts, and add them up.
	RedPacket *spec.RedPacket

	// Payment is how claims are paid, nil if they are sold at once. Buyers then pay, or
	// do not: see stories.
	Payment *spec.Payment

	// Draw is how the sale is closed and drawn once the crowd has entered, nil if it is no
	// draw. PerUserLimit is 1 then.
	Draw *Drawing

	// Admin is the server's admin address, where sold claims are refunded; on this
	// machine. Required with Payment.
	Admin string

	// Timeout is how long a buyer waits for one answer before the request is
	// sent again. Zero: DefaultTimeout.
	Timeout time.Duration

	// Patience is how long after the start buyers still ask again when they are
	// told to come back later. Zero: DefaultPatience.
	Patience time.Duration

	// Progress, if set, hears how many requests of how many have their final
	// answer: about a hundred times, one call at a time, the last with done
	// equal to total.
	Progress func(done, total int)

	// Clock and Sleep are the time. Zero: the host's.
	Clock clock.Clock
	Sleep func(context.Context, time.Duration) error
}

// What a Config gets that does not say.
const (
	DefaultConcurrency = 200
	DefaultTimeout     = 15 * time.Second
	DefaultPatience    = time.Minute
)

// Errors that Drive wraps.
var (
	// ErrElsewhere says that the URL is not on this machine.
	ErrElsewhere = errors.New("a rehearsal drives a server on its own machine only")
	// ErrNoAnswer says that the server stopped answering, or never did.
	ErrNoAnswer = errors.New("the server does not answer")
)

// withDefaults returns c with its zero fields filled in, or what is wrong.
func (c Config) withDefaults() (Config, error) {
	if c.Concurrency == 0 {
		c.Concurrency = DefaultConcurrency
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Patience == 0 {
		c.Patience = DefaultPatience
	}
	if c.Progress == nil {
		c.Progress = func(int, int) {}
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.Sleep == nil {
		c.Sleep = api.Sleep
	}
	switch {
	case c.Sale == "":
		return c, errors.New("rehearse: no sale is named")
	case c.Users < 1 || c.Concurrency < 1:
		return c, fmt.Errorf("rehearse: %d users, %d at once: at least one of each is needed", c.Users, c.Concurrency)
	case c.PerUserLimit < 1 || c.Stock < 1:
		return c, fmt.Errorf("rehearse: a limit of %d and a stock of %d: both must be at least 1", c.PerUserLimit, c.Stock)
	}
	c.URL, c.Admin = strings.TrimSuffix(c.URL, "/"), strings.TrimSuffix(c.Admin, "/")
	if c.Payment != nil {
		if err := checkURL(c.Admin); err != nil {
			return c, err
		}
	}
	return c, checkURL(c.URL)
}

// checkURL refuses any server that is not on this machine. A name could mean
// anything tomorrow, so only localhost may be one; where that leads is checked
// again for each connection.
func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil {
		return fmt.Errorf("rehearse: %w", err)
	}
	if u.Scheme != "http" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil {
		return fmt.Errorf("rehearse: %q: want a server's base like http://127.0.0.1:8080", s)
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("rehearse: %w: %s is not loopback; start one with --listen 127.0.0.1:0 here", ErrElsewhere, u.Host)
	}
	return nil
}
