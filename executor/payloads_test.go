package executor

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/backends/ledger/payload"
	"salectl/backends/memory"
	"salectl/spec"
	"salectl/units"
)

// deafLogs cannot be read for as often as is said. It counts how often it was asked.
type deafLogs struct {
	ledger.Logs
	fails, reads atomic.Int64
}

var errDeaf = errors.New("the store does not answer")

func (l *deafLogs) Read(ctx context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	l.reads.Add(1)
	if l.fails.Add(-1) >= 0 {
		return nil, nil, errDeaf
	}
	return l.Logs.Read(ctx, log, from, max)
}

// newPayloads returns the payloads of the units A1 and A2, and of how its store fails.
func newPayloads(t *testing.T, key *units.Key) (*payloads, *deafLogs) {
	t.Helper()
	const uid = "0123456789abcdef"
	logs, log := memory.NewStore().Handle(nil), spec.UnitsLog(uid)
	fold := payload.NewLog(log)
	op, err := payload.Seal(key, strings.NewReader("twelve bytes"), log, ledger.Hash{1}, 1, []string{"seat"}, []units.Unit{{Name: "A1"}, {Name: "A2"}})
	if err != nil {
		t.Fatal(err)
	}
	entry, err := fold.Entry([]byte("12345678"), 1, op)
	if err == nil {
		err = logs.Append(t.Context(), log, 0, nil, entry.Head, entry.Bytes)
	}
	if err != nil {
		t.Fatal(err)
	}
	g, deaf := new(payloads), &deafLogs{Logs: logs}
	reader := payload.NewReader(deaf, uid, key)
	reader.Follow([]ledger.Added{{Plan: ledger.Hash{1}, Units: ledger.Range{First: 1, Count: 2}}})
	g.reader.Store(reader)
	return g, deaf
}

func seats(names ...string) (all []payload.Fields) {
	for _, name := range names {
		all = append(all, payload.Fields{Columns: []string{"seat"}, Values: []string{name}})
	}
	return all
}

// A claim that is sold stands although what its units are cannot be read just then: its buyer
// is told so, and hears of it later.
func TestDeliver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, logs := newPayloads(t, nil)
		ask := func(outcome api.Outcome) Claim {
			a := Answer{Outcome: outcome, Claim: Claim{State: outcome, Units: []int64{2, 1}}}
			g.add(t.Context(), &a)
			if a.Outcome != outcome {
				t.Errorf("the outcome became %s", a.Outcome)
			}
			return a.Claim
		}
		logs.fails.Store(1 << 20)
		if c := ask(api.Sold); !c.Undelivered || c.Payloads != nil {
			t.Errorf("while nothing can be read: %+v", c)
		}
		logs.fails.Store(9) // so often a log is read before that is given up
		if c := ask(api.Sold); c.Undelivered || !reflect.DeepEqual(c.Payloads, seats("A2", "A1")) {
			t.Errorf("when it can be read again: %+v", c)
		}
		logs.fails.Store(1 << 20)
		if c := ask(api.Held); c.Undelivered || !reflect.DeepEqual(c.Payloads, seats("A2", "A1")) {
			t.Errorf("what was read before: %+v", c)
		}
	})
}

// Whoever asks over a stream is told as well, at once if that needs no reading.
func TestDelivering(t *testing.T) {
	g, _ := newPayloads(t, nil)
	for range 2 {
		told := make(chan Answer, 1)
		g.adding(func(a Answer) { told <- a })(Answer{Outcome: api.LimitReached, Claims: []Claim{{State: api.Sold, Units: []int64{1}}}})
		if a := <-told; !reflect.DeepEqual(a.Claims[0].Payloads, seats("A1")) {
			t.Errorf("told %+v", a)
		}
	}
	answers := make(chan Answer, 1)
	answered := g.adding(func(a Answer) { answers <- a })
	g.reader.Store(nil) // another session begins
	answered(Answer{Outcome: api.Sold, Claim: Claim{State: api.Sold, Units: []int64{2}}})
	if a := <-answers; !reflect.DeepEqual(a.Claim.Payloads, seats("A2")) {
		t.Errorf("told %+v at the end of a session", a)
	}
	none := new(payloads)
	told := false
	none.adding(func(Answer) { told = true })(Answer{Outcome: api.Sold, Claim: Claim{Units: []int64{1}}})
	if !told {
		t.Error("where units are numbers the answer waits")
	}
}

// A secret is told once its claim is sold.
func TestDeliverSecrets(t *testing.T) {
	key, err := units.NewKey([]byte(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	g, _ := newPayloads(t, key)
	for state, want := range map[api.Outcome][]payload.Fields{api.Held: nil, api.Cancelled: nil, api.Expired: nil, api.Sold: seats("A1"), api.Refunded: seats("A1")} {
		a := Answer{Outcome: state, Claim: Claim{State: state, Units: []int64{1}}}
		if g.add(t.Context(), &a); !reflect.DeepEqual(a.Claim.Payloads, want) || a.Claim.Undelivered {
			t.Errorf("%s: told %+v", state, a.Claim)
		}
	}
	r := Request{Names: []string{"A1"}}
	if a := g.choose(t.Context(), &r, nil); a.Outcome != api.BadRequest {
		t.Errorf("a secret unit was chosen: %+v, %+v", a, r)
	}
}

func TestChooseByName(t *testing.T) {
	g, _ := newPayloads(t, nil)
	r := Request{Names: []string{"A2", "A1"}}
	if a := g.choose(t.Context(), &r, nil); a.Outcome != "" || !reflect.DeepEqual(r.Units, []int64{1, 2}) || r.Quantity != 2 {
		t.Errorf("%+v, %+v", a, r)
	}
	r = Request{Names: []string{"A1", "Z9"}}
	if a := g.choose(t.Context(), &r, nil); a.Outcome != api.BadRequest || !strings.Contains(a.Message, `no unit "Z9"`) {
		t.Errorf("%+v", a)
	}
	numbers := new(payloads)
	numbers.follow(new(ledger.Sale), nil, nil)
	if a := numbers.choose(t.Context(), &r, nil); a.Outcome != api.BadRequest {
		t.Errorf("where units are numbers: %+v", a)
	}
	g, logs := newPayloads(t, nil)
	logs.fails.Store(1 << 20)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a := g.choose(ctx, &r, nil); a.Outcome != api.NoQuorum || a.RetryAfter == 0 {
		t.Errorf("while nothing can be read: %+v", a)
	}
}

// While it is not known what the units of a sale are, whoever names some is told what
// everybody is told then, and so asks again.
func TestChooseBeforeUnitsAreKnown(t *testing.T) {
	e := New(Config{Sale: "test"}) // and does not run
	r := Request{User: "ada", Quantity: 1, Names: []string{"A1"}}
	want := e.Do(t.Context(), Request{User: "ada", Quantity: 1})
	if a := e.Do(t.Context(), r); a.Outcome != api.Standby || !reflect.DeepEqual(a, want) {
		t.Errorf("before a session: %+v, others are told %+v", a, want)
	}
	g, _ := newPayloads(t, nil)
	e.payloads.reader.Store(g.reader.Load()) // from an earlier session, which has ended
	r.Names = []string{"Z9"}
	if a := e.Do(t.Context(), r); !reflect.DeepEqual(a, want) {
		t.Errorf("between two sessions: %+v, others are told %+v", a, want)
	}
	for _, begun := range []*payloads{g, new(payloads)} {
		begun.numbers.Store(begun != g)
		begun.reader.Store(nil)
		begun.numbers.Store(false)
		if a := begun.choose(t.Context(), &r, &want); !reflect.DeepEqual(a, want) {
			t.Errorf("at the start of a session: %+v", a)
		}
	}
}

// A client that goes away while what its units are is read is no failure of the store.
func TestNobodyWaitsForPayloads(t *testing.T) {
	for name, c := range map[string]struct {
		wait   func(context.Context) (context.Context, context.CancelFunc)
		failed bool
	}{
		"went away":  {context.WithCancel, false},
		"was kept":   {func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, 0) }, true},
		"still here": {func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} }, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			for what, ask := range map[string]func(context.Context, *payloads){
				"deliver": func(ctx context.Context, g *payloads) {
					g.add(ctx, &Answer{Outcome: api.Sold, Claim: Claim{State: api.Sold, Units: []int64{1}}})
				},
				"choose":             func(ctx context.Context, g *payloads) { g.choose(ctx, &Request{Names: []string{"A1"}}, nil) },
				"prepare":            func(ctx context.Context, g *payloads) { g.prepare(ctx, true) },
				"prepare to deliver": func(ctx context.Context, g *payloads) { g.prepare(ctx, false) },
			} {
				g, logs := newPayloads(t, nil)
				logs.fails.Store(1 << 20)
				ctx, cancel := c.wait(t.Context())
				cancel()
				ask(ctx, g)
				if (g.failed.Load() != nil) != c.failed {
					t.Errorf("%s, who asked %s: failed is %v", what, name, g.failed.Load())
				}
			}
		})
	}
}

// What is read ahead no buyer waits for: who is told of a unit waits for one read of its slot,
// and who chooses for none.
func TestPrepare(t *testing.T) {
	for name, c := range map[string]struct {
		choose       bool
		asyncRequest func(*payloads) Answer
		want         Answer
		reads        int64
	}{
		"to deliver": {false, func(g *payloads) (a Answer) {
			a.Claim = Claim{State: api.Sold, Units: []int64{2}}
			g.add(t.Context(), &a)
			return a
		}, Answer{Claim: Claim{State: api.Sold, Units: []int64{2}, Payloads: seats("A2")}}, 1},
		"to choose": {true, func(g *payloads) Answer { return g.choose(t.Context(), &Request{Names: []string{"A2"}}, nil) }, Answer{}, 0},
	} {
		g, logs := newPayloads(t, nil)
		g.failed.Store(new(error))
		g.prepare(t.Context(), c.choose)
		ahead := logs.reads.Load()
		if a := c.asyncRequest(g); !reflect.DeepEqual(a, c.want) || logs.reads.Load()-ahead != c.reads || g.failed.Load() != nil {
			t.Errorf("%s: %+v, after %d reads and %d ahead, failed is %v", name, a, logs.reads.Load()-ahead, ahead, g.failed.Load())
		}
	}
	new(payloads).prepare(t.Context(), false) // units that are numbers
}
