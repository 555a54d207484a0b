// Package report writes the results of a rehearsal or a sale as one HTML file: units and
// claims over time, latency, outcomes, distribution of units, and the audit. The file loads
// nothing and has no script; its policy forbids both. It is for people, and its form may
// change: programs read the output of --json.
//
// Charts over time use bins that fit the duration of the sale: 20 ms for two seconds, a minute
// for two hours. Each chart has a table of its numbers.
package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"reflect"
	"strings"
	"time"

	"salectl/backends/ledger/audit"
	"salectl/executor/rehearse"
	"salectl/report/threshold"
	"salectl/spec"
)

// Page is the content of a report.
type Page struct {
	Sale    spec.Sale // as declared
	Backend string
	Audit   *audit.Report
	Ledger  *Ledger // as read by the audit

	// Rehearsal is the view of the simulated crowd; nil for a sale, whose refusals are
	// unknown, since ledgers do not record them.
	Rehearsal   *rehearse.Report
	Concurrency int    // of the rehearsal
	Seed        uint64 // of the rehearsal

	Thresholds []threshold.Result
	At         time.Time // time of writing
	Version    string    // of the program
}

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

var page = template.Must(template.New("page").Funcs(Numbers).Funcs(template.FuncMap{
	"clock": clock, "lasting": threshold.Rounded, "micros": time.UnixMicro,
}).Parse(pageHTML))

// Numbers are the functions of templates that format numbers.
var Numbers = template.FuncMap{
	"count":        func(n any, noun string) string { return spec.Count(whole(n), noun) },
	"grouped":      func(n any) string { return spec.Grouped(whole(n)) },
	"milliseconds": threshold.Milliseconds,
	"seconds":      func(s float64) time.Duration { return threshold.Milliseconds(1000 * s) },
}

// whole converts a number of any type.
func whole(n any) int64 { return reflect.ValueOf(n).Convert(reflect.TypeFor[int64]()).Int() }

// Write writes the page. Its size does not depend on the number of claims.
func (p *Page) Write(w io.Writer) error {
	sum := sha256.Sum256([]byte(pageCSS))
	a := p.Audit
	v := view{
		Page: p, Style: template.CSS(pageCSS), StyleHash: "sha256-" + base64.StdEncoding.EncodeToString(sum[:]),
		Course: p.course(), Shards: p.shards(),
		Accounted: a.Sold+a.Held+a.Available+a.InFlight == a.Stock,
	}
	v.Good, v.Verdict = p.verdict()
	p.Sale.About.Each(func(key, text string) {
		v.About = append(v.About, fact{strings.ToUpper(key[:1]) + key[1:], text})
	})
	var b bytes.Buffer
	if err := page.Execute(&b, v); err != nil {
		return fmt.Errorf("making the report: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// view is the input of the page's template.
type view struct {
	*Page
	Style     template.CSS
	StyleHash string
	Good      bool
	Verdict   string
	About     []fact
	Course    []section // course of the sale
	Shards    section
	Accounted bool // each unit is somewhere
}

type fact struct{ Name, Value string }

// verdict summarizes the result in words.
func (p *Page) verdict() (good bool, words string) {
	var wrong, right []string
	add := func(n int, noun, ifNone, ifSome string) {
		if n > 0 {
			wrong = append(wrong, fmt.Sprintf(ifSome, spec.Count(n, noun)))
		} else {
			right = append(right, ifNone)
		}
	}
	if r := p.Rehearsal; r != nil {
		add(len(r.Violations), "broken promise", "buyers saw no promise broken", "buyers saw %s")
	}
	add(len(p.Audit.Problems), "problem", "the audit found each unit in one place and nobody beyond the limit", "the audit found %s")
	if n := len(p.Thresholds); n > 0 {
		failed := 0
		for _, t := range p.Thresholds {
			if !t.OK {
				failed++
			}
		}
		kept := fmt.Sprintf("all %d thresholds are kept", n)
		if n == 1 {
			kept = "the threshold is kept"
		}
		add(failed, "threshold", kept, "%s of "+fmt.Sprint(n)+" failed")
	}
	var sentences []string
	for _, found := range [][]string{wrong, right} {
		if words := strings.Join(found, "; "); words != "" {
			sentences = append(sentences, strings.ToUpper(words[:1])+words[1:]+".")
		}
	}
	return len(wrong) == 0, strings.Join(sentences, " ")
}
