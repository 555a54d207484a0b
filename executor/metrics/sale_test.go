package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"salectl/executor/process"
	"salectl/executor/shard"
)

// TestMetricsOfMovingUnits holds that a unit which moves between two shards counts once, as moving.
func TestMetricsOfMovingUnits(t *testing.T) {
	m := newSaleMetrics(func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	})
	var from, to shard.Status
	from.Limit, from.Available, from.Sold, from.InFlight = 30, 4, 21, 5
	to.Limit, to.Available, to.Sold = 10, 1, 9
	collected := make(chan prometheus.Metric, 100)
	m.collectUnits(process.Status{Shards: []shard.Status{from, to}}, collected)
	close(collected)
	got := make(map[*prometheus.Desc]float64)
	for metric := range collected {
		var v dto.Metric
		if err := metric.Write(&v); err != nil {
			t.Fatal(err)
		}
		got[metric.Desc()] = v.GetGauge().GetValue()
	}
	if got[m.stock] != 40 || got[m.available] != 5 || got[m.sold] != 30 || got[m.moving] != 5 {
		t.Errorf("stock %v, available %v, sold %v, moving %v; want 40, 5, 30, 5", got[m.stock], got[m.available], got[m.sold], got[m.moving])
	}
}
