package threshold

import (
	"strings"
	"testing"
)

var metrics = Metrics{Latency: true, All: []Metric{
	{Name: "max", Kind: Duration}, {Name: "rate", Kind: Rate}, {Name: "requests"},
	{Name: "errors", Of: "requests"}, {Name: "sold", Of: "stock"}, {Name: "inversions"},
}}

var values = Values{
	Of:      map[string]float64{"max": 61.5, "rate": 21455.3, "requests": 2000, "errors": 3, "sold": 100, "stock": 100},
	Latency: func(percent float64) float64 { return percent / 10 },
}

func TestThresholds(t *testing.T) {
	for text, want := range map[string]string{
		"p99<50ms":        "ok 9.90 ms",
		"p99<9.9ms":       "failed 9.90 ms",
		"p99 <= 9900us":   "ok 9.90 ms",
		"p99.9>1s":        "failed 9.99 ms",
		"p50 != 5ms":      "failed 5.00 ms",
		"max<1m":          "ok 61.5 ms",
		"max>61ms":        "ok 61.5 ms",
		"max<1ns":         "failed 61.5 ms",
		"max<1h0m1.5s":    "ok 61.5 ms",
		"rate>10000":      "ok 21455.3/s",
		"rate>=30000/s":   "failed 21455.3/s",
		" sold == 100 ":   "ok 100",
		"sold>=99.5%":     "ok 100%",
		"errors<0.1%":     "failed 0.15%",
		"errors<0.2 %":    "ok 0.15%",
		"errors==0":       "failed 3",
		"inversions<10":   "ok 0", // nothing was measured
		"requests>1999.5": "ok 2000",
	} {
		one, err := metrics.Parse(text)
		if err != nil {
			t.Error(err)
			continue
		}
		r := one.Check(values)
		got := map[bool]string{true: "ok ", false: "failed "}[r.OK] + r.Value()
		if got != want || r.Threshold != strings.TrimSpace(text) {
			t.Errorf("%s: %s of %q, want %s", text, got, r.Threshold, want)
		}
	}
}

func TestEveryThresholdIsChecked(t *testing.T) {
	var all []Threshold
	for _, text := range []string{"p99<1ns", "sold==100", "errors==0"} {
		one, err := metrics.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	results, ok := CheckAll(all, values)
	if ok || len(results) != 3 || results[0].OK || !results[1].OK || results[2].OK {
		t.Errorf("%v, %+v", ok, results)
	}
	if results, ok := CheckAll(nil, values); !ok || results != nil {
		t.Errorf("of none: %v, %+v", ok, results)
	}
}

func TestBadThresholds(t *testing.T) {
	for text, want := range map[string]string{
		"":                 "character 1: it begins with the name of what is measured, as in p99<50ms; the names are p50, p90, p99, p99.9, max, rate,",
		"<5ms":             "character 1: it begins with the name",
		"erors<5":          `character 1: "erors" is not measured; did you mean errors?`,
		"latency<5ms":      `character 1: "latency" is not measured; the names are p50,`,
		"p999<5ms":         "character 1: there is no percentile p999: they are above 0 and at most 100, as in p99.9",
		"p0<5ms":           "there is no percentile p0",
		"pNaN<5ms":         "there is no percentile pNaN",
		"p99":              "character 4: a comparison belongs here: one of <, <=, >, >=, == and !=",
		"p99=5ms":          "character 4: write == to ask for equality",
		"p99 ~ 5ms":        "character 5: a comparison belongs here",
		"p99<":             "character 5: a number belongs here, as in p99<50ms",
		"p99<fast":         "character 5: a number belongs here",
		"p99<-5ms":         "character 5: a number belongs here",
		"p99<1.2.3ms":      "character 5: a number belongs here",
		"p99<50":           "character 7: p99 is a time, whose unit is missing: ns, us, ms, s, m or h, as in p99<50ms",
		"p99<50 days":      `character 8: "days" is no unit of time`,
		"p99<50%":          "character 7: p99 is no share of anything; write it as in p99<50ms",
		"rate>10k":         `character 8: rate has no unit or /s, and not "k"`,
		"sold==100ms":      `character 10: sold has no unit or % of stock, and not "ms"`,
		"inversions<1%":    "character 13: inversions is no share of anything; write it as in inversions==100",
		"requests>10,000":  "character 12: write the number without commas",
		"sold==1,errors<1": "character 8: a threshold is one condition; give --threshold again for another one",
		"p99<5ms && sold":  "character 9: a threshold is one condition",
		"é<1":              `character 1: "é" is not measured`,
		"sold==1 é":        `character 9: sold has no unit`,
	} {
		_, err := metrics.Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "threshold ") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestMilliseconds(t *testing.T) {
	for ms, want := range map[float64]string{0: "0 ms", .0421: "42.1 µs", 1: "1.00 ms", 12.34: "12.3 ms", 234.5: "234 ms", 1500: "1.50 s", 83_000: "1 min 23 s"} {
		if got := Milliseconds(ms); got != want {
			t.Errorf("%v: %s, want %s", ms, got, want)
		}
	}
}
