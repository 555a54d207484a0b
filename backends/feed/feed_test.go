package feed

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/memory"
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
	saletest.Append(t, logs, w, e)
}

func logOf(shard int) string { return spec.ShardLog(saletest.UID, shard, 2) }

// drive runs a reader until it has nothing to read, or has ended.
func drive(t *testing.T, logs ledger.Logs, c Config) (all []*Batch, err error) {
	t.Helper()
	return newDriven(logs, c).run(t)
}

// driven is a reader that goes on from time to time.
type driven struct {
	*Reader
	logs  ledger.Logs
	now   clock.Now
	pause func() time.Duration // nil: none; how long the process stands still before it takes a reply
}

func newDriven(logs ledger.Logs, c Config) *driven {
	return &driven{Reader: New(c), logs: logs, now: clock.Now{Mono: time.Second}}
}

// run goes on until there is nothing to read, or the reader has ended.
func (d *driven) run(t *testing.T) (all []*Batch, err error) {
	t.Helper()
	for until := d.now.Mono + 6*time.Second; ; {
		made, wake, done, err := d.Next(d.now)
		if b := d.Take(); b != nil {
			all = append(all, b)
		}
		for _, k := range made {
			got := k.Do(t.Context(), calls.Ends{Logs: d.logs})
			if d.pause != nil {
				paused := d.pause()
				d.now.Mono, until = d.now.Mono+paused, until+paused
			}
			k.Took(d.now, got, nil)
		}
		if done || d.now.Mono > until {
			return all, err
		}
		d.now.Mono = max(d.now.Mono, wake)
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
	return soldIn(t, memory.NewStore())
}

func soldIn(t *testing.T, store *memory.Store) ledger.Logs {
	t.Helper()
	logs := store.Handle(nil)
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
	for _, want := range []string{"sale-0-0 salectl.sale.planned", "0-0-0 salectl.shard.generation", "0-2-0 salectl.claim.held", "1-3-0 salectl.claim.confirmed", "1-4-0 salectl.claim.refunded"} {
		if !slices.Contains(told, want) {
			t.Errorf("%s is missing in %q", want, told)
		}
	}
	if len(told) != 10 || len(slices.Compact(slices.Sorted(slices.Values(told)))) != 10 {
		t.Errorf("%d events: %q", len(told), told)
	}
	wantResumed(t, logs, all)
}

// TestEveryPositionOfASealedSale: the seal is read before the shards and sent behind them.
func TestEveryPositionOfASealedSale(t *testing.T) {
	logs := sold(t)
	saletest.AppendSale(t, logs, testSale, closes(t, logs))
	all, err := drive(t, logs, Config{Sale: testSale})
	if err != nil {
		t.Fatal(err)
	}
	if told := ids(all); len(all) < 3 || told[len(told)-1] != "sale-3-0 salectl.sale.sealed" {
		t.Fatalf("%d batches with %q", len(all), told)
	}
	wantResumed(t, logs, all)
}

// wantResumed fails the test unless a reader that begins at the position of a batch delivers the batches after it.
func wantResumed(t *testing.T, logs ledger.Logs, all []*Batch) {
	t.Helper()
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
		"a fork":         func(p *Position) { p.Shards[1].Hash[0]++ },
		"a fork of sale": func(p *Position) { p.Sale.Hash[0]++ },
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

// closes ends the shards of a sale, and returns what the sale's own log is to say of that.
func closes(t *testing.T, logs ledger.Logs) *pb.Op {
	t.Helper()
	saletest.Replan(t, logs, testSale, func(p *pb.Planned) { p.Settings.Phase = pb.Phase_CLOSED })
	sealed := &pb.Sealed{ExportDigest: []byte{1}}
	for shard := range 2 {
		saletest.Take(t, logs, testSale, shard)
		settles(t, logs, shard, func(_ *ledger.State, d *ledger.Draft) { d.Seal() })
		s := saletest.LoadShard(t, logs, shard, 2)
		root := s.Root()
		sealed.Roots, sealed.Slots = append(sealed.Roots, root[:]), append(sealed.Slots, s.Next())
	}
	return &pb.Op{Op: &pb.Op_Sealed{Sealed: sealed}}
}

// deletes deletes the logs of the shards of a sealed sale.
func deletes(t *testing.T, logs ledger.Logs) {
	t.Helper()
	for shard, slots := range saletest.LoadSale(t, logs, testSale).Sealed().GetSlots() {
		if err := logs.Delete(t.Context(), logOf(shard), slots-1); err != nil {
			t.Fatal(err)
		}
	}
}

var destroyed = &pb.Op{Op: &pb.Op_Destroyed{Destroyed: &pb.Destroyed{}}}

// TestDestroyed: who was told all of the shards is told the end; who was not, that it is gone.
func TestDestroyed(t *testing.T) {
	logs := sold(t)
	before, err := drive(t, logs, Config{Sale: testSale})
	if err != nil {
		t.Fatal(err)
	}
	sealed := closes(t, logs)
	full, err := drive(t, logs, Config{Sale: testSale})
	if err != nil {
		t.Fatal(err)
	}
	saletest.AppendSale(t, logs, testSale, sealed)
	if all, err := drive(t, logs, Config{Sale: testSale}); err != nil || ids(all)[len(ids(all))-1] != "sale-3-0 "+"salectl.sale.sealed" {
		t.Errorf("before the logs are deleted: %q, %v", ids(all), err)
	}
	deletes(t, logs)
	saletest.AppendSale(t, logs, testSale, destroyed)

	end, err := drive(t, logs, Config{Sale: testSale, From: &full[len(full)-1].Position})
	if want := []string{"sale-3-0 salectl.sale.sealed", "sale-4-0 salectl.sale.destroyed"}; err != nil || !slices.Equal(ids(end), want) || !end[len(end)-1].Ended {
		t.Errorf("from the end: %q, %v", ids(end), err)
	}
	for _, from := range []*Position{nil, &before[len(before)-1].Position} {
		if got, err := drive(t, logs, Config{Sale: testSale, From: from}); !errors.Is(err, ErrGone) || len(got) > 0 {
			t.Errorf("from %v: %q, %v", from, ids(got), err)
		}
	}
	for what, change := range map[string]func(p *Place){
		"a fork":         func(p *Place) { p.Hash[0]++ },
		"beyond the end": func(p *Place) { p.Slots++ },
	} {
		p := full[len(full)-1].Position
		p.Shards = slices.Clone(p.Shards)
		change(&p.Shards[1])
		if got, err := drive(t, logs, Config{Sale: testSale, From: &p}); !errors.Is(err, ErrForeign) || len(got) > 0 {
			t.Errorf("%s: %q, %v", what, ids(got), err)
		}
	}
}

// TestBegunBehindSeals: who has begun behind the seals of the shards, which it was not told, is told
// the end all the same, whenever it looks.
func TestBegunBehindSeals(t *testing.T) {
	for name, first := range map[string]int{"when sealed": 1, "when deleted": 2, "when destroyed": 3} {
		for _, now := range []bool{true, false} {
			logs := sold(t)
			sealed := closes(t, logs)
			c := Config{Sale: testSale, Now: now}
			if !now {
				full, err := drive(t, logs, Config{Sale: testSale})
				if err != nil {
					t.Fatal(err)
				}
				c.From = &full[len(full)-1].Position
			}
			d := newDriven(logs, c)
			var told []string
			for i, step := range []func(){
				func() {},
				func() { saletest.AppendSale(t, logs, testSale, sealed) },
				func() { deletes(t, logs) },
				func() { saletest.AppendSale(t, logs, testSale, destroyed) },
			} {
				if step(); i > 0 && i < first {
					continue
				}
				all, err := d.run(t)
				if told = append(told, ids(all)...); err != nil || len(all) == 0 || all[len(all)-1].Ended != (i == 3) {
					t.Fatalf("%s, from now %v, step %d: %q, %v", name, now, i, told, err)
				}
			}
			if want := []string{"sale-3-0 salectl.sale.sealed", "sale-4-0 salectl.sale.destroyed"}; !slices.Equal(told, want) {
				t.Errorf("%s, from now %v: %q, want %q", name, now, told, want)
			}
		}
	}
}

// TestFromNowOfASealedSale: who begins at the end of a sale whose logs are deleted lacks nothing.
func TestFromNowOfASealedSale(t *testing.T) {
	logs := sold(t)
	saletest.AppendSale(t, logs, testSale, closes(t, logs))
	deletes(t, logs)
	d := newDriven(logs, Config{Sale: testSale, Now: true})
	if all, err := d.run(t); err != nil || len(all) == 0 || len(ids(all)) > 0 {
		t.Errorf("%d batches, %q, %v; want a position", len(all), ids(all), err)
	}
	saletest.AppendSale(t, logs, testSale, destroyed)
	if all, err := d.run(t); err != nil || !slices.Equal(ids(all), []string{"sale-4-0 salectl.sale.destroyed"}) || !all[len(all)-1].Ended {
		t.Errorf("the end: %q, %v", ids(all), err)
	}
}

// TestLag: what a read that lags does not show is not missing yet, however long the process stands
// still before it takes what it has read.
func TestLag(t *testing.T) {
	for name, test := range map[string]struct {
		log    string // whose reads lag
		back   int
		sealed bool
		from   bool // the end of what there is, else the beginning
	}{
		"the place in the sale's own log":  {spec.SaleLog(testSale), 1, false, true},
		"the place in a shard's log":       {logOf(0), 1, false, true},
		"the sale":                         {spec.SaleLog(testSale), 9, false, false},
		"a shard's log":                    {logOf(0), 9, false, true},
		"a shard's log, which was sealed":  {logOf(0), 9, true, false},
		"the place, and the log is sealed": {logOf(0), 9, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			store := memory.NewStore()
			logs := soldIn(t, store)
			c := Config{Sale: testSale}
			if test.from {
				all, err := drive(t, logs, c)
				if err != nil {
					t.Fatal(err)
				}
				c.From = &all[len(all)-1].Position
			}
			if test.sealed {
				saletest.AppendSale(t, logs, testSale, closes(t, logs))
			}
			lags, lagged := 3, false
			d := newDriven(store.Handle(func(k memory.Call) memory.Fault {
				if lagged = lags > 0 && (k.Op == memory.OpHeads || k.Log == test.log); !lagged {
					return memory.Fault{}
				}
				lags--
				return memory.Fault{Kind: memory.Stale, N: test.back}
			}), c)
			d.pause = func() time.Duration {
				if lagged {
					return time.Hour
				}
				return 0
			}
			all, err := d.run(t)
			want, wantErr := drive(t, logs, c)
			if err != nil || wantErr != nil || lags > 0 || !slices.Equal(ids(all), ids(want)) {
				t.Errorf("%q, %v; %d reads still to lag; want %q, %v", ids(all), err, lags, ids(want), wantErr)
			}
		})
	}
}

// TestBadPositions: a text with a correct checksum, and anything but a whole position, is refused.
func TestBadPositions(t *testing.T) {
	place := Place{Slots: 300}
	text := Position{UID: saletest.UID, Sale: place, Shards: []Place{place, {}}}.String()
	if p, err := ParsePosition(text); err != nil || p.String() != text || p.Shards[1].Slots != 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	whole, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	whole = whole[:len(whole)-4]
	bad := [][]byte{
		append(slices.Clone(whole), 0), // more places
		append(slices.Clone(whole[:9]), 0),
		append(slices.Clone(whole[:9]), bytes.Repeat([]byte{255}, 20)...), // a number of shards that overflows
		append([]byte{2}, whole[1:]...),
	}
	for n := range whole {
		bad = append(bad, slices.Clone(whole[:n]))
	}
	for _, b := range bad {
		text := base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
		if p, err := ParsePosition(text); !errors.Is(err, ErrBadPosition) {
			t.Errorf("%x: %+v, %v", b, p, err)
		}
	}
}
