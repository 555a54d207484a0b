package replicas

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"salectl/api"
)

// A program that follows a sale, and keeps what it was told together with the position, misses
// nothing and is told nothing twice while the processes that tell it are killed amid a crowd,
// and while it begins anew itself.
func TestFollow(t *testing.T) {
	t.Parallel()
	follow(t, embedded)
}

func TestFollowOnACluster(t *testing.T) {
	t.Parallel()
	follow(t, cluster)
}

func follow(t *testing.T, where store) {
	const rate = 40
	s := apply(t, where, terms{stock: 1_000_000, shards: 4, ttl: killTTL})
	for range 2 {
		s.add()
	}
	s.settled()
	f := s.follow()
	c := s.come("http", rate)
	for kill := range 3 {
		c.some(rate / 2)
		f.has(len(c.accepted()))
		r := s.all[kill%2]
		r.kill()
		c.some(rate / 2)
		f.again()
		f.has(len(c.accepted())) // by the other process
		r.start()
		r.ready()
	}
	c.leave()
	accepted := c.accepted()
	f.has(len(accepted))
	f.end()

	exported := make(map[string]string)
	s.well("export", "--out", "live.ndjson")
	text, err := os.ReadFile(filepath.Join(s.dir, "live.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e feedClaim
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		if e.Claim != "" {
			exported[e.Claim] = e.line()
		}
	}
	if told := f.claims(); !maps.Equal(told, exported) || len(told) != len(accepted) {
		t.Errorf("the feed has told of %d claims, the export has %d, and %d were accepted", len(told), len(exported), len(accepted))
		for id := range exported {
			if told[id] != exported[id] {
				t.Errorf("the export has %s, and the feed %s", exported[id], told[id])
			}
		}
	}
	s.books(c)
}

// accepted are the claims that clients were told of.
func (c *crowd) accepted() map[string]bool {
	all := make(map[string]bool)
	for _, a := range c.answered() {
		if a.answer.Outcome.Accepted() {
			all[a.answer.Claim.ID] = true
		}
	}
	return all
}

// feedClaim is a claim as the feed and the export have it.
type feedClaim struct {
	Claim, User, Key string
	Units            []int64
}

func (c *feedClaim) line() string { return fmt.Sprint(c.Claim, " ", c.User, " ", c.Key, " ", c.Units) }

// reader is a program that follows a sale: it keeps what it was told.
type reader struct {
	s   *sale
	end func() // and waits for it

	mu       sync.Mutex
	told     map[string]api.Event // by id
	position string
	anew     bool // it is to begin again
}

// follow begins to follow a sale at its processes.
func (s *sale) follow() *reader {
	var urls []string
	for _, r := range s.all {
		urls = append(urls, s.url(r.listen))
	}
	client, err := api.NewClient(api.Config{Servers: urls, Sale: s.name, Transport: s.transport})
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f, done := &reader{s: s, told: make(map[string]api.Event)}, make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			for events, err := range client.Follow(ctx, api.Following{From: f.position}) {
				if ctx.Err() == nil && err != nil {
					s.Errorf("the feed ends: %v", err)
					return
				}
				if err == nil && !f.take(events) {
					break
				}
			}
		}
	}()
	f.end = sync.OnceFunc(func() { cancel(); <-done })
	s.Cleanup(f.end)
	return f
}

// take keeps what was told together, as one transaction would.
func (f *reader) take(events api.Events) (more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.anew { // it dies before it has kept anything
		f.anew = false
		return false
	}
	for _, e := range events.Events[:len(events.Events)-1] {
		var is struct{ ID string }
		if err := json.Unmarshal(e.JSON, &is); err != nil {
			f.s.Errorf("an event is no JSON: %v", err)
		}
		if other, twice := f.told[is.ID]; twice {
			f.s.Errorf("the feed has %s twice: %s and %s", is.ID, other.JSON, e.JSON)
		}
		f.told[is.ID] = e
	}
	f.position = events.Position
	return true
}

// again has the program begin anew, where it was.
func (f *reader) again() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.anew = true
}

// claims are those that it was told of.
func (f *reader) claims() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make(map[string]string)
	for _, id := range slices.Sorted(maps.Keys(f.told)) {
		if e := f.told[id]; e.Type == "salectl.claim.sold" {
			var is struct{ Data feedClaim }
			if err := json.Unmarshal(e.JSON, &is); err != nil {
				f.s.Errorf("an event is no JSON: %v", err)
			}
			all[is.Data.Claim] = is.Data.line()
		}
	}
	return all
}

// has waits until it was told of so many claims.
func (f *reader) has(claims int) {
	f.s.Helper()
	f.s.eventually(func() error {
		if n := len(f.claims()); n < claims {
			return fmt.Errorf("the feed has told of %d claims, want %d", n, claims)
		}
		return nil
	})
	f.s.note("the feed has told of %d claims", claims)
}
