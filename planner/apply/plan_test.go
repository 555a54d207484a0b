package apply

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/memory"
	"salectl/backends/quorum"
	_ "salectl/internal/rapidseed"
	"salectl/planner"
	"salectl/planner/current"
	"salectl/spec"
)

// brief is a plan in one line.
func brief(p *planner.Plan) string {
	var parts []string
	for _, a := range p.Actions {
		sign := map[string]string{planner.Create: "+", planner.Update: "~", planner.Delete: "-"}[a.Action]
		line := sign + a.Address
		for _, f := range a.Fields() {
			switch f.Name {
			case "stock", "limit", "units", "perUserLimit", "partial", "opensAt", "closesAt", "lock.ttl", "phase", "spec.phase", "marker",
				"payment.holdFor", "payment.grace", "payment.extendBy", "payment.late", "payment.unpaidPerUser":
				line += fmt.Sprintf(" %s %s>%s", f.Name, f.Before, f.After)
			}
		}
		parts = append(parts, line)
	}
	return strings.Join(parts, "; ")
}

// making is a plan that Make makes, or refuses to.
type making struct {
	before  func(*world)
	desired spec.Sale
	want    string // the plan, or part of the error
	err     error
}

// withRemedy returns the text of an error and, if it is a refusal, the remedy.
func withRemedy(err error) string {
	if refusal, is := errors.AsType[*planner.Refusal](err); is {
		return err.Error() + ". " + refusal.Remedy
	}
	return err.Error()
}

func (test making) try(t *testing.T) {
	w := newWorld(t)
	test.before(w)
	p, err := planner.Make(test.desired, w.actual())
	if !errors.Is(err, test.err) {
		t.Fatalf("error %v, want %v", err, test.err)
	}
	if err != nil {
		if !strings.Contains(withRemedy(err), test.want) {
			t.Errorf("error %q, want %q in it", err, test.want)
		}
		return
	}
	if got := brief(p); got != test.want {
		t.Errorf("the plan is\n%s, want\n%s", got, test.want)
	}
	if p.Empty() != (test.want == "") {
		t.Errorf("empty is %t, with %d actions", p.Empty(), len(p.Actions))
	}
}

func TestMake(t *testing.T) {
	nodes := "; +node/node-0 marker >good; +node/node-1 marker >good; +node/node-2 marker >good"
	for name, test := range map[string]making{
		"new": {
			func(*world) {}, tickets(10),
			"+sale/tickets phase >open stock >10 perUserLimit >2 lock.ttl >3s; +shard/0 limit >4 units >1-4; " +
				"+shard/1 limit >3 units >5-7; +shard/2 limit >3 units >8-10" + nodes, nil,
		},
		"nothing to do": {func(w *world) { w.mustApply(tickets(10)) }, tickets(10), "", nil},
		"more": {
			func(w *world) { w.mustApply(tickets(10)) }, tickets(15),
			"~sale/tickets stock 10>15; ~shard/0 limit 4>5 units >11; ~shard/1 limit 3>5 units >12-13; ~shard/2 limit 3>5 units >14-15", nil,
		},
		"less": {
			func(w *world) { w.mustApply(tickets(10)) }, tickets(7),
			"~sale/tickets stock 10>7; ~shard/0 limit 4>3; ~shard/1 limit 3>2; ~shard/2 limit 3>2", nil,
		},
		"numbers are not used again": {
			func(w *world) { w.mustApply(tickets(10)); w.mustApply(tickets(7)) }, tickets(10),
			"~sale/tickets stock 7>10; ~shard/0 limit 3>4 units >11; ~shard/1 limit 2>3 units >12; ~shard/2 limit 2>3 units >13", nil,
		},
		"less than is free, from where it is free": {
			func(w *world) { w.mustApply(tickets(12)); w.owner(0).claim(4); w.owner(1).claim(3) }, tickets(8),
			"~sale/tickets stock 12>8; ~shard/1 limit 4>3; ~shard/2 limit 4>1", nil,
		},
		"less than is possible": {
			func(w *world) { w.mustApply(tickets(12)); w.owner(0).claim(4); w.owner(1).claim(3) }, tickets(6),
			"the stock of sale tickets can be lowered by at most 5 units, not by 6. The lowest stock allowed now is 7.", planner.ErrRefused,
		},
		"as little as is possible": {
			func(w *world) { w.mustApply(tickets(12)); w.owner(0).claim(4); w.owner(1).claim(3) }, tickets(7),
			"~sale/tickets stock 12>7; ~shard/1 limit 4>3; ~shard/2 limit 4>0", nil,
		},
		"a removal that did not end, and a new change": {
			func(w *world) { w.mustApply(tickets(10)); w.runUntil(w.mustPlan(tickets(7)), 1) }, tickets(12),
			"~sale/tickets stock 7>12; ~shard/0 limit 3>4 units >11; ~shard/1 limit 3>4 units >12-13; ~shard/2 limit 3>4 units >14-15", nil,
		},
		"settings": {
			func(w *world) { w.mustApply(tickets(10)) },
			with(tickets(10), func(s *spec.Sale) {
				s.PerUserLimit, s.LockTTL = 5, spec.Duration(4*time.Second)
				s.OpensAt, s.ClosesAt = epoch.Add(time.Hour), epoch.Add(2*time.Hour)
			}),
			"~sale/tickets perUserLimit 2>5 opensAt >2026-11-11T13:00:00Z closesAt >2026-11-11T14:00:00Z lock.ttl 3s>4s", nil,
		},
		"a part from here on": {
			func(w *world) { w.mustApply(tickets(10)) }, with(tickets(10), func(s *spec.Sale) { s.Partial = true }),
			"~sale/tickets partial >true", nil,
		},
		"no part any more": {
			func(w *world) { w.mustApply(with(tickets(10), func(s *spec.Sale) { s.Partial = true })) }, tickets(10),
			"~sale/tickets partial true>", nil,
		},
		"another lockCount": {
			func(w *world) { w.mustApply(tickets(10)) }, with(tickets(10), func(s *spec.Sale) { s.LockCount = 4 }),
			"metadata.run: 2", planner.ErrRefused,
		},
		"another backend": {
			func(w *world) { w.mustApply(tickets(10)) }, with(tickets(10), onServers("sales", "a:1", "b:1", "c:1")),
			"cannot move from memory to the HBase table sales", planner.ErrRefused,
		},
		"a home that nobody knows": {
			func(w *world) { w.mustApply(tickets(10)) }, with(tickets(10), func(s *spec.Sale) { s.Homes = nil }),
			"its stores cannot be compared with those of the file: its declaration does not state where its ledger is kept", planner.ErrRefused,
		},
		"a new sale with locks of which nothing is known": {
			func(*world) {}, with(tickets(10), func(s *spec.Sale) { s.Homes = &spec.Homes{Ledger: s.Homes.Ledger} }),
			"does not state where its locks are kept", planner.ErrRefused,
		},
		"lock nodes of another kind, open": {
			func(w *world) { w.mustApply(tickets(10)) },
			with(tickets(10), func(s *spec.Sale) {
				s.Homes = &spec.Homes{Ledger: s.Homes.Ledger, Locks: spec.Home{Kind: "etcd", Place: "memory", Nodes: s.Homes.Locks.Nodes}}
			}),
			"two processes could each have a majority", planner.ErrRefused,
		},
		"other lock nodes of an unknown kind, open": {
			func(w *world) { w.mustApply(tickets(10)) },
			with(tickets(10), func(s *spec.Sale) {
				s.Homes = &spec.Homes{Ledger: s.Homes.Ledger, Locks: spec.Home{Kind: "memory", Place: "memory", Nodes: []string{"node-0"}}}
			}),
			"cannot change from node-0, node-1, node-2 to node-0", planner.ErrRefused,
		},
		"another table": {
			func(w *world) { w.mustApply(with(tickets(10), onServers("sales", "a:1", "b:1", "c:1"))) },
			with(tickets(10), onServers("other", "a:1", "b:1", "c:1")),
			"destroy the sale and write metadata.run: 2, or declare a sale of another name", planner.ErrRefused,
		},
		"other lock nodes, open": {
			func(w *world) { w.mustApply(with(tickets(10), onServers("sales", "a:1", "b:1", "c:1"))) },
			with(tickets(10), onServers("sales", "a:1", "b:1", "d:1")), "Run 'salectl pause' with the file as it was", planner.ErrRefused,
		},
		"other lock nodes, paused": {
			func(w *world) {
				w.mustApply(with(tickets(10), onServers("sales", "a:1", "b:1", "c:1")))
				w.mustPhase(pb.Phase_PAUSED)
			},
			with(tickets(10), onServers("sales", "a:1", "b:1", "d:1")), "~sale/tickets", nil,
		},
		"lock nodes in another order": {
			func(w *world) { w.mustApply(with(tickets(10), onServers("sales", "a:1", "b:1", "c:1"))) },
			with(tickets(10), onServers("sales", "c:1", "b:1", "a:1")), "~sale/tickets", nil,
		},
		"the next run of a live sale": {
			func(w *world) { w.mustApply(tickets(10)) }, run(tickets(10), 2), "Destroy run 1 first", planner.ErrRefused,
		},
		"an earlier run": {
			func(w *world) { w.mustApply(run(tickets(10), 3)) }, run(tickets(10), 2), "metadata.run: 3", planner.ErrRefused,
		},
		"the same run of a destroyed sale": {
			func(w *world) { w.mustApply(tickets(10)); w.mustDestroy() }, tickets(10), "metadata.run: 2", planner.ErrRefused,
		},
		"the next run of a destroyed sale": {
			func(w *world) { w.mustApply(tickets(10)); w.mustDestroy() }, run(tickets(3), 2),
			"+sale/tickets phase >open stock >3 perUserLimit >2 lock.ttl >3s; +shard/0 limit >1 units >1; " +
				"+shard/1 limit >1 units >2; +shard/2 limit >1 units >3" + nodes, nil,
		},
		"sealed, not yet deleted": {
			func(w *world) {
				w.mustApply(tickets(10))
				for p := w.begin(w.planDestroy()); w.actual().Sale.Sealed() == nil; {
					p.step(inOrder)
				}
			}, run(tickets(10), 2), "Run 'salectl destroy' again; then write metadata.run: 2 to sell", planner.ErrRefused,
		},
		"closed, and more units": {
			func(w *world) { w.mustApply(tickets(10)); w.mustPhase(pb.Phase_CLOSED) }, tickets(11), "closed", planner.ErrRefused,
		},
		"an apply that did not end": {
			func(w *world) { w.mustApply(tickets(10)); w.runUntil(w.mustPlan(tickets(13)), 1) }, tickets(13),
			"~sale/tickets; ~shard/1 limit 3>4 units >12; ~shard/2 limit 3>4 units >13", nil,
		},
		"an apply that did not end, and a new change": {
			func(w *world) { w.mustApply(tickets(10)); w.runUntil(w.mustPlan(tickets(13)), 1) }, tickets(14),
			"~sale/tickets stock 13>14; ~shard/1 limit 3>5 units >12, 14; ~shard/2 limit 3>4 units >13", nil,
		},
		"a create that did not end": {
			func(w *world) { w.runUntil(w.mustPlan(tickets(6)), 2) }, tickets(6),
			"~sale/tickets; +shard/2 limit >2 units >5-6" + nodes, nil,
		},
		"a create that did not end, and more units": {
			func(w *world) { w.runUntil(w.mustPlan(tickets(6)), 2) }, tickets(9),
			"~sale/tickets stock 6>9; ~shard/0 limit 2>3 units >7; ~shard/1 limit 2>3 units >8; +shard/2 limit >3 units >5-6, 9" + nodes, nil,
		},
		"more units than can be numbered": {
			func(w *world) { w.mustApply(tickets(10)) }, tickets(spec.MaxStock + 1),
			"would number its units up to 2305843009213693952, above the maximum. At most 2305843009213693951 units", planner.ErrRefused,
		},
		"a new sale of more": {
			func(*world) {}, tickets(spec.MaxStock + 1),
			"would number its units up to 2305843009213693952, above the maximum. At most 2305843009213693951 units", planner.ErrRefused,
		},
		"as many as can be": {
			func(w *world) { w.mustApply(tickets(10)) }, tickets(spec.MaxStock),
			"~sale/tickets stock 10>2305843009213693951; ~shard/0 limit 4>768614336404564651 units >11-768614336404564657; " +
				"~shard/1 limit 3>768614336404564650 units >768614336404564658-1537228672809129304; " +
				"~shard/2 limit 3>768614336404564650 units >1537228672809129305-2305843009213693951", nil,
		},
		"a new sale of as many": {
			func(*world) {}, tickets(spec.MaxStock),
			"+sale/tickets phase >open stock >2305843009213693951 perUserLimit >2 lock.ttl >3s; " +
				"+shard/0 limit >768614336404564651 units >1-768614336404564651; " +
				"+shard/1 limit >768614336404564650 units >768614336404564652-1537228672809129301; " +
				"+shard/2 limit >768614336404564650 units >1537228672809129302-2305843009213693951" + nodes, nil,
		},
	} {
		t.Run(name, test.try)
	}
}

// because is why an action is due.
type because struct {
	why  planner.ActionReason
	text string
}

// What each action is for is told with it.
func TestReasons(t *testing.T) {
	half := func(w *world) { w.mustApply(tickets(10)); w.runUntil(w.mustPlan(tickets(13)), 1) }
	for name, test := range map[string]struct {
		before func(*world)
		plan   func(*world) *planner.Plan
		want   map[string]because // by address
	}{
		"new": {func(w *world) { down(w.nodes[1]) }, applies(tickets(10)), map[string]because{
			"sale/tickets": {planner.ReasonNew, "it does not exist"}, "shard/2": {planner.ReasonNew, "the sale is new"},
			"node/node-0": {planner.ReasonNew, "a lock node, which votes on the owners of shards"}, "node/node-1": {planner.ReasonNew, "it cannot be used now"},
		}},
		"the next run": {func(w *world) { w.mustApply(tickets(10)); w.mustDestroy() }, applies(run(tickets(10), 2)), map[string]because{
			"sale/tickets": {planner.ReasonNewRun, "run 1 is destroyed, this is a new one"},
		}},
		"more": {func(w *world) { w.mustApply(tickets(10)) }, applies(tickets(12)), map[string]because{
			"sale/tickets": {planner.ReasonDeclarationChanged, "the declaration has changed"}, "shard/1": {planner.ReasonDeclarationChanged, "new units"},
		}},
		"less": {func(w *world) { w.mustApply(tickets(10)) }, applies(tickets(8)), map[string]because{
			"sale/tickets": {planner.ReasonDeclarationChanged, "the declaration has changed"}, "shard/0": {planner.ReasonDeclarationChanged, "withdraws 1 unit"},
		}},
		"more, while there is less to come": {
			func(w *world) { w.mustApply(tickets(10)); w.runUntil(w.mustPlan(tickets(7)), 1) }, applies(tickets(12)), map[string]because{
				"sale/tickets": {planner.ReasonDeclarationChanged, "the declaration has changed; generation 2 is completed first"},
				"shard/0":      {planner.ReasonDeclarationChanged, "new units"}, "shard/1": {planner.ReasonGenerationPending, "generation 2 pending, new units"},
			},
		},
		"what did not end": {half, applies(tickets(13)), map[string]because{
			"sale/tickets": {planner.ReasonGenerationPending, "generation 2 pending: an earlier apply did not finish"}, "shard/1": {planner.ReasonGenerationPending, "generation 2 pending"},
		}},
		"a node that forgot, or never knew": {
			func(w *world) {
				w.mustApply(tickets(10))
				w.note(&pb.Op{Op: &pb.Op_Applied{Applied: &pb.Applied{Generation: 1, Unmarked: []string{"node-0"}}}})
				down(w.nodes[0])
				w.nodes[1].RestartEmpty()
			}, applies(tickets(10)), map[string]because{
				"node/node-0": {planner.ReasonNodePending, "it cannot be used now"},
				"node/node-1": {planner.ReasonMarkerMissing, "its marker is gone: it was restarted or flushed, or the key was deleted; it abstains until the leases that it may have granted have expired"},
			},
		},
		"a pause": {func(w *world) { w.mustApply(tickets(10)) }, pauses, map[string]because{"sale/tickets": {planner.ReasonRequested, "requested"}}},
		"a file that others have replaced": {
			func(w *world) { w.mustApply(tickets(10)); w.mustApply(tickets(12)); w.mustPhase(pb.Phase_PAUSED) }, applies(tickets(10)), map[string]because{
				"sale/tickets": {planner.ReasonOtherGeneration, "the file has the declaration of generation 1, but generation 2 by tester@host has another:" +
					" another file was applied, or this one was reverted"},
				"shard/2": {planner.ReasonOtherGeneration, "withdraws 1 unit"},
			},
		},
		"destroy": {func(w *world) { w.mustApply(tickets(10)) }, (*world).planDestroy, map[string]because{
			"sale/tickets": {planner.ReasonRequested, "requested; its own log is kept"}, "shard/0": {planner.ReasonRequested, "its log is sealed, exported and deleted"},
			"node/node-0": {planner.ReasonRequested, "leases and marker of the sale are removed"},
		}},
		"destroy of what is sealed": {func(w *world) { w.mustApply(tickets(10)); w.seal() }, (*world).planDestroy, map[string]because{
			"sale/tickets": {planner.ReasonDestroyPending, "the sale is exported, and an earlier destroy did not finish"},
			"shard/0":      {planner.ReasonDestroyPending, "the sale is exported, and an earlier destroy did not finish"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			test.before(w)
			got := make(map[string]because)
			for _, a := range test.plan(w).Actions {
				if test.want[a.Address].why != "" {
					got[a.Address] = because{a.ActionReason, a.Reason}
				}
			}
			if !maps.Equal(got, test.want) {
				t.Errorf("the reasons are %q, want %q", got, test.want)
			}
		})
	}
}

func applies(s spec.Sale) func(*world) *planner.Plan {
	return func(w *world) *planner.Plan { w.Helper(); return w.mustPlan(s) }
}

func pauses(w *world) *planner.Plan {
	w.Helper()
	p, err := planner.MakePhase(w.actual(), pb.Phase_PAUSED)
	if err != nil {
		w.Fatal(err)
	}
	return p
}

// seal carries a destroy out until the sale is sealed, and deletes nothing.
func (w *world) seal() {
	w.Helper()
	runDestroyUntil(w, w.planDestroy(), func(p *process) bool { return p.x.sale.Sealed() != nil })
}

// What a plan is for, and what it appends: a close is appended once.
func TestMakeDestroy(t *testing.T) {
	nodes := "; -node/node-0 marker good>; -node/node-1 marker good>; -node/node-2 marker good>"
	sale := "; -sale/tickets phase open> stock 10> perUserLimit 2> lock.ttl 3s>"
	for name, test := range map[string]struct {
		before func(*world)
		change func(*planner.Actual)
		want   string
		closes bool
	}{
		"open": {
			func(w *world) { w.mustApply(tickets(10)) }, nil,
			"-shard/0 limit 4>; -shard/1 limit 3>; -shard/2 limit 3>" + nodes + sale, true,
		},
		"closed": {
			func(w *world) { w.mustApply(tickets(10)); w.mustPhase(pb.Phase_CLOSED) }, nil,
			"-shard/0 limit 4>; -shard/1 limit 3>; -shard/2 limit 3>" + nodes + strings.Replace(sale, "open", "closed", 1), false,
		},
		"being made": {
			func(w *world) { w.runUntil(w.mustPlan(tickets(10)), 1) }, nil,
			"-shard/0 limit 4>; -shard/1; -shard/2" + strings.ReplaceAll(nodes, "good", "missing") + strings.Replace(sale, "open", "planned", 1), true,
		},
		"a shard and a node are away": {
			func(w *world) { w.mustApply(tickets(10)) },
			func(a *planner.Actual) {
				a.Shards[1] = planner.ShardActual{Err: memory.ErrInjected}
				a.Nodes[1] = planner.NodeActual{NodeInfo: quorum.NodeInfo{Name: "node-1", Err: memory.ErrInjected}}
			},
			"-shard/0 limit 4>; -shard/1; -shard/2 limit 3>" + strings.Replace(nodes, "1 marker good", "1 marker unknown", 1) + sale, true,
		},
		"sealed, and deleted in part": {
			func(w *world) { w.mustApply(tickets(10)); w.seal() },
			func(a *planner.Actual) {
				a.Shards[0], a.Shards[1] = planner.ShardActual{}, planner.ShardActual{Err: memory.ErrInjected}
			},
			"-shard/1; -shard/2 limit 3>" + nodes + strings.Replace(sale, "open", "sealed", 1), false,
		},
		"destroyed": {func(w *world) { w.mustApply(tickets(10)); w.mustDestroy() }, nil, "", false},
		"destroyed, and a lease is left": {
			func(w *world) { w.mustApply(tickets(10)); w.mustDestroy() },
			func(a *planner.Actual) {
				a.Shards[0].Err = memory.ErrInjected
				a.Nodes[1].Leases = []quorum.Holding{{Key: "lease"}}
			},
			"-shard/0; -node/node-1 marker missing>", false,
		},
		"no sale": {func(*world) {}, nil, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			test.before(w)
			actual := w.actual()
			if test.change != nil {
				test.change(actual)
			}
			p, err := planner.MakeDestroy(actual)
			if err != nil {
				t.Fatal(err)
			}
			if got := brief(p); got != test.want {
				t.Errorf("the plan is\n%s, want\n%s", got, test.want)
			}
			planned, err := p.Intent()
			if err != nil || planned.GetSettings().GetPhase() == pb.Phase_CLOSED != test.closes {
				t.Errorf("it appends %v, %v", planned, err)
			}
		})
	}
}

// A declaration that this program cannot read, perhaps of a newer one, is no reason
// to refuse anything, and no plan is made of it.
func TestUnreadableDeclarations(t *testing.T) {
	actual := &planner.Actual{Name: "tickets", Sale: said(t, plannedOp(workUID, 1, 1), appliedOp(1)), Shards: make([]planner.ShardActual, 1)}
	actual.Shards[0].Head = &ledger.Head{Totals: ledger.Totals{Generation: 1}}
	for name, plan := range map[string]func() (*planner.Plan, error){
		"apply": func() (*planner.Plan, error) {
			return planner.Make(with(tickets(1), func(s *spec.Sale) { s.LockCount = 1 }), actual)
		},
		"pause":   func() (*planner.Plan, error) { return planner.MakePhase(actual, pb.Phase_PAUSED) },
		"destroy": func() (*planner.Plan, error) { return planner.MakeDestroy(actual) },
	} {
		if _, err := plan(); err == nil || errors.Is(err, planner.ErrRefused) || !strings.HasPrefix(err.Error(), "sale tickets: generation 1: stored declaration") {
			t.Errorf("%s: %v", name, err)
		}
	}
	nonsense := with(tickets(10), func(s *spec.Sale) { s.LockTTL = 0 })
	w := newWorld(t)
	for _, when := range []string{"a new sale", "a live one"} {
		if _, err := planner.Make(nonsense, w.actual()); err == nil || errors.Is(err, planner.ErrRefused) || !strings.HasPrefix(err.Error(), "sale tickets: spec.lock.ttl of 0s") {
			t.Errorf("%s: %v", when, err)
		}
		w.mustApply(tickets(10))
	}
}

// What a plan says of a sale is all that its file says.
func TestAttributesOfASale(t *testing.T) {
	sale := packets(30)
	onServers("sales", "a:1", "b:1", "c:1")(&sale)
	sale.Redis.UsernameEnv, sale.Redis.PasswordEnv, sale.Redis.TLS = "USER", "PASSWORD", true
	sale.OpensAt, sale.ClosesAt, sale.LockTTL = epoch, epoch.Add(1500*time.Millisecond).In(time.FixedZone("there", 3600)), spec.Duration(2500*time.Millisecond)
	want := []planner.Field{
		{Name: "run", Before: "", After: "1"}, {Name: "phase", Before: "", After: "open"}, {Name: "stock", Before: "", After: "30"}, {Name: "lockCount", Before: "", After: "3"}, {Name: "perUserLimit", Before: "", After: "1"},
		{Name: "opensAt", Before: "", After: "2026-11-11T12:00:00Z"}, {Name: "closesAt", Before: "", After: "2026-11-11T12:00:01.5Z"}, {Name: "engine", Before: "", After: "redis"}, {Name: "ack", Before: "", After: "ledger"}, {Name: "backlog", Before: "", After: "100"},
		{Name: "lock.ttl", Before: "", After: "2500ms"}, {Name: "redis.nodes", Before: "", After: "a:1, b:1, c:1"},
		{Name: "redis.usernameEnv", Before: "", After: "USER"}, {Name: "redis.passwordEnv", Before: "", After: "PASSWORD"}, {Name: "redis.tls", Before: "", After: "true"},
		{Name: "hbase.zookeeper", Before: "", After: "z:2181"}, {Name: "hbase.zookeeperRoot", Before: "", After: "/hbase"}, {Name: "hbase.table", Before: "", After: "sales"},
		{Name: "redPacket", Before: "", After: "30.00 CNY, split random, min 0.01"}, {Name: "ledger", Before: "", After: "the HBase table sales"}, {Name: "generation", Before: "", After: "1"},
	}
	create := newWorld(t).mustPlan(sale).Actions[0]
	if got := create.Fields(); !slices.Equal(got, want) {
		t.Errorf("the fields are\n%q, want\n%q", got, want)
	}
	want = []planner.Field{
		{Name: "run", Before: "", After: "1"}, {Name: "phase", Before: "", After: "open"}, {Name: "stock", Before: "", After: "10"}, {Name: "lockCount", Before: "", After: "3"}, {Name: "perUserLimit", Before: "", After: "2"},
		{Name: "lock.ttl", Before: "", After: "3s"}, {Name: "ledger", Before: "", After: "memory"}, {Name: "lock nodes", Before: "", After: "node-0, node-1, node-2"}, {Name: "generation", Before: "", After: "1"},
	}
	if got := newWorld(t).mustPlan(tickets(10)).Actions[0].Fields(); !slices.Equal(got, want) {
		t.Errorf("the fields are\n%q, want\n%q", got, want)
	}
	want = slices.Insert(want, 5, []planner.Field{
		{Name: "payment.holdFor", Before: "", After: "10m"}, {Name: "payment.grace", Before: "", After: "30s"}, {Name: "payment.extendBy", Before: "", After: "5m"}, {Name: "payment.late", Before: "", After: "resell"}, {Name: "payment.unpaidPerUser", Before: "", After: "20"},
	}...)
	awaited := with(tickets(10), func(s *spec.Sale) { s.Payment = paid() })
	if got := newWorld(t).mustPlan(awaited).Actions[0].Fields(); !slices.Equal(got, want) {
		t.Errorf("the fields are\n%q, want\n%q", got, want)
	}
	if got := (planner.Action{Before: &planner.Attributes{Units: "3"}}).Fields(); !slices.Equal(got, []planner.Field{{Name: "units", Before: "3", After: ""}}) {
		t.Errorf("of what is deleted the fields are %q", got)
	}
}

// A plan of a new run shows nothing of the run before.
func TestPhaseOfANewRun(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	w.mustDestroy()
	if p := w.mustPlan(run(tickets(10), 2)); p.Phase != "" || p.UID == "" || p.UID == w.actual().Sale.UID() || p.Generation != 1 {
		t.Errorf("the plan is %+v", p)
	}
}

func TestMakePhase(t *testing.T) {
	for name, test := range map[string]struct {
		before func(*world)
		phase  pb.Phase
		want   string
		err    error
	}{
		"pause":               {func(w *world) { w.mustApply(tickets(10)) }, pb.Phase_PAUSED, "~sale/tickets phase open>paused", nil},
		"resume of an open":   {func(w *world) { w.mustApply(tickets(10)) }, pb.Phase_OPEN, "", nil},
		"of no sale":          {func(*world) {}, pb.Phase_PAUSED, "Run 'salectl apply' first", planner.ErrRefused},
		"of a planned sale":   {func(w *world) { w.runUntil(w.mustPlan(tickets(6)), 2) }, pb.Phase_PAUSED, "Run 'salectl apply' first", planner.ErrRefused},
		"of a destroyed sale": {func(w *world) { w.mustApply(tickets(10)); w.mustDestroy() }, pb.Phase_CLOSED, "destroyed", planner.ErrRefused},
		"resume of a closed": {func(w *world) { w.mustApply(tickets(10)); w.mustPhase(pb.Phase_CLOSED) }, pb.Phase_OPEN,
			"for good. Destroy it and write metadata.run: 2", planner.ErrRefused},
		"pause where an apply did not end": {
			func(w *world) { w.mustApply(tickets(10)); w.runUntil(w.mustPlan(tickets(13)), 1) }, pb.Phase_PAUSED,
			"~sale/tickets phase open>paused; ~shard/1 limit 3>4 units >12; ~shard/2 limit 3>4 units >13", nil,
		},
		"pause that did not end": {
			func(w *world) {
				w.mustApply(tickets(10))
				p, _ := planner.MakePhase(w.actual(), pb.Phase_PAUSED)
				w.runUntil(p, 1)
			}, pb.Phase_PAUSED, "~sale/tickets; ~shard/1; ~shard/2", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			test.before(w)
			p, err := planner.MakePhase(w.actual(), test.phase)
			if !errors.Is(err, test.err) || err != nil && !strings.Contains(withRemedy(err), test.want) {
				t.Fatalf("error %v, want %v with %q", err, test.err, test.want)
			}
			if err == nil && brief(p) != test.want {
				t.Errorf("the plan is %s, want %s", brief(p), test.want)
			}
		})
	}
}

// A shard that cannot be read is no reason to plan nothing, unless its numbers
// matter.
func TestMakeWithAnUnreadableShard(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	actual := w.actual()
	actual.Shards[1] = planner.ShardActual{Err: memory.ErrInjected}
	if p, err := planner.Make(tickets(10), actual); err != nil || !p.Empty() || fmt.Sprint(p.Warnings) != "[shard/1 cannot be read: injected fault]" {
		t.Errorf("nothing changes: %v, %v", p, err)
	}
	p, err := planner.Make(with(tickets(10), func(s *spec.Sale) { s.PerUserLimit = 9 }), actual)
	if err != nil || brief(p) != "~sale/tickets perUserLimit 2>9" {
		t.Errorf("the limit changes: %v, %v", p, err)
	}
	if _, err := planner.Make(tickets(11), actual); !errors.Is(err, memory.ErrInjected) {
		t.Errorf("the stock changes: %v", err)
	}
}

func TestMakeMendsMarkers(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	actual := w.actual()
	actual.Nodes[0].Marker = quorum.Marker{Good: true}
	actual.Nodes[1].Marker = quorum.Marker{}
	p, err := planner.Make(tickets(10), actual)
	if err != nil || brief(p) != "~node/node-1 marker missing>abstaining" {
		t.Fatalf("%s, %v", brief(p), err)
	}
	next := w.actual().Sale.Next()
	if err := w.run(p); err != nil || w.actual().Sale.Next() != next {
		t.Errorf("apply: %v", err)
	}
}

// Planning does not write, not even where there is nothing yet.
func TestPlanWritesNothing(t *testing.T) {
	w := newWorld(t)
	w.faults = func(c memory.Call) memory.Fault {
		if c.Op != memory.OpRead { // nor looks for shards
			t.Errorf("%v of %s", c.Op, c.Log)
		}
		return memory.Fault{}
	}
	for _, n := range w.nodes {
		n.SetFaults(func(c memory.Call) memory.Fault {
			if c.Op != memory.OpInfo && c.Op != memory.OpList && c.Op != memory.OpReadMarker {
				t.Errorf("%v", c.Op)
			}
			return memory.Fault{}
		})
	}
	actual, err := current.Read(t.Context(), w.config().Backends, "tickets")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := planner.Make(tickets(10), actual); err != nil {
		t.Fatal(err)
	}
}

// decodeOne reads a file with one plan.
func decodeOne(b []byte) (*planner.Plan, error) {
	all, err := planner.DecodePlans(b)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// A file may have the plans of several sales, and is told from a sale's.
func TestPlansOfSeveralSales(t *testing.T) {
	w := newWorld(t)
	one, err := w.mustPlan(tickets(10)).Encode()
	if err != nil {
		t.Fatal(err)
	}
	second := w.mustPlan(tickets(10))
	second.Sale = "matinee"
	if second.Digest, err = planDigest(second); err != nil {
		t.Fatal(err)
	}
	two, err := second.Encode()
	if err != nil {
		t.Fatal(err)
	}
	file := slices.Concat(one, two)
	if all, err := planner.DecodePlans(file); err != nil || len(all) != 2 || all[0].Sale != "tickets" || all[1].Sale != "matinee" {
		t.Errorf("%v, %v", all, err)
	}
	if !planner.LooksLikePlan(file) || planner.LooksLikePlan([]byte(`{"apiVersion": "salectl/v1", "kind": "Sale"}`)) || planner.LooksLikePlan(nil) {
		t.Error("plans are not told from sale files")
	}
}

// A plan fits until the sale goes another way, also when it was carried out.
func TestPlanFits(t *testing.T) {
	w := newWorld(t)
	create := w.mustPlan(tickets(10))
	fits := func(p *planner.Plan, want bool) {
		t.Helper()
		if err := p.CheckState(w.actual().Sale); (err == nil) != want || err != nil && !errors.Is(err, planner.ErrStale) {
			t.Errorf("%s to generation %d: %v", p.Kind, p.Generation, err)
		}
	}
	fits(create, true)
	w.runUntil(create, 1)
	fits(create, true)
	if err := w.run(create); err != nil {
		t.Fatal(err)
	}
	fits(create, true)
	more, other, nothing, end := w.mustPlan(tickets(13)), w.mustPlan(tickets(14)), w.mustPlan(tickets(10)), w.planDestroy()
	for _, p := range []*planner.Plan{more, other, nothing, end} {
		fits(p, true)
	}
	if err := w.run(more); err != nil {
		t.Fatal(err)
	}
	fits(more, true)
	fits(other, false)
	fits(nothing, false)
	w.mustDestroy()
	fits(more, false)
	fits(w.planDestroy(), true)
}

func TestPlanFile(t *testing.T) {
	w := newWorld(t)
	plan := w.mustPlan(tickets(10))
	saved, err := plan.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, saved); err != nil {
		t.Fatal(err)
	}
	for _, form := range [][]byte{saved, compact.Bytes()} {
		if p, err := decodeOne(form); err != nil || p.Digest != plan.Digest || brief(p) != brief(plan) {
			t.Fatalf("%v, %v", p, err)
		}
	}
	for name, change := range map[string][2]string{
		"another version":  {`"formatVersion": 1`, `"formatVersion": 2`},
		"another slot":     {`"slot": 0`, `"slot": 1`},
		"other numbers":    {`"limit": 4`, `"limit": 5`},
		"a new field":      {`"formatVersion": 1`, `"formatVersion": 1, "force": true`},
		"another payload":  {`"payload": "`, `"payload": "AAAA`},
		"no JSON":          {`{`, ``},
		"cut off":          {`"digest"`, ``},
		"something behind": {"}\n", "}\n{}"},
		"the same again":   {"}\n", "}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.Replace(string(saved), change[0], change[1], 1)
			switch name {
			case "something behind":
				bad = string(saved) + "{}"
			case "the same again":
				bad = string(saved) + string(saved)
			}
			if bad == string(saved) {
				t.Fatal("nothing was changed")
			}
			says := map[string]string{"no JSON": "it is no plan", "cut off": "it is not JSON", "the same again": "two plans of the sale tickets", "another version": "formatVersion 2 and this program reads 1"}
			if _, err := planner.DecodePlans([]byte(bad)); !errors.Is(err, planner.ErrBadPlan) || !strings.Contains(err.Error(), says[name]) {
				t.Errorf("error %v", err)
			}
		})
	}
	if err := w.run(w.mustCheck(plan, tickets(10))); err != nil {
		t.Fatal(err)
	}
	w.wantStock(10)
}

// Stock goes up and down while units are sold: the sum is what was declared, or
// the shortfall is told, and no number is ever dealt twice.
func TestStockChanges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		w.mustApply(tickets(rapid.Int64Range(3, 30).Draw(rt, "stock")))
		var owners []*owner
		for shard := range 3 {
			owners = append(owners, w.owner(shard))
		}
		sold := int64(0)
		sell := func(shard int) {
			o := owners[shard]
			o.catchUp()
			n := rapid.Int64Range(0, o.state.Available).Draw(rt, "sold")
			o.claim(n)
			sold += n
		}
		for range rapid.IntRange(1, 6).Draw(rt, "changes") {
			sell(rapid.IntRange(0, 2).Draw(rt, "shard"))
			desired := tickets(rapid.Int64Range(3, 60).Draw(rt, "stock"))
			plan, err := planner.Make(desired, w.actual())
			if errors.Is(err, planner.ErrRefused) {
				if a := w.audit(); a.Stock-desired.Stock <= a.Available {
					rt.Fatalf("refused: %v", err)
				}
				continue
			} else if err != nil {
				rt.Fatal(err)
			}
			if rapid.Bool().Draw(rt, "meanwhile") {
				sell(rapid.IntRange(0, 2).Draw(rt, "shard"))
			}
			if plan.Empty() {
				continue
			}
			p := w.begin(plan)
			for !p.done {
				p.step(inOrder)
			}
			if p.err != nil {
				rt.Fatal(p.err)
			}
			audit := w.audit()
			if audit.Stock != desired.Stock+p.x.result.Shortfall || audit.Sold != sold {
				rt.Fatalf("stock %d, sold %d; want %d and %d, and the shortfall is %d",
					audit.Stock, audit.Sold, desired.Stock, sold, p.x.result.Shortfall)
			}
		}
	})
}

// A stock that is spread too thin is told of before it is applied, and only there
// where it can be helped.
func TestSpreadWarning(t *testing.T) {
	for name, test := range map[string]struct {
		stock, perUser int64
		lockCount      int
		want           string
	}{
		"enough":         {4 * 2 * 20, 2, 20, ""},
		"one too few":    {4*2*20 - 1, 2, 20, "lockCount 20 leaves 7 units per shard, and a user may have 2: many claims will wait for units of other shards; a lockCount of at most 19 avoids that"},
		"one unit each":  {1024, 1, 1024, "lockCount 1024 leaves 1 unit per shard, and a user may have 1: many claims will wait for units of other shards; a lockCount of at most 256 avoids that"},
		"hardly any":     {20, 20, 20, "a lockCount of at most 16 avoids that"},
		"but few shards": {16, 20, 16, ""},
	} {
		t.Run(name, func(t *testing.T) {
			desired := with(tickets(test.stock), func(s *spec.Sale) { s.LockCount, s.PerUserLimit = test.lockCount, test.perUser })
			w := newWorld(t)
			for _, when := range []string{"new", "changed"} {
				p := w.mustPlan(desired)
				if test.want == "" && len(p.Warnings) > 0 || test.want != "" && (len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], test.want)) {
					t.Errorf("%s: it warns of %q, want %q", when, p.Warnings, test.want)
				}
				w.mustApply(with(desired, func(s *spec.Sale) { s.LockTTL += spec.Duration(time.Second) }))
			}
		})
	}
}

// What was done is counted by its kind.
func TestSummaryCounts(t *testing.T) {
	var s planner.Summary
	for _, action := range []string{planner.Create, planner.Update, planner.Update, planner.Delete, planner.Delete, planner.Delete, "wait"} {
		s.Count(action)
	}
	if s != (planner.Summary{Create: 1, Update: 2, Delete: 3}) {
		t.Errorf("counted %+v", s)
	}
}

// The units of a closed sale stay as they are, also those that fell short before.
func TestPlanOfAClosedSaleThatFellShort(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(30))
	plan := w.mustPlan(tickets(10))
	w.owner(0).claim(10)
	w.owner(1).claim(10)
	if err := w.run(plan); err != nil {
		t.Fatal(err)
	}
	w.mustPhase(pb.Phase_CLOSED)
	if have := w.audit().Stock; have <= 10 {
		t.Errorf("nothing fell short: the stock is %d", have)
	}
	if p := w.mustPlan(tickets(10)); !p.Empty() {
		t.Errorf("the plan has %s", brief(p))
	}
}

// A ledger of another kind is another place, whatever that is called.
func TestALedgerOfAnotherKind(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	sale := tickets(10)
	sale.Homes = new(*sale.Homes)
	sale.Homes.Ledger.Kind = "etcd"
	if _, err := planner.Make(sale, w.actual()); !errors.Is(err, planner.ErrRefused) || !strings.Contains(err.Error(), "it cannot move from memory") {
		t.Errorf("plan: %v", err)
	}
}

// What the shards could not take is refused by the plan, with what to do, and not by an apply.
func TestPlanRefusesWhatShardsWould(t *testing.T) {
	w := newWorld(t)
	refused := func(what string, _ *planner.Plan, err error) {
		t.Helper()
		var r *planner.Refusal
		if !errors.As(err, &r) || !strings.Contains(r.Reason, what) || r.Remedy == "" {
			t.Errorf("it is planned, or refused otherwise than for %q: %v", what, err)
		}
	}
	long := with(tickets(10), func(s *spec.Sale) {
		s.Payment = &spec.Payment{HoldFor: spec.Duration(200 * 365 * 24 * time.Hour), Late: spec.LateRefuse}
	})
	p, err := planner.Make(long, w.actual())
	refused("shard 0: a payment", p, err)

	w.mustApply(tickets(10))
	w.drift(func(s *pb.Settings) { s.Choose, s.Rows = true, []*pb.Range{{First: 1, Count: 2}} })
	p, err = planner.Make(tickets(12), w.actual())
	refused("rows of units that nobody may choose", p, err)
}
