package planner

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/memory"
	"salectl/backends/quorum"
	"salectl/spec"
)

// nodesOfLeases are nodes that hold leases of a live sale, an element each: the
// token and how long it is left, "" for none, "down" for one that is silent.
func nodesOfLeases(t *testing.T, key func(uid string) string, leases ...string) *Actual {
	a := &Actual{Name: "x", Sale: said(t, plannedOp(workUID, 1, 1), appliedOp(1))}
	for _, l := range leases {
		var n NodeActual
		var token string
		var left int
		switch {
		case l == "down":
			n.Err = errors.New("down")
		case l != "":
			if _, err := fmt.Sscanf(l, "%s %d", &token, &left); err != nil {
				t.Fatal(err)
			}
			n.Leases = []quorum.Holding{
				{Key: "another", Token: "another", Left: time.Hour},
				{Key: key(workUID), Token: token, Note: token + ":80 4 3000", Left: time.Duration(left) * time.Second},
			}
		}
		a.Nodes = append(a.Nodes, n)
	}
	return a
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
		if _, err := ReadSale(t.Context(), w.running().Backends, "tickets"); err != nil || reads != 1 || heads > 1 {
			t.Fatalf("%s: read %d times, and the heads %d times, %v", when, reads, heads, err)
		}
		w.mustApply(tickets(10))
	}
}

func TestLeaseOf(t *testing.T) {
	first := func(uid string) string { return spec.LeaseKey(uid, 0) }
	for name, test := range map[string]struct {
		leases   []string
		want     Lease
		ok       bool
		unserved bool
	}{
		"nobody":                   {[]string{"", "", ""}, Lease{}, false, true},
		"a majority":               {[]string{"a 1", "a 3", ""}, Lease{"a:80", time.Second}, true, false},
		"all":                      {[]string{"a 3", "a 1", "a 2"}, Lease{"a:80", 2 * time.Second}, true, false},
		"all of five":              {[]string{"a 5", "a 1", "a 4", "a 2", "a 3"}, Lease{"a:80", 3 * time.Second}, true, false},
		"another beside":           {[]string{"b 9", "a 2", "a 3"}, Lease{"a:80", 2 * time.Second}, true, false},
		"a minority":               {[]string{"a 3", "", ""}, Lease{}, false, true},
		"two of a minority each":   {[]string{"a 3", "b 3", ""}, Lease{}, false, true},
		"perhaps, with the silent": {[]string{"a 3", "down", ""}, Lease{}, false, false},
		"most are silent":          {[]string{"down", "down", ""}, Lease{}, false, false},
		"one is silent":            {[]string{"", "down", ""}, Lease{}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := nodesOfLeases(t, first, test.leases...)
			got, ok := a.LeaseOf(0)
			if got != test.want || ok != test.ok {
				t.Errorf("got %+v, %v, want %+v", got, ok, test.want)
			}
			if address, ok := a.Served(); address != test.want.Address || ok != test.ok {
				t.Errorf("served at %q, %v", address, ok)
			}
			if a.Unserved() != test.unserved {
				t.Errorf("unserved is %v", a.Unserved())
			}
			a = nodesOfLeases(t, func(uid string) string { return spec.LeaseKey(uid, 1) }, test.leases...)
			if _, ok := a.LeaseOf(0); ok {
				t.Error("another shard's lease counts")
			}
		})
	}
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
		if err := storeError(test.err); errors.Is(err, ErrStore) != test.store || !errors.Is(err, test.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestShardActual(t *testing.T) {
	broken := errors.New("broken")
	head := ledger.Head{Slot: 7, Totals: ledger.Totals{Phase: ledger.PhaseSealed}}
	open := head
	open.Phase = ledger.PhaseOpen
	good, other := NewShardActual(head.Encode()), NewShardActual(open.Encode())
	none, noise, away := NewShardActual(nil), NewShardActual([]byte("noise")), ShardActual{Err: broken}
	if good.Err != nil || good.Head == nil || *good.Head != head {
		t.Errorf("a head: %+v", good)
	}
	if none.Err != nil || none.Head != nil || noise.Err == nil || noise.Head != nil || away.Err != broken || away.Head != nil {
		t.Errorf("none %+v, noise %+v, away %+v", none, noise, away)
	}
	for name, test := range map[string]struct {
		shards []ShardActual
		want   bool
	}{
		"all": {[]ShardActual{good, good}, true}, "one is open": {[]ShardActual{good, other}, false},
		"one is not there": {[]ShardActual{good, none}, false}, "one cannot be read": {[]ShardActual{noise, good}, false},
	} {
		if got := (&Actual{Shards: test.shards}).ShardsSealed(); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestNewNonce(t *testing.T) {
	if uid, err := newNonce(bytes.NewReader([]byte("\x00\x11\x22\x33\x44\x55\x66\x77more"))); uid != workUID || err != nil {
		t.Errorf("%s, %v", uid, err)
	}
	if uid, err := newNonce(bytes.NewReader([]byte("few"))); err == nil {
		t.Errorf("%s without enough chance", uid)
	}
}
