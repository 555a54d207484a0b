package httpd

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/executor"
	"salectl/executor/httpd/dashboard"
	"salectl/executor/status"
)

// addHolds adds the holds of a shard to holds.
func addHolds(holds *api.Holds, shard *executor.ShardStatus) {
	if next := shard.Release.UTC(); !shard.Release.IsZero() && (holds.NextRelease.IsZero() || next.Before(holds.NextRelease)) {
		holds.NextRelease = next
	}
	o := shard.Outcomes
	holds.Open += o.OpenHolds
	holds.Confirmed += o.Confirmed
	holds.Expired += o.Expired
	holds.Cancelled += o.Cancelled
	holds.Refunded += o.Refunded
	holds.Resold += o.Resold
	holds.RefundsDue += o.RefundsDue
}

// publicView returns the part of a sale's state that a token with the right to claim may read.
func (sale *sale) publicView(status *executor.Status) *api.Sale {
	now := sale.clock().Wall
	view := &api.Sale{
		Sale:         sale.name,
		UID:          status.UID,
		Phase:        ledger.PhaseAt(status.Phase, status.OpensAt, status.ClosesAt, now),
		PerUserLimit: status.PerUser,
		Partial:      status.Partial,
		OpensAt:      status.OpensAt.UTC(),
		ClosesAt:     status.ClosesAt.UTC(),
		Generation:   status.Generation,
		ServerTime:   now.UTC(),
		Draw:         status.Draw,
	}
	if p := status.RedPacket; p != nil {
		view.Packets = &api.Packets{Currency: p.Currency, Total: p.Format(p.Total), Commitment: status.Commitment.String()}
	}
	for _, shard := range status.Shards {
		if shard.Paid {
			view.Holds = cmp.Or(view.Holds, new(api.Holds))
			addHolds(view.Holds, &shard)
		}
		view.Stock += shard.Limit
		view.Available += shard.Available
		view.Held += shard.Held
		view.Sold += shard.Sold
		view.InFlight += shard.InFlight
	}
	view.SoldOut = view.Draw == nil && view.Stock > 0 && view.Sold == view.Stock
	if view.Phase == ledger.PhaseOpen && !status.Sells {
		view.Phase = ledger.PhaseStalled
	}
	return view
}

// addOperations adds the state for operators to view. Names of lock nodes and errors contain addresses:
// addOperations adds these texts only if admin is true, for the admin address.
func (sale *sale) addOperations(view *api.Sale, status *executor.Status, admin bool) {
	private := func(text string) string {
		if admin {
			return text
		}
		return ""
	}
	view.Nodes, view.Shards = make([]api.Node, 0, len(status.Nodes)), []api.Shard{}
	view.Processes, view.Owners, view.Moves = processes(status.Members), ownership(status.Shards), status.Moves
	for _, n := range status.Nodes {
		view.Nodes = append(view.Nodes, api.Node{
			Name: private(n.Name), Up: n.Up, Since: displayTime(n.Since), Error: private(n.Error), VotesFrom: n.VotesFrom.UTC(),
		})
	}
	for _, shard := range status.Shards {
		if shard.Listed {
			view.Lists = cmp.Or(view.Lists, new(api.Lists))
			view.Lists.Undrained += shard.Undrained
			if shard.ListOn {
				view.Lists.On++
			} else {
				view.Lists.Off++
			}
		}
		if stall := shard.Stall; stall != nil {
			view.Shards = append(view.Shards, api.Shard{Shard: shard.Shard, Since: displayTime(stall.Since), Error: private(stall.Error)})
		}
	}
	for _, p := range status.Problems {
		problem := api.SaleProblem{
			Kind: p.Name, Level: strings.ToLower(p.Level.String()), Subject: p.Subject, Where: p.Location(),
			Since: displayTime(p.Since), Message: p.Began, Error: private(p.Why), Remedy: p.Remedy,
		}
		if p.Subject == "node" {
			problem.Where = private(p.Where)
		}
		view.Problems = append(view.Problems, problem)
	}
	if sale.checker != nil {
		if h := sale.checker.Health(); h != (api.PaymentCheck{}) {
			h.Error = private(h.Error)
			view.PaymentCheck = &h
		}
	}
}

// displayTime truncates a time to milliseconds for display.
func displayTime(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// processes returns the processes of a sale.
func processes(members []executor.MemberStatus) (all []api.Process) {
	for _, m := range members {
		p := api.Process{
			Address: m.Address, Version: m.Version, State: cmp.Or(m.State, api.ProcessServing),
			Self: m.Here, Up: m.Up, Assigned: m.Assigned,
		}
		if m.Up {
			p.Shards = &m.Shards
		}
		if t := m.Traffic; t != nil {
			p.Requests, p.Forwarded = tenths(&t.Came), tenths(&t.Passed)
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b api.Process) int { return cmp.Compare(a.Address, b.Address) })
	return all
}

// ownership returns owner and load of each shard for which one of these is known.
func ownership(shards []executor.ShardStatus) (all []api.Ownership) {
	busy := busyShards(shards)
	for i, s := range shards {
		if s.Owner != "" || s.PerSecond != nil {
			all = append(all, api.Ownership{Shard: s.Shard, Owner: s.Owner, Load: tenths(s.PerSecond), Waiting: s.Queue, Busy: busy[i]})
		}
	}
	return all
}

// tenths rounds a rate to tenths for display.
func tenths(rate *float64) *float64 {
	if rate == nil {
		return nil
	}
	rounded := math.Round(*rate*10) / 10
	return &rounded
}

// busyShards reports for each shard whether it decides more than twice as many requests as the others on
// average, and more than chance explains. Users are distributed by hash: the number of claims of a shard in
// some seconds deviates from the mean by a few times the mean's square root.
func busyShards(shards []executor.ShardStatus) []bool {
	busy := make([]bool, len(shards))
	sum, known := 0.0, 0
	for _, s := range shards {
		if s.PerSecond != nil {
			sum += *s.PerSecond
			known++
		}
	}
	if known < 2 {
		return busy
	}
	const overSeconds, deviations = 5, 4
	for i, s := range shards {
		if s.PerSecond == nil {
			continue
		}
		others := (sum - *s.PerSecond) / float64(known-1)
		chance := deviations * math.Sqrt(max(others, 1)/overSeconds)
		busy[i] = *s.PerSecond > 2*others && *s.PerSecond > others+chance
	}
	return busy
}

// dashboardLook returns a sale's state for the dashboard. unready is the reason why some shard cannot sell, if any.
func (sale *sale) dashboardLook(unready string) dashboard.Look {
	status := sale.Status()
	view := sale.publicView(&status)
	sale.addOperations(view, &status, true)
	l := dashboard.Look{View: view, About: status.About, Away: status.Away, Unready: unready}
	l.Answers, l.Took = sale.read()
	moving := make(map[int]bool)
	for _, m := range status.Moves {
		moving[m.Shard] = true
	}
	busy := busyShards(status.Shards)
	for i, one := range status.Shards {
		l.Shards = append(l.Shards, shardOf(&one, busy[i], moving[one.Shard]))
	}
	return l
}

func shardOf(s *executor.ShardStatus, busy, moving bool) dashboard.Shard {
	return dashboard.Shard{
		Shard: s.Shard, Known: !s.Unknown, Owner: s.Owner, Available: s.Available, Held: s.Held, Sold: s.Sold, InFlight: s.InFlight,
		Entries: s.Entries, Load: tenths(s.PerSecond), Waiting: s.Queue, Busy: busy, Stalled: s.Stall != nil || s.Stuck == status.Ledger,
		NoLease: s.NoLease, Moving: moving,
	}
}

// read returns the number of answered claims by outcome, and the distribution of their durations.
func (counts *saleMetrics) read() (map[api.Outcome]uint64, dashboard.Histogram) {
	answers := make(map[api.Outcome]uint64)
	for outcome, counter := range counts.claims {
		if n := encodeMetric(counter).GetCounter().GetValue(); n > 0 {
			answers[outcome] = uint64(n)
		}
	}
	var took dashboard.Histogram
	h := encodeMetric(counts.duration.(prometheus.Metric)).GetHistogram() // a HistogramVec has only such observers
	below := uint64(0)
	for _, b := range h.GetBucket() {
		took.Bounds = append(took.Bounds, b.GetUpperBound())
		took.Counts = append(took.Counts, b.GetCumulativeCount()-below)
		below = b.GetCumulativeCount()
	}
	took.Counts = append(took.Counts, h.GetSampleCount()-below)
	return answers, took
}

func encodeMetric(m prometheus.Metric) *dto.Metric {
	var encoded dto.Metric
	if err := m.Write(&encoded); err != nil {
		panic(err) // unreachable: writing a counter or histogram does not fail
	}
	return &encoded
}
