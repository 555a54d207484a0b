package dashboard

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/spec"
)

func TestQuantile(t *testing.T) {
	bounds := []float64{1, 2, 4}
	none := histogram(bounds, []uint64{0, 0, 0, 0})
	h := histogram(bounds, []uint64{0, 10, 10, 0})
	for q, want := range map[float64]float64{.25: 1.5, .5: 2, .75: 3, 1: 4} {
		if got, ok := quantile(q, none, h); !ok || math.Abs(got-want) > 1e-9 {
			t.Errorf("%v: %v, %v; want %v", q, got, ok, want)
		}
	}
	if got, ok := quantile(.5, h, histogram(bounds, []uint64{10, 10, 10, 0})); !ok || got != .5 {
		t.Errorf("of the newest: %v, %v", got, ok)
	}
	if got, ok := quantile(.99, none, histogram(bounds, []uint64{0, 1, 0, 9})); !ok || got != 4 {
		t.Errorf("above the last bound: %v, %v", got, ok)
	}
	if got, ok := quantile(.5, h, h); ok {
		t.Errorf("of nothing: %v", got)
	}
}

// histogram returns a histogram with numbers of durations up to each bound, and above the last.
func histogram(bounds []float64, counts []uint64) *dto.Histogram {
	h, total := new(dto.Histogram), uint64(0)
	for i, n := range counts {
		total += n
		if i < len(bounds) {
			h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: &bounds[i], CumulativeCount: new(total)})
		}
	}
	h.SampleCount = &total
	return h
}

// told is the newest snapshot of a stage, after a second has passed.
func (s *stage) told(t *testing.T) (v struct {
	Unready, Away *trouble
	Sale          api.Sale
	About         spec.About
	Point         point
}) {
	t.Helper()
	s.now.Wall, s.now.Mono = s.now.Wall.Add(time.Second), s.now.Mono+time.Second
	of, _ := s.named(s.sale)
	_, event, _ := of.now(false)
	data, ok := strings.CutPrefix(string(event), "event: snapshot\ndata: ")
	data, end := strings.CutSuffix(data, "\n\n")
	if !ok || !end || strings.Contains(data, "\n") {
		t.Fatalf("no event: %q", event)
	}
	if err := json.Unmarshal([]byte(data), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestSnapshot holds what is told of a sale that sells, cannot be told of, and has problems.
func TestSnapshot(t *testing.T) {
	l := State{
		Sale: &api.Sale{
			SaleSummary: api.SaleSummary{Sale: "s", Phase: "open", Stock: 100, Available: 60, Held: 10, Sold: 30},
			Known:       api.Known{Shards: []api.Shard{{Shard: 0, State: api.ShardSelling, Owner: "a:1", Available: 60}}},
		},
		About:   spec.About{Description: "Tickets", Protect: true},
		Answers: map[api.Outcome]uint64{api.Sold: 30, api.LimitReached: 7},
		Took:    histogram([]float64{.001, .01}, []uint64{37, 0, 0}),
	}
	s := play("s", 1, func(int) State { return l })
	v := s.told(t)
	if !reflect.DeepEqual(v.Sale, *l.Sale) || v.About != l.About || v.Unready != nil || v.Away != nil {
		t.Errorf("%+v", v)
	}
	if p := v.Point; *p.Sold != 30 || *p.Available != 60 || len(p.Answers) != 0 || p.Answers == nil || p.P50 != nil {
		t.Errorf("in a second without a claim: %+v", p)
	}

	l.Answers = map[api.Outcome]uint64{api.Sold: 50, api.LimitReached: 7, api.NoneNow: 2}
	l.Took = histogram([]float64{.001, .01}, []uint64{37, 22, 0})
	if p := s.told(t).Point; !reflect.DeepEqual(p.Answers, map[api.Outcome]float64{api.Sold: 20, api.NoneNow: 2}) || *p.P50 != 5.5 || *p.P99 < 9.9 {
		t.Errorf("in a second with 22 claims: %v", p)
	}

	// What nobody looked at for longer is no rate of a second.
	s.now.Mono, s.now.Wall = s.now.Mono+time.Minute, s.now.Wall.Add(time.Minute)
	l.Answers = map[api.Outcome]uint64{api.Sold: 5000}
	if p := s.told(t).Point; p.Answers != nil || p.P50 != nil || *p.Sold != 30 {
		t.Errorf("after a minute: %+v", p)
	}

	l.Unready, l.Sale = "shard 3 is nobody's", &api.Sale{SaleSummary: api.SaleSummary{Sale: "s", Outcome: api.Standby}}
	since := s.now.Wall.Add(time.Second)
	for range 2 {
		if v = s.told(t); v.Away == nil || v.Away.Why != "standby" || !v.Away.Since.Equal(since) || v.Unready.Why != l.Unready || !v.Unready.Since.Equal(since) {
			t.Errorf("%+v", v)
		}
		if p := v.Point; p.Sold != nil || p.Available != nil {
			t.Errorf("of units that are not known: %+v", p)
		}
	}

	l.Unready, l.Sale = "", &api.Sale{}
	if v = s.told(t); v.Away != nil || v.Unready != nil {
		t.Errorf("%+v", v)
	}
}

// What is older than a page shows is forgotten.
func TestHistory(t *testing.T) {
	w := &watch{state: func() State { return State{Sale: &api.Sale{}} }}
	var history func() []byte
	for i := range 1900 {
		_, history = w.event(clock.Now{Wall: noon.Add(time.Duration(i) * time.Second), Mono: time.Duration(i) * time.Second})
	}
	var points []point
	data := strings.TrimPrefix(string(history()), "event: history\ndata: ")
	if err := json.Unmarshal([]byte(data), &points); err != nil {
		t.Fatal(err)
	}
	if n, first := len(points), points[0].At; n != 1801 || first != noon.Add(99*time.Second).UnixMilli() {
		t.Errorf("%d points, the first of %s", n, time.UnixMilli(first).UTC())
	}
}

// BenchmarkEvent is what it takes, once a second, to write what the pages of a sale show.
func BenchmarkEvent(b *testing.B) {
	for _, shards := range []int{5, 1024} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			l := crowd(1_024_000, shards, owners...)(100)
			w := &watch{state: func() State { return l }}
			now := clock.Now{Wall: noon, Mono: time.Hour}
			for b.Loop() {
				now.Wall, now.Mono = now.Wall.Add(time.Second), now.Mono+time.Second
				event, _ := w.event(now)
				b.ReportMetric(float64(len(event())), "bytes/event")
			}
		})
	}
}
