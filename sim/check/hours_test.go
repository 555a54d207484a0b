package check

import (
	"testing"
	"time"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// withHours is a sale that opens and closes at these times.
func withHours(opens, closes time.Duration) func(testing.TB) *world {
	return func(t testing.TB) *world {
		w := emptyWorld(t)
		w.opens, w.closes = opens, closes
		w.serve()
		return w
	}
}

// wait is how a user is told to come again.
func (w *world) wait(outcome string, again time.Duration) {
	w.answer(w.invoke(w.user(0), "k", 1), Answer{Outcome: outcome, RetryAfter: again})
}

// declared has a generation planned whose settings are not those of its declaration,
// which says that it closes at the end of a minute, and that a user may have two.
func (w *world) declared(change func(*pb.Settings)) { w.declaredAs(nil, change) }

// declaredAs is declared, under a declaration of these bytes if there are any.
func (w *world) declaredAs(declaration []byte, change func(*pb.Settings)) {
	sale := spec.Sale{
		Name: "tickets", Run: 1, Stock: 6, LockCount: 2, PerUserLimit: 2, LockTTL: 3 * time.Second,
		ClosesAt: time.UnixMicro(0).Add(time.Minute), Embedded: &spec.Embedded{},
	}
	if declaration == nil {
		var err error
		if declaration, err = sale.JSON(); err != nil {
			w.t.Fatal(err)
		}
	}
	settings := &pb.Settings{PerUserLimit: 2, ClosesAtUs: time.Minute.Microseconds(), Phase: pb.Phase_OPEN}
	change(settings)
	w.say(&pb.Op{Op: &pb.Op_Planned{Planned: &pb.Planned{
		Generation: w.sale.Generation() + 1, Uid: w.uid, Run: w.run, Spec: declaration, Settings: settings,
		Shards: []*pb.ShardChange{{}, {}}, NextUnit: w.next,
	}}})
	w.complete()
}

const day = 24 * time.Hour

// hourFaults are planted into histories of sales with hours.
var hourFaults = map[string]planted{
	"sold before it opens": {withHours(time.Minute, 0), func(w *world) {
		w.off = time.Minute
		w.buy(w.user(0), "k", 1)
	}, "hours"},
	"sold before it opens, and so stamped": {withHours(time.Minute, 0), func(w *world) {
		user := w.user(0)
		w.invoke(user, "k", 1)
		w.plant(0, new(pb.Commit), claimOf(user, "k", 1))
	}, "phases hours"},
	"stamped by a clock that is ahead": {newWorld, func(w *world) {
		w.off = time.Minute
		w.buy(w.user(0), "k", 1)
	}, "hours"},
	"asked for after it closed": {withHours(0, time.Minute), func(w *world) {
		w.at, w.off = 2*time.Minute, -2*time.Minute
		w.buy(w.user(0), "k", 1)
	}, "hours"},
	"asked for without a key after it closed": {withHours(0, time.Minute), func(w *world) {
		w.at, w.off = 2*time.Minute, -2*time.Minute
		w.buy(w.user(0), "", 1)
	}, "hours"},
	"not open, long after it opened":   {withHours(time.Second, 0), func(w *world) { w.at = time.Hour; w.wait("not_open", time.Second) }, "hours"},
	"not open, without a time to open": {withHours(0, day), func(w *world) { w.wait("not_open", time.Second) }, "hours"},
	"to come again too soon":           {withHours(day, 0), func(w *world) { w.wait("not_open", time.Hour) }, "hours"},
	"to come again too late":           {withHours(day, 0), func(w *world) { w.wait("not_open", day+time.Hour) }, "hours"},
	"closed, long before it closes":    {withHours(0, day), func(w *world) { w.wait("closed", 0) }, "hours"},
	"closed, while lock nodes were wrong long ago": {withHours(0, day), func(w *world) {
		w.h.Skewed(0, day)
		w.h.Skewed(time.Second, 0)
		w.at = time.Minute
		w.wait("closed", 0)
	}, "hours"},
	"a later declaration that cannot be read": {newWorld, func(w *world) {
		w.declaredAs([]byte("{"), func(*pb.Settings) {})
	}, "settings"},
	"settings without the end that is declared": {newWorld, func(w *world) {
		w.declared(func(s *pb.Settings) { s.ClosesAtUs = 0 })
	}, "settings"},
	"settings with another begin": {newWorld, func(w *world) {
		w.declared(func(s *pb.Settings) { s.OpensAtUs = 1 })
	}, "settings"},
	"settings with another limit": {newWorld, func(w *world) {
		w.declared(func(s *pb.Settings) { s.PerUserLimit = 3 })
	}, "settings"},
}

func TestHoursKept(t *testing.T) {
	for name, test := range map[string]struct {
		from func(testing.TB) *world
		do   func(w *world)
	}{
		"sold inside":            {withHours(time.Second, day), func(w *world) { w.at = time.Hour; w.buy(w.user(0), "k", 1) }},
		"told to wait":           {withHours(day, 0), func(w *world) { w.wait("not_open", day) }},
		"closed when it has":     {withHours(0, time.Minute), func(w *world) { w.at = time.Hour; w.wait("closed", 0) }},
		"a clock a little ahead": {withHours(drifts-100*time.Millisecond, 0), func(w *world) { w.off = drifts; w.buy(w.user(0), "k", 1) }},
		"closed, the lock nodes are wrong": {withHours(0, day), func(w *world) {
			w.h.Skewed(0, day)
			w.wait("closed", 0)
		}},
		"asked for before it closed": {withHours(0, time.Minute), func(w *world) {
			user := w.user(0)
			op := w.invoke(user, "k", 1)
			w.at, w.off = time.Hour, -time.Hour
			w.answer(op, Answer{Outcome: "sold", Claim: w.store(user, "k", 1)})
		}},
		"a process that does not serve": {newWorld, func(w *world) {
			w.answer(w.invoke(w.user(0), "k", 1), Answer{Outcome: "not_open", Away: true})
		}},
		"as declared": {newWorld, func(w *world) { w.declared(func(*pb.Settings) {}) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := test.from(t)
			test.do(w)
			for _, p := range Check(w.h) {
				t.Error(p)
			}
		})
	}
}
