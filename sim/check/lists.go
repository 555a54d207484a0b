package check

import (
	"encoding/json"
	"fmt"
	"slices"
)

// declared is the way of a run's declaration to give units out. It is
// that of the first generation; no later one may change it.
type declared struct {
	listed   bool // by lists on nodes
	ackRedis bool // answers do not wait for the ledger
	nodes    int  // that keep lists
	backlog  int  // how many claims the ledger may lack that were given
	stock    int64

	packets *Packets // what the units are worth; nil: they are numbers
}

// Packets is what the units of a red packet are worth. Whoever takes down the
// history has it dealt, and the checkers add it up: that it is dealt fairly is for
// the tests of what deals it.
type Packets struct {
	Currency, Split string
	Total, Min      int64 // in the smallest coins
	Amounts         []int64
	Format          func(coins int64) string
}

// Deal returns what the units of a declaration with a red packet are worth, by the
// seed that its sale's log has.
type Deal func(declaration, seed []byte) (*Packets, error)

// amount is what a unit is worth.
func (p *Packets) amount(unit int64) int64 {
	if unit < 1 || unit > int64(len(p.Amounts)) {
		return 0
	}
	return p.Amounts[unit-1]
}

// declare reads the declaration.
func (r *run) declare(deal Deal, bad fault) {
	first := r.planned[0]
	var declaration struct {
		Engine, Ack string
		Stock       int64
		Backlog     int
		Redis       struct{ Nodes []string }
		RedPacket   json.RawMessage
	}
	if len(first.GetSpec()) == 0 {
		return // no planner has written it
	}
	if err := json.Unmarshal(first.GetSpec(), &declaration); err != nil {
		bad("%v has a declaration that cannot be read: %v", first.at, err)
		return
	}
	r.listed, r.ackRedis = declaration.Engine == "redis", declaration.Ack == "redis"
	r.nodes, r.stock, r.backlog = len(declaration.Redis.Nodes), declaration.Stock, declaration.Backlog
	if declaration.RedPacket == nil {
		return
	}
	p, err := deal(first.GetSpec(), first.GetSeed())
	if err != nil {
		bad("%v has a red packet that cannot be dealt: %v", first.at, err)
		return
	}
	r.packets = p
	var sum int64
	for _, amount := range p.Amounts {
		sum += amount
		if amount < p.Min {
			bad("run %s has a packet of %d, which is less than %d", r.uid, amount, p.Min)
		}
	}
	if sum != p.Total || int64(len(p.Amounts)) != declaration.Stock {
		bad("the %d packets of run %s come to %d of %d", len(p.Amounts), r.uid, sum, p.Total)
	}
}

// grant is a unit that a node gave.
type grant struct {
	*Grant
	run    *run   // nil: there is none
	lost   bool   // the node lost it at some time after
	stored *claim // that the ledger has of it; nil: none
	ended  uint64 // when the ledger had it, or its node had lost it
}

func (g *grant) String() string {
	return fmt.Sprintf("unit %d, given to user %q, key %q, from list %d of run %s at %v", g.Unit, g.User, g.Key, g.Shard, g.UID, g.At)
}

func (g *grant) id() string { return fmt.Sprintf("%d-u%d", g.Shard, g.Unit) }

// readGrants brings what the nodes gave together with what they lost, and with
// what the ledger has.
func (e *evidence) readGrants() {
	runs := make(map[string]*run)
	for _, r := range e.runs {
		runs[r.uid] = r
	}
	e.grants = make([]*grant, len(e.h.Grants))
	e.grantsByID = make(map[string][]*grant)
	for i := range e.h.Grants {
		g := &grant{Grant: &e.h.Grants[i]}
		g.run = runs[g.UID]
		for _, c := range e.named(g.id()) {
			if c.at.log.run == g.run && c.user == g.User && c.key == g.Key {
				g.stored = c
			}
		}
		g.end(e.h)
		e.grants[i] = g
		if g.run != nil {
			e.grantsByID[g.id()] = append(e.grantsByID[g.id()], g)
		}
	}
}

// matches reports whether a grant is the claim of an answer, and was given before.
func (g *grant) matches(answered Claim, user string, before uint64) bool {
	return g.User == user && answered.User == user && slices.Equal(answered.Units, []int64{g.Unit}) && g.Seq < before
}

// forgiven reports whether a claim in an answer may be missing in the ledger: with
// ack redis the node that had given it has lost it since, before or after the
// client received it.
func (e *evidence) forgiven(answered Claim, user string, before uint64) bool {
	return slices.ContainsFunc(e.grantsByID[answered.ID], func(g *grant) bool {
		return g.run.ackRedis && g.lost && g.matches(answered, user, before)
	})
}

// forgot reports whether a node lost something that it had given to a user.
func (e *evidence) forgot(r *run, user string) bool {
	return slices.ContainsFunc(e.grants, func(g *grant) bool { return g.run == r && r.ackRedis && g.User == user && g.lost })
}

// forgotBefore reports whether a claim may be one that a node gave again, since it had lost what
// it gave its user before: not what the ledger had by then.
func (e *evidence) forgotBefore(c *claim) bool {
	return slices.ContainsFunc(e.grants, func(g *grant) bool {
		return g.run == c.at.log.run && g.run.ackRedis && g.User == c.user && g.lost && !(g.stored == c && g.ended == c.at.Seq)
	})
}

// gave reports whether a node had given by a time what came into the ledger as a claim.
func (e *evidence) gave(c *claim, by uint64) bool {
	return slices.ContainsFunc(e.grants, func(g *grant) bool { return g.stored == c && !g.lost && g.Seq < by })
}

// fills judges the slots of shards with lists: fills come in order and alone, and
// each claim is one unit of a user who has no other, under the fill in force.
func fills(e *evidence, bad fault) {
	for _, l := range e.logs {
		for _, s := range l.slots {
			for i, op := range s.commit.GetOps() {
				switch rebuild := op.GetRebuild(); {
				case rebuild == nil:
				case !l.run.listed:
					bad("%v, op %d begins a fill of a shard without a list", s, i)
				case len(s.commit.GetOps()) > 1:
					bad("%v, op %d begins a fill beside other ops", s, i)
				case s.after.settings.GetPhase() == phaseClosed:
					bad("%v, op %d begins a fill of a closed shard", s, i)
				}
			}
		}
	}
	users := make(map[subject]*claim)
	for _, c := range e.claims {
		id := subject{c.at.log.run, c.user}
		switch had := users[id]; {
		case c.again:
			continue
		case !c.at.log.run.listed:
			if c.fill != 0 || c.grantedUs != 0 {
				bad("%v is of fill %d, without a list", c, c.fill)
			}
			continue
		case c.fill == 0 || c.fill != c.under:
			bad("%v is of fill %d, the shard is at %d", c, c.fill, c.under)
		case len(c.units) != 1 || c.deadline != 0:
			bad("%v has %d units, a list gives one for good", c, len(c.units))
		case had != nil:
			bad("%v is of a user who has %v", c, had)
		}
		users[id] = c
	}
}

// grants judges what the nodes gave. All of it is in the ledger in the end but for
// what a node lost, and what the ledger has a node has given.
func grants(e *evidence, bad fault) {
	units, users := make(map[subject]*grant), make(map[subject]*grant)
	for _, g := range e.grants {
		switch {
		case g.run == nil || !g.run.listed || g.Shard >= len(g.run.shards):
			bad("%v: there is no such list", g)
			continue
		case g.Node != g.Shard%g.run.nodes:
			bad("%v, which was on node %d", g, g.Node)
		case g.lost:
			continue
		}
		unit, user := subject{g.run, fmt.Sprint(g.Unit)}, subject{g.run, g.User}
		if other := units[unit]; other != nil {
			bad("%v; the same unit: %v", g, other)
		}
		if other := users[user]; other != nil {
			bad("%v; the same user: %v", g, other)
		}
		units[unit], users[user] = g, g
		if g.stored == nil && e.h.Final.Rested && g.Seq <= e.h.Final.Down {
			bad("%v, never came into the ledger", g)
		}
	}
	for _, c := range e.claims {
		given := func(g *grant) bool {
			return g.stored == c && g.Seq < c.at.Seq && g.TimeUs == c.grantedUs
		}
		if c.at.log.run.listed && !c.again && !slices.ContainsFunc(e.grantsByID[c.id()], given) {
			bad("%v was given by no list", c)
		}
	}
}

// ahead judges how far the nodes were ahead of the ledger with ack redis: what a list had
// given, its node had not lost, and the ledger lacked was never more than the list's part
// of the backlog, whichever process gave it.
func ahead(e *evidence, bad fault) {
	lacked := make(map[*log][]*grant) // by the shard's log, in the order given
	for _, g := range e.grants {
		if g.run == nil || !g.run.ackRedis || g.Shard >= len(g.run.shards) {
			continue
		}
		l := g.run.shards[g.Shard]
		lacked[l] = append(slices.DeleteFunc(lacked[l], func(old *grant) bool { return old.ended < g.Seq }), g)
		if n, most := len(lacked[l]), g.run.mayLack(g.Shard); n > most {
			bad("%v, is one of %d of its list that the ledger lacks; it may lack %d", g, n, most)
		}
	}
}

// mayLack is the part of the backlog that a shard's list has: all have the same, what is
// left over goes to the first, and none has less than one.
func (r *run) mayLack(shard int) int {
	n := r.backlog / len(r.shards)
	if shard < r.backlog%len(r.shards) {
		n++
	}
	return max(n, 1)
}

// end finds out when the ledger had a grant, or its node had lost it.
func (g *grant) end(h *History) {
	g.ended = forever
	if g.stored != nil {
		g.ended = g.stored.at.Seq
	}
	for _, l := range h.Losses {
		if l.Node == g.Node && l.Since < g.Seq && g.Seq < l.Seq {
			g.lost, g.ended = true, min(g.ended, l.Seq)
		}
	}
}

// listReadings judges the lists that gave under the fill of their shard's log: what they
// had to give was available, and on no other shard's node.
func listReadings(e *evidence, bad fault) {
	runs := make(map[string]*run)
	for _, r := range e.runs {
		runs[r.uid] = r
	}
	for _, k := range e.h.ListReadings {
		if r := runs[k.UID]; r == nil || !r.listed || k.Shard >= len(r.shards) || k.Node != k.Shard%r.nodes {
			bad("node %d has a list %d of run %s, which is not there", k.Node, k.Shard, k.UID)
		} else {
			k.compare(r.shards[k.Shard].at(k.Seq), bad)
		}
	}
}

// compare holds a list against the last slot of its log, nil if it has none.
func (k *ListReading) compare(s *slot, bad fault) {
	switch {
	case s == nil || k.Fill > s.after.fill:
		bad("list %d of run %s gives under fill %d at %v, which its log does not have", k.Shard, k.UID, k.Fill, k.At)
	case k.Fill == s.after.fill && k.Units > s.after.available:
		bad("list %d of run %s has %d units to give at %v, its log has %d", k.Shard, k.UID, k.Units, k.At, s.after.available)
	case k.Fill == s.after.fill && s.after.settings.GetPhase() != phaseOpen:
		bad("list %d of run %s gives at %v while its shard is %v", k.Shard, k.UID, k.At, s.after.settings.GetPhase())
	}
}

// emptied reports whether a shard's list had nothing to give at some time while an
// operation ran, whatever the ledger, which is behind, had available.
func (e *evidence) emptied(home *log, o *operation) bool {
	return slices.ContainsFunc(e.h.ListReadings, func(k ListReading) bool {
		return k.UID == home.run.uid && k.Shard == home.shard && k.Units == 0 && k.Seq > o.invoked.Seq && k.Seq < o.returned.Seq
	})
}

// listAnswers compares the answers to clients of lists with each other: a unit has
// one user and a user one unit. With ack ledger always; with ack redis but for
// what a node lost.
func listAnswers(e *evidence, bad fault) {
	type known struct {
		claim Claim
		op    int
		grant *grant
	}
	units, users := make(map[subject]known), make(map[subject]known)
	compare := func(i int, o *operation, c Claim) {
		g := e.grantOf(o, c)
		switch {
		case len(e.grantsByID) > 0 && len(e.grantsByID[c.ID]) == 0:
			bad("operation %d: user %q was told of %+v, which no node gave", i, o.invoked.User, c)
			return
		case g == nil, g.run.ackRedis && g.lost:
			return
		}
		unit, user := subject{g.run, fmt.Sprint(c.Units)}, subject{g.run, c.User}
		if k, ok := units[unit]; ok && k.claim.User != c.User {
			bad("operations %d and %d: users %q and %q were both told of unit %d", k.op, i, k.claim.User, c.User, c.Units)
		}
		if k, ok := users[user]; ok && !slices.Equal(k.claim.Units, c.Units) {
			bad("operations %d and %d: user %q was told of unit %d and of %d", k.op, i, c.User, k.claim.Units, c.Units)
		}
		units[unit], users[user] = known{c, i, g}, known{c, i, g}
	}
	for _, kind := range []Kind{ClaimInvoked, ReadInvoked} {
		for i, o := range e.all(kind) {
			if o.returned == nil {
				continue
			}
			if accepted(o.returned.Answer.Outcome) {
				compare(i, o, o.returned.Answer.Claim)
			}
			for _, c := range o.returned.Answer.Claims {
				compare(i, o, c)
			}
		}
	}
}

// grantOf returns the newest grant in the answer to an operation, nil if there is
// none.
func (e *evidence) grantOf(o *operation, c Claim) *grant {
	for _, g := range slices.Backward(e.grantsByID[c.ID]) {
		if g.matches(c, o.invoked.User, o.returned.Seq) {
			return g
		}
	}
	return nil
}
