package check

import "fmt"

// status holds what processes reported of shards against the logs, as of the slots that the
// reports name.
func status(e *evidence, bad fault) {
	for i := range e.h.Reports {
		p := &e.h.Reports[i]
		r := e.run(p.UID)
		if r == nil && len(p.Shards) > 0 {
			bad("%v reported on run %q, which was not planned", p, p.UID)
			continue
		}
		for _, have := range p.Shards {
			if have.Shard >= len(r.shards) {
				bad("%v reported on shard %d of run %s, which has %d", p, have.Shard, p.UID, len(r.shards))
				continue
			}
			s := r.shards[have.Shard].slotAt(have.Slot)
			switch {
			case s == nil || s.Seq > p.Seq:
				bad("%v reported on slot %d of %s, which was not stored then", p, have.Slot, r.shards[have.Shard].name)
			case have != s.reported():
				bad("%v reported %+v; %v adds up to %+v", p, have, s, s.reported())
			}
		}
	}
}

func (p *Report) String() string { return fmt.Sprintf("%s at %v", p.Process, p.At) }

// slotAt returns the slot of that number, nil if there is none.
func (l *log) slotAt(n uint64) *slot {
	if n >= uint64(len(l.slots)) {
		return nil
	}
	return l.slots[n]
}

// reported is the status of a shard as of a slot.
func (s *slot) reported() ShardReport {
	m := &s.after
	return ShardReport{
		s.log.shard, s.n, m.epoch, m.generation, m.limit, m.available, m.held, m.sold, m.inFlight, m.entries,
		m.OpenHolds, m.Confirmed, m.Expired, m.Cancelled, m.Refunded, m.Resold, m.RefundsDue, m.Returned,
	}
}

// metrics holds the metrics of processes against what their status reports, and against what
// was stored and given.
func metrics(e *evidence, bad fault) {
	for i := range e.h.Reports {
		p := &e.h.Reports[i]
		if r := e.run(p.UID); r != nil {
			e.unitMetrics(p, r, bad)
		}
		e.appendMetrics(p, bad)
		for _, name := range []string{"salectl_queue_depth", "salectl_queue_depth_max", "salectl_stalled_shards"} {
			if n := p.Metrics[name]; p.Idle && n != 0 {
				bad("%v has %s %v, and nobody waits", p, name, n)
			}
		}
	}
}

// unitMetrics judges the metrics of a process about the units of its sale.
func (e *evidence) unitMetrics(p *Report, r *run, bad fault) {
	var sum ShardReport
	owned := 0
	for _, s := range p.Shards {
		sum.Limit += s.Limit
		sum.Available += s.Available
		sum.Held += s.Held
		sum.Sold += s.Sold
		sum.InFlight += s.InFlight
		sum.Entries += s.Entries
		if s.Shard >= len(r.shards) {
			return // status reports it
		}
		if at := r.shards[s.Shard].slotAt(s.Slot); at != nil && at.after.writer == p.Writer {
			owned++
		}
	}
	var soldOut int64
	if !r.isDraw() && sum.Limit > 0 && sum.Sold == sum.Limit {
		soldOut = 1
	}
	for name, want := range map[string]int64{
		"stock_units": sum.Limit, "available_units": sum.Available, "held_units": sum.Held, "sold_units": sum.Sold,
		"moving_units": sum.InFlight, "entries": sum.Entries, "sold_out": soldOut,
	} {
		if have, ok := p.Metrics["salectl_sale_"+name]; ok && have != float64(want) {
			bad("%v has salectl_sale_%s %v, its shards have %d", p, name, have, want)
		}
	}
	if n := p.Metrics["salectl_owned_shards"]; n > float64(owned) {
		bad("%v has salectl_owned_shards %v, by their logs it owns %d", p, n, owned)
	}
	if n := p.Metrics["salectl_undrained_grabs"]; n > float64(e.given(r, p)) {
		bad("%v has salectl_undrained_grabs %v, the lists of its sale gave %d units", p, n, e.given(r, p))
	}
}

// given is how many units lists of a run had given by the time of a report.
func (e *evidence) given(r *run, p *Report) (n int) {
	for _, g := range e.grants {
		if g.run == r && g.Seq < p.Seq {
			n++
		}
	}
	return n
}

// appendMetrics holds what a process has counted of its appends against the slots that it
// stored. Of each time that it owned a shard it may not know the last one.
func (e *evidence) appendMetrics(p *Report, bad fault) {
	var stored, owns, fills float64
	for _, s := range e.slots {
		if s.Seq > p.Seq || string(s.commit.GetWriter()) != p.Writer {
			continue
		}
		stored++
		if s.owns() {
			owns++
		}
		for _, op := range s.commit.GetOps() {
			if op.GetRebuild() != nil {
				fills++
			}
		}
	}
	if n := p.Metrics["salectl_appends_total committed"]; n > stored || n+owns < stored {
		bad("%v has salectl_appends_total committed %v, it stored %v, and took shards over %v times", p, n, stored, owns)
	}
	if n := p.Metrics["salectl_list_fills_total"]; n > fills {
		bad("%v has salectl_list_fills_total %v, it began %v fills", p, n, fills)
	}
}
