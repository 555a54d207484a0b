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

var page = template.Must(template.New("page").Parse(pageHTML))

// Write writes the page. Its size does not depend on the number of claims.
func (p *Page) Write(w io.Writer) error {
	sum := sha256.Sum256([]byte(pageCSS))
	v := view{
		Style: template.CSS(pageCSS), StyleHash: "sha256-" + base64.StdEncoding.EncodeToString(sum[:]),
		Version: p.Version, At: clock(p.At),
	}
	v.Good, v.Verdict = p.verdict()
	v.Tiles, v.Facts = p.tiles(), p.facts()
	v.Title = "Sale " + p.Sale.Name
	if p.Rehearsal != nil {
		v.Title = "Rehearsal of " + p.Sale.Name
	}
	v.Sections = p.sections()
	var b bytes.Buffer
	if err := page.Execute(&b, v); err != nil {
		return fmt.Errorf("making the report: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// view is the input of the page's template.
type view struct {
	Style     template.CSS
	StyleHash string
	Version   string
	At        string
	Title     string
	Good      bool
	Verdict   string
	Tiles     []fact
	Facts     []fact
	Sections  []section
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
	if len(wrong) > 0 {
		words = sentence(strings.Join(wrong, "; "))
		if len(right) > 0 {
			words += " " + sentence(strings.Join(right, "; "))
		}
		return false, words
	}
	return true, sentence(strings.Join(right, "; "))
}

// tiles returns the most important figures.
func (p *Page) tiles() []fact {
	a := p.Audit
	tiles := []fact{{fmt.Sprintf("of %s sold", spec.Count(a.Stock, "unit")), spec.Grouped(a.Sold)}}
	if a.Held > 0 {
		tiles = append(tiles, fact{"units held", spec.Grouped(a.Held)})
	}
	if m := a.Packets; m != nil {
		tiles = append(tiles, fact{fmt.Sprintf("of %s %s given", m.Total, m.Currency), m.Granted})
	}
	if r := p.Rehearsal; r != nil {
		l := r.LatencyMs
		return append(tiles,
			fact{"requests from " + spec.Count(r.Users, "buyer"), spec.Grouped(r.Requests)},
			fact{"answers a second", spec.Grouped(int64(r.ThroughputPerSecond))},
			fact{"half of the answers within", threshold.Milliseconds(l.P50)},
			fact{"99% of the answers within", threshold.Milliseconds(l.P99)},
		)
	}
	claims := "claims accepted"
	if p.Ledger.isDraw() {
		claims = "entries"
	}
	tiles = append(tiles, fact{claims, spec.Grouped(p.Ledger.Claims)}, fact{"users with units", spec.Grouped(a.Users)})
	if p.Ledger.Claims > 1 {
		tiles = append(tiles, fact{"from the first to the last", lasting(p.Ledger.took())})
	}
	return tiles
}

// facts returns the identity and the declaration of the sale.
func (p *Page) facts() (facts []fact) {
	add := func(name, value string) { facts = append(facts, fact{name, value}) }
	l, s := p.Ledger, p.Sale
	if r := p.Rehearsal; r != nil {
		add("Rehearsed on", fmt.Sprintf("%s, a throwaway copy, %s", p.Backend, clock(p.At)))
		add("Crowd", fmt.Sprintf("%s, %s at once, seed %d", spec.Count(r.Users, "buyer"), spec.Grouped(p.Concurrency), p.Seed))
		add("Took", lasting(time.Duration(r.DurationSeconds*float64(time.Second))))
	} else {
		add("Backend", p.Backend)
		add("Run", fmt.Sprintf("%s, generation %d, %s", p.Audit.UID, l.Generation, l.Phase))
		if begin := l.begin(); !begin.IsZero() {
			add("First claim", clock(begin)+afterOpening(begin, l.Settings.GetOpensAtUs()))
			add("Last claim", clock(begin.Add(l.took())))
		}
	}
	declared := fmt.Sprintf("%s in %s, at most %s a user", spec.Count(s.Stock, "unit"), spec.Count(s.LockCount, "shard"), spec.Grouped(s.PerUserLimit))
	if s.Partial {
		declared += ", partly if need be"
	}
	add("Declared", declared)
	s.About.Each(func(key, text string) { add(strings.ToUpper(key[:1])+key[1:], text) })
	if h := hours(s); h != "" {
		add("Hours", h)
	}
	var ways []string
	if s.Draw != nil {
		ways = append(ways, "a draw")
	}
	if red := s.RedPacket; red != nil {
		ways = append(ways, fmt.Sprintf("red packets of %s %s, split %s", red.Format(red.Total), red.Currency, red.Split))
	}
	if pay := s.Payment; pay != nil {
		ways = append(ways, fmt.Sprintf("held until paid: %s", rehearse.NewTerms(*pay)))
	}
	if n := len(s.Rules); n > 0 {
		ways = append(ways, spec.Count(n, "rule"))
	}
	if len(ways) > 0 {
		add("Units go", strings.Join(ways, "; "))
	}
	return facts
}

// afterOpening describes the time from the opening to the first claim.
func afterOpening(begin time.Time, opensAtUs int64) string {
	if opensAtUs == 0 {
		return ""
	}
	return fmt.Sprintf(", %s after it opened", lasting(begin.Sub(time.UnixMicro(opensAtUs))))
}

// hours describes the declared hours of a sale; "" if it has none.
func hours(s spec.Sale) string {
	var words []string
	if !s.OpensAt.IsZero() {
		words = append(words, "opens at "+clock(s.OpensAt))
	}
	if !s.ClosesAt.IsZero() {
		words = append(words, "closes at "+clock(s.ClosesAt))
	}
	return strings.Join(words, ", ")
}
