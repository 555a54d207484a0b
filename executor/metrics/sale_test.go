package metrics

import (
	_ "embed"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"salectl/executor/process"
	"salectl/executor/shard"
)

// TestMetricsOfMovingUnits holds that a unit which moves between two shards counts once, as moving.
func TestMetricsOfMovingUnits(t *testing.T) {
	var from, to shard.Status
	from.Limit, from.Available, from.Sold, from.InFlight = 30, 4, 21, 5
	to.Limit, to.Available, to.Sold = 10, 1, 9
	status := process.Status{Shards: []shard.Status{from, to}}
	r := reading{view: status.View(time.Unix(1, 0))}
	got := make(map[string]float64)
	r.units(sink{send: func(metric prometheus.Metric) {
		var v dto.Metric
		if err := metric.Write(&v); err != nil {
			t.Fatal(err)
		}
		got[nameOf(metric)] = v.GetGauge().GetValue()
	}})
	for name, want := range map[string]float64{"stock": 40, "available": 5, "sold": 30, "moving": 5} {
		if is := got["salectl_sale_"+name+"_units"]; is != want {
			t.Errorf("%s is %v, want %v", name, is, want)
		}
	}
}

// TestDescribe holds that Describe sends the description of every metric that this package names.
func TestDescribe(t *testing.T) {
	described, names := make(map[string]bool), 0
	complete.collect(sink{send: func(metric prometheus.Metric) { described[nameOf(metric)] = true }})
	for _, name := range strings.Split(source, `"salectl_`)[1:] {
		names++
		if name, _, _ = strings.Cut(name, `"`); !described["salectl_"+name] {
			t.Errorf("salectl_%s is not described", name)
		}
	}
	if names < 40 {
		t.Errorf("the source names %d metrics", names)
	}
}

// source has the metrics that are read.
//
//go:embed values.go
var source string

// nameOf returns the name of a metric.
func nameOf(m prometheus.Metric) string { return strings.SplitN(m.Desc().String(), `"`, 3)[1] }
