package process

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/executor/request"
	"salectl/executor/shard"
	"salectl/executor/status"
	"salectl/rules"
	"salectl/spec"
)

// OpenUsers returns the attributes of users that the rules of a declaration read, by the schema of its
// rule set. It reads nothing and connects to nothing; a lookup without ids reads files ahead. The caller
// closes the users.
type OpenUsers func(declared spec.Sale, schema *rules.Schema) (users rules.Users, close func() error, err error)

// eligibility decides by the rules of one generation who may claim. It is safe for
// concurrent use.
//
// A decision is taken before a request is queued, since it may have to read a store, and
// it names the rule set that has taken it. A shard that is at another generation by the
// time of the claim does not grant it: the request is decided on again.
type eligibility struct {
	hash    string // of the rule set, as the generation has it
	sale    *spec.Sale
	compile func() (*rules.Set, error)
	users   *userSource
	counts  func(rule, result string) // nil: nobody counts

	problem atomic.Pointer[status.Problem] // of the last decision; nil: it was taken
}

// userSource is the source of a sale's users.
type userSource struct {
	rules.Users
	close func() error // nil: there is nothing to close
	err   error        // why there are no Users
}

// freshUsers are users of whom some are known without a read.
type freshUsers interface {
	Fresh(id string) (rules.Attributes, bool)
}

// newEligibility returns the rules that a generation declares, by the hash of their set. It shares the users
// of before if both generations declare the same sources.
func newEligibility(d spec.Sale, hash string, open OpenUsers, before *eligibility, counts func(rule, result string)) *eligibility {
	e := &eligibility{
		hash: hash, sale: &d, users: &userSource{}, counts: counts,
		compile: sync.OnceValues(func() (*rules.Set, error) { return compileRules(d, hash) }),
	}
	schema := rules.SchemaFor(d)
	switch {
	case before != nil && reflect.DeepEqual(before.sale.Users, d.Users) && reflect.DeepEqual(before.sale.History, d.History):
		e.users = before.users
	case d.Users == nil && d.History == nil:
		e.users.Users = rules.UnknownUsers(schema)
	case open == nil:
		e.users.err = errors.New("this process has no source of users")
	default:
		e.users.Users, e.users.close, e.users.err = open(d, schema)
	}
	return e
}

func compileRules(d spec.Sale, applied string) (*rules.Set, error) {
	set, err := rules.ForSale(d)
	if err != nil {
		return nil, fmt.Errorf("the rules of sale %s cannot be compiled: %w", d.Name, err)
	}
	if set == nil {
		return nil, fmt.Errorf("the sale %s declares no rules, but %x was applied: use the version of salectl that applied them", d.Name, applied)
	}
	if hash := set.Hash(); string(hash[:]) != applied {
		return nil, fmt.Errorf("the rules of sale %s are %v, but %x was applied: use the version of salectl that applied them", d.Name, hash, applied)
	}
	return set, nil
}

// PrepareRules compiles the rules of the newest generation and reads the files of its users, so that no
// request waits for it. It is safe for concurrent use.
func (m *Machine) PrepareRules(ctx context.Context) {
	t := m.serving.Load()
	if t == nil {
		return
	}
	e := t.eligibility.Load()
	if e == nil {
		return
	}
	_, err := e.compile()
	if err == nil {
		_, err = e.users.lookup(ctx)
	}
	if err != nil {
		e.fail(m.clock(), err)
	}
}

// fail keeps why no decision could be taken. Only an error that is kept is allocated.
func (e *eligibility) fail(now clock.Now, err error) {
	p := &status.Problem{Kind: status.Rules, Since: now.Wall, Why: shard.OneLine(err)}
	if before := e.problem.Load(); before != nil {
		p.Since = before.Since
	}
	e.problem.Store(p)
}

// fresh returns a user who is known without a read.
func (s *userSource) fresh(id string) (user rules.Attributes, ok bool) {
	if known, is := s.Users.(freshUsers); is {
		return known.Fresh(id)
	}
	return user, false
}

// lookup returns the users with ids.
func (s *userSource) lookup(ctx context.Context, ids ...string) ([]rules.Attributes, error) {
	if s.err != nil {
		return nil, s.err
	}
	return s.Lookup(ctx, ids)
}

// decide returns how the rules admit a request; nil: they do not, and the answer to it.
func (e *eligibility) decide(ctx context.Context, now clock.Now, r *request.Request) (*request.Admittance, request.Answer) {
	set, user, err := e.lookup(ctx, r.User)
	if err != nil {
		e.count("", "not_checked")
		e.fail(now, err)
		return nil, request.Refusal(api.NotChecked)
	}
	if e.problem.Load() != nil {
		e.problem.Store(nil)
	}
	in := rules.Input{
		User: user, Sale: e.sale, Now: now.Wall,
		Claim: rules.Claim{Quantity: r.Quantity, Key: r.Key, At: now.Wall},
	}
	v := set.Decide(&in)
	for i := range v.Audits {
		e.count(v.Audits[i].Rule, "audit_"+v.Audits[i].Reason.String())
	}
	if !v.Allowed() {
		e.count(v.Refusal.Rule, v.Refusal.Reason.String())
		return nil, request.Answer{Outcome: api.NotEligible, Message: v.Refusal.Message, Rule: v.Refusal.Rule, Reason: v.Refusal.Reason.String()}
	}
	by := &request.Admittance{Ruling: ledger.Ruling{Rules: e.hash}}
	digest := user.Digest()
	copy(by.Ruling.Attributes[:], digest[:])
	var failed *rules.PriorityFailure
	if by.Priority, failed = set.Priority(&in); failed != nil {
		e.count("", "priority_"+failed.Reason.String())
	}
	return by, request.Answer{}
}

// lookup returns the rules, and the attributes of a user.
func (e *eligibility) lookup(ctx context.Context, id string) (set *rules.Set, user rules.Attributes, err error) {
	if set, err = e.compile(); err != nil {
		return nil, user, err
	}
	if user, ok := e.users.fresh(id); ok {
		return set, user, nil
	}
	all, err := e.users.lookup(ctx, id)
	if err != nil {
		return nil, user, err
	}
	return set, all[0], nil
}

func (e *eligibility) count(rule, result string) {
	if e.counts != nil {
		e.counts(rule, result)
	}
}
