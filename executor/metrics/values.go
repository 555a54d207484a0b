package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/draw"
	"salectl/executor/ownership"
	"salectl/executor/shard"
	"salectl/executor/status"
)

// reading is what Collect reads of a process.
type reading struct {
	view     *api.Sale
	health   *ownership.Status
	problems []status.Problem // nil: they were not compiled
	shards   shardSums
	// The results of forwarded requests.
	answered, bounced, lost uint64
}

// complete is a reading that has every metric.
var complete = reading{
	view: &api.Sale{SaleSummary: api.SaleSummary{Draw: new(draw.Status)}, Holds: &api.Holds{NextRelease: time.Unix(1, 0)}},
	health: &ownership.Status{
		Logged: ownership.Logged{Phase: ledger.PhaseOpen, ReadAt: time.Unix(1, 0), OpensAt: time.Unix(1, 0), ClosesAt: time.Unix(1, 0)},
		Nodes:  []ownership.NodeStatus{{Node: api.Node{Since: time.Unix(1, 0)}, Errors: map[string]uint64{"": 0}}},
	},
	problems: []status.Problem{},
	shards:   shardSums{stalledSince: time.Unix(1, 0), listed: true, paid: true},
}

// sink sends the metrics of a sale. Labels are pairs of name and value.
type sink struct {
	sale prometheus.Labels
	send func(prometheus.Metric)
}

func (to sink) gauge(name, help string, v float64, labels ...string) {
	to.value(prometheus.GaugeValue, name, help, v, labels)
}

func (to sink) count(name, help string, v float64, labels ...string) {
	to.value(prometheus.CounterValue, name, help, v, labels)
}

// time sends a time, if there is one.
func (to sink) time(name, help string, at time.Time) {
	if !at.IsZero() {
		to.gauge(name, help, float64(at.UnixMilli())/1000)
	}
}

func (to sink) value(kind prometheus.ValueType, name, help string, v float64, labels []string) {
	var names, values []string
	for pair := range slices.Chunk(labels, 2) {
		names, values = append(names, pair[0]), append(values, pair[1])
	}
	to.send(prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, to.sale), kind, v, values...))
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// collect sends all metrics of a reading.
func (r *reading) collect(to sink) {
	r.sale(to)
	r.shards.collect(to)
	r.peers(to)
	r.nodes(to)
	r.locks(to)
	if r.problems == nil {
		return
	}
	count := make(map[*status.Kind]int)
	for _, p := range r.problems {
		count[p.Kind]++
	}
	for _, kind := range status.Kinds {
		to.gauge("salectl_problems", "Nodes, processes, shards and other parts that have a problem, as the process compiled them in the last second.",
			float64(count[kind]), "kind", kind.Name)
	}
}

// phases are those that a process which serves a sale may report.
var phases = []string{
	ledger.PhasePlanned, ledger.PhaseScheduled, ledger.PhaseOpen, ledger.PhaseStalled, ledger.PhasePaused,
	ledger.PhaseEnded, ledger.PhaseClosed, ledger.PhaseSealed, ledger.PhaseDestroyed, ledger.PhaseUnknown,
}

// sale sends the metrics of the sale as a whole, by what is known of its shards and of its log. Each process
// that shares it has the same, from its own shards and the updates of its peers. Unknown values are left out,
// since a zero would be believed.
func (r *reading) sale(to sink) {
	h := r.health
	for _, phase := range phases {
		to.gauge("salectl_sale_phase", "1 for the phase that the sale is in, 0 for all others; unknown: the ledger cannot be read.",
			one(phase == r.view.Phase), "phase", phase)
	}
	if h.Unread != nil || !h.Logged.ReadAt.IsZero() {
		to.gauge("salectl_ledger_up", "1 while this process can read the sale's log.", one(h.Unread == nil))
		to.time("salectl_ledger_read_timestamp_seconds", "When this process last read the sale's log.", h.Logged.ReadAt)
	}
	if l := h.Logged; l.Phase != "" {
		to.gauge("salectl_sale_info", "1, with the uid of the sale's run.", 1, "uid", l.UID)
		to.gauge("salectl_sale_shards", "Shards of the sale: its lockCount.", float64(l.Shards))
		to.gauge("salectl_sale_generation", "Number of the newest generation.", float64(l.Generation))
		to.gauge("salectl_sale_user_limit_units", "Units that one user may have: perUserLimit.", float64(l.PerUser))
		to.time("salectl_sale_opens_timestamp_seconds", "Time when the sale opens; no value without opensAt.", l.OpensAt)
		to.time("salectl_sale_closes_timestamp_seconds", "Time when the sale ends; no value without closesAt.", l.ClosesAt)
	}
	// A shard that no peer reports as its own may be served by a process that this one does not reach.
	if r.view.Outcome == "" && !slices.Contains(h.Owners, "") {
		r.units(to)
	}
}

// units sends the sums of all shards.
func (r *reading) units(to sink) {
	v := r.view
	to.gauge("salectl_sale_sold_out", "1 while every unit is sold.", one(v.SoldOut))
	to.gauge("salectl_sale_stock_units", "Units added less those removed or retired.", float64(v.Stock))
	to.gauge("salectl_sale_available_units", "Units for sale.", float64(v.Available))
	to.gauge("salectl_sale_held_units", "Units in claims that are held until they are paid.", float64(v.Held))
	to.gauge("salectl_sale_sold_units", "Units sold.", float64(v.Sold))
	to.gauge("salectl_sale_moving_units", "Units in transfer between shards.", float64(v.InFlight))
	if v.Draw != nil {
		to.gauge("salectl_sale_entries", "Entries of a draw, also those that have won.", float64(v.Draw.Entries))
	}
	h := v.Holds
	if h == nil {
		return
	}
	to.gauge("salectl_sale_open_holds", "Claims that are held.", float64(h.Open))
	to.time("salectl_sale_next_release_timestamp_seconds",
		"When the next hold is released, unless it is paid; no value while nothing is held.", h.NextRelease)
	for how, n := range map[string]int64{
		"confirmed": h.Confirmed, "expired": h.Expired, "cancelled": h.Cancelled, "refunded": h.Refunded, "resold": h.Resold,
	} {
		to.count("salectl_sale_settled_claims_total",
			"Claims that were confirmed, expired, cancelled, refunded, or resold to a late payment, since the sale began.", float64(n), "how", how)
	}
	to.count("salectl_sale_refunds_due_total", "Payments that bought nothing or whose purchase was refunded, since the sale began.", float64(h.RefundsDue))
	to.count("salectl_sale_refunds_returned_total", "Payments of salectl_sale_refunds_due_total that were paid back.", float64(h.Returned))
}

// shardSums adds up the values of the shards of this process, and has the worst where a sum would hide one
// that is far behind the others.
type shardSums struct {
	owned, stalled      int
	stalledSince        time.Time
	queue, longestQueue int
	bytes, largestLog   int64
	listed              bool
	on, off             int
	undrained           int64
	paid                bool
	holds               ledger.HoldTally
}

func (v *shardSums) add(of *shard.Shard) {
	s := of.Status()
	if s.Owned {
		v.owned++
	}
	if stall := s.Stall; stall != nil {
		v.stalled++
		if v.stalledSince.IsZero() || stall.Since.Before(v.stalledSince) {
			v.stalledSince = stall.Since
		}
	}
	v.queue, v.longestQueue = v.queue+s.Queue, max(v.longestQueue, s.Queue)
	v.bytes, v.largestLog = v.bytes+s.Bytes, max(v.largestLog, s.Bytes)
	if s.Listed {
		v.listed = true
		if s.ListOn {
			v.on++
		} else {
			v.off++
		}
		v.undrained += s.Undrained
	}
	if s.Paid {
		v.paid = true
		v.holds.Add(of.Holds())
	}
}

// collect sends the metrics of the shards of this process.
func (v *shardSums) collect(to sink) {
	to.gauge("salectl_owned_shards", "Shards that this process may append to.", float64(v.owned))
	to.gauge("salectl_stalled_shards", "Shards for which the store does not answer, or leaves the result open.", float64(v.stalled))
	to.time("salectl_stalled_since_timestamp_seconds",
		"When the shard began to stall that has stalled for longest; no value while none does.", v.stalledSince)
	to.gauge("salectl_queue_depth", "Requests that wait on shards of this process.", float64(v.queue))
	to.gauge("salectl_queue_depth_max", "Those on the shard on which the most wait.", float64(v.longestQueue))
	to.gauge("salectl_log_bytes", "Size of the logs of this process's shards.", float64(v.bytes))
	to.gauge("salectl_log_bytes_max", "Size of the largest of them.", float64(v.largestLog))
	if v.listed {
		for state, n := range map[string]int{"on": v.on, "off": v.off} {
			to.gauge("salectl_lists", "Lists of this process's shards, by state: on, those that grant units, and off.", float64(n), "state", state)
		}
		to.gauge("salectl_undrained_grabs", "Grabs that lists granted and the logs do not have yet.", float64(v.undrained))
	}
	if v.paid {
		to.gauge("salectl_extended_holds", "Holds of this process's shards that got a later deadline, also those that have ended.",
			float64(v.holds.Extended))
		within := make(map[float64]uint64, len(ledger.HoldBounds))
		for i, bound := range ledger.HoldBounds {
			within[bound] = v.holds.Within[i]
		}
		lasted := prometheus.NewDesc("salectl_hold_seconds",
			"From a claim to the end of its hold, of all holds of this process's shards since the sale began.", nil, to.sale)
		to.send(prometheus.MustNewConstHistogram(lasted, v.holds.Count, v.holds.Seconds, within))
	}
}

// peers sends the metrics of the processes of the sale, and of the requests between them.
func (r *reading) peers(to sink) {
	for outcome, n := range map[string]uint64{"answered": r.answered, "not_owner": r.bounced, "lost": r.lost} {
		to.count("salectl_forwards_total", "Requests that this process forwarded, by result: answered, "+
			"not_owner (forwarded again), lost (the link was cut; sent again).", float64(n), "outcome", outcome)
	}
	up, states := 0, map[string]int{api.ProcessServing: 0, api.ProcessStandby: 0, api.ProcessDraining: 0, api.ProcessUnable: 0}
	for _, x := range r.health.Processes {
		states[x.State]++
		if x.Up && !x.Self {
			up++
		}
	}
	for state, n := range states {
		to.gauge("salectl_members", "Processes of the sale known to this one, itself among them, by state.", float64(n), "state", state)
	}
	to.gauge("salectl_links_up", "Processes of the sale that this one reaches.", float64(up))
	to.gauge("salectl_misplaced_shards", "Shards that are assigned to another process than their owner, as far as is known.",
		float64(len(r.health.Moves)))
}

// nodes sends the metrics of the lock nodes that this process has called.
func (r *reading) nodes(to sink) {
	known := false
	for _, n := range r.health.Nodes {
		if !n.Since.IsZero() {
			known = true
			to.gauge("salectl_node_up", "1 while the lock node answers.", one(n.Up), "node", n.Name)
			to.gauge("salectl_node_abstaining", "1 while the lock node does not vote because it lost its memory.", one(!n.VotesFrom.IsZero()), "node", n.Name)
		}
		for kind, errors := range n.Errors {
			to.count("salectl_lock_errors_total", "Calls of a lock node that failed, by kind.", float64(errors), "node", n.Name, "kind", kind)
		}
	}
	if known {
		to.gauge("salectl_lock_quorum", "1 while a majority of the lock nodes votes.", one(!r.health.NoMajority))
	}
	to.gauge("salectl_clock_offset_seconds",
		"Seconds that this host's clock is ahead of the median of the lock nodes' clocks, while that prevents selling; else 0.",
		r.health.ClockOff.Seconds())
}

// locks sends the metrics of the leases.
func (r *reading) locks(to sink) {
	s := &r.health.Locks
	for outcome, n := range map[string]uint64{"won": s.Won, "refused": s.Refused} {
		to.count("salectl_lock_tries_total", "Tries to get leases: won, or refused.", float64(n), "outcome", outcome)
	}
	for answer, n := range map[string]uint64{"yes": s.Yes, "no": s.No, "abstained": s.Abstained, "failed": s.Failed} {
		to.count("salectl_lock_votes_total", "Answers of lock nodes about single leases: yes, no, abstained, failed.", float64(n), "answer", answer)
	}
	to.count("salectl_lock_renewals_total", "Leases of shards that a majority renewed.", float64(s.Renewals))
	to.count("salectl_leases_lost_total", "Leases of shards that were lost.", float64(s.Lost))
	to.count("salectl_lock_forced_releases_total",
		"Holders without a sign of life that were removed because they blocked this process.", float64(s.Forced))
	to.count("salectl_lock_repairs_total", "Keys whose missing or excessive expiry lock nodes corrected.", float64(s.Repaired))
	to.count("salectl_lock_acquire_seconds_total", "Total time from requesting leases until they were held.", s.Acquiring.Seconds())
	to.count("salectl_lock_wait_seconds_total", "Part of that time before the successful tries.", s.Waited.Seconds())
}
