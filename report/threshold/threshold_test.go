package threshold

import (
	"strings"
	"testing"
)

var metrics = Metrics{Latency: true, All: []Metric{
	{Name: "max", Unit: Duration}, {Name: "rate", Unit: Rate}, {Name: "requests"},
	{Name: "errors", Of: "requests"}, {Name: "sold", Of: "stock"}, {Name: "inversions"},
}}

var values = Values{
	Of:      map[string]float64{"max": 61.5, "rate": 21455.3, "requests": 2000, "errors": 3, "sold": 100, "stock": 100},
	Latency: func(percent float64) float64 { return percent / 10 },
}

func TestThresholds(t *testing.T) {
	for text, want := range map[string]string{
		"p99<50ms":        "ok 9.9ms",
		"p99<9.9ms":       "failed 9.9ms",
		"p99 <= 9900us":   "ok 9.9ms",
		"p99.9>1s":        "failed 9.99ms",
		"p50 != 5ms":      "failed 5ms",
		"max<1m":          "ok 61.5ms",
		"max>61ms":        "ok 61.5ms",
		"max<1ns":         "failed 61.5ms",
		"max<1h0m1.5s":    "ok 61.5ms",
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
		"":                 `character 1: "" is not measured; the names are p50, p90, p99, p99.9, max, rate,`,
		"<5ms":             `character 1: "" is not measured`,
		"erors<5":          `character 1: "erors" is not measured; did you mean errors?`,
		"latency<5ms":      `character 1: "latency" is not measured; the names are p50,`,
		"p999<5ms":         `character 1: "p999" is not measured; did you mean p99`,
		"p0<5ms":           `character 1: "p0" is not measured`,
		"pNaN<5ms":         `character 1: "pNaN" is not measured`,
		"p99":              "character 4: a comparison belongs here: one of <, <=, >, >=, == and !=",
		"p99=5ms":          "character 4: a comparison belongs here",
		"p99 ~ 5ms":        "character 5: a comparison belongs here",
		"p99<":             `character 5: "" is no bound of p99: write a time with its unit (ns, us, ms, s, m or h), as in p99<50ms`,
		"p99<fast":         `character 5: "fast" is no bound`,
		"p99<-5ms":         `character 5: "-5ms" is no bound`,
		"p99<1.2.3ms":      `character 5: "1.2.3ms" is no bound`,
		"p99<50":           `character 5: "50" is no bound of p99: write a time with its unit`,
		"p99<50 days":      `character 5: "50days" is no bound`,
		"p99<50%":          `character 5: "50%" is no bound`,
		"rate>10k":         `character 6: "10k" is no bound of rate: write a number, as in rate>10000`,
		"sold==100ms":      `character 7: "100ms" is no bound of sold: write a number or a share of stock, as in sold==100 or sold<5%`,
		"inversions<1%":    `character 12: "1%" is no bound of inversions: write a number`,
		"requests>10,000":  `character 10: "10,000" is no bound`,
		"sold==1,errors<1": `character 7: "1,errors<1" is no bound of sold: write a number or a share of stock, as in sold==100 or sold<5%; a threshold is one such condition`,
		"p99<5ms && sold":  `character 5: "5ms && sold" is no bound`,
		"é<1":              `character 1: "é" is not measured`,
		"sold==1 é":        `character 7: "1é" is no bound`,
		"sold\n==\n1\nms":  `character 9: "1ms" is no bound`,
	} {
		_, err := metrics.Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "threshold ") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestMilliseconds(t *testing.T) {
	for ms, want := range map[float64]string{0: "0s", .0421: "42.1µs", 1: "1ms", 12.34: "12.3ms", 234.5: "235ms", 1500: "1.5s", 83_000: "1m23s", 3_725_000: "1h2m10s"} {
		if got := Milliseconds(ms).String(); got != want {
			t.Errorf("%v: %s, want %s", ms, got, want)
		}
	}
}
