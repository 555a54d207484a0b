package httpd

import (
	"net/http"
	"strings"
	"testing"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/draw"
	"salectl/executor"
	"salectl/executor/httpd/httpdtest"
	"salectl/executor/shard"
	"salectl/executor/status"
)

func pointer[T any](v T) *T { return &v }

// What the sale's processes say of themselves is told, and nothing is where they say nothing.
func TestProcesses(t *testing.T) {
	status := executor.Status{
		SaleSummary: api.SaleSummary{Sale: "movie"},
		Shards: []executor.ShardStatus{
			{Report: shard.Report{Shard: 0, Totals: ledger.Totals{Owner: "a:1"}, Load: shard.Load{PerSecond: pointer(100.0), Queue: 3}}}, {Report: shard.Report{Shard: 1, Load: shard.Load{PerSecond: pointer(0.0)}, Totals: ledger.Totals{Owner: "b:1"}}}, {Report: shard.Report{Shard: 2}},
		},
		Processes: []api.Process{
			{Address: "a:1", Version: "v2", State: "serving", Self: true, Up: true, Shards: new(1), Assigned: 1, Requests: pointer(12.0), Forwarded: pointer(6.0)},
			{Address: "b:1", State: "serving"},
		},
		Moves: []api.Move{{Shard: 1, From: "b:1", To: "a:1", Stage: "follows"}},
	}
	s := New(Config{Clock: atNoon, Sales: []executor.Service{&httpdtest.Fake{Name: "movie", StatusFunc: func() executor.Status { return status }}}})
	const want = `"shards":[{"shard":0,"state":"sold-out","owner":"a:1","load":100,"waiting":3,"busy":true},{"shard":1,"state":"moving","owner":"b:1","load":0},` +
		`{"shard":2,"state":"sold-out"}],` +
		`"processes":[{"address":"a:1","version":"v2","state":"serving","here":true,"up":true,"shards":1,"assigned":1,"requests":12,"forwarded":6,"id":""},` +
		`{"address":"b:1","state":"serving","up":false,"assigned":0,"id":""}],` +
		`"moves":[{"shard":1,"from":"b:1","to":"a:1","stage":"follows"}]}`
	if got := text(t, do(s, http.MethodGet, api.SalesPath+"movie", "", nil)); !strings.HasSuffix(got, want) {
		t.Errorf("it says %s\nwant the end %s", got, want)
	}
}

func TestBusier(t *testing.T) {
	for _, c := range []struct {
		loads []float64 // below 0: not known
		busy  string
	}{
		{[]float64{50}, "-"},
		{[]float64{50, -1}, "--"},
		{[]float64{50, 24, 25}, "b--"},
		{[]float64{50, 26, 25}, "---"},
		{[]float64{2, 0, 0}, "b--"},
		{[]float64{1.6, 0.2, 0.4}, "---"}, // by chance
		{[]float64{0, 0}, "--"},
		{[]float64{3000, -1, 1000}, "b--"},
	} {
		var shards []executor.ShardStatus
		for _, l := range c.loads {
			s := executor.ShardStatus{}
			if l >= 0 {
				s.PerSecond = &l
			}
			shards = append(shards, s)
		}
		got := ""
		for _, b := range busyShards(shards) {
			got += map[bool]string{true: "b", false: "-"}[b]
		}
		if got != c.busy {
			t.Errorf("%v: %s, want %s", c.loads, got, c.busy)
		}
	}
}

// A shard of a draw accepts entries until it has sold a unit. A fault comes before every other state.
func TestShardStates(t *testing.T) {
	for _, c := range []struct {
		shard  executor.ShardStatus
		totals ledger.Totals
		want   string
	}{
		{executor.ShardStatus{}, ledger.Totals{Available: 5}, api.ShardDrawing},
		{executor.ShardStatus{}, ledger.Totals{Available: 3, Sold: 2}, api.ShardSelling},
		{executor.ShardStatus{}, ledger.Totals{Available: 5, Sold: 1, Held: 2}, api.ShardSelling},
		{executor.ShardStatus{}, ledger.Totals{Sold: 5}, api.ShardSoldOut},
		{executor.ShardStatus{}, ledger.Totals{InFlight: 1, Sold: 1}, api.ShardNone},
		{executor.ShardStatus{Unknown: true}, ledger.Totals{}, api.ShardUnknown},
		{executor.ShardStatus{Stall: new(executor.Stall)}, ledger.Totals{Available: 5}, api.ShardStalled},
		{executor.ShardStatus{Report: shard.Report{Load: shard.Load{Stuck: status.Ledger}}, NoLease: true}, ledger.Totals{}, api.ShardStalled},
		{executor.ShardStatus{NoLease: true, Unknown: true}, ledger.Totals{}, api.ShardNoLease},
		{executor.ShardStatus{Report: shard.Report{Shard: 7}, Unknown: true}, ledger.Totals{}, api.ShardMoving},
	} {
		c.shard.Totals = c.totals
		if got := shardState(&executor.Status{SaleSummary: api.SaleSummary{Draw: new(draw.Status)}, Moves: []api.Move{{Shard: 7}}}, &c.shard); got != c.want {
			t.Errorf("%+v: %s, want %s", c.shard, got, c.want)
		}
	}
}
