package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// recorded is what a test program has printed.
const recorded = `goos: linux
goarch: amd64
pkg: salectl/executor
cpu: AMD EPYC
BenchmarkClaims/callers=200-2         	  150000	     15051 ns/op	        29.74 claims/append	     66443 claims/s	      4410 cpu-ns/claim	    177985 raw-claims/s
PASS
`

func TestParse(t *testing.T) {
	r, err := parse([]byte(recorded), "recorded")
	if err != nil || len(r) != 5 || r["claims/s"] != 66443 || r["cpu-ns/claim"] != 4410 || r["ns/op"] != 15051 {
		t.Errorf("got %v, %v", r, err)
	}
	if r, err := parse([]byte("PASS\n"), "none"); r != nil || err != nil {
		t.Errorf("of a program without the benchmark: got %v, %v", r, err)
	}
	for name, out := range map[string]string{
		"two results":    recorded + strings.Replace(recorded, "=200", "=2000", 1),
		"a broken line":  "BenchmarkClaims-2 150000 many ns/op\n",
		"no measurement": "BenchmarkClaims-2 150000\n",
	} {
		if r, err := parse([]byte(out), name); err == nil {
			t.Errorf("%s: got %v", name, r)
		}
	}
}

func TestOnlyTheNamedBenchmarkRuns(t *testing.T) {
	if got, want := exactly("Claims/callers=200"), "^BenchmarkClaims$/^callers=200$"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// of returns ten ratios around a middle, a tenth of it apart at most, but for one that
// another program has disturbed.
func of(middle float64) []float64 {
	all := []float64{0.1}
	for i := range 9 {
		all = append(all, middle*(0.96+0.01*float64(i)))
	}
	return all
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		ratios []float64
		want   string
	}{
		{of(1), ""},
		{of(0.95), ""},     // the interval reaches from 0.91 to 0.98
		{of(0.93), "LOSS"}, // to 0.958
		{of(0.5), "LOSS"},
		{of(1.02), ""},
		{of(1.2), "gain"},
	} {
		s := (&line{ratios: c.ratios}).summary()
		if got := verdict(s, 0.03); got != c.want {
			t.Errorf("%v: %.3f in %.3f to %.3f: got %q, want %q", c.ratios, s.Center, s.Lo, s.Hi, got, c.want)
		}
	}
}

// Whichever way is better, a ratio below 1 means that the working tree is worse.
func TestRatios(t *testing.T) {
	b := benchmark{name: "B", figures: []figure{{"claims/s", higher}, {"ns/claim", lower}}}
	p := newPairs([]benchmark{b})
	if err := p.add(b, result{"claims/s": 100, "ns/claim": 10}, result{"claims/s": 50, "ns/claim": 20}); err != nil {
		t.Fatal(err)
	}
	for _, l := range p.lines {
		if l.ratios[0] != 0.5 {
			t.Errorf("%s: got %v, want 0.5", l.figure.unit, l.ratios[0])
		}
	}
	if err := p.add(b, result{"claims/s": 100, "ns/claim": 10}, result{"claims/s": 50}); err == nil {
		t.Error("a figure that the working tree no longer reports is not compared, and is not reported")
	}
}

// repository is a git repository, some of whose benchmarks report other rates in the
// working tree than in its commit. They are no measurements.
func repository(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("go.mod", "module shop\n\ngo 1.26\n")
	if err := os.Mkdir(filepath.Join(folder, "sale"), 0o755); err != nil {
		t.Fatal(err)
	}
	const benchmarks = `package sale

import "testing"

func BenchmarkClaims(b *testing.B) {
	b.Run("same", func(b *testing.B) { b.ReportMetric(1000, "claims/s") })
	b.Run("same-and-more", func(b *testing.B) { b.Fatal("not requested") })
	b.Run("slower", func(b *testing.B) { b.ReportMetric(1000, "claims/s") })
	b.Run("faster", func(b *testing.B) { b.ReportMetric(1000, "claims/s") })
	b.Run("broken", func(b *testing.B) {})
}
`
	put("sale/bench_test.go", benchmarks)
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "Benchmarks"}} {
		if out, err := command(t.Context(), folder, "git", args...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	put("sale/bench_test.go", strings.NewReplacer(
		`"slower", func(b *testing.B) { b.ReportMetric(1000`, `"slower", func(b *testing.B) { b.ReportMetric(900`,
		`"faster", func(b *testing.B) { b.ReportMetric(1000`, `"faster", func(b *testing.B) { b.ReportMetric(5, "new/s"); b.ReportMetric(1100`,
		`"broken", func(b *testing.B) {`, `"broken", func(b *testing.B) { b.Fatal("out of order")`,
	).Replace(benchmarks))
	if err := os.Mkdir(filepath.Join(folder, "market"), 0o755); err != nil {
		t.Fatal(err)
	}
	put("market/bench_test.go", benchmarks)
	return folder
}

func TestCompare(t *testing.T) {
	folder := repository(t)
	compare := func(only string, list ...benchmark) (string, error) {
		t.Helper()
		var out strings.Builder
		err := run(t.Context(), options{base: "HEAD", rounds: leastRounds, threshold: 0.03, only: regexp.MustCompile(only)}, folder, list, &out)
		if left, why := command(t.Context(), folder, "git", "worktree", "list"); why != nil || strings.Count(string(left), "\n") != 1 {
			t.Errorf("worktrees are left: %s, %v", left, why)
		}
		return out.String(), err
	}
	claims := func(which string, more ...figure) benchmark {
		return benchmark{pkg: "sale", name: "Claims/" + which, times: "3x", figures: append([]figure{{"claims/s", higher}}, more...)}
	}
	all := []benchmark{claims("same"), claims("slower"), claims("faster", figure{"new/s", higher})}
	out, err := compare("", all...)
	if !errors.Is(err, errLoss) {
		t.Errorf("with one that is slower: got %v", err)
	}
	for _, want := range []string{
		`Claims/same +claims/s +1000 +1000 +1\.000 +1\.000–1\.000 *\n`,
		`Claims/slower +claims/s +1000 +900 +0\.900 +0\.900–0\.900 +LOSS\n`,
		`Claims/faster +claims/s +1000 +1100 +1\.100 +1\.100–1\.100 +gain\n`,
		`Claims/faster +new/s +the commit does not report it *\n`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("want %s in\n%s", want, out)
		}
	}
	if out, err := compare("same|faster", all...); err != nil {
		t.Errorf("with none that is slower: got %v\n%s", err, out)
	}
	if out, err := compare("", claims("same", figure{"gone/s", higher})); err == nil || errors.Is(err, errLoss) {
		t.Errorf("with a figure that the working tree does not report: got %v\n%s", err, out)
	}
	if out, err := compare("", benchmark{pkg: "sale", name: "Claims/faster", times: "3x", figures: []figure{{"new/s", higher}}}); err == nil || errors.Is(err, errLoss) {
		t.Errorf("with nothing that the commit reports: got %v\n%s", err, out)
	}
	moved := claims("same")
	moved.pkg, moved.former = "market", "sale"
	if out, err := compare("", moved); err != nil || !strings.Contains(out, "Claims/same ") {
		t.Errorf("with a benchmark of a folder that has moved: got %v\n%s", err, out)
	}
	if out, err := compare("", claims("broken")); err == nil || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("with one that fails: got %v\n%s", err, out)
	}
}
