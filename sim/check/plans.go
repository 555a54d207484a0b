package check

import (
	"slices"

	pb "salectl/backends/ledger/ledgerpb"
)

// plans judges the sale's own log.
func plans(e *evidence, bad fault) {
	number, uids := int64(0), make(map[string]bool)
	for i, r := range e.runs {
		if i > 0 && e.runs[i-1].destroyed == nil {
			bad("run %s began before run %s was destroyed", r.uid, e.runs[i-1].uid)
		}
		if uids[r.uid] || r.number <= number {
			bad("run %d has the number or the uid %s of an earlier one", r.number, r.uid)
		}
		uids[r.uid], number = true, r.number
		next, closed := int64(1), false
		for g, p := range r.planned {
			if p.GetGeneration() != uint64(g)+1 || p.GetRun() != r.number || len(p.GetShards()) != len(r.shards) {
				bad("%v plans generation %d of run %s with %d shards, after %d generations", p.at, p.GetGeneration(), r.uid, len(p.GetShards()), g)
			}
			if r.sealedAt != nil && p.at.Seq >= r.sealedAt.Seq {
				bad("%v plans generation %d of a sealed run", p.at, p.GetGeneration())
			}
			if now := p.GetSettings().GetPhase(); closed && now != phaseClosed {
				bad("%v opens a closed sale", p.at)
			} else {
				closed = now == phaseClosed
			}
			next = p.deal(next, bad)
		}
	}
	applied(e, bad)
}

// deal judges the units that a generation adds, all of which lie between the
// watermark before it and its own, which it returns.
func (p planned) deal(next int64, bad fault) int64 {
	dealt := make(map[int64]bool)
	for shard, change := range p.GetShards() {
		for _, add := range change.GetAdd() {
			for unit := add.GetFirst(); unit < add.GetFirst()+add.GetCount(); unit++ {
				if unit < next || unit >= p.GetNextUnit() || dealt[unit] {
					bad("%v deals unit %d to shard %d; the watermark goes from %d to %d", p.at, unit, shard, next, p.GetNextUnit())
				}
				dealt[unit] = true
			}
		}
	}
	if p.GetNextUnit() < next {
		bad("%v takes the watermark back from %d to %d", p.at, next, p.GetNextUnit())
	}
	return max(next, p.GetNextUnit())
}

// applied holds each Applied against the shards.
func applied(e *evidence, bad fault) {
	run := -1
	for _, s := range e.sale.slots {
		for _, op := range s.commit.GetOps() {
			if p := op.GetPlanned(); p != nil && (run < 0 || e.runs[run].uid != p.GetUid()) {
				run++
			}
			if a := op.GetApplied(); a != nil && run >= 0 {
				for _, l := range e.runs[run].shards {
					if has := l.generationAt(s.Seq); has < a.GetGeneration() {
						bad("%v says that generation %d is on every shard, %s is at %d", s, a.GetGeneration(), l.name, has)
					}
				}
			}
		}
	}
}

// takes compares the generations that each shard took with those planned.
func takes(e *evidence, bad fault) {
	for _, l := range e.logs {
		next := uint64(1)
		for _, s := range l.slots {
			for i, op := range s.commit.GetOps() {
				switch g := op.GetGeneration(); {
				case g == nil && next == 1:
					bad("%v, op %d comes before the first generation", s, i)
				case g == nil:
				case g.GetNumber() != next || next > uint64(len(l.run.planned)):
					bad("%v takes generation %d of %d planned, the next is %d", s, g.GetNumber(), len(l.run.planned), next)
				default:
					if p := l.run.planned[next-1]; p.at.Seq > s.Seq || !asPlanned(g, p.Planned, l.shard) {
						bad("%v takes generation %d otherwise than planned, or before (%v)", s, next, p.at)
					}
					next++
				}
			}
		}
	}
}

func asPlanned(g *pb.Generation, p *pb.Planned, shard int) bool {
	if shard >= len(p.GetShards()) {
		return false
	}
	change, a, b := p.GetShards()[shard], g.GetSettings(), p.GetSettings()
	return sameRanges(g.GetAdd(), change.GetAdd()) && g.GetRemove() == change.GetRemove() && sameRanges(g.GetDrop(), change.GetDrop()) && sameRanges(g.GetRestore(), change.GetRestore()) &&
		sameSettings(a, b)
}

func sameRanges(a, b []*pb.Range) bool {
	return slices.EqualFunc(a, b, func(x, y *pb.Range) bool { return x.GetFirst() == y.GetFirst() && x.GetCount() == y.GetCount() })
}
