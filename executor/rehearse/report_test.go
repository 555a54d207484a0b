package rehearse

import (
	"encoding/json"
	"testing"
	"time"
)

func sample() *Report {
	return &Report{
		Sale: "movie", Backend: "embedded", Users: 2000, Requests: 2403, Retries: 3,
		Outcomes:   map[string]int{"sold": 100, "replayed": 9, "limit_reached": 48, "sold_out": 2245, "http_500": 1},
		UnitsSold:  100,
		Timing:     Timing{DurationSeconds: .112, ThroughputPerSecond: 21455.357, LatencyMs: Latency{P50: 4.211, P99: 12.5, P999: 15.01, Max: 15.2}},
		Violations: []string{},
	}
}

func TestReportJSON(t *testing.T) {
	got, err := json.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"sale":"movie","backend":"embedded","users":2000,"requests":2403,"retries":3,` +
		`"outcomes":{"http_500":1,"limit_reached":48,"replayed":9,"sold":100,"sold_out":2245},"unitsSold":100,` +
		`"timing":{"durationSeconds":0.112,"throughputPerSecond":21455.357,"latencyMs":{"p50":4.211,"p99":12.5,"p999":15.01,"max":15.2}},` +
		`"violations":[]}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestLatencyPercentiles(t *testing.T) {
	var l latencies
	for i := range 1000 {
		l = append(l, time.Duration(i+1)*time.Millisecond)
	}
	for percent, want := range map[float64]float64{.01: 1, 50: 500, 50.01: 501, 99: 990, 99.9: 999, 100: 1000} {
		if got := l.ms(percent); got != want {
			t.Errorf("p%v: %v ms, want %v", percent, got, want)
		}
	}
	if one, none := l[:1], l[:0]; one.ms(1) != 1 || one.ms(99) != 1 || none.ms(50) != 0 {
		t.Error("of one or none")
	}
	if mean := new(Report).Values(1).Of["mean"]; mean != 0 {
		t.Errorf("without an answer the mean is %v ms", mean)
	}
}
