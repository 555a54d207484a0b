package process

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/executor/request"
	"salectl/executor/shard"
	"salectl/executor/status"
	"salectl/rules"
	"salectl/spec"
)

// OpenUsers opens the attributes of users that the rules of a declaration read, by the schema of its
// rule set. The caller closes them. OpenUsers may take as long as a file takes to be read.
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

// newEligibility returns the rules that a generation declares, by the hash of their set. It shares the users
// of before, which may be open, if both generations declare the same sources.
func newEligibility(d spec.Sale, hash string, open OpenUsers, before *eligibility, counts func(rule, result string)) *eligibility {
	e := &eligibility{
		hash: hash, sale: &d, users: &userSource{declared: d, open: open}, counts: counts,
		compile: sync.OnceValues(func() (*rules.Set, error) { return compileRules(d, hash) }),
	}
	if before != nil && reflect.DeepEqual(before.users.declared.Users, d.Users) && reflect.DeepEqual(before.users.declared.History, d.History) {
		e.users = before.users
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

// PrepareRules compiles the rules of the newest generation and opens what they read, so that no request
// waits for it. It may take as long as a file takes to be read, and is safe for concurrent use.
func (m *Machine) PrepareRules() {
	t := m.serving.Load()
	if t == nil {
		return
	}
	e, now := t.eligibility.Load(), m.clock()
	if e == nil {
		return
	}
	_, err := e.compile()
	if err == nil {
		_, err = e.users.opened(now)
	}
	if err != nil {
		e.fail(now, err)
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

// userSource is where a sale's users are found, opened when it is first used.
type userSource struct {
	declared spec.Sale
	open     OpenUsers

	ready atomic.Pointer[openUsers]
	ended atomic.Bool // nothing is to be open any more

	mu    sync.Mutex // guards what follows, and is held while it is opened
	tried time.Duration
	err   error
}

// freshUsers are users of whom some are known without a read.
type freshUsers interface {
	Fresh(id string) (rules.Attributes, bool)
}

type openUsers struct {
	rules.Users
	close func() error
}

// openAgainAfter is how long after what could not be opened is tried again.
const openAgainAfter = time.Second

// opened returns the users, nil if nothing is known of any but their ids.
func (s *userSource) opened(now clock.Now) (*openUsers, error) {
	if s.declared.Users == nil && s.declared.History == nil {
		return nil, nil
	}
	if u := s.ready.Load(); u != nil {
		return u, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch u := s.ready.Load(); {
	case u != nil:
		return u, nil
	case s.open == nil:
		return nil, errors.New("this process has no source of users")
	case s.err != nil && now.Mono < s.tried+openAgainAfter:
		return nil, s.err
	}
	u := new(openUsers)
	s.tried = now.Mono
	if u.Users, u.close, s.err = s.open(s.declared, rules.SchemaFor(s.declared)); s.err != nil {
		return nil, s.err
	}
	s.ready.Store(u)
	if s.ended.Load() { // meanwhile
		return nil, errors.Join(errors.New("this process no longer serves the sale"), s.end())
	}
	return u, nil
}

// end closes what was opened. It does not wait for a call of opened.
func (s *userSource) end() error {
	s.ended.Store(true)
	if u := s.ready.Swap(nil); u != nil {
		return u.close()
	}
	return nil
}

// blocks reports whether a user's attributes have to be read.
func (s *userSource) blocks(id string) bool {
	if s.declared.Users == nil && s.declared.History == nil {
		return false
	}
	if u := s.ready.Load(); u != nil {
		if known, ok := u.Users.(freshUsers); ok {
			_, ok = known.Fresh(id)
			return !ok
		}
	}
	return true
}

// decide returns how the rules admit a request; nil: they do not, and the answer to it.
func (e *eligibility) decide(ctx context.Context, now clock.Now, r *request.Request) (*request.Admittance, request.Answer) {
	set, user, err := e.lookup(ctx, now, r.User)
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
	if by.Priority, err = set.Priority(&in); err != nil {
		reason := rules.Failed
		if p, ok := errors.AsType[*rules.PriorityError](err); ok {
			reason = p.Reason
		}
		e.count("", "priority_"+reason.String())
		by.Priority = rules.Last
	}
	return by, request.Answer{}
}

// lookup returns the rules, and the attributes of a user.
func (e *eligibility) lookup(ctx context.Context, now clock.Now, id string) (set *rules.Set, user rules.Attributes, err error) {
	if set, err = e.compile(); err != nil {
		return nil, user, err
	}
	users, err := e.users.opened(now)
	switch {
	case err != nil:
		return nil, user, err
	case users == nil:
		return set, set.Schema().Unknown(id), nil
	}
	if known, ok := users.Users.(freshUsers); ok {
		if user, ok := known.Fresh(id); ok {
			return set, user, nil
		}
	}
	all, err := users.Lookup(ctx, []string{id})
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
