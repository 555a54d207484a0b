//go:build unix

package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	goredis "github.com/redis/go-redis/v9"

	"salectl/backends/quorum"
	"salectl/internal/services"
	"salectl/internal/wait"
)

// What a storm is made of. The environment may make it longer, or repeat a
// schedule of faults (though not what the machine made of it).
const (
	stormLength = 40 * time.Second
	stormFor    = "SALECTL_TEST_STORM"      // a duration
	stormSeed   = "SALECTL_TEST_STORM_SEED" // a number
	stormTTL    = contenderTTL
)

// storm is contenders for one lease, some in this process behind proxies of
// their own and some in processes of their own, and whatever befalls them and
// the nodes.
type storm struct {
	*fleet
	ctx     context.Context // ends with the storm
	end     context.CancelFunc
	witness *witness
	ways    [][]*toxiproxy.Proxy // of the contenders in this process
	others  []*other

	holder atomic.Int32 // which contender in this process has the lease; -1: none

	mu     sync.Mutex // guards what follows
	busy   map[target]bool
	struck map[string]int
}

// other is a contender in a process of its own, started again when it is killed.
type other struct {
	mu sync.Mutex
	*contender
	life int // counts its processes
}

// TestStorm lets contenders take turns with a lease while nodes are stopped,
// killed, restarted from what was on their disk and flushed, while networks
// swallow either direction, delay and break off, and while processes are stopped
// and killed, all at random.
//
// What it wants: no guarded action begins when the nodes' promises have run out,
// and no two leases are valid at once, by one monotonic clock.
//
// What no lock on Redis can promise is left out of it. An action that began in
// time may end, or reach the store, when the lease is over: a process can be
// stopped between the check of the lease and the act. And if the clocks of a
// majority of the nodes jump ahead, or run faster than ours by more than one in
// a hundred, they forget what they have promised. A sale is safe then too: for
// each append, the compare-and-set on the shard's log decides, and a lease only
// keeps owners out of each other's way (docs/design.md, sections 4 and 5).
func TestStorm(t *testing.T) {
	t.Parallel()
	length, seed := stormLength, uint64(time.Now().UnixNano())
	var err error
	if s := os.Getenv(stormFor); s != "" {
		if length, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	if s := os.Getenv(stormSeed); s != "" {
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s=%d", stormSeed, seed)
	s := newStorm(t, 5)
	var contending, striking sync.WaitGroup
	for i := range s.ways {
		contending.Go(func() { s.contend(i, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	for i := range s.others {
		contending.Go(func() { s.follow(i) })
	}
	calm := time.Now().Add(length)
	for i := range 2 {
		random := rand.New(rand.NewPCG(seed, uint64(100+i)))
		striking.Go(func() {
			for {
				for _, name := range shuffled(random) {
					if !time.Now().Before(calm) || t.Failed() {
						return
					}
					s.strike(name, random)
				}
			}
		})
	}
	striking.Wait()

	// Whatever has happened, the lease can be had again.
	before := s.witness.leases()
	wait.Until(t, "more leases after the last fault", func() bool { return s.witness.leases() > before+2 })
	s.end()
	contending.Wait()

	for _, found := range s.witness.overlaps() {
		t.Error(found)
	}
	t.Logf("%d leases, %d actions; %v", s.witness.leases(), s.witness.acts, s.struck)
	if least := int(length / (10 * time.Second)); s.witness.leases() < least || s.witness.acts < least {
		t.Errorf("%d leases and %d actions are too few to prove anything", s.witness.leases(), s.witness.acts)
	}
}

func newStorm(t *testing.T, size int) *storm {
	s := &storm{fleet: &fleet{T: t}, witness: newWitness(size, stormTTL), busy: map[target]bool{}, struck: map[string]int{}}
	s.holder.Store(-1)
	s.ctx, s.end = context.WithCancel(t.Context())
	t.Cleanup(s.end)
	for range size {
		n, server := mustServe(t, "--appendonly", "yes", "--appendfsync", "everysec")
		mustMark(t, n)
		s.servers, s.nodes = append(s.servers, server), append(s.nodes, n)
	}
	s.ways = make([][]*toxiproxy.Proxy, 2)
	for i := range s.ways {
		for _, server := range s.servers {
			s.ways[i] = append(s.ways[i], mustProxyTo(t, server))
		}
	}
	for range 2 {
		o := &other{}
		s.must(s.restart(o))
		s.others = append(s.others, o)
	}
	return s
}

// restart starts a contender's process, the next if there was one.
func (s *storm) restart(o *other) error {
	c, err := startContender(s, s.addresses(), "4s")
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.contender = c
	o.life++
	return nil
}

// contend takes the lease again and again, and acts while it has it.
func (s *storm) contend(contender int, random *rand.Rand) {
	var nodes []quorum.Node
	var token atomic.Pointer[string] // the last one of a request is the token of the lease
	for _, way := range s.ways[contender] {
		n, err := Open(Options{Address: way.Listen})
		if err != nil {
			s.Error(err)
			return
		}
		defer n.Close()
		nodes = append(nodes, seen{Node: n, by: s.witness, token: &token})
	}
	cfg := quorum.Config{Marker: marker, TTL: stormTTL}
	for s.ctx.Err() == nil {
		l, err := quorum.Hold(s.ctx, nodes, cfg, leaseKey, quorum.Forever)
		if err != nil {
			if s.ctx.Err() == nil {
				s.Error(err)
			}
			return
		}
		won := time.Now()
		s.holder.Store(int32(contender))
		// Mostly short, and sometimes far beyond what one renewal is good for.
		holds := time.Duration(math.Pow(random.Float64(), 2) * float64(6*stormTTL))
		// It acts once a millisecond: what passes is the time for which it holds.
		for over := won.Add(holds); time.Now().Before(over); time.Sleep(time.Millisecond) {
			begin := time.Now()
			if !l.Valid() {
				break
			}
			s.witness.valid(fmt.Sprintf("lease %s of contender %d", *token.Load(), contender), won, begin)
			if err := s.witness.acted(*token.Load(), begin); err != nil {
				s.Errorf("contender %d: %v", contender, err)
			}
		}
		s.holder.CompareAndSwap(int32(contender), -1)
		l.Release(s.ctx)
		<-l.Done()
	}
}

// follow queries a process for its valid lease, as fast as it answers. A lease that it
// names was valid between request and reply.
func (s *storm) follow(i int) {
	o := s.others[i]
	for s.ctx.Err() == nil {
		o.mu.Lock()
		c, life := o.contender, o.life
		o.mu.Unlock()
		first := map[int]time.Time{} // when each lease was named first
		for s.ctx.Err() == nil {
			sent := time.Now()
			if c.write("valid?") != nil {
				break // it was killed
			}
			lease, err := c.read()
			if err != nil {
				break
			}
			if lease > 0 {
				if _, known := first[lease]; !known {
					first[lease] = time.Now()
				}
				s.witness.valid(fmt.Sprintf("lease %d of process %d.%d", lease, i, life), first[lease], sent)
			}
			time.Sleep(time.Millisecond) // the queries never stop, and need not use up a processor
		}
		// Its next life begins when the fault is over.
		_ = wait.Poll(wait.Limit, func() error {
			o.mu.Lock()
			defer o.mu.Unlock()
			if o.contender == c && s.ctx.Err() == nil {
				return errors.New("not started again")
			}
			return nil
		})
	}
}

// A target is what a fault can befall, by its kind and its number among those
// of the kind. The way of a contender to a node is one as well.
type target struct {
	kind   kind
	number int
}

type kind string

const (
	aNode    kind = "node"
	aWay     kind = "way"
	aProcess kind = "process"
)

// stormFault is something that can go wrong, for how long at most, to how many
// targets at once, and how often beside the others.
type stormFault struct {
	kind   kind
	most   time.Duration
	many   int
	weight int
	strike func(s *storm, i int) error
	mend   func(s *storm, i int) error // nil: nothing to mend
}

// A node that has lost its memory abstains for MaxTTL. That is done rarely, so
// that most of the time there is a majority to strike at.
var storms = map[string]stormFault{
	"stopped": {aNode, 4 * time.Second, 3, 2,
		func(s *storm, i int) error { return s.servers[i].Pause() },
		func(s *storm, i int) error { return s.servers[i].Continue() }},
	"killed": {aNode, time.Second, 1, 1,
		func(s *storm, i int) error { return s.servers[i].Kill() },
		func(s *storm, i int) error { return s.servers[i].Start(context.WithoutCancel(s.ctx)) }},
	"flushed": {aNode, 0, 2, 1,
		func(s *storm, i int) error { return s.command(i, "FLUSHALL") }, nil},
	"without end": {aNode, 0, 5, 1,
		func(s *storm, i int) error { return s.command(i, "PERSIST", leaseKey) }, nil},
	"loses requests": {aWay, 3 * stormTTL, 5, 3, toxic("timeout", "upstream", `"timeout":0`), heal},
	"loses replies":  {aWay, 3 * stormTTL, 5, 3, toxic("timeout", "downstream", `"timeout":0`), heal},
	"broken off":     {aWay, time.Second, 5, 1, toxic("reset_peer", "downstream", `"timeout":0`), heal},
	"delayed":        {aWay, 4 * time.Second, 5, 1, toxic("latency", "downstream", `"latency":300,"jitter":290`), heal},
	"stands still": {aProcess, 2 * stormTTL, 1, 3,
		func(s *storm, i int) error { return services.Signal(s.others[i].process, syscall.SIGSTOP) },
		func(s *storm, i int) error { return s.others[i].process.Signal(syscall.SIGCONT) }},
	"dies": {aProcess, time.Second, 1, 1,
		func(s *storm, i int) error { s.others[i].kill(); return nil },
		func(s *storm, i int) error { return s.restart(s.others[i]) }},
}

// command makes a server do something as redis-cli would.
func (s *storm) command(node int, args ...any) error {
	c := goredis.NewClient(&goredis.Options{Addr: s.servers[node].Addr(), Protocol: 2})
	defer c.Close()
	return c.Do(context.WithoutCancel(s.ctx), args...).Err()
}

// way returns that with a number.
func (s *storm) way(i int) *toxiproxy.Proxy { return s.ways[i/len(s.servers)][i%len(s.servers)] }

func toxic(kind, stream, attributes string) func(*storm, int) error {
	return func(s *storm, i int) error { return addToxic(s.way(i), kind, stream, attributes) }
}

func heal(s *storm, i int) error {
	s.way(i).Toxics.ResetToxics(context.WithoutCancel(s.ctx))
	return nil
}

// aim takes some targets of a kind that nothing befalls at the moment. Those of
// a way are one contender's: mostly all of the one that has the lease, which then
// has to know by itself when that is over.
func (s *storm) aim(random *rand.Rand, f stormFault) (targets []target) {
	from, among := 0, len(s.servers)
	switch f.kind {
	case aWay:
		from = len(s.servers) * random.IntN(len(s.ways))
	case aProcess:
		among = len(s.others)
	}
	some := 1 + random.IntN(f.many)
	if holder := int(s.holder.Load()); f.kind == aWay && holder >= 0 && random.IntN(4) > 0 {
		from, some = len(s.servers)*holder, among
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range random.Perm(among)[:some] {
		if t := (target{f.kind, from + i}); !s.busy[t] {
			s.busy[t] = true
			targets = append(targets, t)
		}
	}
	return targets
}

// shuffled returns all faults, each as often as it weighs.
func shuffled(random *rand.Rand) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(storms)) {
		names = append(names, slices.Repeat([]string{name}, storms[name].weight)...)
	}
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}

// strike lets one fault happen, from beginning to end.
func (s *storm) strike(name string, random *rand.Rand) {
	f := storms[name]
	targets := s.aim(random, f)
	each := func(do func(*storm, int) error) {
		for _, t := range targets {
			if err := do(s, t.number); err != nil {
				s.Errorf("%s %d %s: %v", t.kind, t.number, name, err)
			}
		}
	}
	each(f.strike)
	time.Sleep(time.Duration(random.Int64N(int64(f.most) + 1))) // a fault has a length, and ends in whatever state
	if f.mend != nil {
		each(f.mend)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range targets {
		delete(s.busy, t)
		s.struck[fmt.Sprint(t.kind, " ", name)]++
	}
}
