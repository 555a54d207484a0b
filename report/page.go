// Package report writes what came of a rehearsal or a sale as one HTML file: units and claims
// over time, latency, outcomes, who got the units, and what the audit says. The file loads
// nothing and has no script; its policy forbids both. It is for a person, and its form may
// change: programs read what --json prints.
//
// What is shown over time is cut into bins that fit the time that the sale took: of one that
// lasts two seconds they are 20 ms wide, of one of two hours a minute. Each chart has its
// numbers in a table beside it.
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

// Page is all that a report tells of.
type Page struct {
	Sale    spec.Sale // as declared
	Backend string
	Audit   *audit.Report
	Ledger  *Ledger // as the audit has read it

	// Rehearsal is what the crowd saw; nil: it is the report of a sale, and of who was
	// refused it knows nothing, since no ledger does.
	Rehearsal   *rehearse.Report
	Concurrency int    // of the rehearsal
	Seed        uint64 // of the rehearsal

	Thresholds []threshold.Result
	At         time.Time // when it is written
	Version    string    // of the program
}

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

var page = template.Must(template.New("page").Parse(pageHTML))

// Write writes the page. Its size does not depend on how many claims there are.
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

// view is the page as its template takes it.
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

// section is a part of the page under one heading.
type section struct {
	ID, Title string
	Says      []string // paragraphs
	Facts     []fact
	Table     *table
	Problems  []string
	Figures   []figure
	Notes     []string // paragraphs at the end
}

// figure is a chart with its numbers.
type figure struct {
	Says   string
	Legend []series
	SVG    template.HTML
	Table  *table
}

// table is rows of cells. A column whose name begins with > has numbers.
type table struct {
	Name string
	Head []column
	Rows [][]cell
}

type column struct {
	Name  string
	Right bool
}

type cell struct{ Text, Class string }

func newTable(name string, head ...string) *table {
	t := &table{Name: name}
	for _, h := range head {
		bare, right := strings.CutPrefix(h, ">")
		t.Head = append(t.Head, column{bare, right})
	}
	return t
}

// row adds a row. Whole numbers are grouped.
func (t *table) row(cells ...any) {
	var row []cell
	for i, c := range cells {
		one := cell{Text: fmt.Sprint(c)}
		switch v := c.(type) {
		case int:
			one.Text = spec.Grouped(v)
		case int64:
			one.Text = spec.Grouped(v)
		case bool:
			one = cell{"ok", "good"}
			if !v {
				one = cell{"failed", "bad"}
			}
		}
		if t.Head[i].Right {
			one.Class = "n"
		}
		row = append(row, one)
	}
	t.Rows = append(t.Rows, row)
}

// verdict says in words how it went.
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

// sentence makes words one.
func sentence(words string) string { return strings.ToUpper(words[:1]) + words[1:] + "." }

// tiles are the figures that people ask for first.
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

// facts say which sale it is, and how it is declared.
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

// afterOpening says how long after its opening a sale had its first claim.
func afterOpening(begin time.Time, opensAtUs int64) string {
	if opensAtUs == 0 {
		return ""
	}
	return fmt.Sprintf(", %s after it opened", lasting(begin.Sub(time.UnixMicro(opensAtUs))))
}

// hours are those of a sale as declared; "": it has none.
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

// clock writes a time of the day, to the millisecond if it has any.
func clock(t time.Time) string {
	t = t.UTC()
	if t.Nanosecond() >= int(time.Millisecond) {
		return t.Format("2006-01-02 15:04:05.000 UTC")
	}
	return t.Format("2006-01-02 15:04:05 UTC")
}

// lasting writes how long something took.
func lasting(d time.Duration) string {
	if d >= time.Hour {
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return threshold.Milliseconds(float64(d) / float64(time.Millisecond))
}
