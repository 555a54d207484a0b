package apply

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"salectl/backends/calls"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/memory"
	"salectl/backends/quorum"
	"salectl/planner"
	"salectl/planner/current"
	"salectl/planner/machine"
	"salectl/rules"
	"salectl/spec"
)

func (w *world) planDestroy() *planner.Plan {
	w.Helper()
	p, err := planner.MakeDestroy(w.actual())
	if err != nil {
		w.Fatalf("planning: %v", err)
	}
	return p
}

func (w *world) mustDestroy() {
	w.Helper()
	if err := w.run(w.planDestroy()); err != nil {
		w.Fatalf("destroy: %v", err)
	}
	if p := w.planDestroy(); !p.Empty() {
		w.Fatalf("after destroy there still is to do: %+v", p.Actions)
	}
}

// wantNothingLeft checks that a run has left nothing but the sale's log.
func (w *world) wantNothingLeft(uid string) {
	w.Helper()
	logs := w.store.Handle(nil)
	for shard := range 3 {
		head, entries, err := logs.Read(context.Background(), spec.ShardLog(uid, shard, 3), 0, 10)
		if head != nil || len(entries) > 0 || err != nil {
			w.Errorf("shard %d is there: %s, %d entries, %v", shard, head, len(entries), err)
		}
	}
	for _, n := range w.nodes {
		if leases, err := n.List(context.Background(), spec.LeasePrefix(uid)); len(leases) > 0 || err != nil {
			w.Errorf("%s has leases %v, %v", n.Name(), leases, err)
		}
	}
	if s := w.actual().Sale; !s.Destroyed() && s.UID() == uid {
		w.Errorf("the sale is %s", s.Phase())
	}
}

// wantExport checks the exported file, and returns its shards.
func (w *world) wantExport(sold int64) []*ledger.State {
	w.Helper()
	path := filepath.Join(w.folder, "export.ndjson")
	content, err := os.ReadFile(path)
	if err != nil {
		w.Fatal(err)
	}
	header, shards, err := ReadExport(content)
	if err != nil {
		w.Fatal(err)
	}
	digest := sha256.Sum256(content)
	sealed := w.actual().Sale.Sealed()
	if header.Counts.Sold != sold || sealed.GetUnitsSold() != sold || !bytes.Equal(sealed.GetExportDigest(), digest[:]) {
		w.Errorf("%d units are in the export and %d in the log, want %d; the digest in the log is %x, of the file %x",
			header.Counts.Sold, sealed.GetUnitsSold(), sold, sealed.GetExportDigest(), digest)
	}
	if sealed.GetClaims() != header.Counts.Claims || len(sealed.GetRoots()) != 3 || len(sealed.GetSlots()) != 3 {
		w.Errorf("the seal is %v, and the export has %+v", sealed, header.Counts)
	}
	for i, s := range shards {
		if root := s.Root(); sealed.GetSlots()[i] != s.Next() || !bytes.Equal(sealed.GetRoots()[i], root[:]) {
			w.Errorf("the seal of shard %d is at slot %d, its log at %d", i, sealed.GetSlots()[i], s.Next())
		}
	}
	left, err := filepath.Glob(filepath.Join(w.folder, "*.partial"))
	if len(left) > 0 || err != nil {
		w.Errorf("left behind: %v, %v", left, err)
	}
	return shards
}

// sold is a sale with claims, and transfers in every state: 0 to 1 sent, 1 to 2
// received and not acknowledged.
func sold(w *world) {
	w.mustApply(tickets(30))
	sell(w)
}

// sell makes the claims and transfers of sold.
func sell(w *world) {
	o0, o1, o2 := w.owner(0), w.owner(1), w.owner(2)
	o0.claim(3)
	o2.claim(1)
	var out ledger.Transfer
	o1.append(func(d *ledger.Draft) { out = d.Out(2, 2) })
	o2.append(func(d *ledger.Draft) { d.In(1, out.K, out.Units) })
	o2.claim(11) // with units that came from shard 1
	o0.append(func(d *ledger.Draft) { d.Out(1, 4) })
}

// A log that names a shard which the sale does not have ends a destroy, and does not break it.
func TestDestroyOfAForeignTransfer(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(30))
	w.owner(1).append(func(d *ledger.Draft) { d.Out(9, 2) })
	if err := w.run(w.planDestroy()); !errors.Is(err, ledger.ErrCorrupt) || !strings.Contains(err.Error(), "shard 1 has sent units to shard 9, and there are 3") {
		t.Errorf("destroy: %v", err)
	}
}

func TestDestroyKilledAtEveryCall(t *testing.T) {
	if testing.Short() {
		t.Skip("it tries many orders of calls")
	}
	for name, test := range map[string]struct {
		before func(*world)
		sold   int64
	}{
		"sold":    {sold, 15},
		"planned": {func(w *world) { w.runUntil(w.mustPlan(tickets(10)), 1) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, how := range []fate{served, dropped, delayed} {
				for kill := 1; ; kill++ {
					w := newWorld(t)
					test.before(w)
					plan := w.planDestroy()
					killed := w.runKilled(plan, kill, how)
					if kill%2 == 0 {
						if err := w.run(plan); err != nil && !errors.Is(err, planner.ErrStale) {
							t.Fatalf("kill at call %d, %v: the same plan again: %v", kill, how, err)
						}
					}
					w.mustDestroy()
					w.land()
					w.mustDestroy()
					w.wantNothingLeft(plan.UID)
					w.wantExport(test.sold)
					if t.Failed() {
						t.Fatalf("kill at call %d, %v", kill, how)
					}
					if !killed {
						break
					}
				}
			}
		})
	}
}

// Two destroys at once, with faults: each ends well or finds the other's work.
func TestDestroysOverlap(t *testing.T) {
	if testing.Short() {
		t.Skip("it tries many orders of calls")
	}
	for seed := range uint64(60) {
		w := newWorld(t)
		sold(w)
		w.faults = memory.Random(seed, memory.Rates{
			memory.ErrorBefore: 0.05, memory.LostReply: 0.05, memory.OwnTaken: 0.05,
			memory.Late: 0.05, memory.Twice: 0.05, memory.Stale: 0.1,
		})
		choose := seeded(seed)
		plan := w.planDestroy()
		processes := []*process{w.begin(plan), w.begin(plan)}
		for running := processes; len(running) > 0; {
			i := choose(len(running))
			running[i].step(choose)
			if running[i].done {
				running = append(running[:i:i], running[i+1:]...)
			}
		}
		if processes[0].err != nil && processes[1].err != nil {
			t.Fatalf("seed %d: %v; %v", seed, processes[0].err, processes[1].err)
		}
		w.land()
		w.faults = nil
		w.mustDestroy()
		w.wantNothingLeft(plan.UID)
		w.wantExport(15)
	}
}

// What an owner sends late either is in the export or never happened.
func TestDestroyAndALateOwner(t *testing.T) {
	for _, own := range []bool{false, true} {
		for kill := 1; ; kill++ {
			w := newWorld(t)
			sold(w)
			o := w.owner(1)
			late := o.entry(func(d *ledger.Draft) {
				if own {
					d.Own("127.0.0.1:2")
				} else {
					d.Claim(o.newUser(), "late", 1)
				}
			})
			request := o.writer.Append(late).Send
			plan := w.planDestroy()
			killed := w.runKilled(plan, kill, dropped)
			err := request.Do(t.Context(), w.store.Handle(nil)).Err
			accepted := int64(0)
			if err == nil && !own {
				accepted = 1
			} else if err != nil && !errors.Is(err, ledger.ErrTaken) {
				t.Fatal(err)
			}
			w.mustDestroy()
			if killed && kill < 5 && err != nil {
				t.Fatalf("the append came in before any close, and was refused: %v", err)
			}
			w.wantNothingLeft(plan.UID)
			w.wantExport(15 + accepted)
			if !killed {
				if err == nil {
					t.Fatal("an append to a destroyed sale was accepted")
				}
				break
			}
		}
	}
}

// A create that was sent before destroy and comes in after it brings a row back.
// The next destroy removes it.
func TestDestroyRemovesALateCreate(t *testing.T) {
	w := newWorld(t)
	p := w.begin(w.mustPlan(tickets(10)))
	var late []calls.Call
	for !p.done && len(late) < 3 {
		if r := p.request(); r.Kind == ledger.AppendRequest && !strings.HasPrefix(r.Log, "sale/") {
			late = append(late, p.next(0))
			continue
		}
		p.step(inOrder)
	}
	w.mustDestroy()
	uid := w.actual().Sale.UID()
	w.wantNothingLeft(uid)
	for _, k := range late {
		if r := p.perform(k); r.Err != nil {
			t.Fatalf("the late create: %v", r.Err)
		}
	}
	plan := w.planDestroy()
	if plan.Empty() || plan.Summary.Delete != 3 || plan.Actions[0].Reason != "the sale is destroyed; a late write has left this behind" {
		t.Fatalf("the plan does not see what came late: %+v", plan.Actions)
	}
	cfg := w.config()
	cfg.Clock = clockOf(w)
	for i, changed := range []bool{true, false} {
		r, err := Destroy(t.Context(), cfg, plan, "")
		if err != nil || r.Changed != changed {
			t.Errorf("destroy %d of what came late: %+v, %v; want Changed %v", i+1, r, err, changed)
		}
	}
	w.mustDestroy()
	w.wantNothingLeft(uid)
}

// One that comes in just after its shard was deleted is seen by that destroy.
func TestDestroySeesACreateThatComesInBetween(t *testing.T) {
	w := newWorld(t)
	first := w.begin(w.mustPlan(tickets(10)))
	var late calls.Call
	for late.Make == nil {
		if r := first.request(); strings.HasSuffix(r.Log, "/1") && r.Kind == ledger.AppendRequest {
			late = first.next(0)
			break
		}
		first.step(inOrder)
	}
	p := w.begin(w.planDestroy())
	for deletes := 0; !p.done; {
		isDelete := p.isNext("delete")
		p.step(inOrder)
		if isDelete {
			if deletes++; deletes == 3 {
				if r := first.perform(late); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
		}
	}
	if p.err != nil {
		t.Fatal(p.err)
	}
	w.wantNothingLeft(p.x.plan.UID)
}

// Nothing is deleted before the sale's log says that all is exported.
func TestNothingIsDeletedBeforeSealed(t *testing.T) {
	w := newWorld(t)
	sold(w)
	p := w.begin(w.planDestroy())
	for !p.done {
		for _, k := range p.queue {
			if (k.What == "delete" || k.What == "sweep marker") && w.actual().Sale.Sealed() == nil {
				t.Fatalf("%v before the sale is sealed", k.What)
			}
		}
		p.step(inOrder)
	}
	if p.err != nil {
		t.Fatal(p.err)
	}
}

// A rerun that finds the sale sealed deletes and never exports: what it would
// export is half deleted.
func TestSealedIsNotExportedAgain(t *testing.T) {
	w := newWorld(t)
	sold(w)
	p := w.begin(w.planDestroy())
	for w.actual().Sale.Sealed() == nil {
		p.step(inOrder)
	}
	if err := os.Remove(filepath.Join(w.folder, "export.ndjson")); err != nil {
		t.Fatal(err)
	}
	w.mustDestroy()
	if _, err := os.Stat(filepath.Join(w.folder, "export.ndjson")); !os.IsNotExist(err) {
		t.Errorf("there is an export again: %v", err)
	}
}

// Whoever finds the sale sealed with another export than it has made does not delete
// what was exported; with the same one, or with none, since it was a rehearsal, it
// goes on.
func TestSealedByAnother(t *testing.T) {
	for name, test := range map[string]struct {
		digest func(mine []byte) []byte
		want   error
	}{
		"the same export": {func(mine []byte) []byte { return mine }, nil},
		"another export":  {func([]byte) []byte { return bytes.Repeat([]byte{1}, 32) }, ledger.ErrCorrupt},
		"no export":       {func([]byte) []byte { return nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			sold(w)
			p := w.begin(w.planDestroy())
			seals := func() *pb.Sealed {
				if len(p.queue) == 0 || len(commitOf(p.queue[0]).GetOps()) == 0 {
					return nil
				}
				return commitOf(p.queue[0]).GetOps()[0].GetSealed()
			}
			for seals() == nil {
				p.step(inOrder)
			}
			other := proto.CloneOf(seals())
			other.ExportDigest = test.digest(other.GetExportDigest())
			w.note(&pb.Op{Op: &pb.Op_Sealed{Sealed: other}})
			for !p.done {
				p.step(inOrder)
			}
			if !errors.Is(p.err, test.want) {
				t.Fatalf("destroy: %v, want %v", p.err, test.want)
			}
			deleted := w.actual().Shards[0].Head == nil
			if deleted != (test.want == nil) || test.want != nil && p.x.result.ExportDigest != "" {
				t.Errorf("shard 0 is deleted: %v; the result is %+v", deleted, p.x.result)
			}
		})
	}
}

// note appends to the sale's log what another process might.
func (w *world) note(op *pb.Op) {
	w.Helper()
	sale, logs := ledger.NewSale(spec.SaleLog("tickets")), w.store.Handle(nil)
	writer, err := ledger.Load(context.Background(), logs, spec.SaleLog("tickets"), sale)
	if err != nil {
		w.Fatal(err)
	}
	e, err := sale.Entry([]byte("another1"), w.now.Wall.UnixMicro(), op)
	if err != nil {
		w.Fatal(err)
	}
	if r := writer.Append(e).Send.Do(context.Background(), logs); r.Err != nil {
		w.Fatal(r.Err)
	}
}

// An owner that is alive gets a ttl to end what is on its way; where there is none,
// the planner does it at once.
func TestDestroyWaitsForTheOwner(t *testing.T) {
	for name, test := range map[string]struct {
		served bool
		ends   time.Duration // the owner ends the transfer then; 0: never
		want   time.Duration // until the sale is sealed
	}{
		"the owner is dead":   {false, 0, 0},
		"the owner does not":  {true, 0, 3 * time.Second},
		"the owner ends them": {true, time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.pass(time.Hour)
			w.mustApply(tickets(30))
			var out ledger.Transfer
			sender, receiver := w.owner(0), w.owner(1)
			if err := sender.append(func(d *ledger.Draft) { out = d.Out(1, 4) }); err != nil {
				t.Fatal(err)
			}
			if test.served {
				w.serve()
			}
			p := w.begin(w.planDestroy())
			for w.actual().Sale.Generation() == 1 {
				p.step(inOrder)
			}
			sale, began := w.actual().Sale, w.now.Mono
			for i, o := range []*owner{sender, receiver} {
				if err := o.append(func(d *ledger.Draft) { d.Generation(sale.ShardGeneration(2, i)) }); err != nil {
					t.Fatal(err)
				}
			}
			for w.actual().Sale.Sealed() == nil {
				if test.ends > 0 && receiver != nil && w.now.Mono-began >= test.ends {
					if err := receiver.append(func(d *ledger.Draft) { d.In(0, out.K, out.Units) }); err != nil {
						t.Fatal(err)
					}
					if err := sender.append(func(d *ledger.Draft) { d.Ack(1, out.K) }); err != nil {
						t.Fatal(err)
					}
					receiver = nil
				}
				p.step(inOrder)
			}
			if took := w.now.Mono - began; took != test.want {
				t.Errorf("it took %v, want %v", took, test.want)
			}
		})
	}
}

// One shard may have units on their way to several.
func TestDestroyOfSeveralTransfers(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(30))
	o := w.owner(0)
	for to := range 2 {
		if err := o.append(func(d *ledger.Draft) { d.Out(to+1, 3) }); err != nil {
			t.Fatal(err)
		}
	}
	w.mustDestroy()
	for i, s := range w.wantExport(0) {
		if s.InFlight != 0 || s.Available != []int64{4, 13, 13}[i] {
			t.Errorf("shard %d has %d units, and %d are on their way", i, s.Available, s.InFlight)
		}
	}
}

// An export that fails is tried again a few times, unless that is of no use.
func TestExportTries(t *testing.T) {
	const ms = time.Millisecond
	all := []time.Duration{0, 40 * ms, 120 * ms, 280 * ms}
	for name, test := range map[string]struct {
		err   error
		fails int
		want  []time.Duration
	}{
		"twice":          {errDisk, 2, all[:3]},
		"always":         {errDisk, 100, all},
		"refused":        {&planner.Refusal{Reason: "a file is in the way"}, 100, all[:1]},
		"of what is bad": {ledger.ErrCorrupt, 100, all[:1]},
		"gone":           {ledger.ErrGone, 100, all},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			sold(w)
			p := w.begin(w.planDestroy())
			var asked []time.Duration
			var began time.Duration
			for !p.done {
				if !p.isNext("export") {
					p.step(inOrder)
					continue
				}
				if asked == nil {
					began = w.now.Mono
				}
				if asked = append(asked, w.now.Mono-began); len(asked) > test.fails {
					p.step(inOrder)
					continue
				}
				p.reply(p.next(0), machine.Reply{Err: test.err})
			}
			if !slices.Equal(asked, test.want) {
				t.Errorf("asked after %v, want %v", asked, test.want)
			}
			if test.fails > exportTries && !errors.Is(p.err, test.err) || test.fails <= exportTries && p.err != nil {
				t.Errorf("destroy: %v", p.err)
			}
			if sealed := w.actual().Sale.Sealed() != nil; sealed != (p.err == nil) {
				t.Errorf("sealed: %v", sealed)
			}
		})
	}
}

// An owner that is alive gets a ttl to end its transfers; holds get the time
// that they have.
func TestDestroyWaitsForHolds(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(9))
	o := w.owner(0)
	until := w.now.Wall.Add(20 * time.Second)
	if err := o.claimHeld(2, until.UnixMicro()); err != nil {
		t.Fatal(err)
	}
	w.mustDestroy()
	if w.now.Wall.Before(until) {
		t.Errorf("destroyed at %v, and a hold had until %v", w.now.Wall, until)
	}
	shards := w.wantExport(0)
	if c := shards[0].Claim(0); c.State != ledger.StateExpired || shards[0].Available != 3 {
		t.Errorf("the hold is %v, %d units are available", c.State, shards[0].Available)
	}
}

func TestDestroyReleasesLeases(t *testing.T) {
	w := newWorld(t)
	sold(w)
	w.serve()
	uid := w.actual().Sale.UID()
	w.mustDestroy()
	w.wantNothingLeft(uid)
	for _, n := range w.nodes {
		c, err := n.Vote(t.Context(), quorum.Ballot{Marker: spec.Marker(uid), TTL: quorum.MinTTL, Requests: []quorum.LeaseRequest{{Key: "k", Token: "t"}}})
		if err != nil || !c.Abstained {
			t.Errorf("%s still has the marker: %+v, %v", n.Name(), c, err)
		}
	}
}

// A lock node that is gone for good does not keep a sale from ending.
func TestDestroyWithoutNodes(t *testing.T) {
	w := newWorld(t)
	sold(w)
	for _, n := range w.nodes {
		down(n)
	}
	p := w.begin(w.planDestroy())
	for !p.done {
		p.step(inOrder)
	}
	if p.err != nil || len(p.x.result.Warnings) == 0 {
		t.Errorf("destroy: %v, warnings %v", p.err, p.x.result.Warnings)
	}
}

func TestExportInTheWay(t *testing.T) {
	w := newWorld(t)
	sold(w)
	cfg := w.config()
	cfg.Clock = clockOf(w)
	path := filepath.Join(w.folder, "export.ndjson")
	plan := w.planDestroy()
	for name, content := range map[string]string{
		"no export":         "my notes\n",
		"of another run":    `{"format":1,"kind":"export","sale":"tickets","uid":"0123456789abcdef","roots":[],"counts":{}}` + "\n",
		"an empty file":     "",
		"of another format": "{}\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		next := w.actual().Sale.Next()
		if _, err := Destroy(t.Context(), cfg, plan, path); !errors.Is(err, planner.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := os.ReadFile(path); string(got) != content || err != nil {
			t.Errorf("%s: the file now is %q, %v", name, got, err)
		}
		if w.actual().Sale.Next() != next {
			t.Errorf("%s: the sale was closed", name)
		}
	}
	if _, err := Destroy(t.Context(), cfg, plan, filepath.Join(w.folder, "no", "such", "folder")); err == nil || errors.Is(err, planner.ErrPartly) {
		t.Errorf("into a folder that does not exist: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	result, err := Destroy(t.Context(), cfg, plan, path)
	if err != nil || result.Export != path {
		t.Fatalf("destroy: %+v, %v", result, err)
	}
	w.wantExport(15)
}

// What cannot be written is noticed before anything is closed.
func TestDestroyThatCouldNotEnd(t *testing.T) {
	full := errors.New("the table is missing")
	for name, test := range map[string]struct {
		path     string
		remember Remember
		want     string
	}{
		"a name that is too long": {strings.Repeat("x", 240), nil, "the ledger cannot be exported: "},
		"a folder without files":  {"/proc/export.ndjson", nil, "the ledger cannot be exported: "},
		"a table that keeps nothing": {"export.ndjson", func(_ context.Context, _, _ string, buyers []rules.Buyer) error {
			if len(buyers) > 0 {
				t.Error("something was to be kept")
			}
			return full
		}, "is not destroyed, because purchases could not be recorded: the table is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			sold(w)
			cfg := w.config()
			cfg.Clock, cfg.Remember = clockOf(w), test.remember
			if !filepath.IsAbs(test.path) {
				test.path = filepath.Join(w.folder, test.path)
			}
			next := w.actual().Sale.Next()
			_, err := Destroy(t.Context(), cfg, w.planDestroy(), test.path)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q in it", err, test.want)
			}
			if w.actual().Sale.Next() != next {
				t.Error("the sale was closed")
			}
			if left, err := os.ReadDir(w.folder); len(left) > 0 || err != nil {
				t.Errorf("files are left: %v, %v", left, err)
			}
		})
	}
}

// An older export of the same run, made before it was sealed, is in the way, but
// only the export itself can tell.
func TestOlderExportOfTheSameRun(t *testing.T) {
	w := newWorld(t)
	sold(w)
	path := filepath.Join(w.folder, "export.ndjson")
	uid := w.actual().Sale.UID()
	header := `{"format":1,"kind":"export","sale":"tickets","uid":"` + uid + `","roots":[],"counts":{}}` + "\n"
	if err := os.WriteFile(path, []byte(header), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.run(w.planDestroy()); !errors.Is(err, planner.ErrRefused) {
		t.Fatalf("destroy: %v", err)
	}
	if w.actual().Sale.Sealed() != nil {
		t.Error("the sale is sealed without an export")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w.mustDestroy()
	w.wantExport(15)
}

// A disk that loses what was written must not cost the ledger.
func TestExportIsReadBack(t *testing.T) {
	w := newWorld(t)
	sold(w)
	p := w.begin(w.planDestroy())
	for !p.isNext("export") {
		p.step(inOrder)
	}
	job := p.job()
	path := filepath.Join(w.folder, "export.ndjson")
	_, digest, err := fileExporter(path, nil)(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	if _, again, err := fileExporter(path, nil)(t.Context(), job); err != nil || !bytes.Equal(again, digest) {
		t.Errorf("exported again: %x, %v; want %x", again, err, digest)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{
		"cut short":      good[:len(good)/2],
		"a line is lost": good[:bytes.LastIndexByte(good[:len(good)-1], '\n')+1],
		"bytes follow":   append(bytes.Clone(good), "\n\n"...),
	} {
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := checkExport(t.Context(), path, job); err == nil {
			t.Errorf("%s: it was taken for good", name)
		}
	}
}

func TestPurge(t *testing.T) {
	if _, err := Purge(t.Context(), newWorld(t).config(), "tickets"); !errors.Is(err, planner.ErrRefused) {
		t.Errorf("purge of a sale that is no rehearsal: %v", err)
	}
	rehearsal := tickets(10)
	rehearsal.Name = CopyName("tickets")
	w := newWorld(t)
	cfg := w.config()
	cfg.Clock = clockOf(w)
	log := spec.SaleLog(rehearsal.Name)
	for range 2 {
		actual, err := current.Read(t.Context(), cfg.Backends, rehearsal.Name)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := planner.Make(rehearsal, actual)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Run(t.Context(), cfg, plan); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := Purge(t.Context(), cfg, rehearsal.Name); err != nil {
				t.Fatal(err)
			}
		}
		if head, entries, err := cfg.Logs.Read(t.Context(), log, 0, 10); head != nil || entries != nil || err != nil {
			t.Errorf("the sale's log is there: %s, %v, %v", head, entries, err)
		}
		w.wantNothingLeft(plan.UID)
	}
}

// A purge that was killed is completed by the next one.
func TestPurgeKilledAtEveryCall(t *testing.T) {
	for kill := 1; ; kill++ {
		w := newWorld(t)
		w.mustApply(tickets(10))
		uid := w.actual().Sale.UID()
		p := w.beginPurge()
		for calls := 0; !p.done && calls < kill; {
			if len(p.queue) > 0 {
				calls++
			}
			p.step(inOrder)
		}
		killed := !p.done
		for again := w.beginPurge(); again != nil && !again.done; {
			again.step(inOrder)
		}
		w.wantNothingLeft(uid)
		if next := w.actual().Sale.Next(); next != 0 {
			t.Fatalf("killed at call %d: the sale's log has %d slots", kill, next)
		}
		if !killed {
			break
		}
	}
}

func (w *world) beginPurge() *process {
	if w.actual().Sale.UID() == "" {
		return nil
	}
	return w.beginAs(w.planDestroy(), true)
}

func TestRunAfterDestroy(t *testing.T) {
	w := newWorld(t)
	sold(w)
	w.mustDestroy()
	if err := os.Remove(filepath.Join(w.folder, "export.ndjson")); err != nil {
		t.Fatal(err)
	}
	if _, err := planner.Make(tickets(30), w.actual()); !errors.Is(err, planner.ErrRefused) || !strings.Contains(withRemedy(err), "metadata.run: 2") {
		t.Fatalf("the same run again: %v", err)
	}
	w.mustApply(run(tickets(12), 2))
	w.wantStock(12)
	w.owner(0).claim(2)
	w.mustPhase(pb.Phase_PAUSED)
	w.mustDestroy()
	w.wantExport(2)
}
