package quorum_test

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"salectl/backends/clock"
	"salectl/backends/quorum"
)

// sale is what the processes of a world share, and who should have what, if some of
// them are there: of each key the one whose hash with it is highest.
type sale struct {
	keys   []string
	owners map[string][]string // by the members: the owner of each key
}

func (s *sale) ownersAmong(members []quorum.Member) []string {
	ids := make([]string, len(members))
	for i, m := range members {
		ids[i] = m.ID
	}
	all := strings.Join(ids, " ")
	if owners, ok := s.owners[all]; ok {
		return owners
	}
	owners := make([]string, len(s.keys))
	for i, key := range s.keys {
		best := uint64(0)
		for _, id := range ids {
			h := fnv.New64a()
			fmt.Fprint(h, id, " ", key)
			if sum := h.Sum64() * 0x9e3779b97f4a7c15; owners[i] == "" || sum > best {
				owners[i], best = id, sum
			}
		}
	}
	s.owners[all] = owners
	return owners
}

// sharer is what a process does that has a share of a sale: it learns from its roster
// who is there, and tries for the keys that it should have, one by one; others it gives
// to who should have them.
type sharer struct {
	p    *proc
	sale *sale
	id   string
	g    *quorum.Group
	r    *quorum.Roster
	over bool // it has left

	lives   int                // of the process
	there   string             // that was followed
	pending map[pendant]uint64 // the calls under way
	timers  map[bool]int
}

// pendant is where a call is under way: a node has two, if one is the roster's.
type pendant struct {
	node   int
	roster bool
}

// share makes a process of a world a sharer, and has it begin.
func share(p *proc, sale *sale, life int) *sharer {
	s := &sharer{
		p: p, sale: sale, lives: life, id: fmt.Sprint(p.name, "#", life),
		pending: map[pendant]uint64{}, timers: map[bool]int{},
	}
	var names []string
	for _, h := range p.w.nodes {
		names = append(names, h.name)
	}
	var err error
	s.g, err = quorum.NewGroup(quorum.Config{
		Nodes: names, Marker: "marker", TTL: p.w.ttl, Address: p.name, Waiter: s.id,
		Token:  func() string { p.issued++; return fmt.Sprintf("%s.%d", p.name, p.issued) },
		Jitter: p.w.rnd.Float64,
	})
	if err == nil {
		s.r, err = quorum.NewRoster(quorum.RosterConfig{Nodes: names, Registry: "registry", ID: s.id, TTL: p.w.ttl})
	}
	if err != nil {
		panic(err)
	}
	p.sharer = s
	return s
}

func (s *sharer) begin() {
	s.roster("is there", func(now clock.Now) quorum.Effects { return s.r.Present(now, "here") })
}

// comeBackAs begins anew, without a memory, as another process.
func (s *sharer) comeBackAs(p *proc) {
	next := share(p, s.sale, s.lives+1)
	p.w.after(p.some(p.think), next.begin)
}

// leave gives everything back.
func (s *sharer) leave() {
	s.over = true
	s.group("gives all back", func(now clock.Now) quorum.Effects { return s.g.Release(now, "", s.sale.keys...) })
	s.roster("leaves", s.r.Leave)
}

func (s *sharer) tick() {
	s.group("ticks", s.g.Tick)
	s.roster("ticks its roster", s.r.Tick)
}

func (s *sharer) group(what string, step func(clock.Now) quorum.Effects)  { s.input(false, what, step) }
func (s *sharer) roster(what string, step func(clock.Now) quorum.Effects) { s.input(true, what, step) }

// input steps the group or the roster now, or when the process goes on.
func (s *sharer) input(roster bool, what string, step func(clock.Now) quorum.Effects) {
	p := s.p
	if p.dead {
		return
	}
	if p.stopped {
		p.backlog = append(p.backlog, func() { s.input(roster, what, step) })
		return
	}
	e := step(p.clock())
	if !p.w.bare {
		p.w.logf("%s %s", s.id, what)
	}
	for _, c := range e.Calls {
		s.call(c)
	}
	s.timers[roster]++
	if timer := s.timers[roster]; e.Wake > 0 {
		p.w.after(p.until(e.Wake), func() {
			if s.timers[roster] == timer && !p.stopped {
				if roster {
					s.roster("ticks its roster", s.r.Tick)
				} else {
					s.group("ticks", s.g.Tick)
				}
			}
		})
	}
	for _, ev := range e.Events {
		p.w.logf("%s event %v %v: %v", s.id, ev.Kind, ev.Keys, ev.Cause)
		s.handleEvent(ev)
	}
	if members, sure := s.r.Members(p.clock()); roster {
		for i := range members {
			members[i].Left = 0
		}
		if there := fmt.Sprint(members, sure); there != s.there {
			s.there = there
			s.follow()
		}
	}
}

func (s *sharer) handleEvent(ev quorum.Event) {
	p := s.p
	p.events = append(p.events, ev)
	for _, key := range ev.Keys {
		switch ev.Kind {
		case quorum.Won:
			if end := s.g.Validity(key).Until(); !p.w.bare {
				p.w.after(p.until(end)-time.Microsecond, func() {}) // check once more at the very end
			}
		case quorum.Losing:
			p.w.after(p.some(p.think), s.follow)
		}
	}
}

// follow takes and gives what should be this process's, or another's, by who is there. A process
// that is stopped, or whose roster is uncertain, does so later.
func (s *sharer) follow() {
	if s.p.dead || s.over {
		return
	}
	if s.p.stopped {
		s.p.backlog = append(s.p.backlog, s.follow)
		return
	}
	members, sure := s.r.Members(s.p.clock())
	if !sure {
		s.there = ""
		return
	}
	var take []string
	give := map[string][]string{}
	var heirs []string // in order, for the seed's sake
	for i, owner := range s.sale.ownersAmong(members) {
		switch key := s.sale.keys[i]; {
		case owner == s.id:
			take = append(take, key)
		case s.g.State(key) == quorum.Held || s.g.State(key) == quorum.Acquiring:
			if give[owner] == nil {
				heirs = append(heirs, owner)
			}
			give[owner] = append(give[owner], key)
		}
	}
	for _, heir := range heirs {
		s.give(heir, give[heir])
	}
	s.group(fmt.Sprint("acquires ", len(take)), func(now clock.Now) quorum.Effects { return s.g.Acquire(now, take...) })
}

// give hands keys over to the process that is to have them.
func (s *sharer) give(heir string, keys []string) {
	s.group(fmt.Sprint("gives ", keys, " to ", heir), func(now clock.Now) quorum.Effects { return s.g.Release(now, heir, keys...) })
	for _, p := range s.p.w.procs {
		if p.sharer != nil && p.sharer.id == heir {
			s.p.w.after(s.p.some(2*time.Millisecond), func() {
				p.sharer.group("is given keys", func(now clock.Now) quorum.Effects { return p.sharer.g.Woken(now, keys...) })
			})
		}
	}
}

func (s *sharer) call(c quorum.Call) {
	p, at := s.p, pendant{c.Node, c.Announce != nil}
	if s.pending[at] != 0 {
		p.w.faultf("%s has two calls under way for one node", s.id)
	}
	if c.Vote != nil {
		for _, a := range c.Vote.Requests {
			p.tokens[a.Key] = a.Token
		}
	}
	s.pending[at] = c.Seq
	p.w.carry(p, c)
	timeout := time.Duration(float64(c.Timeout) / p.rate)
	p.w.after(timeout, func() { s.answered(c, quorum.Reply{Node: c.Node, Seq: c.Seq, Err: errTimeout}) })
}

// answered takes an answer, if the shell still waits for it.
func (s *sharer) answered(c quorum.Call, r quorum.Reply) {
	at := pendant{c.Node, c.Announce != nil}
	if s.pending[at] != r.Seq {
		return
	}
	delete(s.pending, at)
	what := "receives"
	if !s.p.w.bare {
		what = fmt.Sprintf("receives %d#%d %v", r.Node, r.Seq, r.Err)
	}
	reply := s.g.Reply
	if at.roster {
		reply = s.r.Reply
	}
	s.input(at.roster, what, func(now clock.Now) quorum.Effects {
		e := reply(now, r)
		if again := reply(now, r); len(again.Calls)+len(again.Events) > 0 {
			s.p.w.faultf("%s takes a reply twice", s.id)
		}
		return e
	})
}

// valid returns the keys that the process believes in.
func (s *sharer) valid() (keys []string) {
	now := s.p.clock()
	for _, key := range s.g.Keys() {
		if s.g.Validity(key).At(now) {
			keys = append(keys, key)
		}
	}
	return keys
}

// newSharedWorld is a world of sharers who begin within a ttl.
func newSharedWorld(seed uint64, ttl time.Duration, keys int, nodeRates, procRates []float64) (*world, *sale) {
	w := newWorld(seed, ttl, nodeRates, procRates)
	sale := &sale{keys: keysTo(keys), owners: map[string][]string{}}
	for _, p := range w.procs {
		s := share(p, sale, 1)
		w.after(p.some(ttl), s.begin)
	}
	return w, sale
}

// holders returns who believes in each key.
func (w *world) holders() map[string]*proc {
	holders := map[string]*proc{}
	for _, p := range w.procs {
		if !p.dead {
			for _, key := range p.valid() {
				holders[key] = p
			}
		}
	}
	return holders
}
