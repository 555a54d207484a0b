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
	"salectl/executor"
	"salectl/executor/httpd/dashboard"
	"salectl/executor/status"
)

// operations returns the state for operators. Names of lock nodes and errors contain addresses: they
// are included only if admin is true, for the admin address.
func (sale *sale) operations(status *executor.Status, admin bool) *api.Known {
	private := func(text string) string {
		if admin {
			return text
		}
		return ""
	}
	view := &api.Known{
		Nodes: make([]api.Node, 0, len(status.Nodes)), Shards: make([]api.Shard, 0, len(status.Shards)),
		Processes: status.Processes, Moves: status.Moves,
	}
	for _, n := range status.Nodes {
		n.Name, n.Error, n.Since, n.VotesFrom = private(n.Name), private(n.Error), displayTime(n.Since), n.VotesFrom.UTC()
		view.Nodes = append(view.Nodes, n.Node)
	}
	busy := busyShards(status.Shards)
	for i, shard := range status.Shards {
		if shard.Listed {
			view.Lists = cmp.Or(view.Lists, new(api.Lists))
			view.Lists.Undrained += shard.Undrained
			if shard.ListOn {
				view.Lists.On++
			} else {
				view.Lists.Off++
			}
		}
		one := api.Shard{
			Shard: shard.Shard, State: shardState(status, &shard), Owner: shard.Owner,
			Available: shard.Available, Held: shard.Held, Sold: shard.Sold, Entries: shard.Entries,
			Load: shard.PerSecond, Waiting: shard.Queue, Busy: busy[i],
		}
		if stall := shard.Stall; stall != nil {
			one.Since, one.Error = displayTime(stall.Since), private(stall.Error)
		}
		view.Shards = append(view.Shards, one)
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
	return view
}

// shardState returns the state of a shard in one word, of which a fault comes first.
func shardState(sale *executor.Status, s *executor.ShardStatus) string {
	switch {
	case s.Stall != nil || s.Stuck == status.Ledger:
		return api.ShardStalled
	case s.NoLease:
		return api.ShardNoLease
	case slices.ContainsFunc(sale.Moves, func(m api.Move) bool { return m.Shard == s.Shard }):
		return api.ShardMoving
	case s.Unknown:
		return api.ShardUnknown
	case sale.Draw != nil && s.Sold == 0:
		return api.ShardDrawing
	case s.Available > 0:
		return api.ShardSelling
	case s.Held > 0 || s.InFlight > 0:
		return api.ShardNone
	}
	return api.ShardSoldOut
}

// displayTime truncates a time to milliseconds for display.
func displayTime(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

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

// dashboardState returns a sale's state for the dashboard. unready is the reason why some shard cannot sell, if any.
func (sale *sale) dashboardState(unready string) dashboard.State {
	status := sale.Status()
	l := dashboard.State{Sale: status.View(sale.clock().Wall), About: status.About, Unready: unready}
	l.Sale.Known = *sale.operations(&status, true)
	l.Answers, l.Took = sale.read()
	return l
}

// read returns the number of answered claims by outcome, and the distribution of their durations.
func (counts *saleMetrics) read() (map[api.Outcome]uint64, *dto.Histogram) {
	answers := make(map[api.Outcome]uint64)
	for outcome, counter := range counts.claims {
		if n := encodeMetric(counter).GetCounter().GetValue(); n > 0 {
			answers[outcome] = uint64(n)
		}
	}
	// A HistogramVec has only observers that are metrics.
	return answers, encodeMetric(counts.duration.(prometheus.Metric)).GetHistogram()
}

func encodeMetric(m prometheus.Metric) *dto.Metric {
	var encoded dto.Metric
	if err := m.Write(&encoded); err != nil {
		panic(err) // unreachable: writing a counter or histogram does not fail
	}
	return &encoded
}
