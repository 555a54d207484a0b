package ledger_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	"salectl/backends/ledger/export"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

func TestAuditOfPackets(t *testing.T) {
	w := ledger.PacketsWorld(t, nil)
	w.Taken(3)
	w.Move(0, 1, 2, 2) // received, not acknowledged
	w.Move(2, 0, 3, 1) // on the way
	dealt := spec.RedPacket{Currency: "CNY", Scale: 2, Total: 10_000, Min: 5, Split: spec.SplitRandom}.Deal(30, [32]byte(ledger.TestSeed))
	granted := int64(0)
	for _, s := range w.Shards {
		for i := range s.Claims() {
			granted += dealt.Sum(s.Claim(i).Units...)
		}
	}
	want := audit.Packets{
		Currency: "CNY", Total: "100.00", Granted: dealt.Format(granted), Left: dealt.Format(10_000 - granted), Packets: 30, Taken: 9,
	}
	if a := mustAudit(t, w.Logs); !a.OK || a.Packets == nil || *a.Packets != want {
		t.Errorf("%+v, %+v\nwant %+v", a, a.Packets, want)
	}
}

// TestAuditOfPacketsToCome audits while an apply has reached one of three shards:
// what the others are to get is left.
func TestAuditOfPacketsToCome(t *testing.T) {
	w := ledger.PacketsWorld(t, nil)
	planned := w.Sale.Planned(1)
	half := &ledger.World{T: t, Logs: &ledger.MemoryLogs{Logs: make(map[string]*ledger.StoredLog)}, Sale: ledger.NewSale(spec.SaleLog("test")), TimeUs: 1_000_000}
	for i := range ledger.WorldShards {
		half.Shards = append(half.Shards, ledger.NewState(spec.ShardLog(ledger.TestUID, i, ledger.WorldShards)))
	}
	half.AppendSale(ledger.PlanOp(planned))
	half.Begin(half.Shards[:1])
	want := audit.Packets{Currency: "CNY", Total: "100.00", Granted: "0.00", Left: "100.00", Packets: 30}
	if a := mustAudit(t, half.Logs); !a.OK || a.Packets == nil || *a.Packets != want {
		t.Errorf("%+v, %+v\nwant %+v", a, a.Packets, want)
	}
}

// TestAuditOfBadPackets declares impossible packets, or those of another deal.
func TestAuditOfBadPackets(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*pb.Planned, *spec.Sale)
		later  func(*ledger.World)
		want   string
	}{
		"no seed":      {change: func(p *pb.Planned, _ *spec.Sale) { p.Seed = nil }, want: "the red packet's seed has 0 bytes, not 32"},
		"short seed":   {change: func(p *pb.Planned, _ *spec.Sale) { p.Seed = ledger.TestSeed[:31] }, want: "the red packet's seed has 31 bytes, not 32"},
		"long seed":    {change: func(p *pb.Planned, _ *spec.Sale) { p.Seed = append(slices.Clone(ledger.TestSeed), 1) }, want: "the red packet's seed has 33 bytes, not 32"},
		"no document":  {change: func(p *pb.Planned, _ *spec.Sale) { p.Spec = []byte("{") }, want: "what the sale declares cannot be read"},
		"a seed alone": {change: func(p *pb.Planned, _ *spec.Sale) { p.Spec = []byte{} }, want: "what the sale declares cannot be read"},
		"a unit instead of a packet": {change: func(p *pb.Planned, _ *spec.Sale) {
			p.Shards[2].Add = []*pb.Range{{First: 21, Count: 9}, {First: 31, Count: 1}}
		}, want: "are left, which is not 30 of 100.00"},
		"no red packet later": {later: func(w *ledger.World) {
			w.Replan(func(p *pb.Planned, s *spec.Sale) { s.RedPacket = nil })
		}, want: "generation 2 declares another red packet than was dealt"},
		"another stock later": {later: func(w *ledger.World) {
			w.Replan(func(p *pb.Planned, s *spec.Sale) { s.Stock++ })
		}, want: "generation 2 declares another red packet than was dealt"},
		"no document later": {later: func(w *ledger.World) {
			p := ledger.PlannedOf(2, pb.Phase_OPEN)
			p.Shards, p.Spec = append(p.Shards, &pb.ShardChange{}), []byte("{")
			w.AppendSale(ledger.PlanOp(p))
		}, want: "what generation 2 declares cannot be read"},
		"a stock beyond all lists": {change: func(_ *pb.Planned, s *spec.Sale) { s.Stock = spec.MaxRedisStock + 1; s.RedPacket.Total = spec.MaxTotal },
			want: "a red packet of 10000001 packets"},
		"fewer units than packets": {change: func(_ *pb.Planned, s *spec.Sale) { s.Stock = 31 }, want: "are left, which is not 31 of 100.00"},
		"more units than packets":  {change: func(_ *pb.Planned, s *spec.Sale) { s.Stock = 29 }, want: "are left, which is not 29 of 100.00"},
		"another total later": {later: func(w *ledger.World) {
			w.Replan(func(p *pb.Planned, s *spec.Sale) { s.RedPacket.Total++ })
		}, want: "generation 2 declares another red packet than was dealt"},
		"another seed later": {later: func(w *ledger.World) {
			w.Replan(func(p *pb.Planned, s *spec.Sale) { p.Seed = bytes.Repeat([]byte{8}, 32) })
		}, want: "generation 2 has a seed of its own"},
		"another refund": {later: func(w *ledger.World) {
			w.Seal()
			op := w.Roots()
			op.GetSealed().Refund = 1
			w.AppendSale(op)
		}, want: "the sale was sealed with a refund of 0.01, but "},
	} {
		t.Run(name, func(t *testing.T) {
			w := ledger.PacketsWorld(t, c.change)
			w.Taken(2)
			if c.later != nil {
				c.later(w)
			}
			a := mustAudit(t, w.Logs)
			if a.OK || !slices.ContainsFunc(a.Problems, func(p string) bool { return strings.Contains(p, c.want) }) {
				t.Errorf("ok %v, problems %q, want %q", a.OK, a.Problems, c.want)
			}
		})
	}
}

// TestAuditOfEqualPackets has all packets be as small as may be, some of them
// held, and a later generation that repeats the seed; the sale ends with the right
// refund.
func TestAuditOfEqualPackets(t *testing.T) {
	w := ledger.PacketsWorld(t, func(p *pb.Planned, s *spec.Sale) {
		s.RedPacket.Total = 30 * s.RedPacket.Min
		p.Settings = ledger.HeldSettings()
	})
	w.Taken(2)
	d := w.Draft(1)
	d.Claim(w.Buyer(1), "key", 1)
	w.Commit(1, d)
	w.Replan(func(p *pb.Planned, _ *spec.Sale) { p.Seed = ledger.TestSeed })
	want := audit.Packets{Currency: "CNY", Total: "1.50", Granted: "0.35", Left: "1.15", Packets: 30, Taken: 7}
	if a := mustAudit(t, w.Logs); !a.OK || a.Packets == nil || *a.Packets != want {
		t.Errorf("%+v, %+v\nwant %+v", a, a.Packets, want)
	}
	w = ledger.PacketsWorld(t, func(_ *pb.Planned, s *spec.Sale) { s.RedPacket.Total = 30 * s.RedPacket.Min })
	w.Taken(2)
	w.Seal()
	op := w.Roots()
	op.GetSealed().Refund = 24 * 5
	w.AppendSale(op)
	if a := mustAudit(t, w.Logs); !a.OK || a.Packets.Left != "1.20" {
		t.Errorf("%+v, %+v", a, a.Packets)
	}
}

// A sale that is sealed after an audit has read some of its shards is refunded less than these have
// left, if their last packets were taken in between.
func TestAuditOfPacketsAcrossTheSeal(t *testing.T) {
	w := ledger.PacketsWorld(t, func(_ *pb.Planned, s *spec.Sale) { s.RedPacket.Total = 30 * s.RedPacket.Min })
	w.Taken(2)
	w.Meanwhile(func() {
		w.Taken(1)
		w.Seal()
		op := w.Roots()
		op.GetSealed().Refund = 21 * 5
		w.AppendSale(op)
	})
	for _, left := range []string{"1.10", "1.05"} { // one shard is read before, then none
		if a, err := audit.Run(t.Context(), w.Logs, "test", ledger.NewState, nil); err != nil || !a.OK || a.Packets.Left != left {
			t.Errorf("%v, %+v, %+v, want %s left", err, a, a.Packets, left)
		}
	}
}

// Packets on their way to a shard that does not exist are nowhere.
func TestAuditOfPacketsToNowhere(t *testing.T) {
	for _, to := range []int{ledger.WorldShards, 7} {
		w := ledger.PacketsWorld(t, nil)
		w.Move(1, to, 1, 1)
		problems := strings.Join(mustAudit(t, w.Logs).Problems, "\n")
		if !strings.Contains(problems, "does not exist") || !strings.Contains(problems, "29 of ") {
			t.Errorf("to shard %d: %s", to, problems)
		}
	}
}

// TestExportOfPackets checks that an export has the amount of each claim, and
// can be checked without the sale's log.
func TestExportOfPackets(t *testing.T) {
	w := ledger.PacketsWorld(t, nil)
	w.Taken(3)
	w.Seal()
	file := mustExport(t, w)
	header, shards, err := readExport(file)
	if err != nil {
		t.Fatal(err)
	}
	dealt := spec.RedPacket{Currency: "CNY", Scale: 2, Total: 10_000, Min: 5, Split: spec.SplitRandom}.Deal(30, [32]byte(ledger.TestSeed))
	granted, lines := int64(0), bytes.SplitAfter(file, []byte("\n"))[1:]
	for i, s := range shards {
		for n := range s.Claims() {
			c := s.Claim(n)
			granted += dealt.Amount(c.Units[0])
			var line export.Claim
			if err := json.Unmarshal(lines[0], &line); err != nil || line.Claim != c.ID(i) || !slices.Equal(line.Amounts, []string{dealt.Text(c.Units[0])}) {
				t.Errorf("claim %s: line %s, %v", c.ID(i), lines[0], err)
			}
			lines = lines[1:]
		}
	}
	want := export.Packets{
		PacketsStatus: ledger.PacketsStatus{Currency: "CNY", Total: "100.00", Packets: 30, Split: "random", Min: "0.05", Commitment: testCommitment},
		Granted:       dealt.Format(granted), Refund: dealt.Format(10_000 - granted), Seed: ledger.TestSeed,
	}
	if got := header.Packets; got == nil || fmt.Sprint(*got) != fmt.Sprint(want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// testCommitment is to TestSeed and the packets of PacketsWorld.
var testCommitment = ledger.Hash(sha256.Sum256([]byte("salectl red packet v1\n" + ledger.TestUID + "\nCNY\n100.00\n30\nrandom\n0.05\n" + string(ledger.TestSeed))))

// TestSeedOfOpenPackets exports a red packet before and after its last packet can be given.
// Only then is the seed published, and it matches the commitment.
func TestSeedOfOpenPackets(t *testing.T) {
	w := ledger.PacketsWorld(t, nil)
	w.Taken(3)
	if got := ledger.PacketsStatusOf(w.Sale); got == nil || got.Commitment != testCommitment {
		t.Errorf("%+v, want the commitment %v", got, testCommitment)
	}
	wantSeed := func(when string, want []byte) {
		t.Helper()
		first, _, _ := bytes.Cut(mustExport(t, w), []byte("\n"))
		var header export.Header
		if err := json.Unmarshal(first, &header); err != nil {
			t.Fatal(err)
		}
		if p := header.Packets; !bytes.Equal(p.Seed, want) || p.Commitment != testCommitment || bytes.Contains(first, []byte("seed")) != (want != nil) {
			t.Errorf("%s: %s", when, first)
		}
	}
	become := func(p pb.Phase, shards ...int) {
		t.Helper()
		if w.Sale.Newest().GetSettings().GetPhase() != p {
			w.Replan(func(planned *pb.Planned, _ *spec.Sale) { planned.Settings = ledger.PhaseSettings(p) })
		}
		for _, i := range shards {
			d := w.Draft(i)
			if err := d.Generation(w.Sale.ShardGeneration(w.Sale.Generation(), i)); err != nil {
				t.Fatal(err)
			}
			w.Commit(i, d)
		}
	}
	wantSeed("open", nil)
	become(pb.Phase_PAUSED, 0, 1, 2)
	wantSeed("paused", nil)
	become(pb.Phase_CLOSED, 0, 1)
	wantSeed("closed but for one shard", nil)
	become(pb.Phase_CLOSED, 2)
	wantSeed("closed", ledger.TestSeed)
}

// What is held for somebody is granted, and what was given back is not; it counts for
// one packet wherever it is.
func TestExportOfHeldPackets(t *testing.T) {
	w := ledger.PacketsWorld(t, func(p *pb.Planned, _ *spec.Sale) { p.Settings = ledger.HeldSettings() })
	w.Move(2, 0, 3, 1) // on the way
	d := w.Draft(1)
	for range 3 {
		d.Claim(w.Buyer(1), "key", 1)
	}
	w.Commit(1, d)
	c := w.Shards[1].Claim(0)
	w.Settle(1, ledger.SettleOp(c.Slot, uint32(c.Index), pb.Settle_CANCEL))
	w.Taken(2)
	var header export.Header
	if err := json.NewDecoder(bytes.NewReader(mustExport(t, w))).Decode(&header); err != nil {
		t.Fatal(err)
	}
	dealt := spec.RedPacket{Currency: "CNY", Scale: 2, Total: 10_000, Min: 5, Split: spec.SplitRandom}.Deal(30, [32]byte(ledger.TestSeed))
	granted, had := int64(0), 0
	for _, s := range w.Shards {
		for i := range s.Claims() {
			if c := s.Claim(i); c.State != ledger.StateCancelled {
				granted, had = granted+dealt.Amount(c.Units[0]), had+1
			}
		}
	}
	if header.Packets.Granted != dealt.Format(granted) || had != 8 {
		t.Errorf("granted %s, want %s in %d packets", header.Packets.Granted, dealt.Format(granted), had)
	}
}

// TestAlteredExportOfPackets alters the amounts in an export.
func TestAlteredExportOfPackets(t *testing.T) {
	w := ledger.PacketsWorld(t, nil)
	w.Taken(3)
	w.Seal()
	file := string(mustExport(t, w))
	header, _, err := readExport([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	seed := `"seed":"` + "BwcHBwcH"
	for _, c := range []struct{ name, from, to string }{
		{"total", `"total":"100.00"`, `"total":"100.01"`},
		{"a form", `"total":"100.00"`, `"total":"0100.00"`},
		{"no number", `"total":"100.00"`, `"total":"1e2"`},
		{"decimals", `"min":"0.05"`, `"min":"0.5"`},
		{"min", `"min":"0.05"`, `"min":"0.04"`},
		{"min above all", `"min":"0.05"`, `"min":"9.05"`},
		{"none", `"packets":30`, `"packets":0`},
		{"fewer", `"packets":30`, `"packets":29`},
		{"more", `"packets":30`, `"packets":31`},
		{"many", `"packets":30`, `"packets":9007199254740993`},
		{"split", `"split":"random"`, `"split":"even"`},
		{"a split of nobody", `"split":"random"`, `"split":"odd"`},
		{"granted", `"granted":"` + header.Packets.Granted, `"granted":"99.00`},
		{"refund", `"refund":"` + header.Packets.Refund, `"refund":"99.00`},
		{"seed", seed, `"seed":"BwcHBwcI`},
		{"a short seed", seed, `"seed":"BwcH`},
		{"an amount", `"amounts":["`, `"amounts":["9`},
		{"no amounts", `"amounts":`, `"sums":`},
	} {
		altered := strings.Replace(file, c.from, c.to, 1)
		if altered == file {
			t.Fatalf("%s: the export does not contain %s", c.name, c.from)
		}
		if _, _, err := readExport([]byte(altered)); err == nil {
			t.Errorf("%s was altered, and nobody noticed", c.name)
		} else if c.name == "a form" && !strings.Contains(err.Error(), `packets.total "0100.00"`) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestExportOfUntakenPackets alters the number of packets where no claim's amount
// reveals it.
func TestExportOfUntakenPackets(t *testing.T) {
	w := ledger.PacketsWorld(t, nil)
	w.Seal()
	file := string(mustExport(t, w))
	if _, _, err := readExport([]byte(file)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readExport([]byte(strings.Replace(file, `"packets":30`, `"packets":31`, 1))); err == nil {
		t.Error("nobody noticed")
	}
}

// TestExportWithoutSeed exports packets whose seed the sale's log does not have.
func TestExportWithoutSeed(t *testing.T) {
	w := ledger.PacketsWorld(t, func(p *pb.Planned, _ *spec.Sale) { p.Seed = ledger.TestSeed[:5] })
	if err := exportOf(w).Write(t.Context(), new(bytes.Buffer)); err == nil {
		t.Error("it was exported without a seed")
	}
}
