package ownership

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/quorum"
	"salectl/executor/saletest"
	"salectl/executor/status"
	"salectl/spec"
)

// sharedWorld is an ownerWorld in which processes share the shards of a sale. It is an
// error if two of them may append to one shard at a time.
type sharedWorld struct {
	*ownerWorld
	shards int
	served []time.Duration // when each shard was last seen to have an owner; monotonic
	gaps   []time.Duration // the longest that each has had none since it had its first
}

// handOver is the longest that a shard may be without an owner while it moves from one
// process to another: it stops, tells that it has, the successor gets the lease, reads what
// is new and appends Own.
const handOver = haltTakes + tellTakes + 2*time.Millisecond + takeTakes

// crash is the longest that a shard may be without an owner whose owner has died.
const crash = quorum.DefaultTTL + time.Second

func newSharedWorld(t testing.TB, nodes, shards int) *sharedWorld {
	w := &sharedWorld{ownerWorld: newOwnerWorldFor(t, nodes, quorum.DefaultTTL), shards: shards}
	w.served, w.gaps = make([]time.Duration, shards), make([]time.Duration, shards)
	saletest.Provision(t, w.logs, saletest.Declared(w.sale, 100, shards, 1), spec.Shares(100, shards))
	w.watch, w.callTakes = w.look, time.Millisecond
	return w
}

// joins starts a process, with what it is besides.
func (w *sharedWorld) joins(name string, change func(*Config)) *ownerHost {
	h := w.host(name, change)
	w.ownerHost = h
	return h
}

// look checks and measures.
func (w *sharedWorld) look() {
	for i := range w.shards {
		var may []string
		for _, h := range w.all {
			s := h.running[i]
			if s == nil || h.dead || !h.may(s) {
				continue
			}
			may = append(may, h.o.cfg.Address)
			if s.epoch == w.epochs[i] && s.epoch != 0 && s.endAt == 0 && !h.still {
				w.served[i] = w.now.Mono
			}
		}
		if len(may) > 1 {
			w.t.Errorf("at %v %v may append to shard %d", w.now.Mono, may, i)
		}
		if w.served[i] != 0 {
			w.gaps[i] = max(w.gaps[i], w.now.Mono-w.served[i])
		}
	}
}

// owns returns the shards that a process owns by their logs.
func (h *ownerHost) owns() []int {
	return h.shardsThat(func(s *madeUp) bool { return s.epoch != 0 && s.endAt == 0 })
}

// shared reports whether each shard is owned by who should own it, in the eyes of all who
// act.
func (w *sharedWorld) shared() bool {
	for i := range w.shards {
		for _, h := range w.all {
			if !h.acts() || h.o.stage != serving {
				continue
			}
			who := w.named(h.o.assignment.desired[i])
			if who == nil || !who.acts() || who.running[i] == nil || who.running[i].epoch != w.epochs[i] || who.running[i].endAt != 0 || who.stages()[i] != owned {
				return false
			}
		}
	}
	return true
}

// converge lets time pass until the shards are shared, and a little longer.
func (w *sharedWorld) converge(atMost time.Duration) {
	w.t.Helper()
	took, ok := w.passUntil(w.shared, atMost)
	if !ok {
		for _, h := range w.all {
			w.t.Logf("%s: acts %v, stage %v, shards %v, desired %q, holder %q, links %d", h.o.cfg.ID, h.acts(), h.o.stage, h.stages(), h.o.assignment.desired, h.o.peers.holder, len(h.links))
		}
		w.t.Fatalf("after %v the shards are not shared as they should be", took)
	}
	w.pass(2 * requestEvery)
}

// changes counts how often shards have got another owner.
func (w *sharedWorld) changes() (n int) {
	for _, e := range w.epochs {
		n += int(e)
	}
	return n
}

// gap returns the longest that any of some shards was without an owner, and forgets it;
// all, if none is named.
func (w *sharedWorld) gap(shards ...int) (longest time.Duration) {
	for i := range w.gaps {
		if len(shards) == 0 || slices.Contains(shards, i) {
			longest = max(longest, w.gaps[i])
			w.gaps[i] = 0
		}
	}
	return longest
}

// TestShare has processes join one by one, drain, and end. Shards move only to make the
// shares even, each once, and are without an owner for no longer than a hand-over takes.
func TestShare(t *testing.T) {
	w := newSharedWorld(t, 3, 12)
	hosts := []*ownerHost{w.joins("first", nil)}
	w.converge(2 * time.Second)
	if got := hosts[0].owns(); len(got) != 12 || w.changes() != 12 {
		t.Fatalf("the first owns %v after %d changes", got, w.changes())
	}
	w.gap()
	even := func(n int, moves ...int) {
		t.Helper()
		for _, h := range hosts {
			if got := h.owns(); len(got) != n {
				t.Errorf("%s owns %v, want %d", h.o.cfg.ID, got, n)
			}
		}
		if gap := w.gap(); gap > handOver {
			t.Errorf("a shard was without an owner for %v", gap)
		}
	}
	before := w.changes()
	for i, name := range []string{"second", "third", "fourth"} {
		was := make([]string, 12)
		for s := range was {
			was[s] = hosts[0].o.assignment.desired[s]
		}
		hosts = append(hosts, w.joins(name, nil))
		w.converge(3 * time.Second)
		even(12 / (i + 2))
		moved := 0
		for s := range was {
			if was[s] != hosts[0].o.assignment.desired[s] {
				moved++
			}
		}
		if got := w.changes() - before; got != moved {
			t.Errorf("when %s came %d shards got another owner, want %d", name, got, moved)
		}
		before = w.changes()
	}

	// The second gives its shards away, and goes.
	second := hosts[1]
	had := second.owns()
	second.input(func(now clock.Now) { second.o.Retire(now) })
	if share := second.o.Share(w.now); share.Shards != len(had) || !share.HasTakers {
		t.Errorf("it has %d shards left of %d, peers take them: %v", share.Shards, len(had), share.HasTakers)
	}
	if _, ok := w.passUntil(func() bool { return second.o.Share(w.now).Shards == 0 }, time.Second); !ok {
		t.Fatalf("after a second it still owns %v of %v", second.owns(), had)
	}
	w.converge(time.Second)
	second.input(second.o.Drain)
	w.passUntil(func() bool { return second.o.Drained(w.now) }, 3*quorum.CallTimeout(w.ttl))
	if !second.o.Drained(w.now) {
		t.Error("it is not gone")
	}
	second.dead = true
	hosts = slices.Delete(hosts, 1, 2)
	w.converge(time.Second)
	even(4)
	w.pass(time.Minute)
	even(4)
}

// TestShareOfTheDead has a process die, once so that its peers see their links to it end and
// once silently. Its shards are served again a ttl and a second later, and those of the
// others go on, but for such as move to make the shares even.
func TestShareOfTheDead(t *testing.T) {
	for name, end := range map[string]func(h *ownerHost){
		"killed":  (*ownerHost).die,
		"stopped": func(h *ownerHost) { h.still = true },
	} {
		t.Run(name, func(t *testing.T) {
			w := newSharedWorld(t, 3, 12)
			var hosts []*ownerHost
			for i := range 4 {
				hosts = append(hosts, w.joins(fmt.Sprint("host-", i), nil))
			}
			w.converge(5 * time.Second)
			w.gap()
			for i := 1; i < 4; i++ {
				h := hosts[i]
				had, before, was := h.owns(), w.changes(), slices.Clone(hosts[0].o.assignment.desired)
				end(h)
				w.converge(crash + time.Second)
				gap := w.gap(had...)
				if gap > crash {
					t.Errorf("a shard of the dead was without an owner for %v", gap)
				}
				if others := w.gap(); others > handOver {
					t.Errorf("a shard of another was without an owner for %v", others)
				}
				moved := 0
				for s := range was {
					if was[s] != hosts[0].o.assignment.desired[s] {
						moved++
					}
				}
				if got := w.changes() - before; got != moved {
					t.Errorf("%d shards got another owner, want %d", got, moved)
				}
				t.Logf("served again after %v", gap)
			}
			if name == "killed" {
				return
			}
			for _, h := range hosts {
				h.goesOn()
			}
			w.converge(5 * time.Second)
			for _, h := range hosts {
				if got := h.owns(); len(got) != 3 {
					t.Errorf("when all go on %s owns %v", h.o.cfg.ID, got)
				}
			}
		})
	}
}

// TestShareIsFollowedByItsFallback has a process fall silent, and go on or die. Its shards are followed
// meanwhile by those who would own them without it, and by nobody once it goes on.
func TestShareIsFollowedByItsFallback(t *testing.T) {
	w := newSharedWorld(t, 3, 12)
	var hosts []*ownerHost
	for i := range 3 {
		hosts = append(hosts, w.joins(fmt.Sprint("host-", i), nil))
	}
	w.converge(5 * time.Second)
	last, others := hosts[2], hosts[:2]
	had, before := last.owns(), w.changes()
	following := func() (all []int) {
		for i := range w.shards {
			for _, h := range others {
				if s := h.running[i]; s != nil && s.follows && s.warmAt <= w.now.Mono && h.stages()[i] == taking {
					all = append(all, i)
				}
			}
		}
		return all
	}
	last.still = true
	w.pass(silentAfter + beatEvery + 2*warmTakes)
	if got := following(); !slices.Equal(got, had) {
		t.Errorf("while it is silent %v are followed, it owns %v", got, had)
	}
	last.goesOn()
	w.pass(time.Second)
	var kept []int
	for _, h := range others {
		for i, st := range h.stages() {
			if st == warming || st == taking {
				kept = append(kept, i)
			}
		}
	}
	if got := kept; len(got) > 0 || w.changes() != before || !slices.Equal(last.owns(), had) {
		t.Errorf("when it goes on %v are followed, it owns %v, and shards got another owner %d times", got, last.owns(), w.changes()-before)
	}
	last.die()
	w.pass(2*warmTakes + 10*time.Millisecond)
	if got := following(); !slices.Equal(got, had) {
		t.Errorf("once it is dead %v are followed, it owned %v", got, had)
	}
	fallbacks := make(map[int]*ownerHost)
	for _, h := range others {
		for i, st := range h.stages() {
			if st == taking {
				fallbacks[i] = h
			}
		}
	}
	w.converge(crash + time.Second)
	for i, h := range fallbacks {
		if !slices.Contains(h.owns(), i) {
			t.Errorf("%s has followed shard %d, and does not own it in the end", h.o.cfg.ID, i)
		}
	}
}

// TestShareOfManyFallbacks has thirty shards of a process that is gone followed, sixteen at a
// time until their logs are read.
func TestShareOfManyFallbacks(t *testing.T) {
	w := newSharedWorld(t, 3, 60)
	a, b := w.joins("a", nil), w.joins("b", nil)
	w.converge(10 * time.Second)
	had := len(b.owns())
	b.die()
	follows := func() (warm, cold int) {
		for i, st := range a.stages() {
			switch {
			case st != warming && st != taking:
			case a.running[i].warmAt <= w.now.Mono:
				warm++
			default:
				cold++
			}
		}
		return warm, cold
	}
	w.pass(5 * time.Millisecond)
	if warm, cold := follows(); warm != 0 || cold != followAtOnce {
		t.Errorf("at first %d are followed and %d are read, want %d and none", cold, warm, followAtOnce)
	}
	w.pass(4 * warmTakes)
	if warm, cold := follows(); warm != had || cold != 0 {
		t.Errorf("in the end %d are read and %d are not, want %d and none", warm, cold, had)
	}
}

// TestShareOfOtherMinds has two processes see it otherwise who should own what: as long as
// they do, no shard moves that has an owner, and none has two.
func TestShareOfOtherMinds(t *testing.T) {
	for name, minds := range map[string]func(a, b *ownerHost) (whom [2]*ownerHost){
		"each wants all":                        func(a, b *ownerHost) [2]*ownerHost { return [2]*ownerHost{a, b} },
		"each wants the other to have all":      func(a, b *ownerHost) [2]*ownerHost { return [2]*ownerHost{b, a} },
		"neither knows anybody to own anything": func(a, b *ownerHost) [2]*ownerHost { return [2]*ownerHost{} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newSharedWorld(t, 3, 8)
			a, b := w.joins("a", nil), w.joins("b", nil)
			w.converge(3 * time.Second)
			w.gap()
			before := w.changes()
			for i, who := range minds(a, b) {
				id := ""
				if who != nil {
					id = who.o.cfg.ID
				}
				desired := []*ownerHost{a, b}[i].o.assignment.desired
				for s := range desired {
					desired[s] = id
				}
			}
			w.pass(30 * time.Second)
			if got := w.changes() - before; got != 0 {
				t.Errorf("shards got another owner %d times", got)
			}
			if len(a.owns()) != 4 || len(b.owns()) != 4 || w.gap() > takeTakes {
				t.Errorf("they own %v and %v", a.owns(), b.owns())
			}
			for _, h := range w.all {
				h.o.assignment.known = false // to see again what is there
			}
			w.converge(3 * time.Second)
		})
	}
}

// TestShareWithoutALink has two processes that cannot reach each other. No shard moves that
// has an owner, also when another comes that can reach both; and what is to move does as
// soon as they can.
func TestShareWithoutALink(t *testing.T) {
	w := newSharedWorld(t, 3, 8)
	a := w.joins("a", nil)
	w.converge(3 * time.Second)
	b := w.joins("b", nil)
	a.cut(b)
	w.gap()
	before := w.changes()
	w.pass(2 * time.Second)
	if slices.Contains(b.stages(), warming) {
		t.Errorf("b has never reached a, and follows its shards: %v", b.stages())
	}
	w.pass(18 * time.Second)
	if got := w.changes() - before; got != 0 || len(a.owns()) != 8 {
		t.Errorf("%d changes, a owns %v", got, a.owns())
	}
	c := w.joins("c", nil)
	w.pass(20 * time.Second)
	if got := w.changes() - before; got != len(c.owns()) || len(c.owns()) == 0 || len(b.owns()) != 0 {
		t.Errorf("%d changes, and they own %v, %v and %v", got, a.owns(), b.owns(), c.owns())
	}
	a.join(b)
	w.converge(2 * time.Second)
	if gap := w.gap(); gap > handOver {
		t.Errorf("a shard was without an owner for %v", gap)
	}
}

// TestShareDespiteLoss loses a third of what peers tell each other: shares converge all the
// same.
func TestShareDespiteLoss(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 3))
		w := newSharedWorld(t, 3, 8)
		w.loses = func() bool { return random.IntN(3) == 0 }
		a := w.joins("a", nil)
		w.pass(time.Second)
		w.joins("b", nil)
		w.joins("c", nil)
		w.converge(20 * time.Second)
		a.input(func(now clock.Now) { a.o.Retire(now) })
		w.converge(20 * time.Second)
		if got := a.owns(); len(got) != 0 {
			t.Errorf("seed %d: a owns %v", seed, got)
		}
	}
}

// TestShareSuccessorDies has the process die that a shard is about to move to, at each step
// of the move. The shard is served by its owner again, or by who is left, in time.
func TestShareSuccessorDies(t *testing.T) {
	for _, at := range []shareStage{warming, taking, owned} {
		t.Run(at.String(), func(t *testing.T) {
			w := newSharedWorld(t, 3, 4)
			a := w.joins("a", nil)
			w.converge(3 * time.Second)
			b := w.joins("b", nil)
			w.gap()
			reached := false
			w.watch = func() {
				if !reached && slices.Contains(b.stages(), at) {
					reached = true
					b.die()
				}
				w.look()
			}
			w.pass(2 * time.Second)
			if !reached {
				t.Fatalf("it was never %v", at)
			}
			w.converge(crash)
			if got := a.owns(); len(got) != 4 || w.gap() > crash {
				t.Errorf("a owns %v; a shard was without an owner for %v", got, w.gap())
			}
		})
	}
}

// TestShareOwnerDies has the owner of a shard die that is about to move, at each step.
func TestShareOwnerDies(t *testing.T) {
	for name, reached := range map[string]func(a, b *ownerHost) bool{
		"asked": func(_, b *ownerHost) bool {
			return slices.ContainsFunc(b.o.handover.all, func(s share) bool { return s.requestSent != 0 })
		},
		"agreed":  func(_, b *ownerHost) bool { return slices.Contains(b.stages(), warming) },
		"stopped": func(a, _ *ownerHost) bool { return slices.Contains(a.stages(), stopping) },
		"given":   func(_, b *ownerHost) bool { return slices.Contains(b.stages(), taking) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newSharedWorld(t, 3, 4)
			a := w.joins("a", nil)
			w.converge(3 * time.Second)
			b := w.joins("b", nil)
			w.gap()
			done := false
			w.watch = func() {
				if !done && len(b.o.handover.all) > 0 && reached(a, b) {
					done = true
					a.die()
				}
				w.look()
			}
			w.pass(2 * time.Second)
			if !done {
				t.Fatal("it never came to that")
			}
			w.converge(crash + time.Second)
			if got := b.owns(); len(got) != 4 {
				t.Errorf("b owns %v", got)
			}
			if gap := w.gap(); gap > crash {
				t.Errorf("a shard was without an owner for %v", gap)
			}
		})
	}
}

// TestShareOfAWrongClock gives no shard to a process that could not sell: neither one that
// nobody has, nor one of a peer that can.
func TestShareOfAWrongClock(t *testing.T) {
	w := newSharedWorld(t, 3, 6)
	a := w.joins("a", nil)
	w.converge(3 * time.Second)
	w.gap()
	before := w.changes()
	b := w.joins("b", nil)
	b.ahead = -2 * quorum.DefaultTTL
	w.pass(30 * time.Second)
	if got := w.changes() - before; got != 0 || len(a.owns()) != 6 {
		t.Errorf("%d changes, a owns %v", got, a.owns())
	}
	if gap := w.gap(); gap > takeTakes {
		t.Errorf("a shard was without an owner for %v", gap)
	}
	b.ahead = 0
	w.pass(2 * quorum.DefaultTTL) // until it has asked again what time it is
	w.converge(10 * time.Second)
	if len(b.owns()) != 3 {
		t.Errorf("with a clock that is right again b owns %v", b.owns())
	}
	if gap := w.gap(); gap > handOver {
		t.Errorf("a shard was without an owner for %v", gap)
	}
}

// TestShareGivenToAWrongClock has the clock of a process jump while it takes a shard: it could
// not sell, and frees what it has won at once.
func TestShareGivenToAWrongClock(t *testing.T) {
	w := newSharedWorld(t, 3, 2)
	w.joins("a", nil)
	w.converge(3 * time.Second)
	b := w.joins("b", nil)
	w.gap()
	w.watch = func() {
		if b.ahead == 0 && slices.Contains(b.stages(), taking) {
			b.ahead = 2 * quorum.DefaultTTL
		}
		w.look()
	}
	w.pass(2 * quorum.DefaultTTL)
	if b.ahead == 0 {
		t.Fatal("it never came to that")
	}
	if got := b.owns(); len(got) != 0 {
		t.Errorf("b owns %v", got)
	}
	if gap := w.gap(); gap >= quorum.DefaultTTL {
		t.Errorf("a shard was without an owner for %v", gap)
	}
}

// TestShareIsPrompt has a process look again just when its clock has been wrong for a ttl, and
// when nobody has taken a shard for a ttl.
func TestShareIsPrompt(t *testing.T) {
	w := newSharedWorld(t, 3, 1)
	a := w.joins("a", func(c *Config) { c.Standby = true })
	w.pass(time.Second)
	for what, begin := range map[string]func(now clock.Now){
		"its clock is wrong":       func(now clock.Now) { a.o.clock.off, a.o.clock.since = time.Hour, now.Mono },
		"nobody has the shard":     func(now clock.Now) { a.o.clock.off, a.o.assignment.desired[0] = 0, "" },
		"its successor is unknown": func(now clock.Now) { a.o.clock.off, a.o.assignment.desired[0] = 0, "b" },
	} {
		a.input(func(now clock.Now) {
			a.o.handover.all[0].freed = now.Mono
			begin(now)
			a.o.handover.advance(now)
			if wake := a.o.handover.wake - now.Mono; wake < a.o.ttl || wake > a.o.ttl+1 {
				t.Errorf("%s: it looks again after %v, want %v", what, wake, a.o.ttl)
			}
		})
	}
}

// TestShareOfNobody drains the only process, and one whose peers are standbys: nobody takes
// its shards, which it is told.
func TestShareOfNobody(t *testing.T) {
	for _, standbys := range []int{0, 2} {
		w := newSharedWorld(t, 1, 3)
		a := w.joins("a", nil)
		for i := range standbys {
			w.joins(fmt.Sprint("standby", i), func(c *Config) { c.Standby = true })
		}
		w.pass(2 * time.Second)
		a.input(func(now clock.Now) { a.o.Retire(now) })
		w.pass(2 * time.Second)
		if share := a.o.Share(w.now); share.Shards != 3 || share.HasTakers {
			t.Errorf("%d standbys: %d shards are left, peers take them: %v", standbys, share.Shards, share.HasTakers)
		}
		if got := a.owns(); len(got) != 3 {
			t.Errorf("it owns %v: nobody else would", got)
		}
	}
}

// TestShareOfManyShards moves more shards at once than are followed at a time.
func TestShareOfManyShards(t *testing.T) {
	w := newSharedWorld(t, 3, 60)
	a := w.joins("a", nil)
	w.converge(3 * time.Second)
	b := w.joins("b", nil)
	w.gap()
	most := 0
	w.watch = func() {
		n := 0
		for _, s := range b.o.handover.all {
			if s.stage == warming || s.stage == taking {
				n++
			}
		}
		most = max(most, n)
		w.look()
	}
	w.converge(10 * time.Second)
	if most > followAtOnce || most < 2 {
		t.Errorf("%d shards were followed at a time", most)
	}
	if gap := w.gap(); gap > handOver || len(a.owns()) != 30 {
		t.Errorf("a shard was without an owner for %v; a owns %d", gap, len(a.owns()))
	}
}

// TestShareAtRandom has processes come, die, stop for a while, retire, and lose their links,
// at random: no two may append to one shard, and when it is over the shards are shared.
func TestShareAtRandom(t *testing.T) {
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 4))
		w := newSharedWorld(t, 3, 6)
		w.loses = func() bool { return random.IntN(20) == 0 }
		w.joins("host-0", nil)
		for step := range 60 {
			w.pass(time.Duration(random.Int64N(int64(1500 * time.Millisecond))))
			a, b := w.all[random.IntN(len(w.all))], w.all[random.IntN(len(w.all))]
			alive := 0
			for _, h := range w.all {
				if h.acts() && !h.o.retiring() {
					alive++
				}
			}
			switch what := random.IntN(10); {
			case what < 2 && alive < 5:
				w.joins(fmt.Sprint("late-", step), nil)
			case what == 2 && alive > 1:
				a.die()
			case what == 3 && !a.dead:
				a.still = true
				w.after(time.Duration(random.Int64N(int64(2*w.ttl))), a.goesOn)
			case what == 4 && alive > 1:
				a.input(func(now clock.Now) { a.o.Retire(now) })
			case what == 5 && a != b:
				a.cut(b)
				w.after(time.Duration(random.Int64N(int64(2*w.ttl))), func() { a.join(b) })
			case what == 6:
				n := random.IntN(3)
				a.hangs[n] = true
				w.after(time.Duration(random.Int64N(int64(2*w.ttl))), func() { delete(a.hangs, n) })
			case what == 7 && a.acts() && len(a.running) > 0:
				for i := range a.running {
					a.end(i)
					break
				}
			}
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
		w.joins("last", nil)
		w.pass(3 * w.ttl)
		w.converge(30 * time.Second)
		if w.gap(); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestShareOfIsolatedProcess has a process that nobody reaches, and that reaches nobody. What
// another owned who dies goes to those who reach each other, and not to it. It takes all
// when it is alone.
func TestShareOfIsolatedProcess(t *testing.T) {
	w := newSharedWorld(t, 3, 12)
	a := w.joins("a", nil)
	w.converge(5 * time.Second)
	d := w.joins("d", nil)
	d.cut(a)
	b, c := w.joins("b", nil), w.joins("c", nil)
	d.cut(b)
	d.cut(c)
	w.pass(GoneAfter + 3*w.ttl)
	if x, y, z := len(a.owns()), len(b.owns()), len(c.owns()); x+y+z != 12 {
		t.Fatalf("the others own %d, %d and %d of 12", x, y, z)
	}
	c.dead = true
	w.pass(5 * w.ttl)
	if x, y, z := len(a.owns()), len(b.owns()), len(d.owns()); x+y != 12 || z != 0 {
		t.Errorf("the others own %d and %d of 12, and it owns %d", x, y, z)
	}
	a.dead, b.dead = true, true
	w.pass(2*w.ttl + time.Second)
	if n := len(d.owns()); n != 12 {
		t.Errorf("alone it owns %d of 12", n)
	}
}

// TestShareIsGivenUp has processes that own shards lose their links to most others. These own
// all a ttl after it is known, and the shards come back when the links do. Who reaches half
// keeps what it owns, and so do all where nobody reaches most.
func TestShareIsGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		sides   [][]string // that do not reach each other
		givesUp string
	}{
		"one of three":                     {[][]string{{"a", "b"}, {"c"}}, "c"},
		"two of five":                      {[][]string{{"a", "b", "c"}, {"d", "e"}}, "de"},
		"one of two":                       {[][]string{{"a"}, {"b"}}, ""},
		"two of four":                      {[][]string{{"a", "b"}, {"c", "d"}}, ""},
		"each of three, who reach nobody":  {[][]string{{"a"}, {"b"}, {"c"}}, ""},
		"none of three, who reach another": {[][]string{{"a", "b", "c"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSharedWorld(t, 3, 12)
			hosts, side := make(map[string]*ownerHost), make(map[string]int)
			for i, names := range c.sides {
				for _, name := range names {
					hosts[name], side[name] = w.joins(name, nil), i
				}
			}
			w.converge(10 * time.Second)
			before := w.changes()
			parted := func(do func(a, b *ownerHost)) {
				for x := range hosts {
					for y := range hosts {
						if side[x] < side[y] {
							do(hosts[x], hosts[y])
						}
					}
				}
			}
			parted(func(a, b *ownerHost) { a.cut(b) })
			w.pass(GoneAfter - beatEvery)
			if n := w.changes() - before; n != 0 {
				t.Errorf("%d shards moved before it was known that links were gone for long", n)
			}
			w.gap()
			w.pass(w.ttl + 2*time.Second)
			for name, h := range hosts {
				if n := len(h.owns()); (n == 0) != strings.Contains(c.givesUp, name) {
					t.Errorf("%s owns %d", name, n)
				}
				for _, m := range h.o.handover.moving(h.here(), h.o.handover.owners(h.here())) {
					if m.Stage == api.MoveDue {
						t.Errorf("%s tells of a move that nobody is about to begin: %+v", name, m)
					}
				}
			}
			if gap := w.gap(); gap > time.Second {
				t.Errorf("a shard was without an owner for %v", gap)
			}
			before = w.changes()
			w.pass(3 * w.ttl)
			if n := w.changes() - before; n != 0 {
				t.Errorf("%d shards moved afterwards", n)
			}
			parted(func(a, b *ownerHost) { a.join(b) })
			w.converge(10 * time.Second)
			if gap := w.gap(); gap > handOver {
				t.Errorf("with the links back a shard was without an owner for %v", gap)
			}
		})
	}
}

// TestShareOfOneWhoHears has a process that can make no link to the others, though they can
// make one to it: it hears them, and they do not hear it.
func TestShareOfOneWhoHears(t *testing.T) {
	w := newSharedWorld(t, 3, 12)
	a, b, c := w.joins("a", nil), w.joins("b", nil), w.joins("c", nil)
	w.converge(5 * time.Second)
	c.shuts()
	w.pass(GoneAfter + w.ttl + 2*time.Second)
	if x, y, z := len(a.owns()), len(b.owns()), len(c.owns()); x+y != 12 || z != 0 {
		t.Errorf("the others own %d and %d of 12, and it owns %d", x, y, z)
	}
	if all := c.o.PeerProblems(w.now); len(all) != 3 || all[0].Kind != status.PeerUnreached || all[1].Kind != status.PeerUnreached || all[2].Kind != status.Isolated {
		t.Errorf("by what it hears of two that it does not reach: %v", all)
	}
	c.shut = false
	w.converge(10 * time.Second)
}

// TestShareIsGivenUpBesideTheDead has the lock nodes list records of processes that died, one after
// the other, while one of four processes reaches none of the others: that one gives up its shards,
// and the others, who reach fewer than half of all that are listed, keep theirs.
func TestShareIsGivenUpBesideTheDead(t *testing.T) {
	for name, linked := range map[string]bool{"that reached nobody": false, "that reached the others": true} {
		t.Run(name, func(t *testing.T) {
			w := newSharedWorld(t, 3, 12)
			a, b, c, d := w.joins("a", nil), w.joins("b", nil), w.joins("c", nil), w.joins("d", nil)
			w.converge(5 * time.Second)
			d.cut(a)
			d.cut(b)
			d.cut(c)
			w.gap()
			passBesideTheDead(w, linked, GoneAfter+w.ttl+2*time.Second)
			if x, y, z := len(a.owns()), len(b.owns()), len(c.owns()); x+y+z != 12 {
				t.Errorf("the others own %d, %d and %d of 12", x, y, z)
			}
			if n := len(d.owns()); n != 0 {
				t.Errorf("the one that is cut off owns %d", n)
			}
			if gap := w.gap(); gap > time.Second {
				t.Errorf("a shard was without an owner for %v", gap)
			}
		})
	}
}

// passBesideTheDead lets time pass while the lock nodes get six records in each ttl of processes
// that have died.
func passBesideTheDead(w *sharedWorld, linked bool, d time.Duration) {
	w.t.Helper()
	note, err := json.Marshal(Process{Address: "nowhere:1", Linked: linked})
	if err != nil {
		w.t.Fatal(err)
	}
	for end := w.now.Mono + d; w.now.Mono < end; w.pass(w.ttl / 6) {
		died := quorum.Member{ID: fmt.Sprintf("died-%d", w.now.Mono), Note: "1 " + string(note)}
		for _, n := range w.nodes {
			if _, err := n.Announce(context.Background(), registryOf(saletest.UID), died, w.ttl); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// TestReaches has a link made to a record of a peer, which counts once something is heard by it:
// at the address of one that has died another may live, who refuses the link after a moment.
func TestReaches(t *testing.T) {
	o := New(Config{})
	o.stage = serving
	o.peers.all = map[string]*peer{"died": {listed: true}, "lives": {listed: true}, "gone": {}}
	now := clock.Now{Mono: time.Hour}
	want := func(reached, of int) {
		t.Helper()
		if n, there := o.peers.reaches(now); n != reached || there != of {
			t.Errorf("it reaches %d of %d, want %d of %d", n, there, reached, of)
		}
	}
	want(1, 3)
	for range 10 { // each link to the one that died is made and refused
		now.Mono += dialAgain
		for id := range o.peers.all {
			o.Linked(now, id, id != "died")
		}
		o.Linked(now, "died", true)
		want(1, 3)
	}
	o.Receive(now, "lives", new(PeerUpdate))
	o.Receive(now, "gone", new(PeerUpdate))
	want(2, 3)
	o.Linked(now, "lives", false)
	want(1, 2) // it may have died
	o.Linked(now, "lives", true)
	want(2, 3)
	now.Mono += silentAfter
	want(1, 2)
	o.peers.all["late"] = &peer{listed: true, since: now.Mono}
	want(1, 2)
	now.Mono += unreachedAfter - silentAfter
	want(1, 3)
	now.Mono += silentAfter
	want(1, 4)
}

// TestShareOfAStranger has the lock nodes list a process that nobody can reach: those that
// are there share all, and one that is to own nothing gives its share to the other.
func TestShareOfAStranger(t *testing.T) {
	w := newSharedWorld(t, 3, 8)
	a, b := w.joins("a", nil), w.joins("b", nil)
	w.converge(3 * time.Second)
	note, err := json.Marshal(Process{Address: "nowhere:1"})
	if err != nil {
		t.Fatal(err)
	}
	pass := func(d time.Duration) {
		for end := w.now.Mono + d; w.now.Mono < end; w.pass(w.ttl / 4) {
			for _, n := range w.nodes {
				if _, err := n.Announce(context.Background(), registryOf(saletest.UID), quorum.Member{ID: "stranger", Note: "1 " + string(note)}, w.ttl); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	before := w.changes()
	pass(GoneAfter + time.Second)
	if x, y := len(a.owns()), len(b.owns()); x != 4 || y != 4 {
		t.Errorf("they own %d and %d of 8", x, y)
	}
	if n := w.changes() - before; n != 0 {
		t.Errorf("for one who is not there %d shards got another owner", n)
	}
	a.input(func(now clock.Now) { a.o.Retire(now) })
	if !a.o.Share(w.now).HasTakers {
		t.Error("nobody is there to take its shards")
	}
	pass(2 * time.Second)
	if x, y := len(a.owns()), len(b.owns()); x != 0 || y != 8 {
		t.Errorf("they own %d and %d of 8", x, y)
	}
}

// TestPeerProblemBegins has a peer that is not reached any more, and one that was never reached and is listed long
// after the first list: each is a problem after problemAfter.
func TestPeerProblemBegins(t *testing.T) {
	ps := &peers{process: &process{}, noted: Process{Linked: true}, discoveredAt: time.Second, all: map[string]*peer{
		"b": {listed: true, since: time.Second, reached: time.Minute}, "c": {listed: true, up: true, lastSeen: time.Hour}, "d": {},
		"e": {listed: true, since: time.Minute + time.Second},
	}}
	for after, want := range map[time.Duration]int{problemAfter - 1: 0, problemAfter: 1, time.Second + problemAfter - 1: 1, time.Second + problemAfter: 2} {
		if got := ps.problems(clock.Now{Mono: time.Minute + after}); len(got) != want {
			t.Errorf("%v after the first was reached: %v, want %d", after, got, want)
		}
	}
}

// TestReach has a process that reaches neither of two others, and then one that has died.
func TestReach(t *testing.T) {
	w := newSharedWorld(t, 3, 6)
	a, b := w.joins("a", nil), w.joins("b", nil)
	w.converge(5 * time.Second)
	c := w.joins("c", nil)
	c.cut(a)
	c.cut(b)
	want := func(of *ownerHost, isolated bool, reached int, silent ...*ownerHost) {
		t.Helper()
		if up, all := of.o.peers.reaches(w.now); up != reached || all != 3 {
			t.Errorf("%s reaches %d of %d", of.o.cfg.ID, up, all)
		}
		var problems []status.Problem
		for _, h := range silent {
			problems = append(problems, status.Problem{Kind: status.PeerUnreached, Where: h.o.cfg.Address})
		}
		if isolated {
			why := fmt.Sprintf("it reaches %d of 2 others, and the ttl is %v", reached-1, w.ttl)
			problems = append(problems, status.Problem{Kind: status.Isolated, Where: of.o.cfg.Address, Why: why})
		}
		if got := of.o.PeerProblems(w.now); !reflect.DeepEqual(got, problems) {
			t.Errorf("%s has the problems %v, want %v", of.o.cfg.ID, got, problems)
		}
	}
	w.pass(GoneAfter)
	want(a, false, 2, c)
	want(c, true, 1, a, b)
	c.join(a)
	c.join(b)
	w.pass(GoneAfter)
	want(a, false, 3)
	want(c, false, 3)
	b.dead = true
	w.pass(unreachedAfter + beatEvery)
	if all := a.o.PeerProblems(w.now); len(all) != 0 || len(a.o.peers.all) != 1 {
		t.Errorf("once the lock nodes have forgotten the dead: %v", all)
	}
}
