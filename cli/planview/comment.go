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
	Title      string // "": none
	How        string // command line that prints the complete plans
	Parts      []Part
	Errors     []string // errors that concern no single sale: of the files, or of the command line
	Undeclared []UndeclaredSales
}

// Part is the result for one sale: a plan, or the error of planning it.
type Part struct {
	Sale     spec.Sale
	Plan     *planner.Plan
	Warnings []string // of the plan, with complete commands
	Error    string   // why no plan can be made
}

// UndeclaredSales are the live sales at a location that no file declares.
type UndeclaredSales struct {
	Place      string   `json:"place"`
	Undeclared []string `json:"undeclared"` // names, sorted
}

// Changes reports whether some plan has changes.
func (g *Page) Changes() bool {
	return slices.ContainsFunc(g.Parts, func(p Part) bool { return p.Plan != nil && !p.Plan.Empty() })
}

// marker returns an invisible line that identifies the comment for a pipeline.
func (g *Page) marker() string {
	if g.Title == "" {
		return "<!-- salectl plan -->\n"
	}
	return "<!-- salectl plan: " + g.Title + " -->\n"
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

// executed returns the output of a template for data.
func executed(name string, data any) string {
	var b strings.Builder
	if err := planTemplate.ExecuteTemplate(&b, name, data); err != nil {
		panic(err) // the template does not fit its data
	}
	return b.String()
}

// Text returns the page, of at most maxCharacters.
func (g *Page) Text() string {
	foot := ""
	if g.Changes() {
		foot = "Claims do not affect a plan. Any other change of a sale makes its plan stale: apply and destroy then refuse it with exit code 5 and change nothing.\n"
	}
	how := mdCode(g.How)
	if len(how) > mdTail/4 {
		how = "The command without `--markdown`"
	}
	return mdPage(g.marker()+"## "+g.heading()+"\n\n", g.sections, foot, how)
}

// sections returns the sections of the page, with lists of at most lines lines.
func (g *Page) sections(lines int) (all []mdSection) {
	few := max(lines, mdShortList)
	if len(g.Errors) > 0 {
		all = append(all, mdSection{text: executed("text", errorLines(strings.Join(g.Errors, "\n"), few))})
	}
	if len(g.Parts) > 1 {
		var rows []string
		for _, part := range g.Parts {
			rows = append(rows, fmt.Sprintf("| %s | %s |", mdCode(part.Sale.Name), part.outcome()))
		}
		all = append(all, mdSection{text: executed("overview", mdCut(rows, few, "\n… and %s.", "sale"))})
	}
	for _, part := range g.Parts {
		switch {
		case part.Plan == nil || !part.Plan.Empty() || len(part.Plan.Warnings) > 0:
			all = append(all, mdSection{part.Sale.Name, part.text(lines)})
		case len(g.Parts) == 1:
			all = append(all, mdSection{text: NothingToDo(part.Plan) + "\n\n"})
		}
	}
	for _, u := range g.Undeclared {
		var names []string
		for _, name := range u.Undeclared {
			names = append(names, "- "+mdCode(name))
		}
		all = append(all, mdSection{text: executed("undeclared", UndeclaredSales{u.Place, mdCut(names, few, "- and %s", "sale")})})
	}
	return all
}

// heading returns the title of the page, with the number of sales by outcome.
func (g *Page) heading() string {
	what := "Plan"
	if g.Title != "" {
		what += " of " + mdCode(g.Title)
	}
	if len(g.Errors) > 0 {
		return what + ": not all can be made"
	}
	times := map[string]int{}
	for _, part := range g.Parts {
		times[part.outcome()]++
	}
	var words []string
	for _, outcome := range []string{isNew, isChanged, isDestroyed, isUnplanned} {
		if n := times[outcome]; n > 0 {
			words = append(words, spec.Count(n, "sale")+" "+outcome)
		}
	}
	return what + ": " + cmp.Or(strings.Join(words, ", "), isUnchanged)
}

// Outcomes of plans, as in "2 sales to create".
const (
	isNew       = "to create"
	isChanged   = "to change"
	isDestroyed = "to destroy"
	isUnplanned = "without a plan"
	isUnchanged = "no changes"
)

// outcome returns what the plan does to the sale.
func (part Part) outcome() string {
	switch plan := part.Plan; {
	case plan == nil:
		return isUnplanned
	case plan.Empty():
		return isUnchanged
	case plan.Kind == planner.KindDestroy:
		return isDestroyed
	case plan.Phase == "":
		return isNew
	}
	return isChanged
}

// planSection is the section of one sale. Its lists are lines of Markdown.
type planSection struct {
	Sale    spec.Sale
	Plan    *planner.Plan // nil: there is none, see Error
	Labels  []string
	Noticed string // changes that buyers notice

	Error, Warnings, Resources []string
}

// text returns the section of the sale, with lists of at most lines lines.
func (part Part) text(lines int) string {
	few := max(lines, mdShortList)
	s := planSection{Sale: part.Sale, Plan: part.Plan}
	if plan := part.Plan; plan == nil {
		s.Error = errorLines(part.Error, few)
	} else {
		s.Sale.Name, s.Sale.Labels = plan.Sale, plan.Labels
		s.Noticed = noticed(plan)
		for _, w := range part.Warnings {
			s.Warnings = append(s.Warnings, mdLines("! "+w)...)
		}
		s.Warnings = mdCut(s.Warnings, few, "… and %s", "line")
		var actions strings.Builder
		writeActions(&actions, terminal.Palette(false), plan.Actions, false)
		s.Resources = mdCut(mdLines(actions.String()), lines, "… and %s", "line")
	}
	for _, key := range slices.Sorted(maps.Keys(s.Sale.Labels)) {
		s.Labels = append(s.Labels, mdCode(key+"="+s.Sale.Labels[key]))
	}
	const maxLabels = 10
	if more := len(s.Labels) - maxLabels; more > 0 {
		s.Labels = append(s.Labels[:maxLabels], fmt.Sprintf("and %d more", more))
	}
	return executed("sale", s)
}

// noticed lists the changes of a plan that buyers notice. An action of a decoded plan may lack
// attributes.
func noticed(plan *planner.Plan) string {
	for _, a := range plan.Actions {
		if strings.HasPrefix(a.Address, "sale/") {
			a.Before, a.After = cmp.Or(a.Before, new(planner.Attributes)), cmp.Or(a.After, new(planner.Attributes))
			return cmp.Or(executed("noticed", a), "- Nothing.\n")
		}
	}
	if plan.Kind == planner.KindDestroy {
		return "- Nothing: the sale has ended, and its remains are deleted.\n"
	}
	return fmt.Sprintf("- The declaration of generation %d comes into force on the remaining shards.\n", plan.Generation)
}

// mdPhase formats a phase in a sentence. A decoded plan may have any text as its phase.
func mdPhase(phase string) string {
	if phase == "" || strings.Trim(phase, "abcdefghijklmnopqrstuvwxyz") != "" {
		return mdCode(phase)
	}
	return phase
}

// declared returns the declaration in attributes, or an empty one.
func declared(a *planner.Attributes) spec.Sale { return *cmp.Or(a.Sale, new(spec.Sale)) }

// holdFor returns the time for which claims are held, as in a plan.
func holdFor(p *spec.Payment) string { return spec.FormatTerm(time.Duration(p.HoldFor)) }

// holdTerms returns a payment with the options of its holds alone.
func holdTerms(p *spec.Payment) spec.Payment {
	if p == nil {
		return spec.Payment{}
	}
	terms := p.Terms()
	terms.UnpaidPerUser = 0
	return terms
}

// errorLines returns at most limit lines of the text of an error.
func errorLines(text string, limit int) []string {
	return mdCut(mdLines(text), limit, "… and %s", "line")
}
