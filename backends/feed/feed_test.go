package feed

import (
	"crypto/sha256"
	"errors"
	"slices"
	"testing"
	"time"

	"salectl/backends/backendtest"
	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/executor/saletest"
	"salectl/spec"
)

const testSale = "tickets"

// held are the terms of a sale whose claims are held first.
var held = &pb.Settings{PerUserLimit: 5, Phase: pb.Phase_OPEN, Payment: &pb.Payment{HoldForUs: 1e6, Late: pb.Payment_REFUSE}}

// settles appends what a draft of a shard's owner says.
func settles(t *testing.T, logs ledger.Logs, shard int, say func(s *ledger.State, d *ledger.Draft)) {
	t.Helper()
	state := ledger.NewState(logOf(shard))
	w, err := ledger.Load(t.Context(), logs, logOf(shard), state)
	if err != nil {
		t.Fatal(err)
	}
	d := state.Draft(saletest.Planner, saletest.PlannedUs)
	say(state, d)
	e, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	saletest.Settle(t, logs, w, e)
}

func logOf(shard int) string { return spec.ShardLog(saletest.UID, shard, 2) }

// drive runs a reader until it has nothing to read, or has ended.
func drive(t *testing.T, logs ledger.Logs, c Config) (all []*Batch, err error) {
	t.Helper()
	r, now := New(c), clock.Now{Mono: time.Second}
	for until := now.Mono + 6*time.Second; ; {
		made, wake, done, err := r.Next(now)
		if b := r.Take(); b != nil {
			all = append(all, b)
		}
		for _, k := range made {
			k.Took(now, k.Do(t.Context(), calls.Ends{Logs: logs}), nil)
		}
		if done || now.Mono > until {
			return all, err
		}
		now.Mono = max(now.Mono, wake)
	}
}

// ids are the events but for those that end batches.
func ids(all []*Batch) (ids []string) {
	for _, b := range all {
		for _, e := range b.Events[:len(b.Events)-1] {
			ids = append(ids, e.ID+" "+e.Type)
		}
	}
	return ids
}

// sold returns a sale in which all kinds of things have come to pass.
func sold(t *testing.T) ledger.Logs {
	t.Helper()
	logs := backendtest.NewStore().Handle(nil)
	saletest.ProvisionAs(t, logs, saletest.Declared(testSale, 10, 2, 5), []int64{5, 5}, held)
	for shard := range 2 {
		settles(t, logs, shard, func(_ *ledger.State, d *ledger.Draft) { d.Own("here") })
		settles(t, logs, shard, func(_ *ledger.State, d *ledger.Draft) { d.Claim("a", "k", 1) })
		settles(t, logs, shard, func(s *ledger.State, d *ledger.Draft) { d.Confirm(s.Claim(0), "p1") })
		settles(t, logs, shard, func(s *ledger.State, d *ledger.Draft) { d.Refund(s.Claim(0), "me", "why", false) })
	}
	return logs
}

// TestEveryPosition: from each position on there is exactly what was told behind it.
func TestEveryPosition(t *testing.T) {
	logs := sold(t)
	all, err := drive(t, logs, Config{Sale: testSale})
	if err != nil {
		t.Fatal(err)
	}
	told := ids(all)
	for _, want := range []string{"sale-0-0 " + TypePlanned, "0-0-0 " + TypeGeneration, "0-2-0 salectl.claim.held", "1-3-0 salectl.claim.confirmed", "1-4-0 salectl.claim.refunded"} {
		if !slices.Contains(told, want) {
			t.Errorf("%s is missing in %q", want, told)
		}
	}
	if len(told) != 10 || len(slices.Compact(slices.Sorted(slices.Values(told)))) != 10 {
		t.Errorf("%d events: %q", len(told), told)
	}
	for i, b := range all {
		from, err := ParsePosition(b.Position.String())
		if err != nil {
			t.Fatal(err)
		}
		rest, err := drive(t, logs, Config{Sale: testSale, From: &from})
		if want := ids(all[i+1:]); err != nil || !slices.Equal(ids(rest), want) {
			t.Errorf("from batch %d on %q, want %q, %v", i, ids(rest), want, err)
		}
	}
}

// TestForeign: a position of another ledger is refused.
func TestForeign(t *testing.T) {
	logs := sold(t)
	all, err := drive(t, logs, Config{Sale: testSale})
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(p *Position){
		"another run":    func(p *Position) { p.UID = "ffffffffffffffff" },
		"a fork":         func(p *Position) { p.Shards[1].Check[0]++ },
		"a fork of sale": func(p *Position) { p.Sale.Check[0]++ },
		"other shards":   func(p *Position) { p.Shards = p.Shards[:1] },
		"beyond the end": func(p *Position) { p.Shards[0].Slots += 7 },
	} {
		p := all[len(all)-1].Position
		p.Shards = slices.Clone(p.Shards)
		change(&p)
		if got, err := drive(t, logs, Config{Sale: testSale, From: &p}); !errors.Is(err, ErrForeign) || len(got) > 0 {
			t.Errorf("%s: %d batches, %v", what, len(got), err)
		}
	}
	text := all[0].Position.String()
	if _, err := ParsePosition(text[:len(text)-2]); !errors.Is(err, ErrBadPosition) {
		t.Errorf("a position that was cut: %v", err)
	}
}

// TestChain: the stored bytes that are told hash to where the feed says that it has come.
func TestChain(t *testing.T) {
	logs := sold(t)
	all, err := drive(t, logs, Config{Sale: testSale, Commits: true})
	if err != nil {
		t.Fatal(err)
	}
	last := make(map[string]ledger.Hash)
	for _, b := range all {
		for _, e := range b.Events {
			switch d := e.Data.(type) {
			case *Commit:
				if d.Shard != nil && sha256.Sum256(d.Commit) != d.Hash || d.Log == spec.SaleLog(testSale) && d.Slot == 0 && d.Commit != nil {
					t.Errorf("slot %d of %s: %d bytes, hash %s", d.Slot, d.Log, len(d.Commit), d.Hash)
				}
				last[d.Log] = d.Hash
			case *Resolved:
				for _, end := range d.Logs {
					if hash, ok := last[end.Log]; ok && hash != end.Hash {
						t.Errorf("%s ends in %s, its last slot has %s", end.Log, end.Hash, hash)
					}
				}
			}
		}
	}
	if root := saletest.LoadSale(t, logs, testSale).Root(); len(last) != 3 || last[spec.SaleLog(testSale)] != root {
		t.Errorf("%d logs, the sale's own ends in %s, not in %s", len(last), last[spec.SaleLog(testSale)], root)
	}
}

// TestDestroyed: who was told all of the shards is told the end; who was not, that it is gone.
func TestDestroyed(t *testing.T) {
	logs := sold(t)
	before, err := drive(t, logs, Config{Sale: testSale})
	if err != nil {
		t.Fatal(err)
	}
	saletest.Replan(t, logs, testSale, func(p *pb.Planned) { p.Settings.Phase = pb.Phase_CLOSED })
	sealed := &pb.Sealed{ExportDigest: []byte{1}}
	for shard := range 2 {
		saletest.Take(t, logs, testSale, shard)
		settles(t, logs, shard, func(_ *ledger.State, d *ledger.Draft) { d.Seal() })
		s := saletest.LoadShard(t, logs, shard, 2)
		root := s.Root()
		sealed.Roots, sealed.Slots = append(sealed.Roots, root[:]), append(sealed.Slots, s.Next())
	}
	full, err := drive(t, logs, Config{Sale: testSale})
	if err != nil {
		t.Fatal(err)
	}
	saletest.AppendSale(t, logs, testSale, &pb.Op{Op: &pb.Op_Sealed{Sealed: sealed}})
	if all, err := drive(t, logs, Config{Sale: testSale}); err != nil || ids(all)[len(ids(all))-1] != "sale-3-0 "+TypeSealed {
		t.Errorf("before the logs are deleted: %q, %v", ids(all), err)
	}
	for shard := range 2 {
		if err := logs.Delete(t.Context(), logOf(shard), sealed.Slots[shard]-1); err != nil {
			t.Fatal(err)
		}
	}
	saletest.AppendSale(t, logs, testSale, &pb.Op{Op: &pb.Op_Destroyed{Destroyed: &pb.Destroyed{}}})

	end, err := drive(t, logs, Config{Sale: testSale, From: &full[len(full)-1].Position})
	if want := []string{"sale-3-0 " + TypeSealed, "sale-4-0 " + TypeDestroyed}; err != nil || !slices.Equal(ids(end), want) || !end[len(end)-1].Ended {
		t.Errorf("from the end: %q, %v", ids(end), err)
	}
	for _, from := range []*Position{nil, &before[len(before)-1].Position} {
		if got, err := drive(t, logs, Config{Sale: testSale, From: from}); !errors.Is(err, ErrGone) || len(got) > 0 {
			t.Errorf("from %v: %q, %v", from, ids(got), err)
		}
	}
}
