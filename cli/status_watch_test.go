package cli

import (
	"errors"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/planner/current"
)

// A line is printed for what has happened, not for what is measured anew each time.
func TestWhatIsNewToAWatcher(t *testing.T) {
	load := func(f float64) *float64 { return &f }
	read := func(change func(*reading)) string {
		r := reading{at: time.Unix(1, 0), view: &saleStatus{
			Status: &current.Status{
				Shards: []current.ShardStatus{{LeaseLeftSeconds: 2.5, Totals: ledger.Totals{Sold: 3}, Server: &api.Shard{Load: load(10)}}}, Nodes: []current.NodeStatus{{Node: api.Node{Up: true}}},
			},
			ReadAt:    "2026-11-11T12:00:00Z",
			Processes: []api.Process{{Requests: load(10), Forwarded: load(5)}},
		}}
		change(&r)
		return r.key()
	}
	first := read(func(*reading) {})
	for name, test := range map[string]struct {
		change func(*reading)
		same   bool
	}{
		"time":            {func(r *reading) { r.at = time.Unix(2, 0); r.view.ReadAt = "2026-11-11T12:00:02Z" }, true},
		"a lease":         {func(r *reading) { r.view.Shards[0].LeaseLeftSeconds = 1.1 }, true},
		"a lease's end":   {func(r *reading) { r.view.Shards[0].LeaseLeftSeconds = 0 }, false},
		"a clock":         {func(r *reading) { r.view.Nodes[0].ClockOffSeconds = 0.001 }, true},
		"a node":          {func(r *reading) { r.view.Nodes[0].Up = false }, false},
		"requests":        {func(r *reading) { r.view.Processes[0].Requests = load(11) }, true},
		"load":            {func(r *reading) { r.view.Shards[0].Server.Load = load(11); r.view.Shards[0].Server.Waiting = 1 }, true},
		"a busy shard":    {func(r *reading) { r.view.Shards[0].Server.Busy = true }, false},
		"a unit":          {func(r *reading) { r.view.Shards[0].Sold++ }, false},
		"health":          {func(r *reading) { r.view.Health.State = healthDown }, false},
		"an error":        {func(r *reading) { r.err = errors.New("away") }, false},
		"an error only":   {func(r *reading) { r.view, r.err = nil, errors.New("away") }, false},
		"another process": {func(r *reading) { r.view.Processes = append(r.view.Processes, api.Process{}) }, false},
	} {
		if same := read(test.change) == first; same != test.same {
			t.Errorf("%s: it is the same: %v, want %v", name, same, test.same)
		}
	}
	shards := []current.ShardStatus{{LeaseLeftSeconds: 2.5}}
	reading{view: &saleStatus{Status: &current.Status{Shards: shards}}}.key()
	if shards[0].LeaseLeftSeconds != 2.5 {
		t.Error("the reading itself has changed")
	}
}
