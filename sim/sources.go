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

// oneSource is a stream under which every sale of TestWorldsThatFailed with rules reads its
// users from one file: those worlds are as they were when they failed.
const oneSource = 5

// sources are the tables from which the rules of a sale read its users and what they bought in
// sales that have ended. Generations of the sale name other tables, or read no history at all.
type sources struct {
	random               // draws the faults of the tables
	bought         int64 // units of ended sales that a user may have at most; noRules: no rule reads them
	users, history int   // the tables that the file names
	cached         int64 // users that a process keeps
}

// drawSources has the rules of some sales read tables. All else stays as it was drawn.
func (s *scenario) drawSources(r random) {
	if s.ruled == nil || !r.chance(0.6) {
		return
	}
	s.ruled.sources = &sources{random: r, bought: pick(r, int64(noRules), 1, 2, 3), cached: pick(r, int64(2), 100)}
}

// unmoved is a stream under which no table of TestWorldsThatFailed changes often: those worlds
// are as they were when they failed.
const unmoved = 34

// drawMoves has the tables of some sales change often while rules read them. The users are few, so
// that they claim again and again, and a process caches all of them. All else stays as it was drawn.
func (s *scenario) drawMoves(r random, o Options) {
	if s.ruled == nil || s.ruled.sources == nil || !r.chance(0.75) {
		return
	}
	s.users, s.ruled.least, s.ruled.sources.cached = o.Clients, pick(r, 1, 2), 100
	for i := range s.ruled.changes[:len(s.ruled.changes)-1] {
		s.ruled.changes[i].least = pick(r, 1, 2)
	}
	for range 5 + r.IntN(5) {
		s.ruled.moved = append(s.ruled.moved, r.between(o.Until/10, o.Until))
	}
	slices.Sort(s.ruled.moved)
}

// sourceLag is how old an answer of a table may be at most: it may come from a server that
// lags. Together with Fresh it bounds the age of what a process decides by.
const sourceLag = 2 * time.Second

// declare puts the tables into a sale's file, and the rule about history.
func (t *sources) declare(s *spec.Sale) {
	if t == nil {
		return
	}
	if s.Users != nil {
		s.Users.File, s.Users.Fresh, s.Users.Cached = "", spec.Duration(spec.MinFresh), t.cached
		s.Users.Table = &spec.UsersTable{Rows: spec.Rows{Zookeeper: []string{"zk:2181"}, ZookeeperRoot: "/hbase", Table: fmt.Sprint("users-", t.users), Family: "u"}}
	}
	if t.bought != noRules {
		s.History = &spec.History{Table: &spec.Rows{Zookeeper: []string{"zk:2181"}, ZookeeperRoot: "/hbase", Table: fmt.Sprint("history-", t.history), Family: "h"}}
		s.Rules = append(s.Rules, spec.Rule{
			Name: "bought", Require: fmt.Sprintf("history.filter(p, p.sale == 'first').units() <= %d", t.bought), Enforce: spec.EnforceDeny,
		})
	}
}

// change has the file read other tables, or other columns.
func (t *sources) change() {
	switch t.IntN(4) {
	case 0:
		t.bought = pick(t.random, int64(noRules), 0, 1, 2)
	case 1:
		t.users++
	case 2:
		t.history++
	default:
		t.users, t.history, t.bought = t.users+1, t.history+1, pick(t.random, int64(0), 1, 2)
	}
}

// scheduleSources has operators declare other tables. In the end many users may claim.
func (o *operators) scheduleSources() {
	rs := o.w.scenario.ruled
	if rs == nil || rs.sources == nil {
		return
	}
	t := rs.sources
	o.w.history.Users.Known, o.w.history.Users.Old = knownFrom, sourceLag+spec.MinFresh*101/100
	for range 1 + t.IntN(4) {
		o.w.at(t.between(o.w.Until/10, o.w.Until), func() {
			if t.change(); !o.w.calm {
				o.w.hit("sources changed")
				o.run(command{kind: apply, stock: o.w.scenario.stock, runs: 3}, func() {})
			}
		})
	}
	o.w.at(o.w.Until, func() { t.bought = pick(t.random, int64(noRules), 2, 3) })
}

// draft is a number that stands for what a table has of a user after so many changes.
func draft(user, table string, changes int) int {
	h := fnv.New32a()
	h.Write([]byte(user + "\x00" + table))
	return int(h.Sum32()%1000) + changes
}

// userIn is what a table of users has of one after so many changes of all tables.
func userIn(user, table string, moves int) (a rules.Attributes, level int64) {
	n := draft(user, table, (moves+1)/2)
	if n%7 == 0 {
		return levelled.Unknown(user), -1
	}
	level = int64(n % 3)
	return ofLevel(user, level), level
}

// boughtIn is what a table of purchases has of a user after so many changes of all tables.
func boughtIn(user, table string, moves int) (all []rules.Purchase, units int64) {
	n := draft(user, table, moves/2)
	for i := range n % 3 {
		p := rules.Purchase{Sale: "first", Run: fmt.Sprint(table, i), Units: int64(1 + (n/3+i)%2), At: epoch.Add(-time.Duration(i+1) * time.Hour)}
		if (n/5+i)%3 == 0 {
			p.Sale = "other"
		} else {
			units += p.Units
		}
		all = append(all, p)
	}
	return all, units
}

// knownFrom is what tables have of a user, for those who judge.
func knownFrom(user string, from check.Sources, users, purchases int) (level, bought int64, digest string) {
	a := nobody.Unknown(user)
	if from.Users != "" {
		a, level = userIn(user, from.Users, users)
	}
	if from.History != "" {
		all, units := boughtIn(user, from.History, purchases)
		a, bought = a.WithHistory(all), units
	}
	sum := a.Digest()
	return level, bought, string(sum[:16])
}

// nobody is what is declared of users where no table of them is.
var nobody = rules.NewSchema()

// table is a table of users or purchases as a process reads it.
type table struct {
	w    *world
	name string
}

// moves returns which version of its rows a table returns now, how many rows of those that
// were asked for, or why there is none.
func (t table) moves(rows int) (moves, returned int, err error) {
	rs := t.w.scenario.ruled
	at := t.w.now
	if r := rs.sources.random; !t.w.calm {
		switch draw := r.IntN(100); {
		case draw < 8:
			t.w.hit("fault: a source fails")
			return 0, 0, errors.New("no region server answers")
		case draw < 14:
			t.w.hit("fault: a source is truncated")
			rows--
		case draw < 45:
			t.w.hit("fault: a source lags")
			at -= r.between(0, sourceLag)
		}
	}
	moves, _ = slices.BinarySearch(rs.moved, at+1)
	return moves, rows, nil
}

// Lookup implements rules.Users.
func (t table) Lookup(_ context.Context, ids []string) (all []rules.Attributes, err error) {
	moves, n, err := t.moves(len(ids))
	for _, id := range ids[:n] {
		a, _ := userIn(id, t.name, moves)
		all = append(all, a)
	}
	return all, err
}

// History implements rules.Histories.
func (t table) History(_ context.Context, ids []string) (all [][]rules.Purchase, err error) {
	moves, n, err := t.moves(len(ids))
	for _, id := range ids[:n] {
		bought, _ := boughtIn(id, t.name, moves)
		all = append(all, bought)
	}
	return all, err
}

// openTables opens the tables that a declaration names, behind the cache that a process has.
func (e *server) openTables(declared spec.Sale, schema *rules.Schema) (users rules.Users, err error) {
	cached := e.w.scenario.ruled.sources.cached
	users = rules.UnknownUsers(schema)
	if u := declared.Users; u != nil {
		users, cached = table{e.w, u.Table.Table}, u.Cached
	}
	if h := declared.History; h != nil {
		users = rules.WithHistory(users, table{e.w, h.Table.Table})
	}
	return rules.NewCache(rules.CacheConfig{Source: users, Clock: e.now, Fresh: spec.MinFresh, Timeout: time.Second, Entries: int(cached), Batch: 1})
}
