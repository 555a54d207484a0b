package check

import (
	"testing"
	"time"

	"salectl/api"
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
func (w *world) wait(outcome api.Outcome, again time.Duration) {
	w.answer(w.invoke(w.user(0), "k", 1), Answer{Outcome: outcome, RetryAfter: again})
}

// declared has a generation planned whose settings are not those of its declaration,
// which says that it closes at the end of a minute, and that a user may have two.
func (w *world) declared(change func(*pb.Settings)) { w.declaredAs(nil, change) }

// declaredAs is declared, under a declaration of these bytes if there are any.
func (w *world) declaredAs(declaration []byte, change func(*pb.Settings)) {
	sale := spec.Sale{
		Name: "tickets", Run: 1, Stock: 6, LockCount: 2, PerUserLimit: 2, LockTTL: spec.Duration(3 * time.Second),
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

// keyless is a claim under a key that only its process knows: it was asked for
// without one, and the answer was lost.
func (w *world) keyless() {
	user := w.user(0)
	op := w.invoke(user, "", 1)
	w.store(user, "minted", 1)
	w.answer(op, Answer{Outcome: "unknown"})
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
		w.refuse(w.user(0), "", 1, "overloaded")
		w.at, w.off = 2*time.Minute, -2*time.Minute
		w.buy(w.user(0), "", 1)
	}, "hours"},
	"asked for when it has closed by every clock": {withHours(0, time.Minute), func(w *world) {
		w.at, w.off = time.Minute+drifts-time.Millisecond, -time.Minute
		w.buy(w.user(0), "k", 1)
	}, "hours"},
	"stored before it opens, asked for by nobody knows whom": {withHours(10*time.Minute, 0), func(w *world) {
		w.h.Skewed(0, day)
		w.h.Skewed(time.Second, 0)
		w.at, w.off = time.Minute, 10*time.Minute
		w.keyless()
	}, "hours"},
	"a request twice, and another stamped by a clock that is ahead": {newWorld, func(w *world) {
		a := w.user(0)
		w.buy(a, "k", 1)
		w.plantOp(claimOf(a, "k", 2))
		w.off = time.Minute
		w.buy(w.user(1), "k", 1)
	}, "hours identities"},
	"stamped by a clock that is ahead, before the lock nodes were wrong": {newWorld, func(w *world) {
		w.off = dragged
		w.buy(w.user(0), "k", 1)
		w.h.Skewed(time.Hour, day)
		w.h.Skewed(2*time.Hour, 0)
	}, "hours"},
	"closed, before the lock nodes were wrong": {withHours(0, day), func(w *world) {
		w.wait("closed", 0)
		w.h.Skewed(time.Hour, day)
	}, "hours"},
	"closed, long before what was just declared": {newWorld, func(w *world) {
		w.closes = day
		w.plan(0, 0, pb.Phase_OPEN)
		w.wait("closed", 0)
	}, "hours"},
	"closed, and to come again when it opens": {withHours(day, 2*day), func(w *world) { w.wait("closed", day) }, "hours"},
	"not open, and it has closed":             {withHours(0, time.Minute), func(w *world) { w.at = time.Hour; w.wait("not_open", 0) }, "hours"},
	"not open, and it was closed": {withHours(0, day), func(w *world) {
		w.plan(0, 0, pb.Phase_CLOSED)
		w.wait("not_open", 0)
	}, "hours"},
	"not open, when it has opened by every clock": {withHours(time.Second, 0), func(w *world) {
		w.at = time.Second + drifts - time.Millisecond
		w.wait("not_open", 0)
	}, "hours"},
	"to come again too late, later": {withHours(day, 0), func(w *world) { w.at = time.Hour; w.wait("not_open", day) }, "hours"},
	"a first declaration that cannot be read, and later settings with another limit": {newWorld, func(w *world) {
		w.declared(func(s *pb.Settings) { s.PerUserLimit = 3 })
		w.change(func(op *pb.Op) bool { return op.GetPlanned() != nil }, func(_ *pb.Commit, op *pb.Op) { op.GetPlanned().Spec = []byte("{") })
	}, "decode settings"},
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
		"as declared, with a begin": {newWorld, func(w *world) {
			sale := spec.Sale{
				Name: "tickets", Run: 1, Stock: 6, LockCount: 2, PerUserLimit: 2, LockTTL: spec.Duration(3 * time.Second),
				OpensAt: time.UnixMicro(0).Add(time.Second), ClosesAt: time.UnixMicro(0).Add(time.Minute), Embedded: &spec.Embedded{},
			}
			declaration, err := sale.JSON()
			if err != nil {
				w.t.Fatal(err)
			}
			w.declaredAs(declaration, func(s *pb.Settings) { s.OpensAtUs = time.Second.Microseconds() })
		}},
		"nobody knows what a right clock showed": {newWorld, func(w *world) {
			w.h.Begin = time.Time{}
			w.buy(w.user(0), "k", 1)
		}},
		"no hours in a world that began at another time": {newWorld, func(w *world) {
			w.h.Begin = w.h.Begin.Add(time.Hour)
			w.buy(w.user(0), "k", 1)
		}},
		"as it opens, by a clock as far ahead as may be": {newWorld, func(w *world) {
			w.off = drifts + time.Millisecond
			w.buy(w.user(0), "k", 1)
			w.setHours(w.claimed(), 0)
		}},
		"stamped ahead, and nobody knows when it was asked for": {newWorld, func(w *world) {
			w.off = time.Minute
			w.keyless()
		}},
		"stored after it closed, and nobody knows when it was asked for": {withHours(0, time.Minute), func(w *world) {
			w.at, w.off = 2*time.Minute, -2*time.Minute
			w.keyless()
		}},
		"asked for before it closed, and again after": {withHours(0, time.Minute), func(w *world) {
			user := w.user(0)
			w.answer(w.invoke(user, "k", 1), Answer{Outcome: Lost})
			w.at, w.off = 2*time.Minute, -2*time.Minute
			op := w.invoke(user, "k", 1)
			w.answer(op, Answer{Outcome: "sold", Claim: w.store(user, "k", 1)})
		}},
		"stamped by a log that was dragged ahead long ago": {newWorld, func(w *world) {
			w.h.Skewed(0, day)
			w.h.Skewed(time.Second, 0)
			w.at, w.off = time.Minute, dragged
			w.buy(w.user(0), "k", 1)
		}},
		"stamped by lock nodes that were just set, and a log that was dragged ahead": {newWorld, func(w *world) {
			const off = 10 * time.Second
			w.h.Skewed(w.at+2*time.Millisecond, off) // when it is stored
			w.off = drifts + off + off
			w.buy(w.user(0), "k", 1)
		}},
		"closed by phase, long before it closes": {withHours(0, day), func(w *world) {
			w.plan(0, 0, pb.Phase_CLOSED)
			w.wait("closed", 0)
		}},
		"closed as it closes, by a clock as far ahead as may be": {withHours(0, time.Minute), func(w *world) {
			w.at = time.Minute - drifts - 2*time.Millisecond
			w.wait("closed", 0)
		}},
		"closed, the lock nodes were wrong until now": {withHours(0, day), func(w *world) {
			w.h.Skewed(0, day)
			w.h.Skewed(time.Minute, 0)
			w.at = time.Minute - time.Millisecond
			w.wait("closed", 0)
		}},
		"closed, the lock nodes are wrong until later": {withHours(0, day), func(w *world) {
			w.h.Skewed(0, day)
			w.h.Skewed(time.Hour, 0)
			w.at = time.Minute
			w.wait("closed", 0)
		}},
		"closed, the lock nodes were wrong when the process heard of them": {withHours(0, day), func(w *world) {
			w.h.Slack = time.Second
			w.h.Skewed(0, day)
			w.h.Skewed(time.Minute, 0)
			w.at = time.Minute + time.Second
			w.wait("closed", 0)
		}},
		"told to wait, later":       {withHours(day, 0), func(w *world) { w.at = time.Hour; w.wait("not_open", day-time.Hour) }},
		"told to wait, just before": {withHours(time.Hour, 0), func(w *world) { w.at = time.Hour - time.Second; w.wait("not_open", time.Second) }},
		"told to wait as long as may be": {withHours(day, 0), func(w *world) {
			w.at = time.Hour - time.Millisecond
			w.wait("not_open", day-time.Hour+drifts+time.Millisecond)
		}},
		"told to wait before anything is planned": {emptyWorld, func(w *world) {
			w.wait("not_open", time.Second)
			w.serve()
		}},
		"told to wait before the shards know of it": {emptyWorld, func(w *world) {
			w.opens = day
			w.declare(3, 0, pb.Phase_OPEN)
			w.wait("not_open", day)
			w.complete()
		}},
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
