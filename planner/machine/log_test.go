package machine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"salectl/backends/calls"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/planner"
	"salectl/planner/plannertest"
)

// tracked is a track of a sale's log, whose store is the test.
type tracked struct {
	*cored
	track *Log
	sale  *ledger.Sale
	entry *ledger.Entry // the first generation
	e     effects
}

func newTracked(t *testing.T) *tracked {
	t.Helper()
	c := newCored(t)
	sale := ledger.NewSale("sale/x")
	entry, err := sale.Entry([]byte("planner1"), 1, &pb.Op{Op: &pb.Op_Planned{Planned: &pb.Planned{
		Generation: 1, Uid: "u", Run: 1, Settings: &pb.Settings{Phase: pb.Phase_OPEN, PerUserLimit: 1}, Shards: []*pb.ShardChange{{}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return &tracked{cored: c, sale: sale, entry: entry, track: &Log{
		Core: c.Core, Writer: ledger.NewWriter("sale/x", sale),
		Apply: func(e *ledger.Entry) error { return sale.Apply(e.Commit, e.Hash) },
	}}
}

func (k *tracked) then(e ledger.Event) { k.said = append(k.said, fmt.Sprint(e)) }

// goes begins an operation in a task of its own.
func (k *tracked) goes(do func() ledger.Event, then func(ledger.Event)) {
	k.e = k.do(func() { k.Go(func() { then(do()) }) })
}

func (k *tracked) read()   { k.goes(k.track.Read, k.then) }
func (k *tracked) append() { k.goes(func() ledger.Event { return k.track.Append(k.entry) }, k.then) }

// replies answers the call under way.
func (k *tracked) replies(r ledger.Reply) {
	k.t.Helper()
	if len(k.e.calls) != 1 || k.e.calls[0].Node != calls.Store {
		k.t.Fatalf("calls %+v", k.e.calls)
	}
	k.e = k.answer(k.e.calls[0], r, r.Err)
}

// waits lets the pause pass that is asked for.
func (k *tracked) waits() {
	k.t.Helper()
	if k.e.wake == 0 {
		k.t.Fatalf("no pause, but %+v", k.e)
	}
	k.e = k.pass(k.e.wake - k.mono)
}

func (k *tracked) ended(want error, says string) {
	k.t.Helper()
	if !k.e.done || !errors.Is(k.e.err, want) || !strings.Contains(k.e.err.Error(), says) {
		k.t.Errorf("ended %v with %v, want %v that says %q", k.e.done, k.e.err, want, says)
	}
}

var errNoDisk = errors.New("no space left on device")

func TestTrack(t *testing.T) {
	for name, test := range map[string]func(*tracked){
		"reads, and appends": func(k *tracked) {
			k.read()
			if plannertest.RequestOf(k.e.calls[0]).Kind != ledger.ReadRequest || k.Changed {
				k.t.Error("a read appends something")
			}
			k.replies(ledger.Reply{})
			k.heard(fmt.Sprint(ledger.CaughtUp))
			k.append()
			if !proto.Equal(plannertest.CommitOf(k.e.calls[0]), k.entry.Commit) || k.e.calls[0].What != "planned" {
				k.t.Error("a call does not say what it appends")
			}
			k.replies(ledger.Reply{})
			k.heard(fmt.Sprint(ledger.Committed))
			if !k.Changed || k.sale.Generation() != 1 {
				k.t.Errorf("changed %v, generation %d", k.Changed, k.sale.Generation())
			}
		},
		"another was faster": func(k *tracked) {
			k.read()
			k.replies(ledger.Reply{})
			k.append()
			k.replies(ledger.Reply{Err: ledger.ErrTaken})
			other, err := ledger.NewSale("sale/x").Entry([]byte("planner2"), 1, k.entry.Commit.Ops...)
			if err != nil {
				k.t.Fatal(err)
			}
			k.replies(ledger.Reply{Head: other.Head, Entries: [][]byte{other.Bytes}})
			k.heard(fmt.Sprint(ledger.CaughtUp) + " " + fmt.Sprint(ledger.Taken))
			if k.Changed {
				k.t.Error("somebody else's append counts as a change")
			}
		},
		"a damaged log": func(k *tracked) {
			k.read()
			k.replies(ledger.Reply{Head: k.entry.Head, Entries: [][]byte{[]byte("noise")}})
			k.ended(ledger.ErrCorrupt, "does not decode")
		},
		"an entry that is too large": func(k *tracked) {
			k.read()
			k.replies(ledger.Reply{})
			k.append()
			k.replies(ledger.Reply{Err: ledger.ErrTooLarge})
			k.ended(ledger.ErrTooLarge, "log sale/x")
		},
		"an entry that does not fit the log": func(k *tracked) {
			k.track.Apply = func(*ledger.Entry) error { return ledger.ErrCorrupt }
			k.read()
			k.replies(ledger.Reply{})
			k.append()
			k.replies(ledger.Reply{})
			k.ended(ledger.ErrCorrupt, "")
			k.heard(fmt.Sprint(ledger.CaughtUp))
		},
		"a store that fails for longer than patience lasts": func(k *tracked) {
			began := k.mono
			for k.read(); !k.e.done; k.waits() {
				if k.replies(ledger.Reply{Err: errNoDisk}); k.e.done {
					break
				}
			}
			k.ended(planner.ErrStore, "tried for 10s: log sale/x: no space left")
			if !errors.Is(k.e.err, errNoDisk) {
				k.t.Error("the store's error is not wrapped")
			}
			if took := k.mono - began; took <= 10*time.Second || took > 13*time.Second {
				k.t.Errorf("gave up after %v", took)
			}
		},
		"as long as patience lastsinstead of": func(k *tracked) {
			k.read()
			k.replies(ledger.Reply{Err: errNoDisk})
			k.waits()
			k.mono += 10*time.Second - (k.mono - time.Hour)
			if k.replies(ledger.Reply{Err: errNoDisk}); k.e.done {
				k.t.Fatalf("gave up: %v", k.e.err)
			}
			k.waits()
			k.replies(ledger.Reply{Err: errNoDisk})
			k.ended(planner.ErrStore, "")
		},
		"a store that fails at times": func(k *tracked) {
			k.read()
			for range 10 {
				k.replies(ledger.Reply{Err: errNoDisk})
				k.waits()
				k.mono += 6 * time.Second
				k.replies(ledger.Reply{Head: k.entry.Head}) // it lags, but is there
				k.mono += 6 * time.Second
				k.waits()
				if k.mono > time.Hour+50*time.Second {
					break
				}
			}
			k.replies(ledger.Reply{Head: k.entry.Head, Entries: [][]byte{k.entry.Bytes}})
			k.heard(fmt.Sprint(ledger.CaughtUp))
		},
		"appends that fail while reads do not": func(k *tracked) {
			k.read()
			k.replies(ledger.Reply{})
			k.append()
			k.replies(ledger.Reply{Err: errNoDisk})
			k.mono += 11 * time.Second
			k.replies(ledger.Reply{}) // it is not there: it is sent again
			k.heard(fmt.Sprint(ledger.CaughtUp) + " " + fmt.Sprint(ledger.Again))
			k.goes(k.track.Resend, k.then)
			if !proto.Equal(plannertest.CommitOf(k.e.calls[0]), k.entry.Commit) {
				k.t.Fatalf("sends %+v", k.e.calls[0])
			}
			k.replies(ledger.Reply{Err: errNoDisk})
			k.ended(planner.ErrStore, "no space left")
		},
		"one that says something else in the end": func(k *tracked) {
			for _, err := range []error{ledger.ErrTooLarge, ledger.ErrTaken} {
				k := newTracked(k.t)
				k.read()
				k.replies(ledger.Reply{})
				k.append()
				k.replies(ledger.Reply{Err: errNoDisk})
				k.replies(ledger.Reply{}) // it is not there
				k.mono += 11 * time.Second
				k.goes(k.track.Resend, k.then)
				k.replies(ledger.Reply{Err: err})
				if err == ledger.ErrTooLarge {
					if k.ended(err, "log sale/x"); errors.Is(k.e.err, planner.ErrStore) {
						k.t.Errorf("a definite answer is one of a broken store: %v", k.e.err)
					}
				} else if k.e.done || plannertest.RequestOf(k.e.calls[0]).Kind != ledger.ReadRequest {
					k.t.Errorf("%v: effects %+v", err, k.e)
				}
			}
		},
		"as long as a log may laginstead of": func(k *tracked) {
			k.read()
			k.replies(ledger.Reply{Head: k.entry.Head})
			k.waits()
			k.mono = time.Hour + MaxLag
			if k.replies(ledger.Reply{Head: k.entry.Head}); k.e.done {
				k.t.Fatalf("gave up: %v", k.e.err)
			}
			k.waits()
			k.replies(ledger.Reply{Head: k.entry.Head})
			k.ended(planner.ErrStore, "for 1m0s")
		},
		"who sends again is told": func(k *tracked) {
			k.read()
			k.replies(ledger.Reply{})
			k.append()
			k.replies(ledger.Reply{Err: errNoDisk})
			k.replies(ledger.Reply{})
			k.said = nil
			k.goes(k.track.Resend, func(e ledger.Event) { k.say(fmt.Sprint("again ", e))() })
			k.replies(ledger.Reply{})
			k.heard(fmt.Sprint("again ", ledger.Committed))
		},
		"for people, so many reads that bring nothing": func(k *tracked) {
			k.Patience = 0
			k.track.Tries, k.track.Folder = 3, k.sale
			k.read()
			for _, r := range []ledger.Reply{
				{Err: errNoDisk}, {Head: k.entry.Head}, {Head: headAfter(k), Entries: [][]byte{k.entry.Bytes}}, {Err: errNoDisk}, {Err: errNoDisk},
			} {
				if k.replies(r); k.e.done {
					k.t.Fatalf("gave up: %v", k.e.err)
				}
				if len(k.e.calls) == 0 {
					k.waits()
				}
			}
			k.replies(ledger.Reply{Err: errNoDisk})
			k.ended(planner.ErrStore, "no space left")
		},
		"a store that answers from the past": func(k *tracked) {
			began := k.mono
			for k.read(); !k.e.done; k.waits() {
				if k.replies(ledger.Reply{Head: k.entry.Head}); k.e.done {
					break
				}
			}
			k.ended(planner.ErrStore, "log sale/x could not be read to its end for 1m0s, it answers with old data")
			if took := k.mono - began; took <= time.Minute || took > 65*time.Second {
				k.t.Errorf("gave up after %v", took)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { test(newTracked(t)) })
	}
}

// headAfter is a head one slot behind the first.
func headAfter(k *tracked) []byte {
	head, err := ledger.ParseHead(k.entry.Head)
	if err != nil {
		k.t.Fatal(err)
	}
	head.Slot++
	return head.Encode()
}

// What the store cannot be blamed for is not its error.
func TestStoreError(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		store bool
	}{
		"broken":  {errors.New("broken"), true},
		"damaged": {fmt.Errorf("log x: %w", ledger.ErrCorrupt), false},
	} {
		if err := storeError(test.err); errors.Is(err, planner.ErrStore) != test.store || !errors.Is(err, test.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
