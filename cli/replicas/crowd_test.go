package replicas

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"salectl/api"
	"salectl/executor/peers"
	"salectl/spec"
)

func homeShard(user string, shards int) int { return spec.HomeShard(user, shards) }

// crowd is users who claim a unit each, at a steady rate. Each asks the next of the
// processes in turn. What had no answer, because a connection was refused or cut, is asked
// again at the next with the same key; and so is, after a moment, what was answered with an
// outcome that tells to ask again, which counts as failed.
type crowd struct {
	s       *sale
	over    string // "http" or "stream"
	rate    int    // claims a second
	name    string // what sets its users apart from those of another crowd
	once    bool   // nobody comes back
	follows bool   // one client asks all processes, and learns who decides

	stop    context.CancelFunc
	all     sync.WaitGroup
	next    atomic.Int64
	started atomic.Int64

	// mu guards the rest.
	mu      sync.Mutex
	at      []string               // base URLs that are asked
	clients map[string]*api.Client // by the process that is asked, and the token
	tellers []*asked
}

// asked is one user and what became of the claim.
type asked struct {
	user, key string
	shard     int
	began     time.Time
	took      time.Duration
	answer    api.Answer // the last
	broken    int        // attempts that had no answer
	failures  []failure  // attempts whose answer was no decision
	undecided bool       // until the end
}

// failure is an answer that is no decision on a claim.
type failure struct {
	at      time.Time
	server  string
	said    string
	patient bool // the claim has waited as long for its shard as claims do
}

// mostPatient is how often a claim may have waited in vain for its shard where none is to fail.
const mostPatient = 3

// counts reports whether a failure counts where nothing that happens is to fail a claim: how
// fast a shard changes hands on a busy machine is for the figures to say.
func (f failure) counts() bool { return !f.patient || wantFigures }

// come has users come from here on.
func (s *sale) come(over string, rate int) *crowd { return s.comeAs(&crowd{over: over, rate: rate}) }

func (s *sale) comeAs(c *crowd) *crowd {
	c.s, c.clients = s, make(map[string]*api.Client)
	for _, r := range s.all {
		c.at = append(c.at, c.s.url(r.listen))
	}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.all.Go(func() { c.run(ctx) })
	s.Cleanup(c.leave)
	return c
}

// ask has the crowd ask those processes only.
func (c *crowd) ask(of ...*replica) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = nil
	for _, r := range of {
		c.at = append(c.at, c.s.url(r.listen))
	}
}

// leave ends the coming, and waits until all who came have their answers.
func (c *crowd) leave() {
	c.stop()
	c.all.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, client := range c.clients {
		client.Close()
	}
	clear(c.clients)
}

// run has users come independently of each other, as a Poisson process: what comes at once
// is cheaper for one process than for three, who each are woken for their part of it.
func (c *crowd) run(ctx context.Context) {
	random := rand.New(rand.NewPCG(1, 2))
	for due := time.Now(); ; {
		due = due.Add(time.Duration(random.ExpFloat64() * float64(time.Second) / float64(c.rate)))
		if wait := time.Until(due); wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
		}
		if ctx.Err() != nil {
			return
		}
		c.all.Go(c.buy)
	}
}

// buy is one user's coming.
func (c *crowd) buy() {
	n := c.started.Add(1)
	a := &asked{user: fmt.Sprintf("%s%s-user-%d", c.name, c.over, n), key: fmt.Sprint("key-", n), began: time.Now()}
	a.shard = homeShard(a.user, c.s.shards)
	c.insist(a, a.key)
	c.mu.Lock()
	c.tellers = append(c.tellers, a)
	c.mu.Unlock()
	switch {
	case !a.answer.Outcome.Accepted() || c.once:
	case n%16 == 0: // once more: the same
		again := &asked{user: a.user, shard: a.shard, began: time.Now()}
		c.insist(again, a.key)
		if again.answer.Claim.ID != a.answer.Claim.ID || !again.answer.Replayed {
			c.s.Errorf("%s was told of claim %s, asks again, and hears %+v", a.user, a.answer.Claim.ID, again.answer)
		}
		c.count(again)
	case n%16 == 8: // another one: the limit
		more := &asked{user: a.user, shard: a.shard, began: time.Now()}
		c.insist(more, a.key+"-more")
		if more.answer.Outcome != api.LimitReached {
			c.s.Errorf("%s has claim %s, asks for more, and hears %+v", a.user, a.answer.Claim.ID, more.answer)
		}
		c.count(more)
	}
}

// count takes down how a request of somebody went who had come before.
func (c *crowd) count(a *asked) {
	a.answer = api.Answer{}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tellers = append(c.tellers, a)
}

// insist asks until there is a decision.
func (c *crowd) insist(a *asked, key string) {
	defer func() { a.took = time.Since(a.began) }()
	for deadline := a.began.Add(patience); ; {
		client, url := c.server(int(c.next.Add(1)))
		at := time.Now()
		answer, err := client.Claim(context.Background(), api.Request{User: a.user, Quantity: 1, Key: key})
		var foreign *api.UnexpectedError
		switch {
		case errors.As(err, &foreign):
			a.failures = append(a.failures, failure{at: at, server: url, said: err.Error()})
		case err != nil:
			a.broken++
			c.s.note("%s at %s: %v", a.user, url, err)
		case answer.Retry() != api.Final:
			waited := time.Since(at)
			a.failures = append(a.failures, failure{
				at: at, server: url, patient: answer.Outcome == api.Standby && waited >= peers.OwnerTimeout,
				said: fmt.Sprintf("%d %s after %v: %s", answer.Status, answer.Outcome, waited.Round(time.Millisecond), answer.Problem().Detail),
			})
		default:
			a.answer = answer
			return
		}
		if time.Now().After(deadline) {
			a.undecided = true
			return
		}
		if err == nil || foreign != nil {
			time.Sleep(20 * time.Millisecond) // as a client rests before it asks again
		}
	}
}

// server returns a client that knows one process alone, so that it learns nothing of owners,
// or else one that knows all.
func (c *crowd) server(n int) (*api.Client, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	urls := c.at
	if !c.follows {
		at := n % len(c.at)
		urls = c.at[at : at+1]
	}
	url, token := urls[0], c.s.bearer()
	client := c.clients[url+" "+token]
	if client == nil {
		var err error
		client, err = api.NewClient(api.Config{
			Servers: urls, Sale: c.s.name, Token: token, Transport: c.s.transport, Stream: c.over == "stream",
			Attempted: func(api.Attempt) bool { return false },
		})
		if err != nil {
			panic(err)
		}
		c.clients[url+" "+token] = client
	}
	return client, url
}

// answered are those who have their answers.
func (c *crowd) answered() []*asked {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.tellers)
}

// some waits until so many more have their answers.
func (c *crowd) some(n int) {
	c.s.Helper()
	c.mu.Lock()
	want := len(c.tellers) + n
	c.mu.Unlock()
	c.s.eventually(func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.tellers) < want {
			return fmt.Errorf("%d have their answers, want %d", len(c.tellers), want)
		}
		return nil
	})
}

// failed counts the claims that had an answer which was no decision, and says which.
func (c *crowd) failed() (claims int, what string) { return c.failedSince(time.Time{}) }

// failedSince counts those that began after an instant.
func (c *crowd) failedSince(from time.Time) (claims int, what string) {
	kinds, first := make(map[string]int), make(map[string]string)
	for _, a := range c.answered() {
		if a.began.Before(from) {
			continue
		}
		failures := slices.DeleteFunc(slices.Clone(a.failures), func(f failure) bool { return !f.counts() })
		if len(a.failures)-len(failures) > mostPatient {
			failures = a.failures
		}
		if len(failures) > 0 || a.undecided {
			claims++
		}
		for _, f := range failures {
			kind, _, _ := strings.Cut(f.said, " after")
			kinds[kind]++
			if first[kind] == "" {
				first[kind] = fmt.Sprintf("%s at %s: %s, of shard %d, %s", f.at.UTC().Format("15:04:05.000"), f.server, f.said, a.shard, a.user)
			}
		}
	}
	var lines []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		lines = append(lines, fmt.Sprintf("%d times %s, such as %s", kinds[kind], kind, first[kind]))
	}
	return claims, strings.Join(lines, "\n")
}

// waits are how long claims took that began in a span and are of those shards (nil: all).
func (c *crowd) waits(from, to time.Time, of func(*asked) bool) (all []time.Duration) {
	for _, a := range c.answered() {
		if a.began.Before(from) || a.began.After(to) || of != nil && !of(a) {
			continue
		}
		all = append(all, a.took)
	}
	slices.Sort(all)
	return all
}

// slowest tells of the claim that took longest, of those that began in a span.
func (c *crowd) slowest(from, to time.Time) string {
	var x *asked
	for _, a := range c.answered() {
		if !a.began.Before(from) && !a.began.After(to) && (x == nil || a.took > x.took) {
			x = a
		}
	}
	if x == nil {
		return "none"
	}
	return fmt.Sprintf("%v for %s, of shard %d, which came at %s and was answered by %s", x.took.Round(time.Millisecond), x.user, x.shard,
		x.began.UTC().Format("15:04:05.000"), x.answer.Server)
}

// quantile returns a quantile of sorted durations.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(float64(len(sorted))*q), len(sorted)-1)]
}

// summary tells of a span.
func summary(sorted []time.Duration) string {
	r := func(q float64) time.Duration { return quantile(sorted, q).Round(100 * time.Microsecond) }
	return fmt.Sprintf("%d claims: p50 %v, p99 %v, p99.9 %v, slowest %v", len(sorted), r(.5), r(.99), r(.999), r(1))
}

func sorted(all []time.Duration) []time.Duration {
	slices.Sort(all)
	return all
}
