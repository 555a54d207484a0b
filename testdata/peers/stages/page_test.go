package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

// measured are two columns, each of three rounds, of which the second is the median.
func measured() []*column {
	var columns []*column
	for _, of := range []string{onHBase, overHTTP} {
		c := &column{of: of, callers: 2000, divided: newDivider()}
		for _, round := range []float64{9, 2, 1} {
			r := reading{used: time.Duration(round * 1000 * float64(time.Microsecond)), servers: 3 * time.Millisecond, kernel: map[string]int64{allCalls: int64(round * 100)}}
			r.profile = profileOf([]string{"salectl/backends/ledger.(*table).find", decide}, []string{"salectl/executor/process.(*Admission).admit"},
				[]string{"salectl/executor.(*Executor).do"}, []string{pager}, []string{decide}, []string{decide})
			c.add(observation{reading: r, sold: 1000, rate: 1234.5 * round, batch: 10, appends: 100 * round, append: time.Duration(round * float64(time.Millisecond))})
		}
		columns = append(columns, c)
	}
	return columns
}

func TestMarkdown(t *testing.T) {
	b := &bench{raw: limits{sockets: []float64{1, 2.34, 5}, echo: []float64{30}, ping: []float64{77.7}}}
	got := markdown(options{rounds: 3, each: 2 * time.Second}, b, measured())
	for _, want := range []string{
		"| stage | HBase: 2,000 | HTTP, embedded: 2,000 |\n|---|---|---|\n",
		"| deciding | **1.14** | **1.14** |\n", // 12 of 21 samples of 2 µs
		"| answering | **0.29** | **0.29** |\n",
		"| admission, into the queue | 0.19 | 0.19 |\n",
		"| store, its code | **0.38** | **0.38** |\n",
		"| rest | – | – |\n",
		"| in all | 2.00 | 2.00 |\n",
		"into stages by 63 or more samples",
		"| claims a second | 2,470 | 2,470 |\n",
		"| system calls | 0.2 | 0.2 |\n",
		"| % of the processor time that samples account for | 5,200 | 5,200 |\n",
		"| µs in the ledger's hash tables | 0.095 | 0.095 |\n",
		"| µs of the processes of HBase and Redis | 3 | – |\n",
		"| raw appends of such commits × claims in one, a second | 2,000 | – |\n",
		"| µs of a raw append ÷ claims in a commit | 200 | – |\n",
		"take 2.3 µs", "takes 30 µs", "after 78 µs",
		"Misses of the processor's caches are not counted",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "misses of the caches |") || strings.Contains(got, "System calls are not counted") {
		t.Errorf("the counts of the kernel are wrong:\n%s", got)
	}
}

func TestGrid(t *testing.T) {
	var text strings.Builder
	grid(&text, measured())
	if want := "1.14  57%"; !strings.Contains(text.String(), want) {
		t.Errorf("want %q in\n%s", want, text.String())
	}
}

// The page has the place for the tables.
func TestPageHasThePlace(t *testing.T) {
	page, err := os.ReadFile("../stages.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := made.Replace(page, ""); err != nil {
		t.Error(err)
	}
}
