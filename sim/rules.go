package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"salectl/rules"
	"salectl/sim/check"
	"salectl/spec"
)

// unruled is a stream under which no sale of TestWorldsThatFailed has rules: those worlds
// are as they were when they failed.
const unruled = 1

// ruled is who may claim in a sale, and how that changes.
type ruled struct {
	least   int // level that a user needs; noRules: all may claim
	changes []ruleChange
	moved   []time.Duration // when the levels of users change
	ranked  bool            // the highest level goes first
	sources *sources        // nil: users are read from one file, and no history
}

type ruleChange struct {
	at    time.Duration
	least int
}

const noRules = -1

// drawRules has some sales require a level of their users. All else stays as it was drawn.
func (s *scenario) drawRules(r random, until time.Duration) {
	if s.lists != nil || !r.chance(0.25) {
		return
	}
	rs := &ruled{least: pick(r, noRules, 0, 1, 2), ranked: r.chance(0.5)}
	for range r.IntN(5) {
		rs.changes = append(rs.changes, ruleChange{r.between(until/10, until), pick(r, noRules, 0, 1, 2)})
	}
	slices.SortFunc(rs.changes, func(a, b ruleChange) int { return int(a.at - b.at) })
	rs.changes = append(rs.changes, ruleChange{until, pick(r, noRules, 0, 1)}) // what is left is to be sold
	for range r.IntN(4) {
		rs.moved = append(rs.moved, r.between(until/10, until))
	}
	slices.Sort(rs.moved)
	s.ruled = rs
}

// declare puts the rules into a sale's file.
func (rs *ruled) declare(s *spec.Sale) {
	if rs == nil {
		return
	}
	defer rs.sources.declare(s)
	if rs.least == noRules {
		return
	}
	s.Users = &spec.Users{
		Attributes: []spec.Attribute{{Name: "level", Type: spec.TypeInt}}, File: "users.csv",
		Fresh: spec.DefaultFresh, Cached: spec.DefaultCached,
	}
	s.Rules = []spec.Rule{{Name: "level", Require: fmt.Sprintf("user.level >= %d", rs.least), Enforce: spec.EnforceDeny}}
	if rs.ranked {
		s.Queue = &spec.Queue{Order: spec.OrderPriority, Priority: "user.level", Depth: spec.DefaultDepth}
	}
}

// scheduleRules has the operators declare the rules, each when its time comes.
func (o *operators) scheduleRules() {
	rs := o.w.scenario.ruled
	if rs == nil {
		return
	}
	o.w.history.Users = &check.Users{Moved: rs.moved, Known: known}
	for _, c := range rs.changes {
		o.w.at(c.at, func() {
			rs.least = c.least
			if c.at < o.w.Until && !o.w.calm { // else whatever comes next declares them
				o.w.hit("rules changed")
				o.run(command{kind: apply, stock: o.w.scenario.stock, runs: 3}, func() {})
			}
		})
	}
}

// levelled is what is declared of users.
var levelled = rules.NewSchema(spec.Attribute{Name: "level", Type: spec.TypeInt})

// ofLevel is a user of a level.
func ofLevel(user string, level int64) rules.Attributes {
	v, err := rules.ParseValue(spec.TypeInt, fmt.Sprint(level))
	if err != nil {
		panic(err)
	}
	return levelled.Known(user, []rules.Value{v})
}

// attributesOf is what is known of a user after so many moves.
func attributesOf(user string, moves int) (a rules.Attributes, level int64) {
	h := fnv.New32a()
	h.Write([]byte(user))
	n := int(h.Sum32() % 1000)
	if (n+moves)%5 == 0 {
		return levelled.Unknown(user), -1
	}
	level = int64(n/5+moves) % 3
	return ofLevel(user, level), level
}

// known is attributesOf for those who judge.
func known(user string, _ check.Sources, moves, _ int) (level, bought int64, digest string) {
	a, level := attributesOf(user, moves)
	sum := a.Digest()
	return level, 0, string(sum[:16])
}

// directory is what the processes of a world know of users. At times it cannot be read.
type directory struct{ w *world }

func (d directory) Lookup(_ context.Context, ids []string) (all []rules.Attributes, err error) {
	if !d.w.calm && d.w.random.lookups.chance(0.05) {
		d.w.hit("fault: users cannot be read")
		return nil, errors.New("the directory does not answer")
	}
	moves, _ := slices.BinarySearch(d.w.scenario.ruled.moved, d.w.now+1)
	for _, id := range ids {
		a, _ := attributesOf(id, moves)
		all = append(all, a)
	}
	return all, nil
}

// users opens what rules read.
func (e *server) users(declared spec.Sale, schema *rules.Schema) (users rules.Users, closed func() error, err error) {
	users, closed = directory{e.w}, func() error { return nil }
	if e.w.scenario.ruled.sources != nil {
		users, err = e.openTables(declared, schema)
	}
	return users, closed, err
}
