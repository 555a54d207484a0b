package executor

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
	"salectl/executor/shard"
	"salectl/rules"
	"salectl/spec"
)

// OpenUsers opens what the rules of a declaration are told of users, by the schema of its
// rule set. Whoever has it closes it. It may take as long as a file takes to be read.
type OpenUsers func(declared spec.Sale, schema *rules.Schema) (users rules.Users, close func() error, err error)

// eligibility decides by the rules of one generation who may claim. It is safe for
// concurrent use.
//
// A decision is taken before a request is queued, since it may have to ask a store, and
// it names the rule set that has taken it. A shard that is at another generation by the
// time of the claim does not grant it: the request is decided on again.
type eligibility struct {
	sale rules.Sale
	src  *ruleSource
	seen func(rule, result string) // counts; nil: nobody does
}

// ruleSource is a rule set with what it reads.
type ruleSource struct {
	hash     string // of the rule set, as the generation has it
	declared spec.Sale
	open     OpenUsers

	ready   atomic.Pointer[openRules]
	trouble atomic.Pointer[error] // of the last decision; nil: it was taken

	ended atomic.Bool // nothing is to be open any more

	mu    sync.Mutex // guards what follows, and is held while it is opened
	tried time.Duration
	err   error
}

type openRules struct {
	set   *rules.Set
	users rules.Users // nil: nothing is known of users but their ids
	close func() error
}

// newEligibility returns the rules of the newest generation of a sale, nil if it has
// none. What before has open is used on if it is the same.
func newEligibility(sale *ledger.Sale, open OpenUsers, before *eligibility, seen func(rule, result string)) (*eligibility, error) {
	newest := sale.Newest()
	hash := string(newest.GetSettings().GetRules())
	if hash == "" {
		return nil, nil
	}
	d, err := spec.FromJSON(newest.GetSpec())
	if err != nil {
		return nil, fmt.Errorf("generation %d of sale %s: %w", newest.GetGeneration(), d.Name, err)
	}
	e := &eligibility{
		sale: rules.Sale{Name: d.Name, Stock: d.Stock, PerUserLimit: d.PerUserLimit, OpensAt: d.OpensAt, ClosesAt: d.ClosesAt},
		seen: seen,
	}
	if before != nil && before.src.hash == hash && reflect.DeepEqual(before.src.declared.Users, d.Users) &&
		reflect.DeepEqual(before.src.declared.History, d.History) {
		e.src = before.src
	} else {
		e.src = &ruleSource{hash: hash, declared: d, open: open}
	}
	return e, nil
}

// openAgainAfter is how long after what could not be opened is tried again.
const openAgainAfter = time.Second

// prepare compiles the rules and opens what they read, if that is not done.
func (s *ruleSource) prepare(now clock.Now) (*openRules, error) {
	if r := s.ready.Load(); r != nil {
		return r, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r := s.ready.Load(); {
	case r != nil:
		return r, nil
	case s.err != nil && now.Mono < s.tried+openAgainAfter:
		return nil, s.err
	}
	s.tried = now.Mono
	var r *openRules
	if r, s.err = s.compile(); s.err != nil {
		return nil, s.err
	}
	s.ready.Store(r)
	if s.ended.Load() { // meanwhile
		return nil, errors.Join(errors.New("this process serves the sale no more"), s.end())
	}
	return r, nil
}

func (s *ruleSource) compile() (*openRules, error) {
	set, err := rules.ForSale(s.declared)
	if err != nil {
		return nil, fmt.Errorf("the rules of sale %s cannot be compiled: %w", s.declared.Name, err)
	}
	if hash := set.Hash(); string(hash[:]) != s.hash {
		return nil, fmt.Errorf("the rules of sale %s are %v, and %x was applied: serve with the version that applied them", s.declared.Name, hash, s.hash)
	}
	r := &openRules{set: set}
	if s.declared.Users == nil && s.declared.History == nil {
		return r, nil
	}
	if s.open == nil {
		return nil, errors.New("this process was not told where users are found")
	}
	r.users, r.close, err = s.open(s.declared, set.Schema())
	return r, err
}

// end closes what was opened. It waits for nobody who is about to open it.
func (s *ruleSource) end() error {
	s.ended.Store(true)
	if r := s.ready.Swap(nil); r != nil && r.close != nil {
		return r.close()
	}
	return nil
}

// decide says how the rules let a request in, or what it is told.
func (e *eligibility) decide(ctx context.Context, now clock.Now, r Request) (*shard.Admittance, Answer) {
	open, user, err := e.user(ctx, now, r.User)
	if err != nil {
		e.count("", "not_checked")
		e.src.trouble.Store(&err)
		return nil, Answer{Outcome: api.NotChecked, RetryAfter: time.Second}
	}
	if e.src.trouble.Load() != nil {
		e.src.trouble.Store(nil)
	}
	in := rules.Input{
		User: user, Sale: e.sale, Now: now.Wall,
		Claim: rules.Claim{Quantity: r.Quantity, Key: r.Key, At: now.Wall},
	}
	v := open.set.Decide(&in)
	for i := range v.Audits {
		e.count(v.Audits[i].Rule, "audit_"+v.Audits[i].Reason.String())
	}
	if !v.Allowed() {
		e.count(v.Refusal.Rule, v.Refusal.Reason.String())
		return nil, Answer{Outcome: api.NotEligible, Message: v.Refusal.Message, Rule: v.Refusal.Rule, Reason: v.Refusal.Reason.String()}
	}
	by := &shard.Admittance{Ruling: ledger.Ruling{Rules: e.src.hash}}
	digest := user.Digest()
	copy(by.Ruling.Attributes[:], digest[:])
	if by.Priority, err = open.set.Priority(&in); err != nil {
		e.count("", "priority_"+priorityReason(err)) // the request is among the last
		by.Priority = rules.Priority{}
	}
	return by, Answer{}
}

func priorityReason(err error) string {
	if p := (*rules.PriorityError)(nil); errors.As(err, &p) {
		return p.Reason.String()
	}
	return rules.Failed.String()
}

// user returns what is known of a user.
func (e *eligibility) user(ctx context.Context, now clock.Now, id string) (*openRules, rules.Attributes, error) {
	open, err := e.src.prepare(now)
	switch {
	case err != nil:
		return nil, rules.Attributes{}, err
	case open.users == nil:
		return open, open.set.Schema().Unknown(id), nil
	}
	all, err := open.users.Lookup(ctx, []string{id})
	if err != nil {
		return nil, rules.Attributes{}, err
	}
	return open, all[0], nil
}

func (e *eligibility) count(rule, result string) {
	if e.seen != nil {
		e.seen(rule, result)
	}
}
