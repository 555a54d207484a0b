package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"salectl/api"
	"salectl/internal/wait"
)

// crowd is the users of a round.
type crowd struct {
	r         *round
	transport *http.Transport
	all       sync.WaitGroup
	waves     [waves]time.Time // when each comes

	// mu guards the rest.
	mu    sync.Mutex
	next  int                // the user who comes next
	got   map[string]granted // by user: what they were told that they have
	late  map[string]bool    // users who were told that nothing is left
	asked map[string]bool    // whoever has asked at all
}

// granted is a claim as a user is told of it, and as the export has it.
type granted struct {
	Claim   string
	User    string
	Units   []int64
	Amounts []string
}

func (g granted) same(other granted) bool {
	return g.Claim == other.Claim && g.User == other.User && slices.Equal(g.Units, other.Units) && slices.Equal(g.Amounts, other.Amounts)
}

func grantedOf(c api.Claim) granted { return granted{c.ID, c.User, c.Units, c.Amounts} }

// crowdSize is how many ask at a time.
const crowdSize = 24

func newCrowd(r *round) *crowd {
	return &crowd{
		r: r, transport: &http.Transport{MaxIdleConnsPerHost: crowdSize},
		got: map[string]granted{}, late: map[string]bool{}, asked: map[string]bool{},
	}
}

// come lets the users in, until ctx ends; then all is done.
func (c *crowd) come(ctx context.Context) {
	c.r.Cleanup(c.transport.CloseIdleConnections)
	chance := c.r.chance("waves")
	for i := range c.waves {
		from := roundSpan * time.Duration(i) / waves
		c.waves[i] = time.Now().Add(from + time.Duration(chance.Int64N(int64(roundSpan/waves))))
	}
	for i := range crowdSize {
		chance := c.r.chance(fmt.Sprint("buyers ", i))
		c.all.Go(func() {
			for n := c.user(); n < c.r.users && c.comes(ctx, n*waves/c.r.users); n = c.user() {
				user := fmt.Sprint("user-", n)
				c.buy(ctx, user)
				if chance.IntN(4) == 0 {
					c.again(ctx, user)
				}
			}
		})
	}
}

// comes waits for a wave and says whether ctx still goes on.
func (c *crowd) comes(ctx context.Context, wave int) bool {
	select {
	case <-time.After(time.Until(c.waves[wave])):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// midst waits until chance has it that enough users have their answers, but not for
// long: perhaps nobody answers.
func (c *crowd) midst(ctx context.Context, chance *rand.Rand) {
	wanted := c.decided() + 1 + chance.IntN(c.r.users/waves)
	_ = wait.Poll(roundSpan, func() error {
		if c.decided() < wanted && ctx.Err() == nil {
			return errors.New("too few are decided")
		}
		return nil
	})
}

// decided returns how many users have their answers.
func (c *crowd) decided() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.got) + len(c.late)
}

// user is the number of the one who comes next.
func (c *crowd) user() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	return c.next - 1
}

// buy asks until there is an answer that will not change.
func (c *crowd) buy(ctx context.Context, user string) {
	c.mu.Lock()
	c.asked[user] = true
	c.mu.Unlock()
	h, ok := c.insist(ctx, user, "first")
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case h.Outcome == api.Sold && len(h.Claim.Units) == 1 && h.Claim.User == user && len(h.Claim.Amounts) == 1 == c.r.packets:
		c.got[user] = grantedOf(h.Claim)
	case h.Outcome == api.SoldOut:
		c.late[user] = true
	case h.Outcome != api.Closed:
		c.r.Errorf("%s hears %+v", user, h)
	}
}

// again asks once more with the same key and once with another one: who has got
// something hears of the same thing.
func (c *crowd) again(ctx context.Context, user string) {
	c.mu.Lock()
	had, got := c.got[user]
	c.mu.Unlock()
	if !got {
		return
	}
	h, ok := c.insist(ctx, user, "first")
	if ok && h.Outcome != api.Closed && (!h.Replayed || !grantedOf(h.Claim).same(had)) {
		c.r.Errorf("%s was told of %+v, asks again, and hears %+v", user, had, h)
	}
	h, ok = c.insist(ctx, user, "second")
	if has := h.Problem().Claims; ok && h.Outcome != api.Closed && (h.Outcome != api.LimitReached || len(has) != 1 || !grantedOf(has[0]).same(had)) {
		c.r.Errorf("%s was told of %+v, asks for another one, and hears %+v", user, had, h)
	}
}

// insist asks one place and then another until somebody decides, or ctx ends.
func (c *crowd) insist(ctx context.Context, user, key string) (h api.Answer, ok bool) {
	chance := c.r.chance(user + key)
	for deadline := time.Now().Add(roundPatience); moment(ctx, chance, 0); {
		var err error
		if url := c.r.shops[chance.IntN(len(c.r.shops))].at(); url != "" {
			h, err = c.ask(ctx, url, user, key)
			if err == nil && h.Retry() == api.Final && h.Outcome != api.NoSuchSale {
				return h, true
			}
		}
		if time.Now().After(deadline) {
			c.r.Errorf("%s has waited for %v, and heard last %+v, %v", user, roundPatience, h, err)
			return h, false
		}
		moment(ctx, chance, 150*time.Millisecond)
	}
	return h, false
}

// ask makes one attempt.
func (c *crowd) ask(ctx context.Context, url, user, key string) (api.Answer, error) {
	client, err := api.NewClient(api.Config{
		Servers: []string{url}, Sale: "luck", Transport: c.transport, Timeout: 5 * time.Second,
		Attempted: func(api.Attempt) bool { return false },
	})
	if err != nil {
		return api.Answer{}, err
	}
	return client.Claim(ctx, api.Request{User: user, Quantity: 1, Key: key})
}
