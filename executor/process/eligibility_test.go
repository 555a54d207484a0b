package process_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cel.dev/cel-go/common/types"

	"salectl/api"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/executor/process"
	"salectl/executor/saletest"
	"salectl/rules"
	"salectl/sim/stepped"
	"salectl/spec"
)

// directory is users of a test: their levels, by id.
type directory struct {
	schema *rules.Schema
	levels map[string]int64
	err    error
	closed int
	asked  int
	during func() // called while a user is looked up
}

func (d *directory) Lookup(_ context.Context, ids []string) (all []rules.Attributes, err error) {
	d.asked++
	if d.during != nil {
		d.during()
	}
	for _, id := range ids {
		level, ok := d.levels[id]
		if !ok {
			all = append(all, d.schema.Unknown(id))
			continue
		}
		user := d.schema.Known(id, []rules.Value{types.Int(level)})
		all = append(all, user)
	}
	return all, d.err
}

// ruledWorld is a world of a sale with rules about the levels of its users.
type ruledWorld struct {
	*paidWorld
	users   *directory
	opened  int
	openErr error
	ruled   map[string]int // by rule and result
}

func newRuledWorld(t *testing.T, shares ...int64) *ruledWorld {
	w := &ruledWorld{users: &directory{levels: map[string]int64{"ann": 1, "bob": 2, "eve": 3}}, ruled: map[string]int{}}
	w.paidWorld = &paidWorld{steppedWorld: newSteppedWorld(t, 1, shares...)}
	w.tune = func(cfg *stepped.Config) {
		cfg.Ruled = func(rule, result string) { w.ruled[rule+" "+result]++ }
		cfg.Users = func(_ spec.Sale, schema *rules.Schema) (rules.Users, func() error, error) {
			w.opened++
			w.users.schema = schema
			return w.users, func() error { w.users.closed++; return nil }, w.openErr
		}
	}
	return w
}

// levels is a sale of users who are above a level.
func levels(require string) func(*spec.Sale) {
	return func(s *spec.Sale) {
		s.Users = &spec.Users{Attributes: []spec.Attribute{{Name: "level", Type: "int"}}, File: "users.csv", Fresh: spec.Duration(time.Minute), Cached: 10}
		s.Rules = []spec.Rule{{Name: "level", Require: require, Message: "Not you.", Enforce: spec.EnforceDeny}}
	}
}

// declare plans another generation of the sale.
func (w *ruledWorld) declare(change func(*spec.Sale)) {
	w.t.Helper()
	saletest.Replan(w.t, w.logs, "stepped", func(p *pb.Planned) {
		sale, err := spec.FromJSON(p.GetSpec())
		if err != nil {
			w.t.Fatal(err)
		}
		sale.Embedded.Dir = "here"
		sale.Rules, sale.Users, sale.Queue = nil, nil, nil
		change(&sale)
		if p.Spec, err = sale.JSON(); err != nil {
			w.t.Fatal(err)
		}
		p.Settings.Rules = nil
		if hash, ok := rules.HashFor(sale); ok {
			p.Settings.Rules = hash[:]
		}
	})
}

func (w *ruledWorld) serve() {
	w.process("first")
	w.s = w.serving()
	w.pass(3 * time.Second)
}

// Rules let some in and refuse others, live changes of them hold from their generation
// on, and whoever has a claim is told of it whatever the rules are.
func TestRulesLetIn(t *testing.T) {
	w := newRuledWorld(t, 3, 3)
	w.declare(levels("user.level > 1"))
	w.serve()
	no := w.claim("ann", "1")
	w.want(no, "not_eligible")
	if no.Message != "Not you." || no.Rule != "level" || no.Reason != "denied" {
		t.Errorf("%+v", no)
	}
	w.want(w.claim("bob", "1"), "sold")
	if got := w.claim("nobody", "1"); got.Outcome != api.NotEligible || got.Reason != "missing_attribute" {
		t.Errorf("%+v", got)
	}
	w.declare(levels("user.level == 1"))
	w.pass(3 * time.Second)
	w.want(w.claim("ann", "1"), "sold")
	w.want(w.claim("eve", "1"), "not_eligible")
	w.want(w.claim("bob", "1"), "sold again")
	w.declare(func(*spec.Sale) {})
	w.pass(3 * time.Second)
	w.want(w.claim("eve", "1"), "sold")
	if w.opened != 1 {
		t.Errorf("opened %d times", w.opened)
	}
	want := map[string]int{"level denied": 2, "level missing_attribute": 1}
	if len(w.ruled) != len(want) || w.ruled["level denied"] != 2 || w.ruled["level missing_attribute"] != 1 {
		t.Errorf("counted %v, want %v", w.ruled, want)
	}
	a := saletest.Audited(t, w.logs, "stepped")
	if !a.OK || a.Sold != 3 {
		t.Errorf("%+v", a)
	}
	for i, s := range []int{0, 1} {
		state := saletest.LoadShard(t, w.logs, s, 2)
		for j := range state.Claims() {
			if c := state.Claim(j); (c.Ruling.Rules == "") != (c.User == "eve") {
				t.Errorf("shard %d: %s was let in by %x", i, c.User, c.Ruling.Rules)
			}
		}
	}
}

// A request that was let in by rules that have changed since is decided on again.
func TestRulesChangeMeanwhile(t *testing.T) {
	w := newRuledWorld(t, 3)
	w.declare(levels("user.level > 1"))
	w.serve()
	w.claim("bob", "1")
	// Before the shard hears of its generation this process knows it, and the other way
	// round: neither is told what the other rules say.
	w.users.levels["bob"] = 1
	w.declare(levels("user.level < 2"))
	restore := w.s.p.KeepRules()
	w.pass(3 * time.Second)
	restore()
	got := w.claim("eve", "1")
	if got.Outcome != api.NotChecked || !got.OtherRules {
		t.Errorf("let in by rules that are over: %+v", got)
	}
	w.want(w.claim("ann", "1"), "not_checked") // whom those refuse
	w.declare(levels("user.level < 3"))
	w.pass(3 * time.Second)
	w.want(w.claim("bob", "2"), "limit_reached")
	w.want(w.claim("ann", "1"), "sold")
}

// The last units of a batch go by priority where the sale says so, and by arrival among
// those that are equal.
func TestQueueByPriority(t *testing.T) {
	w := newRuledWorld(t, 2)
	w.declare(func(s *spec.Sale) {
		levels("true")(s)
		s.Queue = &spec.Queue{Order: spec.OrderPriority, Priority: "user.level - 10", Depth: 100}
	})
	w.users.levels["ada"] = 3
	w.serve()
	told := map[string]api.Outcome{}
	w.s.input(func() {
		for _, user := range []string{"ann", "bob", "eve", "ada", "nobody"} {
			w.s.p.Begin(w.s.now(), Request{User: user, Key: "1", Quantity: 1}, func(a Answer) { told[user] = a.Outcome })
		}
	})
	w.runUntil("all are told", func() bool { return len(told) == 5 })
	for user, want := range map[string]api.Outcome{"ann": api.SoldOut, "bob": api.SoldOut, "eve": api.Sold, "ada": api.Sold, "nobody": api.SoldOut} {
		if told[user] != want {
			t.Errorf("%s is told %s, want %s", user, told[user], want)
		}
	}
	if w.ruled[" priority_missing_attribute"] != 1 {
		t.Errorf("counted %v", w.ruled)
	}
}

// While users cannot be read nobody is let in or refused for good, and whoever has a
// claim is told of it.
func TestUsersUnreadable(t *testing.T) {
	w := newRuledWorld(t, 3)
	w.declare(levels("user.level > 0"))
	w.serve()
	w.want(w.claim("ann", "1"), "sold")
	w.users.err = errors.New("no server")
	if got := w.claim("bob", "1"); got.Outcome != api.NotChecked || got.RetryAfter != time.Second || got.OtherRules {
		t.Errorf("%+v", got)
	}
	w.want(w.claim("ann", "1"), "sold again")
	w.users.err = nil
	w.want(w.claim("bob", "1"), "sold")
	w.s.input(func() { w.s.p.Drain(w.s.now()) })
	w.pass(5 * time.Second)
	if w.users.closed != 1 {
		t.Errorf("closed %d times", w.users.closed)
	}
}

// Users that cannot be opened admit nobody, until a generation names others.
func TestUsersNotOpened(t *testing.T) {
	w := newRuledWorld(t, 3)
	w.openErr = errors.New("no file")
	w.declare(levels("user.level > 0"))
	w.serve()
	w.want(w.claim("ann", "1"), "not_checked")
	if why := w.s.p.RulesProblem(); why != "no file" {
		t.Error(why)
	}
	w.openErr = nil
	w.declare(levels("user.level > 1"))
	w.pass(3 * time.Second)
	w.want(w.claim("bob", "1"), "not_checked")
	w.declare(func(s *spec.Sale) {
		levels("user.level > 1")(s)
		s.Users.Fresh = spec.Duration(time.Hour)
	})
	w.pass(3 * time.Second)
	w.want(w.claim("bob", "1"), "sold")
	if w.opened != 2 {
		t.Errorf("opened %d times", w.opened)
	}
}

// A rule set that is not the one that was applied lets nobody in.
func TestRulesOfAnotherHash(t *testing.T) {
	w := newRuledWorld(t, 3)
	w.declare(levels("user.level > 0"))
	saletest.Replan(t, w.logs, "stepped", func(p *pb.Planned) { p.Settings.Rules[0]++ })
	w.serve()
	w.want(w.claim("ann", "1"), "not_checked")
	if why := w.s.p.RulesProblem(); !strings.Contains(why, "was applied: use") {
		t.Error(why)
	}
	if _, err := process.CompileRules(spec.Sale{Name: "tickets"}, "rules"); err == nil || !strings.Contains(err.Error(), "declares no rules") {
		t.Errorf("without a rule: %v", err)
	}
}

// As many claims wait for a shard as the newest generation says.
func TestQueueDepth(t *testing.T) {
	w := newRuledWorld(t, 100)
	w.serve()
	overloaded := func() (n int) {
		w.s.input(func() {
			for i := range 20 {
				w.s.p.Begin(w.s.now(), Request{User: fmt.Sprint("user", w.at, i), Quantity: 1}, func(a Answer) {
					if a.Outcome == api.Overloaded {
						n++
					}
				})
			}
		})
		w.pass(time.Second)
		return n
	}
	for _, step := range []struct {
		depth int64 // 0: none is declared
		want  int
	}{{0, 0}, {3, 17}, {15, 5}, {0, 0}} {
		w.declare(func(s *spec.Sale) {
			if step.depth > 0 {
				s.Queue = &spec.Queue{Order: spec.OrderArrival, Depth: step.depth}
			}
		})
		w.pass(3 * time.Second)
		if got := overloaded(); got != step.want {
			t.Errorf("depth %d: %d of 20 were overloaded, want %d", step.depth, got, step.want)
		}
	}
}
