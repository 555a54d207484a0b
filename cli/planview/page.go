package planview

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"text/template"
	"time"

	"salectl/backends/ledger"
	"salectl/cli/terminal"
	"salectl/planner"
	"salectl/spec"
)

// Page formats plans as a comment of a merge request, in the Markdown of GitHub and
// GitLab.
type Page struct {
	title    string // "": none
	how      string // command line that prints the complete plans
	parts    []part
	troubles []string // errors that concern no single sale
	strays   []strays
}

// NewPage returns an empty page; how is the command line that prints the complete plans.
func NewPage(title, how string) *Page { return &Page{title: title, how: how} }

// Add adds the plan of a sale.
func (g *Page) Add(sale spec.Sale, plan *planner.Plan) {
	g.parts = append(g.parts, part{sale: sale, plan: plan})
}

// AddFailed adds why there is no plan of a sale, as a text.
func (g *Page) AddFailed(sale spec.Sale, why string) {
	g.parts = append(g.parts, part{sale: sale, trouble: why})
}

// AddTrouble adds the text of an error that concerns no single sale: of the files, or of the
// command line.
func (g *Page) AddTrouble(text string) { g.troubles = append(g.troubles, text) }

// AddUndeclared adds live sales of a location that no file declares.
func (g *Page) AddUndeclared(place string, sales []string) {
	g.strays = append(g.strays, strays{place, sales})
}

// strays are live sales without a file.
type strays struct {
	Place      string
	Undeclared []string
}

// part is the result for one sale: a plan, or why there is none.
type part struct {
	sale spec.Sale
	plan *planner.Plan
	// trouble is why there is no plan.
	trouble string
}

// marker returns an invisible line that identifies the comment for a pipeline.
func (g *Page) marker() string {
	if g.title == "" {
		return "<!-- salectl plan -->\n"
	}
	return "<!-- salectl plan: " + g.title + " -->\n"
}

// pageText is the template of the sections of the page.
//
//go:embed plan.md.tmpl
var pageText string

var planTemplate = template.Must(template.New("").Funcs(template.FuncMap{
	"code": mdCode, "fence": mdFence, "join": strings.Join, "nothingToDo": NothingToDo, "phase": mdPhase,
	"count": spec.Count[int64], "grouped": spec.Grouped[int64], "minus": func(a, b int64) int64 { return a - b },
	"equal": reflect.DeepEqual, "holdFor": holdFor, "holdTerms": holdTerms, "declared": declared, "hour": planner.TimeText,
	"digest": func(d ledger.Hash) string { return mdCode(d.String()[:12]) },
}).Parse(pageText))

// executed returns the section that a template writes of data.
func executed(name string, data any) string {
	var b strings.Builder
	if err := planTemplate.ExecuteTemplate(&b, name, data); err != nil {
		panic(err) // the template does not fit its data
	}
	return b.String()
}

// Text returns the page, of at most most characters.
func (g *Page) Text(most int) string {
	var sections []mdSection
	section := func(sale string, write func(most int) string) {
		sections = append(sections, mdSection{sale, write})
	}
	if len(g.troubles) > 0 {
		section("", g.troublesText)
	}
	if len(g.parts) > 1 {
		section("", g.overview)
	}
	foot := ""
	for _, part := range g.parts {
		switch {
		case part.trouble != "" || !part.plan.Empty() || len(part.plan.Warnings) > 0:
			section(part.sale.Name, part.text)
		case len(g.parts) == 1:
			section("", func(int) string { return NothingToDo(part.plan) + "\n\n" })
		}
		if part.trouble == "" && !part.plan.Empty() {
			foot = "Claims do not affect a plan. Any other change of a sale makes its plan stale: apply and destroy then refuse it with exit code 5 and change nothing.\n"
		}
	}
	for _, u := range g.strays {
		section("", func(most int) string {
			var names []string
			for _, name := range u.Undeclared {
				names = append(names, "- "+mdCode(name))
			}
			return executed("strays", strays{Place: u.Place, Undeclared: mdCut(names, max(most, mdFew), "- and %s", "sale")})
		})
	}
	how := mdCode(g.how)
	if len(how) > mdTail/4 {
		how = "The command without `--markdown`"
	}
	return mdPage(g.marker()+"## "+g.heading()+"\n\n", sections, foot, most, how)
}

// troublesText describes the errors that concern no single sale.
func (g *Page) troublesText(most int) string {
	few := max(most, mdFew)
	var texts [][]string
	for _, text := range g.troubles[:min(len(g.troubles), few)] {
		texts = append(texts, troubleLines(text, few))
	}
	return executed("troubles", texts)
}

// heading summarizes the plans of all sales in a line.
func (g *Page) heading() string {
	what := "Plan"
	if g.title != "" {
		what += " of " + mdCode(g.title)
	}
	var fresh, changes, ends, failed int
	for _, part := range g.parts {
		switch {
		case part.trouble != "":
			failed++
		case part.plan.Empty():
		case part.plan.Kind == planner.KindDestroy:
			ends++
		case part.plan.Phase == "":
			fresh++
		default:
			changes++
		}
	}
	var words []string
	some := func(n int, one, more string) {
		switch {
		case n == 1:
			words = append(words, "1 sale "+one)
		case n > 1:
			words = append(words, spec.Count(n, "sale")+" "+more)
		}
	}
	some(fresh, "is new", "are new")
	some(changes, "changes", "change")
	some(ends, "is destroyed", "are destroyed")
	some(failed, "cannot be planned", "cannot be planned")
	switch {
	case len(g.troubles) > 0:
		return what + ": not all can be made"
	case len(words) == 0:
		return what + ": no changes"
	}
	return what + ": " + strings.Join(words, ", ")
}

// overview returns a table with a row for each sale.
func (g *Page) overview(most int) string {
	var rows [][]string
	for _, part := range g.parts {
		rows = append(rows, []string{mdCode(part.sale.Name), part.outcome()})
	}
	return executed("lines", mdTable(max(most, mdFew), "sale", []string{"sale", "plan"}, rows))
}

// outcome summarizes a plan in a few words.
func (part part) outcome() string {
	if part.trouble != "" {
		return "**none can be made**"
	}
	switch plan := part.plan; {
	case plan.Empty():
		return "no changes"
	case plan.Kind == planner.KindDestroy:
		return "destroyed, after an export"
	case plan.Phase == "":
		return "new"
	default:
		return fmt.Sprintf("changed, to generation %d", plan.Generation)
	}
}

// planSection is the section of one sale. Its lists are lines of Markdown.
type planSection struct {
	Sale   spec.Sale
	Plan   *planner.Plan // nil: there is none, see Trouble
	Labels []string
	// Noticed is what buyers notice.
	Noticed string

	Trouble, Facts, Warnings, Resources []string
}

// text returns the section of the sale, with lists of at most most lines. Without lines for
// them it omits the resources alone.
func (part part) text(most int) string {
	few := max(most, mdFew)
	s := planSection{Sale: part.sale, Plan: part.plan}
	if plan := part.plan; plan == nil {
		s.Trouble = troubleLines(part.trouble, few)
	} else {
		s.Sale.Name, s.Sale.Labels = plan.Sale, plan.Labels
		s.Noticed = noticed(plan)
		s.Facts = facts(plan, few)
		for _, w := range plan.Warnings {
			s.Warnings = append(s.Warnings, mdLines("! "+w)...)
		}
		s.Warnings = mdCut(s.Warnings, few, "… and %s", "line")
		if most > 0 {
			var actions strings.Builder
			writeActions(&actions, terminal.Palette(false), plan.Actions, false)
			s.Resources = mdCut(mdLines(actions.String()), most, "… and %s", "line")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Sale.Labels)) {
		s.Labels = append(s.Labels, mdCode(key+"="+s.Sale.Labels[key]))
	}
	const mostLabels = 10
	if more := len(s.Labels) - mostLabels; more > 0 {
		s.Labels = append(s.Labels[:mostLabels], fmt.Sprintf("and %d more", more))
	}
	return executed("sale", s)
}

// noticed describes what buyers notice of a plan, as a list.
func noticed(plan *planner.Plan) string {
	for _, a := range plan.Actions {
		if strings.HasPrefix(a.Address, "sale/") {
			return cmp.Or(executed("noticed", a), "- Nothing.\n")
		}
	}
	if plan.Kind == planner.KindDestroy {
		return "- Nothing: the sale has ended, and its remains are deleted.\n"
	}
	return fmt.Sprintf("- The declaration of generation %d comes into force on the remaining shards.\n", plan.Generation)
}

// mdPhase formats a phase in a sentence. A saved plan may have any text as its phase.
func mdPhase(phase string) string {
	if phase == "" || strings.Trim(phase, "abcdefghijklmnopqrstuvwxyz") != "" {
		return mdCode(phase)
	}
	return phase
}

// declared returns the declaration in attributes. A saved plan may have none.
func declared(a *planner.Attributes) spec.Sale {
	return *cmp.Or(cmp.Or(a, new(planner.Attributes)).Sale, new(spec.Sale))
}

// holdFor returns the time for which claims are held, as in a plan.
func holdFor(p *spec.Payment) string { return spec.FormatTerm(time.Duration(p.HoldFor)) }

// holdTerms returns a payment with the options of its holds alone.
func holdTerms(p *spec.Payment) spec.Payment {
	if p == nil {
		return spec.Payment{}
	}
	terms := *p
	terms.UnpaidPerUser, terms.Check, terms.Webhook = 0, nil, nil
	return terms
}

// factLabels are labels for the attributes that identify a sale to people.
var factLabels = map[string]string{
	"stock": "Units", "lockCount": "Shards", "perUserLimit": "Units a user may have", "opensAt": "Opens at", "closesAt": "Closes at",
	"phase": "Phase", "spec.phase": "Phase that the file declares", "run": "Run", "protect": "Protected", "lock.ttl": "Time to live of a lease",
	"payment.holdFor": "A claim is held for", "sold": "Sold", "held": "Held", "available": "Available", "inFlight": "Between shards",
	"entries": "Entries", "shards unread": "Shards that cannot be read", "granted": "Granted", "refund": "To be given back", "claims": "Claims",
}

// facts returns a table of the changes of the sale and of the units of its shards; nil: none.
func facts(plan *planner.Plan, most int) []string {
	var rows [][]string
	row := func(label string, f planner.Field) {
		if named := factLabels[f.Name]; label == "" && named != "" {
			label = named
		} else if label == "" {
			label = mdCode(f.Name)
		}
		rows = append(rows, []string{label, mdCode(f.Before), mdCode(f.After)})
	}
	var was, is []string // limits of shards
	changed := false
	for _, a := range plan.Actions {
		if !strings.HasPrefix(a.Address, "sale/") {
			for _, f := range a.Fields() {
				if f.Name == "limit" && a.Action != planner.Delete {
					was, is = append(was, f.Before), append(is, f.After)
				}
			}
			continue
		}
		changed = a.Action == planner.Update
		for _, f := range shownFields(a) {
			if f.Name != "generation" { // the line above contains it
				row("", f)
			}
		}
	}
	if len(is) > 0 {
		row("Units of a shard", planner.Field{Before: tally(was, len(was)), After: tally(is, len(is))})
	}
	if len(rows) == 0 {
		return nil
	}
	head := []string{"what", "now", "then"}
	if !changed {
		// A new sale has no state before the plan, and a destroyed one none after it.
		if head = []string{"what", "declared"}; plan.Kind == planner.KindDestroy {
			head[1] = "when the plan was made"
		}
		for i := range rows {
			rows[i] = []string{rows[i][0], rows[i][2]}
		}
	}
	return mdTable(most, "attribute", head, rows)
}

// troubleLines returns at most most lines of the text of an error.
func troubleLines(text string, most int) []string {
	return mdCut(mdLines(text), most, "… and %s", "line")
}
