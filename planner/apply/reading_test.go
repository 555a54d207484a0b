package apply

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/memory"
	"salectl/backends/quorum"
	"salectl/planner"
	"salectl/planner/current"
	"salectl/planner/machine"
	"salectl/spec"
)

// What a Stepped reads is what Read reads.
func TestMachineReading(t *testing.T) {
	for name, before := range map[string]func(*world){
		"no sale":        func(*world) {},
		"sold":           func(w *world) { sold(w); w.serve() },
		"being made":     func(w *world) { w.runUntil(w.mustPlan(tickets(10)), 1) },
		"destroyed":      func(w *world) { sold(w); w.mustDestroy() },
		"a node is new":  func(w *world) { sold(w); w.nodes[1].RestartEmpty() },
		"a node is away": func(w *world) { sold(w); down(w.nodes[1]) },
		"its leases cannot be read": func(w *world) {
			sold(w)
			w.nodes[1].SetFaults(memory.On(memory.OpList, always(memory.ErrorBefore)))
		},
		"nor its marker": func(w *world) {
			sold(w)
			w.nodes[1].SetFaults(memory.On(memory.OpReadMarker, always(memory.ErrorBefore)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			before(w)
			w.now.Wall = w.now.Wall.Add(1500 * time.Millisecond) // ahead of the nodes
			drawn := w.drawn
			want := w.actual()
			w.drawn = drawn
			c := w.command(applyJob{spec.Sale{Name: "tickets"}})
			for c.planned == nil && !c.done {
				c.step(inOrder, c.served)
			}
			if got := c.actual; !reflect.DeepEqual(got, want) {
				t.Errorf("read %+v, want %+v", got, want)
			}
			if i := slices.IndexFunc(want.Nodes, func(n planner.NodeActual) bool { return n.Err != nil }); i >= 0 {
				if n := want.Nodes[i]; !reflect.DeepEqual(n, planner.NodeActual{NodeInfo: quorum.NodeInfo{Name: "node-1", Err: n.Err}}) {
					t.Errorf("of a node that is away it has read %+v", n)
				}
			}
		})
	}
}

// Heads that lag are read again.
func TestReadingThatLags(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	first := true
	w.faults = memory.On(memory.OpHeads, func(memory.Call) memory.Fault {
		if !first {
			return memory.Fault{}
		}
		first = false
		return past(100)
	})
	a, err := current.ReadSale(t.Context(), w.running().Backends, "tickets")
	if shard, missing := a.Damaged(); err != nil || missing || first {
		t.Errorf("%s has no log, %v", planner.ShardAddress(shard), err)
	}
	w.faults = nil
	cfg := w.config()
	cfg.Rand = strings.NewReader("few")
	if _, err := current.ReadSale(t.Context(), cfg.Backends, "tickets"); err == nil || !strings.Contains(err.Error(), "drawing a uid") {
		t.Errorf("without chance: %v", err)
	}
}

// The same of lists, and of nodes that keep them and are away.
func TestMachineReadingOfLists(t *testing.T) {
	for name, before := range map[string]func(*listWorld){
		"no sale":              func(*listWorld) {},
		"applied":              func(w *listWorld) { w.mustApply(numbers(30)); w.grabAll() },
		"of units":             func(w *listWorld) { w.mustApply(tickets(30)) },
		"paused":               func(w *listWorld) { w.mustApply(numbers(30)); w.mustPhase(pb.Phase_PAUSED) },
		"destroyed":            func(w *listWorld) { w.mustApply(numbers(30)); w.mustDestroy() },
		"a node forgot all":    func(w *listWorld) { w.mustApply(numbers(30)); w.keepers[0].RestartEmpty() },
		"a node is away":       func(w *listWorld) { w.mustApply(numbers(30)); w.keepers[0].SetFaults(always(memory.ErrorBefore)) },
		"it tells no settings": func(w *listWorld) { w.keepers[1].SetFaults(always(memory.ErrorBefore)) },
		"without any node":     func(w *listWorld) { w.mustApply(numbers(30)); w.keepers = nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newListWorld(t)
			before(w)
			drawn := w.drawn
			want := w.actual()
			w.drawn = drawn
			asked := 0
			for _, k := range w.keepers {
				if name == "a node is away" {
					k.SetFaults(memory.On(memory.OpInspect, func(memory.Call) memory.Fault {
						if k != w.keepers[0] {
							return memory.Fault{}
						}
						asked++
						return memory.Fault{Kind: memory.ErrorBefore}
					}))
				}
			}
			if name == "a node is away" { // it has told its settings, and was asked for one list only
				want.ListNodes[0] = planner.ListNodeActual{Name: want.ListNodes[0].Name, Settings: want.ListNodes[1].Settings}
			}
			c := w.command(applyJob{spec.Sale{Name: "tickets"}})
			for c.planned == nil && !c.done {
				c.step(inOrder, c.served)
			}
			if got := c.actual; !reflect.DeepEqual(got, want) {
				t.Errorf("read %+v, want %+v", got, want)
			}
			if name == "a node is away" && asked != 1 {
				t.Errorf("a node that is away was asked for %d lists", asked)
			}
		})
	}
}

// A sale's log that is gone after a part of it was read is no sale that never was.
func TestMachineReadingOfALogThatGoes(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	w.store.SetPage(1)
	w.stale(0, 100)
	c := w.command(applyJob{tickets(10)})
	if err := c.finish(); !errors.Is(err, ledger.ErrGone) {
		t.Errorf("it is %v", err)
	}
	s, _ := w.reading(current.ReadTerms{Names: machine.Names{Rand: strings.NewReader("few")}}, "tickets")
	if calls, _, done, err := s.Next(w.now); len(calls) > 0 || !done || err == nil || !strings.Contains(err.Error(), "drawing a uid") {
		t.Errorf("without chance: %d calls, %v", len(calls), err)
	}
}

// A shard whose head cannot be read hides no other, nor does a node that is down.
func TestMachineReadingOfWhatFails(t *testing.T) {
	w := newWorld(t)
	sold(w)
	down := errors.New("down")
	failed := 0
	c := w.command(applyJob{tickets(30)})
	for c.planned == nil && !c.done {
		c.step(inOrder, func(k calls.Call) (any, error) {
			if k.Node == 2 || k.What == "read heads" && failed < 2 {
				if k.Node == calls.Store {
					failed++ // all at once, then shard 0 alone
				}
				return nil, down
			}
			return c.make(k), nil
		})
	}
	asked := 0
	for _, call := range c.trace {
		if strings.HasSuffix(call, "info") {
			asked++
		}
	}
	if asked != len(w.nodes) {
		t.Errorf("%d nodes were asked who they are, want each once, of %d", asked, len(w.nodes))
	}
	a := c.actual
	for i, s := range a.Shards {
		if (s.Err == nil) != (i > 0) || (s.Head != nil) != (i > 0) {
			t.Errorf("shard %d: %+v", i, s)
		}
	}
	for i, n := range a.Nodes {
		if errors.Is(n.Err, down) != (i == 2) {
			t.Errorf("node %d: %+v", i, n)
		}
	}
}

// A read of the heads may lag behind the sale's log: both are read again before a
// shard is believed to have no log.
func TestMachineReadingThatLags(t *testing.T) {
	for lags, want := range map[int]error{ledger.MissingTries - 1: nil, ledger.MissingTries: ledger.ErrCorrupt} {
		w := newWorld(t)
		sold(w)
		read := 0
		c := w.command(applyJob{tickets(30)})
		for !c.done {
			c.step(inOrder, func(k calls.Call) (any, error) {
				r := c.make(k).(machine.Reply)
				if k.What == "read heads" {
					if read++; read <= lags {
						r.Value.([][]byte)[1] = nil
					}
				}
				return r, nil
			})
		}
		if !errors.Is(c.err, want) {
			t.Errorf("%d reads lag: %v, want %v", lags, c.err, want)
		}
	}
}

// A person who asks is not kept waiting: a store that answers nothing is given up on.
func TestReadingEndsInTime(t *testing.T) {
	const readTimeout = 30 * time.Second
	w := newWorld(t)
	r, _ := w.reading(current.ReadTerms{Names: machine.Names{Rand: w, Table: "sales"}, Tries: ledger.ReadTries}, "tickets")
	calls, wake, _, _ := r.Next(w.now)
	if len(calls) != 2 || wake != w.now.Mono+readTimeout {
		t.Fatalf("%d calls, wake at %v", len(calls), wake)
	}
	w.pass(readTimeout)
	r.Tick(w.now)
	if _, _, done, _ := r.Next(w.now); done {
		t.Fatal("it ends before it knows what is wrong with the table")
	}
	calls[0].Took(w.now, nil, ledger.ErrTableUnfit)
	var refusal *planner.Refusal
	if _, _, done, err := r.Next(w.now); !done || !errors.As(err, &refusal) || !strings.Contains(err.Error(), "table sales") {
		t.Errorf("done %v, %v", done, err)
	}
	r, _ = w.reading(current.ReadTerms{Names: machine.Names{Rand: w}, Tries: ledger.ReadTries}, "tickets")
	r.Next(w.now)
	w.pass(readTimeout)
	r.Tick(w.now)
	if _, _, done, err := r.Next(w.now); !done || !errors.Is(err, planner.ErrStore) {
		t.Errorf("done %v, %v", done, err)
	}
	r, _ = w.reading(current.ReadTerms{Names: machine.Names{Rand: w, Table: "sales"}, Tries: ledger.ReadTries}, "tickets")
	calls, _, _, _ = r.Next(w.now)
	w.pass(readTimeout)
	r.Tick(w.now)
	calls[1].Took(w.now, machine.Reply{}, nil) // there is no such sale, after all
	calls[0].Took(w.now, machine.Reply{}, nil)
	if _, _, done, err := r.Next(w.now); !done || !errors.Is(err, planner.ErrStore) {
		t.Errorf("where the log is read too late: done %v, %v", done, err)
	}
}

// What waits for a store or for nodes is not given up on: a command that has begun, as
// long as its patience lasts, and a reading of which only the nodes are missing.
func TestReadingsThatTakeTheirTime(t *testing.T) {
	const readTimeout = 30 * time.Second
	w := newWorld(t)
	w.mustApply(tickets(10))
	cfg := w.config()
	people := current.ReadTerms{Names: cfg.Names(), Tries: ledger.ReadTries}
	for name, test := range map[string]struct {
		terms current.ReadTerms
		until string
	}{
		"a command":               {current.ReadTerms{Names: machine.Names{Rand: w}}, "read: the sale's log"},
		"one that asks the nodes": {people, "read: the lock nodes"},
	} {
		r, _ := w.reading(test.terms, "tickets")
		for {
			calls, _, _, _ := r.Next(w.now)
			if r.String() == test.until {
				break
			}
			calls[0].Took(w.now, calls[0].Make(t.Context(), cfg.Logs, nil, nil), nil)
		}
		w.pass(2 * readTimeout)
		r.Tick(w.now)
		if _, _, done, err := r.Next(w.now); done {
			t.Errorf("%s has ended: %v", name, err)
		}
	}
}

// Where the log is damaged, what is known of its table is waited for and told first.
func TestReadingOfADamagedLogInAnUnfitTable(t *testing.T) {
	w := newWorld(t)
	r, _ := w.reading(current.ReadTerms{Names: machine.Names{Rand: w, Table: "sales"}}, "tickets")
	calls, _, _, _ := r.Next(w.now)
	calls[1].Took(w.now, machine.Reply{Value: ledger.Reply{Head: []byte("noise")}}, nil)
	if _, _, done, err := r.Next(w.now); done {
		t.Errorf("it ends before it knows what is wrong with the table: %v", err)
	}
	calls[0].Took(w.now, nil, ledger.ErrTableUnfit)
	if _, _, done, err := r.Next(w.now); !done || !errors.Is(err, planner.ErrRefused) {
		t.Errorf("done %v, to people %v", done, err)
	}
}

// A sale all of whose shards have a log is read once, as is one that has none yet.
func TestReadOnce(t *testing.T) {
	w := newWorld(t)
	reads, heads := 0, 0
	w.faults = func(c memory.Call) memory.Fault {
		if c.Op == memory.OpRead && c.Log == spec.SaleLog("tickets") {
			reads++
		} else if c.Op == memory.OpHeads {
			heads++
		}
		return memory.Fault{}
	}
	for _, when := range []string{"no sale", "applied"} {
		reads, heads = 0, 0
		if _, err := current.ReadSale(t.Context(), w.running().Backends, "tickets"); err != nil || reads != 1 || heads > 1 {
			t.Fatalf("%s: read %d times, and the heads %d times, %v", when, reads, heads, err)
		}
		w.mustApply(tickets(10))
	}
}

func TestNewNonce(t *testing.T) {
	r, actual := newWorld(t).reading(current.ReadTerms{Names: machine.Names{Rand: strings.NewReader("\x00\x11\x22\x33\x44\x55\x66\x77more")}}, "x")
	if _, _, done, err := r.Next(clock.Now{}); actual.Nonce != workUID || done {
		t.Errorf("%s, %v", actual.Nonce, err)
	}
	r, actual = newWorld(t).reading(current.ReadTerms{Names: machine.Names{Rand: strings.NewReader("few")}}, "x")
	if _, _, done, err := r.Next(clock.Now{}); !done || err == nil {
		t.Errorf("%s without enough chance", actual.Nonce)
	}
}
