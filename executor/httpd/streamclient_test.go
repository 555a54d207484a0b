package httpd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor"
	"salectl/executor/httpd/httpdtest"
	"salectl/internal/wait"
	"salectl/spec"
)

// buyer returns a client of a sale over streams, whose waits take no time.
func buyer(t *testing.T, change func(*api.Config), servers ...string) *api.Client {
	t.Helper()
	cfg := api.Config{
		Servers: servers, Sale: "movie", Stream: true,
		Sleep: func(ctx context.Context, _ time.Duration) error { return context.Cause(ctx) },
	}
	if change != nil {
		change(&cfg)
	}
	c, err := api.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// A client tells the same over a stream as by HTTP/1.1: answers, problems, and after how
// many attempts.
func TestClientTellsTheSame(t *testing.T) {
	answers := everyAnswer()
	sale := &httpdtest.Fake{Name: "movie",
		ClaimFunc: func(_ context.Context, r executor.Request) executor.Answer { return answers[r.User] },
		SettleFunc: func(_ context.Context, x executor.Settlement) executor.Answer {
			a := answers[x.Payment+x.Reason]
			if a.Accepted() && a.Outcome != x.How.Done() { // no settlement is answered so
				a.Outcome = api.NoExtension
			}
			return a
		},
		UserFunc: func(user string) ([]executor.Claim, api.Outcome) { return answers[user].Claims, "" },
		FindFunc: func(id executor.ClaimID) (executor.Claim, api.Outcome) {
			if id.Slot != 1234 {
				return executor.Claim{}, api.NoSuchClaim
			}
			return answers["held"].Claim, ""
		},
	}
	now := clock.System()()
	s := New(Config{Sales: []executor.Service{sale}, Clock: func() clock.Now { return now }})
	v := serve(t, s)
	three := func(a api.Attempt) bool { return a.Number < 3 }
	plain := buyer(t, func(c *api.Config) { c.Stream, c.Transport, c.Attempted = false, v.client.Transport, three }, v.url)
	streamed := buyer(t, func(c *api.Config) { c.Attempted = three }, v.url)
	same := func(what string, a, b api.Answer, errA, errB error) {
		t.Helper()
		if pa, pb := a.Problem(), b.Problem(); fmt.Sprint(pa) != fmt.Sprint(pb) {
			t.Errorf("%s: the problem %+v, by HTTP/1.1 %+v", what, pb, pa)
		}
		told := func(a api.Answer, err error) string {
			a.RetryAfter = max(a.RetryAfter, time.Second)
			return fmt.Sprintln(a.Outcome, a.Status, a.Claim, a.Replayed, a.RetryAfter.Round(time.Second), a.Server, a.Key, a.Attempts, a.MayBeAccepted, err)
		}
		if told(a, errA) != told(b, errB) {
			t.Errorf("%s:\n%s\nby HTTP/1.1\n%s", what, told(b, errB), told(a, errA))
		}
	}
	for name := range answers {
		r := api.Request{User: name, Quantity: 1, Key: "k"}
		a, errA := plain.Claim(t.Context(), r)
		b, errB := streamed.Claim(t.Context(), r)
		same("claim "+name, a, b, errA, errB)
		a, errA = plain.Settle(t.Context(), "3-1234-56", api.Confirm, api.Settlement{Payment: name})
		b, errB = streamed.Settle(t.Context(), "3-1234-56", api.Confirm, api.Settlement{Payment: name})
		same("confirm "+name, a, b, errA, errB)
		a, errA = plain.Settle(t.Context(), "3-1234-56", api.Cancel, api.Settlement{Reason: name})
		b, errB = streamed.Settle(t.Context(), "3-1234-56", api.Cancel, api.Settlement{Reason: name})
		same("cancel "+name, a, b, errA, errB)
	}
	for _, r := range []api.Request{
		{User: "sold", Key: "k"}, {User: "sold", Key: "k", Quantity: -1}, {User: "sold", Key: "k", Quantity: api.MaxQuantity + 1},
		{User: "sold", Key: "a b"}, {User: "sold", Key: " k"}, {User: "sold", Key: "k\n"}, {Key: "k"},
	} {
		a, errA := plain.Claim(t.Context(), r)
		b, errB := streamed.Claim(t.Context(), r)
		same(fmt.Sprintf("claim %+v", r), a, b, errA, errB)
	}
	for _, user := range []string{"limit", "nobody"} {
		a, errA := plain.User(t.Context(), user, api.Page{})
		b, errB := streamed.User(t.Context(), user, api.Page{})
		if fmt.Sprint(a, errA) != fmt.Sprint(b, errB) {
			t.Errorf("the user %s: %v %v, by HTTP/1.1 %v %v", user, b, errB, a, errA)
		}
	}
	for _, claim := range []string{"3-1234-56", "3-1-1", "nonsense"} {
		a, errA := plain.LookUp(t.Context(), claim, api.Page{})
		b, errB := streamed.LookUp(t.Context(), claim, api.Page{})
		if fmt.Sprint(a, errA) != fmt.Sprint(b, errB) {
			t.Errorf("the claim %s: %v %v, by HTTP/1.1 %v %v", claim, b, errB, a, errA)
		}
	}
	// What a server says is told, though another does not answer.
	for _, servers := range [][]string{{v.url, "http://127.0.0.1:1"}, {"http://127.0.0.1:1", v.url}} {
		for _, stream := range []bool{false, true} {
			_, claim := buyer(t, func(c *api.Config) { c.Stream = stream }, servers...).LookUp(t.Context(), "3-1-1", api.Page{})
			_, user := buyer(t, func(c *api.Config) { c.Stream, c.Sale = stream, "none" }, servers...).User(t.Context(), "ann", api.Page{})
			var a, b *api.Problem
			if !errors.As(claim, &a) || a.Outcome != api.NoSuchClaim || !errors.As(user, &b) || b.Outcome != api.NoSuchSale {
				t.Errorf("%q, stream %v: %v, %v", servers, stream, claim, user)
			}
		}
	}
}

// Whoever asks the one address of a server for what its other one has is told so.
func TestClientAtTheWrongAddress(t *testing.T) {
	s := New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie"}}})
	buyers, admin := serve(t, s), httptest.NewServer(s.Admin())
	t.Cleanup(admin.Close)
	for _, stream := range []bool{false, true} {
		at := func(url string) *api.Client { return buyer(t, func(c *api.Config) { c.Stream = stream }, url) }
		a, err := at(buyers.url).Settle(t.Context(), "3-1-1", api.Refund, api.Settlement{})
		if p := a.Problem(); err != nil || a.Outcome != api.BadRequest || p.Status != 404 || !strings.Contains(p.Detail, "requested at the admin address") {
			t.Errorf("a refund, stream %v: %+v, %v", stream, p, err)
		}
		if stream {
			continue // the admin address speaks HTTP/1.1
		}
		for how, ask := range map[string]func() (api.Answer, error){
			"a claim": func() (api.Answer, error) { return at(admin.URL).Claim(t.Context(), api.Request{User: "ann"}) },
			"a cancel": func() (api.Answer, error) {
				return at(admin.URL).Settle(t.Context(), "3-1-1", api.Cancel, api.Settlement{})
			},
			"a user": func() (a api.Answer, err error) {
				_, err = at(admin.URL).User(t.Context(), "ann", api.Page{})
				var p *api.Problem
				if errors.As(err, &p) {
					a, err = api.Answer{Outcome: p.Outcome}, nil
				}
				return a, err
			},
		} {
			if a, err := ask(); err != nil || a.Outcome != api.BadRequest {
				t.Errorf("%s: %+v, %v", how, a, err)
			}
		}
	}
}

// shop is a sale in memory: each user and key gets one unit, whoever asks how often.
type shop struct {
	httpdtest.Fake
	mu    sync.Mutex
	units map[string]int64
	asked atomic.Int64
}

func newShop() *shop {
	s := &shop{units: make(map[string]int64)}
	s.Name = "movie"
	s.ClaimFunc = func(_ context.Context, r executor.Request) executor.Answer {
		s.asked.Add(1)
		s.mu.Lock()
		defer s.mu.Unlock()
		a := httpdtest.SoldTo(r.User)
		unit, replayed := s.units[r.User+"|"+r.Key]
		if !replayed {
			unit = int64(len(s.units) + 1)
			s.units[r.User+"|"+r.Key] = unit
		}
		a.Claim.Units, a.Replayed = []int64{unit}, replayed
		return a
	}
	return s
}

// Connections that are cut cost nobody a unit and give nobody two: requests without an
// answer are sent again with their keys.
func TestClientOverCutConnections(t *testing.T) {
	s := newShop()
	v := serve(t, New(Config{Sales: []executor.Service{s}}))
	conns := make(chan net.Conn, 1000)
	c := buyer(t, func(c *api.Config) { c.Transport = cutting(conns) }, v.url)
	const users = 2000
	var got [users]int64
	var all sync.WaitGroup
	stop := make(chan struct{})
	cutter := make(chan int, 1)
	go func() {
		cuts := 0
		defer func() { cutter <- cuts }()
		for cuts < 8 { // each may cost all that is under way
			select {
			case conn := <-conns:
				before := s.asked.Load()
				if wait.Poll(wait.Limit, func() error {
					select {
					case <-stop:
						return nil
					default:
					}
					if n := s.asked.Load() - before; n < 200 { // in the middle
						return fmt.Errorf("asked %d times", n)
					}
					return nil
				}) != nil {
					return
				}
				conn.Close()
				cuts++
			case <-stop:
				return
			}
		}
	}()
	for i := range users {
		all.Go(func() {
			a, err := c.Claim(t.Context(), api.Request{User: fmt.Sprint("user-", i), Quantity: 1, Key: "k"})
			if err != nil || a.Outcome != api.Sold || a.MayBeAccepted {
				t.Errorf("user %d: %+v, %v", i, a, err)
				return
			}
			got[i] = a.Claim.Units[0]
		})
	}
	all.Wait()
	close(stop)
	if <-cutter == 0 {
		t.Error("no connection was cut")
	}
	whose := make(map[int64]bool)
	for i, unit := range got {
		if whose[unit] || unit != s.units[fmt.Sprintf("user-%d|k", i)] {
			t.Fatalf("user %d has unit %d", i, unit)
		}
		whose[unit] = true
	}
	if len(s.units) != users {
		t.Errorf("%d units are sold", len(s.units))
	}
}

// A server that goes away hands its clients on: no request fails.
func TestClientLeavesAServerThatDrains(t *testing.T) {
	s := newShop()
	one, two := serve(t, New(Config{Sales: []executor.Service{s}})), serve(t, New(Config{Sales: []executor.Service{s}}))
	c := buyer(t, nil, one.url, two.url)
	var all sync.WaitGroup
	var done atomic.Int64
	for i := range 100 {
		all.Go(func() {
			for n := range 50 {
				a, err := c.Claim(t.Context(), api.Request{User: fmt.Sprint("user-", i), Quantity: 1, Key: fmt.Sprint(n)})
				if err != nil || a.Outcome != api.Sold {
					t.Errorf("%+v, %v", a, err)
				}
				if done.Add(1) == 1000 {
					one.end()
				}
			}
		})
	}
	all.Wait()
	if <-one.done; one.err != nil {
		t.Errorf("Serve: %v", one.err)
	}
	if len(s.units) != 5000 {
		t.Errorf("%d units are sold", len(s.units))
	}
}

// A request whose context ends, or that gets no answer in time, may have been accepted.
func TestClientGivesUp(t *testing.T) {
	g := newGate()
	defer close(g.open)
	v := serve(t, New(Config{Sales: []executor.Service{g}, ClaimTimeout: time.Hour, DrainTimeout: time.Millisecond}))
	c := buyer(t, nil, v.url)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	go func() { <-g.inside; cancel(why) }()
	a, err := c.Claim(ctx, api.Request{User: "ada", Quantity: 1})
	if !errors.Is(err, why) || !a.MayBeAccepted || a.Outcome != "" || a.Attempts != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	short := buyer(t, func(c *api.Config) {
		c.Timeout = 3 * time.Second // for the way to the server
		c.Attempted = func(api.Attempt) bool { return false }
	}, v.url)
	a, err = short.Claim(t.Context(), api.Request{User: "bob", Quantity: 1})
	if err == nil || !strings.Contains(err.Error(), "no answer in time") || !a.MayBeAccepted {
		t.Errorf("%+v, %v", a, err)
	}
}

// What is no server, or lets nobody in, is not asked again.
func TestClientIsNotLetIn(t *testing.T) {
	v := serve(t, New(Config{Sales: []executor.Service{newShop()}, Tokens: tokensOf(t, "s3cret")}))
	for name, c := range map[string]struct {
		change func(*api.Config)
		want   string
	}{
		"no token": {func(*api.Config) {}, "401"},
		"HTTP/1.1": {func(c *api.Config) { c.Token, c.Transport = "s3cret", roundTripper{v.client.Transport} }, "505 HTTP Version Not Supported: A stream needs HTTP/2"},
	} {
		a, err := buyer(t, c.change, v.url).Claim(t.Context(), api.Request{User: "ada", Quantity: 1})
		if err == nil || !strings.Contains(err.Error(), c.want) || a.Attempts != 1 || a.MayBeAccepted {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
	a, err := buyer(t, func(c *api.Config) { c.Token, c.Sale = "s3cret", "opera" }, v.url).Claim(t.Context(), api.Request{User: "ada", Quantity: 1})
	if err != nil || a.Outcome != api.NoSuchSale || a.Status != 404 {
		t.Errorf("no such sale: %+v, %v", a, err)
	}
	if a, err := buyer(t, func(c *api.Config) { c.Token, c.Transport = "s3cret", &http.Transport{} }, v.url).Claim(t.Context(), api.Request{User: "ada", Quantity: 1}); err != nil || a.Outcome != api.Sold {
		t.Errorf("a transport of its own: %+v, %v", a, err)
	}
}

// roundTripper is a transport that nobody looks into.
type roundTripper struct{ http.RoundTripper }

// owners are servers that count whose claims come, each with its own shards.
func owners(t *testing.T, n, shards int, ownerOf func(shard int) string) (all []*serving, came []*atomic.Int64) {
	t.Helper()
	for range n {
		count := new(atomic.Int64)
		sale := &placed{Fake: httpdtest.Fake{Name: "movie"}, shards: shards, ownerOf: ownerOf}
		sale.ClaimFunc = func(_ context.Context, r executor.Request) executor.Answer {
			count.Add(1)
			return httpdtest.SoldTo(r.User)
		}
		sale.SettleFunc = func(context.Context, executor.Settlement) executor.Answer {
			count.Add(1)
			return httpdtest.SoldTo("ada")
		}
		all, came = append(all, serve(t, New(Config{Sales: []executor.Service{sale}, Tokens: tokensOf(t, "s3cret")}))), append(came, count)
	}
	return all, came
}

// placed is a sale whose shards have owners.
type placed struct {
	httpdtest.Fake
	shards  int
	ownerOf func(shard int) string
}

func (p *placed) Place(user string) executor.Place { return p.PlaceOf(spec.HomeShard(user, p.shards)) }

func (p *placed) PlaceOf(shard int) executor.Place {
	return executor.Place{Shard: shard, Shards: p.shards, Owner: p.ownerOf(shard)}
}

// A client that has heard who decides on a shard asks that one first, over streams and by
// HTTP/1.1.
func TestClientLearnsOwners(t *testing.T) {
	for _, stream := range []bool{true, false} {
		var all []*serving
		all, came := owners(t, 3, 6, func(shard int) string { return strings.TrimPrefix(all[shard%3].url, "http://") })
		c := buyer(t, func(c *api.Config) {
			c.Stream, c.Token = stream, "s3cret"
			if !stream {
				c.Transport = all[0].client.Transport
			}
		}, all[0].url, all[1].url, all[2].url)
		ask := func(user string) {
			t.Helper()
			if a, err := c.Claim(t.Context(), api.Request{User: user, Quantity: 1}); err != nil || a.Outcome != api.Sold {
				t.Fatalf("%+v, %v", a, err)
			}
		}
		for i := range 60 {
			ask(fmt.Sprint("user-", i)) // of all shards
		}
		for i := range 60 {
			user := fmt.Sprint("other-", i)
			owner := came[spec.HomeShard(user, 6)%3]
			before := owner.Load()
			if ask(user); owner.Load() != before+1 {
				t.Errorf("stream %v: user %s is not taken to the owner", stream, user)
			}
		}
		before := came[4%3].Load()
		if _, err := c.Settle(t.Context(), "4-1-2", api.Extend, api.Settlement{}); err != nil || came[4%3].Load() != before+1 {
			t.Errorf("stream %v: a settlement is not taken to the owner: %v", stream, err)
		}
		all[1].end()
		<-all[1].done
		for i := range 60 {
			ask(fmt.Sprint("third-", i)) // though one is away
		}
	}
}

// A client speaks to no server that it was not told of, unless it may follow owners; the
// token is a secret.
func TestClientFollowsOwners(t *testing.T) {
	var all []*serving
	all, came := owners(t, 2, 4, func(int) string { return strings.TrimPrefix(all[1].url, "http://") })
	for _, follow := range []bool{false, true} {
		before := came[1].Load()
		c := buyer(t, func(c *api.Config) { c.Token, c.FollowOwners = "s3cret", follow }, all[0].url)
		for i := range 20 {
			if a, err := c.Claim(t.Context(), api.Request{User: fmt.Sprint("user-", i), Quantity: 1}); err != nil || a.Outcome != api.Sold {
				t.Fatalf("%+v, %v", a, err)
			}
		}
		if followed := came[1].Load() > before; followed != follow {
			t.Errorf("FollowOwners %v: it has followed: %v", follow, followed)
		}
	}
}
