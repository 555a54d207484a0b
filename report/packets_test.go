package report

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// texts are the cells of a table, row by row.
func texts(t *table) (rows []string) {
	for _, row := range t.Rows {
		var cells []string
		for _, cell := range row {
			cells = append(cells, cell.Text)
		}
		rows = append(rows, strings.Join(cells, "|"))
	}
	return rows
}

// packetsWorth is a page of packets that were claimed one after the other, worth so many fen.
func packetsWorth(amounts ...int64) *Page {
	l := &Ledger{red: &ledger.RedPacket{RedPacket: spec.RedPacket{Currency: "CNY", Scale: 2}}}
	for i, amount := range amounts {
		l.claims = append(l.claims, acceptance{us: int64(i), amount: amount})
	}
	return &Page{Ledger: l}
}

// Whether who came early had more money is told by tenths of the claims.
func TestFairnessOfPackets(t *testing.T) {
	var rising []int64
	for i := range int64(30) {
		rising = append(rising, 100+10*i)
	}
	for name, c := range map[string]struct {
		amounts []int64
		rows    []string
		says    string
		chart   []string
	}{
		"whoever came late had more": {rising, []string{
			"part 1 of 10|3|1.10|1.00|1.20", "part 2 of 10|3|1.40|1.30|1.50", "part 3 of 10|3|1.70|1.60|1.80", "part 4 of 10|3|2.00|1.90|2.10", "part 5 of 10|3|2.30|2.20|2.40",
			"part 6 of 10|3|2.60|2.50|2.70", "part 7 of 10|3|2.90|2.80|3.00", "part 8 of 10|3|3.20|3.10|3.30", "part 9 of 10|3|3.50|3.40|3.60", "part 10 of 10|3|3.80|3.70|3.90",
		}, "The mean of all is 2.45 CNY.", []string{
			">dashed: the mean of all, 2.45<", ">mean amount of a packet in CNY, by tenth of the claims<", ">4<", "part 1 of 10: 1.10 CNY in the mean", "part 10 of 10: 3.80 CNY in the mean",
		}},
		"few, and a mean that is no whole fen": {[]int64{3, 4}, []string{"part 1 of 2|1|0.03|0.03|0.03", "part 2 of 2|1|0.04|0.04|0.04"},
			"2 packets in the order in which they were claimed, in ten parts, and the mean amount of a packet of each part. The mean of all is 0.04 CNY", []string{">0.01<", ">0.04<"}},
		"one": {[]int64{12_345_678}, []string{"part 1 of 1|1|123456.78|123456.78|123456.78"}, "1 packet in", []string{">50k<", ">150k<", "part 1 of 1: 123456.78 CNY in the mean"}},
	} {
		s, ok := packetsWorth(c.amounts...).packetFairness()
		if !ok || len(s.Figures) != 1 {
			t.Fatalf("%s: %+v", name, s)
		}
		f := s.Figures[0]
		if got := texts(f.Table); !slices.Equal(got, c.rows) {
			t.Errorf("%s: the table has\n%q, want\n%q", name, got, c.rows)
		}
		if !strings.Contains(f.Caption, c.says) {
			t.Errorf("%s: it says %s", name, f.Caption)
		}
		for _, want := range c.chart {
			if !strings.Contains(string(f.SVG), want) {
				t.Errorf("%s: the chart has no %s:\n%s", name, want, f.SVG)
			}
		}
	}
	for name, p := range map[string]*Page{"no packets": sample(t), "nobody came": packetsWorth()} {
		if s, ok := p.packetFairness(); ok {
			t.Errorf("%s: the page tells %+v", name, s)
		}
	}
}

// What packets hold is dealt from the seed of the sale, and counted in the order of the claims.
func TestPacketsHoldWhatWasDealt(t *testing.T) {
	declared := spec.Sale{
		Name: "x", Run: 1, Stock: 10, LockCount: 1, PerUserLimit: 1, LockTTL: spec.DefaultLockTTL, Engine: spec.EngineRedis, Ack: spec.AckLedger, Backlog: 10,
		RedPacket: &spec.RedPacket{Currency: "CNY", Scale: 2, Total: 1000, Min: 1, Split: spec.SplitRandom},
	}
	text, err := declared.JSON()
	if err != nil {
		t.Fatal(err)
	}
	seed := bytes.Repeat([]byte{7}, 32)
	sale := ledger.NewSale(spec.SaleLog("x"))
	planned := &pb.Planned{Generation: 1, Run: 1, Uid: "u", Shards: []*pb.ShardChange{{}}, Spec: text, Seed: seed}
	if err := sale.Apply(&pb.Commit{Ops: []*pb.Op{{Op: &pb.Op_Planned{Planned: planned}}}}, ledger.Hash{}); err != nil {
		t.Fatal(err)
	}
	_, s := opened(t, nil)
	for i, user := range []string{"a", "b", "c", "d", "e"} {
		s.claim(100+int64(i), user, 1)
	}
	l := NewLedger(sale, []*ledger.State{s.State})
	dealt := declared.RedPacket.Deal(10, [32]byte(seed))
	var want, got []int64
	for _, user := range []string{"a", "b", "c", "d", "e"} {
		want = append(want, dealt.Amount(s.of(user).Units[0]))
	}
	for _, c := range l.claims {
		got = append(got, c.amount)
	}
	if !slices.Equal(got, want) || slices.Min(want) == slices.Max(want) {
		t.Errorf("the packets hold %d, and were dealt %d", got, want)
	}
	if s, ok := (&Page{Ledger: l}).packetFairness(); !ok || s.ID != "amounts" {
		t.Errorf("the page does not report of them: %+v", s)
	}
}
