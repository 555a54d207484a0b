package cli

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"salectl/planner"
	"salectl/spec"
)

// planPage formats plans as a comment of a merge request, in the Markdown of GitHub and
// GitLab.
type planPage struct {
	title string // "": none
	how   string // command line that prints the complete plans
	parts []planPart
	// troubles are errors that concern no single sale: of the files, or of the command line.
	troubles []error
	strays   []undeclared
}

func newPlanPage(title, how string) *planPage { return &planPage{title: title, how: how} }

func (g *planPage) plan(sale spec.Sale, plan *planner.Plan) {
	g.parts = append(g.parts, planPart{sale: sale, plan: plan})
}

func (g *planPage) noPlan(sale spec.Sale, err error) {
	g.parts = append(g.parts, planPart{sale: sale, err: err})
}

// trouble adds an error; each problem of sale files is separate.
func (g *planPage) trouble(err error) {
	var seen shown
	if errors.As(err, &seen) {
		err = seen.error
	}
	g.troubles = append(g.troubles, failuresOf(err)...)
}

func (g *planPage) undeclared(u undeclared) { g.strays = append(g.strays, u) }
func (g *planPage) saved(bool)              {} // readers of the comment do not have the file

// showsAll returns the command line that prints the plans in full.
func (o planOptions) showsAll() string {
	switch {
	case o.out != "":
		return "salectl show" + o.filesGiven() + " " + quoted(o.out)
	case o.destroy:
		return "salectl plan --destroy" + o.filesGiven()
	}
	return "salectl plan" + o.filesGiven()
}

// planPart is the result for one sale: a plan, or why there is none.
type planPart struct {
	sale spec.Sale
	plan *planner.Plan
	err  error
}

// titleForm matches titles that are safe in an HTML comment.
var titleForm = regexp.MustCompile(`^[A-Za-z0-9]+([ ._/-][A-Za-z0-9]+)*$`)

// markdownFlags are the flags that select Markdown for plans.
type markdownFlags struct {
	markdown bool
	title    string
}

const (
	formatUsage = "answer as `FORMAT`: text, or markdown, which is one comment for a merge request (default: text)"
	titleUsage  = "with --format markdown: `NAME` of what is planned, to tell the comments of several pipelines apart"
)

func (f *flags) markdown() (m markdownFlags) {
	m.markdown = f.oneOf("format", "text", "markdown") == "markdown"
	m.title = f.text("title")
	switch {
	case m.markdown && f.on("json"):
		f.refuse("--json and --format markdown are two answers; ask for one")
	case m.title != "" && !m.markdown:
		f.refuse("--title is for --format markdown")
	case m.title != "" && (len(m.title) > 60 || !titleForm.MatchString(m.title)):
		f.refuse("--title must be at most 60 letters and digits of ASCII, with single blanks, dots, dashes, slashes and underscores between them, not %q", m.title)
	}
	return m
}

// marker returns an invisible line that identifies the comment for a pipeline.
func (g *planPage) marker() string {
	if g.title == "" {
		return "<!-- salectl plan -->\n"
	}
	return "<!-- salectl plan: " + g.title + " -->\n"
}

// Ranks of blocks: the highest are omitted first.
const (
	rankTop = iota
	rankSale
	rankFacts
	rankWarnings
	rankActions
)

// text returns the page, of at most most characters.
func (g *planPage) text(most int) string {
	blocks := []*mdBlock{{open: g.marker() + "## " + g.heading() + "\n\n"}}
	for _, err := range g.troubles {
		blocks = append(blocks, troubleBlock(rankTop, 0, err))
	}
	if len(g.parts) > 1 {
		blocks = append(blocks, g.overview(most/3))
	}
	changes := false
	for i, part := range g.parts {
		switch {
		case part.err != nil:
			head := &mdBlock{open: saleHead(part.sale) + "No plan can be made.\n\n", rank: rankSale, of: i + 1}
			blocks = append(blocks, head, troubleBlock(rankFacts, i+1, part.err))
		case !part.plan.Empty() || len(part.plan.Warnings) > 0:
			blocks = append(blocks, planBlocks(i+1, part.sale, part.plan)...)
			changes = changes || !part.plan.Empty()
		case len(g.parts) == 1:
			blocks = append(blocks, &mdBlock{open: nothingToDo(part.plan) + "\n\n"})
		}
	}
	for _, u := range g.strays {
		b := &mdBlock{open: fmt.Sprintf("No file here declares, and nothing here changes, of the live sales of %s:\n\n", mdCode(u.Place)), shut: "\n"}
		for _, name := range u.Undeclared {
			b.lines = append(b.lines, "- "+mdCode(name)+"\n")
		}
		b.cut = func(left int) string { return "- and " + count(left, "more sale") + "\n" }
		b.most = most / 10
		blocks = append(blocks, b)
	}
	if changes {
		blocks = append(blocks, &mdBlock{open: "Claims do not touch a plan. Whatever else changes a sale before its plan is carried out makes the plan stale: it is refused then, with exit code 5, and nothing is changed.\n"})
	}
	return mdPage(blocks, most, g.leftOut)
}

// heading summarizes the plans of all sales in a line.
func (g *planPage) heading() string {
	what := "Plan"
	if g.title != "" {
		what += " of " + mdCode(g.title)
	}
	var fresh, changes, ends, failed int
	for _, part := range g.parts {
		switch {
		case part.err != nil:
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
			words = append(words, count(n, "sale")+" "+more)
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
func (g *planPage) overview(most int) *mdBlock {
	var rows [][]string
	for _, part := range g.parts {
		rows = append(rows, []string{mdCode(part.sale.Name), part.outcome()})
	}
	b := mdTable(rankTop, 0, "sale", []string{"sale", "plan"}, rows)
	b.most = most
	return b
}

// outcome summarizes a plan in a few words.
func (part planPart) outcome() string {
	if part.err != nil {
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

// saleHead returns the head of a sale's section.
func saleHead(sale spec.Sale) string {
	head := fmt.Sprintf("### %s\n\n", mdCode(sale.Name))
	if sale.File != "" {
		head += "File: " + mdCode(sale.File) + "\n\n"
	}
	if len(sale.Labels) > 0 {
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(sale.Labels)) {
			labels = append(labels, mdCode(key+"="+sale.Labels[key]))
		}
		const most = 10
		if more := len(labels) - most; more > 0 {
			labels = append(labels[:most], fmt.Sprintf("and %d more", more))
		}
		head += "Labels: " + strings.Join(labels, ", ") + "\n\n"
	}
	return head
}

// planBlocks returns the section of one sale.
func planBlocks(of int, sale spec.Sale, plan *planner.Plan) (blocks []*mdBlock) {
	sale.Name, sale.Labels = plan.Sale, plan.Labels
	var head strings.Builder
	head.WriteString(saleHead(sale))
	switch {
	case plan.Empty():
		head.WriteString(nothingToDo(plan) + "\n\n")
	case plan.Kind == planner.KindDestroy:
		fmt.Fprintf(&head, "**The sale is destroyed**: closed, exported, and removed for good. It is %s now. Plan %s.\n\n", mdPhase(plan.Phase), mdCode(shortDigest(plan.Digest.String())))
	case plan.Phase == "":
		fmt.Fprintf(&head, "**A new sale.** Plan %s.\n\n", mdCode(shortDigest(plan.Digest.String())))
	default:
		fmt.Fprintf(&head, "**The sale is changed**, to generation %d. It is %s now. Plan %s.\n\n", plan.Generation, mdPhase(plan.Phase), mdCode(shortDigest(plan.Digest.String())))
	}
	if !plan.Empty() {
		head.WriteString("What buyers will notice:\n\n")
		for _, line := range noticed(plan) {
			head.WriteString("- " + line + "\n")
		}
		head.WriteString("\n")
	}
	blocks = append(blocks, &mdBlock{open: head.String(), rank: rankSale, of: of})
	if facts := factsBlock(of, plan); facts != nil {
		blocks = append(blocks, facts)
	}
	if len(plan.Warnings) > 0 {
		var lines []string
		for _, w := range plan.Warnings {
			lines = append(lines, mdLines("! "+w)...)
		}
		blocks = append(blocks, mdText(rankWarnings, of, "Warnings:\n\n", lines, ""))
	}
	if !plan.Empty() {
		var actions strings.Builder
		writeActions(&actions, palette(false), plan.Actions, false)
		s := plan.Summary
		before := fmt.Sprintf("<details><summary>All resources: %d to create, %d to update, %d to delete</summary>\n\n", s.Create, s.Update, s.Delete)
		blocks = append(blocks, mdText(rankActions, of, before, mdLines(actions.String()), "\n</details>\n"))
	}
	return blocks
}

// factLabels are labels for the attributes that identify a sale to people.
var factLabels = map[string]string{
	"stock": "Units", "lockCount": "Shards", "perUserLimit": "Units a user may have", "opensAt": "Opens at", "closesAt": "Closes at",
	"phase": "Phase", "spec.phase": "Phase that the file declares", "run": "Run", "protect": "Protected", "lock.ttl": "Time to live of a lease",
	"payment.holdFor": "A claim is held for", "sold": "Sold", "held": "Held", "available": "Available", "inFlight": "Between shards",
	"entries": "Entries", "shards unread": "Shards that cannot be read", "granted": "Granted", "refund": "To be given back", "claims": "Claims",
}

// factsBlock describes the changes of the sale and of the units of its shards; nil: none.
func factsBlock(of int, plan *planner.Plan) *mdBlock {
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
	return mdTable(rankFacts, of, "attribute", head, rows)
}

// troubleBlock describes why there is no plan, with the remedy.
func troubleBlock(rank, of int, err error) *mdBlock {
	var problem *spec.Problem
	if errors.As(err, &problem) {
		return mdText(rank, of, "", mdLines(problem.Text()), "")
	}
	what, remedy := explain(err)
	lines := mdLines("Error: " + what)
	if remedy != "" {
		lines = append(lines, mdLines("  "+strings.ReplaceAll(remedy, "\n", "\n  "))...)
	}
	return mdText(rank, of, "", lines, "")
}

// leftOut returns the last line of a page that was cut. Sections are those of sales, from 1;
// section 0 concerns no single sale.
func (g *planPage) leftOut(whole, partly []int) string {
	text := "\n**This is cut to what a comment may have.** "
	if i := slices.Index(partly, 0); i >= 0 {
		text += "Not all that is of no one sale is told. "
		partly = slices.Delete(partly, i, i+1)
	}
	if len(whole) > 0 {
		text += "Left out as a whole: " + g.names(whole) + ". "
	}
	if len(partly) > 0 {
		text += "Without their resources: " + g.names(partly) + ". "
	}
	how := mdCode(g.how)
	if len(how) > mdTail/4 {
		how = "The command without `--format markdown`"
	}
	return text + how + " prints all.\n"
}

// names lists the sales of sections, as many as fit into a part of the last line.
func (g *planPage) names(sections []int) string {
	const most = mdTail / 4
	var names []string
	for _, i := range sections {
		name := mdCode(g.parts[i-1].sale.Name)
		if len(strings.Join(names, ", "))+len(name) > most {
			names = append(names, fmt.Sprintf("and %d more", len(sections)-len(names)))
			break
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}
