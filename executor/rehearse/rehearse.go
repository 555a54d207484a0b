// Package rehearse sends a crowd of simulated buyers to a server and reports the answers.
//
// It uses a sale through its HTTP API alone, and judges the answers by the promises to buyers
// (judge.go). If claims are held until they are paid, it pays some and not others (payer.go), and
// checks each hold by the answers to its buyer (holds.go). After a draw it queries the results of
// the entries (draw.go). It does not read the ledger: an audit does, and Report.Compare and
// Report.CompareDraw receive its claims. The load goes to this machine only.
package rehearse

import (
	"cmp"
	"context"
	"errors"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/spec"
)

// Config configures a rehearsal. URL, Sale and Users are required.
type Config struct {
	// URL is the server's base URL, such as http://127.0.0.1:8080. It must be on this machine.
	URL string

	// Sale is the sale as it is served. Buyers go by its name, limit, stock, and terms of payment.
	spec.Sale

	// Users is the number of buyers; DefaultUsers suggests one.
	Users int

	// Concurrency is the number of concurrent buyers, each on a keep-alive connection. Zero means
	// DefaultConcurrency.
	Concurrency int

	// Seed determines the planned claims. The results depend on timing.
	Seed uint64

	// Names are users of the sale. Buyers take these names in order, and repeatedly if there are
	// more buyers. If empty, buyers have names made by Name.
	Names []string

	// Refused returns the name of the sale's rule that refuses a claim at a time, or "". Nil means
	// that the sale has no rules. With Payment, returned units are not sold again, since those who
	// may claim may have reached their limit.
	Refused func(user string, quantity int64, key string, at time.Time) (rule string)

	// Places are the names of the units that buyers may choose, from unit 1 on. Rows are the lengths of
	// the rows of adjacent units, in the same order. Both are empty if buyers may not choose.
	Places []string
	Rows   []int64

	// Draw closes and reveals the draw after the crowd has entered. Nil means that the sale is not
	// a draw. With Draw, PerUserLimit is 1.
	Draw *Drawing

	// Admin is the server's admin address, where sold claims are refunded. It must be on this
	// machine. Required with Payment.
	Admin string

	// Patience is how long after the start buyers repeat requests answered with "retry later". Zero
	// means DefaultPatience.
	Patience time.Duration

	// Progress, if not nil, is called with the number of requests with a final answer: about a
	// hundred times, never concurrently, and last with done equal to total.
	Progress func(done, total int)

	// Clock and Sleep provide the time. Nil means the host's.
	Clock clock.Clock
	Sleep func(context.Context, time.Duration) error
}

// Defaults of a Config.
const (
	DefaultConcurrency = 200
	DefaultPatience    = time.Minute
)

// Errors that Drive wraps.
var (
	// ErrElsewhere reports that the server is not on this machine.
	ErrElsewhere = errors.New("a rehearsal drives a server on its own machine only")
	// ErrNoAnswer reports that the server does not answer.
	ErrNoAnswer = errors.New("the server does not answer")
)

// withDefaults returns c with defaults.
func (c Config) withDefaults() Config {
	c.Concurrency = cmp.Or(c.Concurrency, DefaultConcurrency)
	c.Patience = cmp.Or(c.Patience, DefaultPatience)
	if c.Progress == nil {
		c.Progress = func(int, int) {}
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.Sleep == nil {
		c.Sleep = api.Sleep
	}
	return c
}
