// Package planview prints plans: as text for people, and as a comment of a merge request in
// the Markdown of GitHub and GitLab.
//
// It guarantees that nothing in a plan or an error is markup of a comment, that a comment has
// no more characters than those services accept, and that it names its omissions. The caller
// makes the plans, reports their errors, and selects the destination of the text.
package planview

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"salectl/cli/terminal"
	"salectl/planner"
	"salectl/spec"
)

// Write prints a plan with its warnings.
func Write(w io.Writer, c terminal.Palette, sale spec.Sale, plan *planner.Plan, warnings []string, all bool) {
	if plan.Empty() {
		fmt.Fprintln(w, NothingToDo(plan))
		terminal.WriteWarnings(w, c, warnings, all)
		return
	}
	fmt.Fprintf(w, "%s%s\n", c.Bold(plan.Sale), c.Dim(whereAndWhen(sale, plan)))
	if len(sale.Env) > 0 {
		fmt.Fprintln(w, c.Dim("  environment: "+clipped(readable(strings.Join(sale.Env, ", ")), maxLine)))
	}
	fmt.Fprintln(w)
	writeActions(w, c, plan.Actions, all)
	if len(plan.Warnings) > 0 {
		fmt.Fprintln(w)
		terminal.WriteWarnings(w, c, warnings, all)
	}
	fmt.Fprintf(w, "\n%s %d to create, %d to update, %d to delete.\n",
		c.Bold("Plan:"), plan.Summary.Create, plan.Summary.Update, plan.Summary.Delete)
	m := marks(c)
	fmt.Fprintf(w, "  %s create  %s update  %s delete\n", m[planner.Create], m[planner.Update], m[planner.Delete])
}

// marks returns the marks of actions.
func marks(c terminal.Palette) map[string]string {
	return map[string]string{planner.Create: c.Green("+"), planner.Update: c.Yellow("~"), planner.Delete: c.Red("-")}
}

// writeActions prints the actions of a plan, and folds similar ones unless all is set.
func writeActions(w io.Writer, c terminal.Palette, actions []planner.Action, all bool) {
	groups, folds := fold(actions, all)
	widest := 0
	for _, group := range groups {
		if len(group) == 1 {
			widest = max(widest, len(group[0].Address))
		}
	}
	for i, group := range groups {
		reason := ""
		if text := group[0].Reason; text != "" && (i == 0 || text != groups[i-1][0].Reason) { // printed once
			reason = "  " + c.Dim("# "+text)
		}
		writeGroup(w, marks(c)[group[0].Action], group, reason, widest)
	}
	if folds {
		terminal.ListsAll(w, c)
	}
}

// NothingToDo describes why a plan is empty.
func NothingToDo(plan *planner.Plan) string {
	switch plan.Kind {
	case planner.KindDestroy:
		return fmt.Sprintf("No changes. There is nothing of %s to destroy.", plan.Sale)
	case planner.KindPhase:
		return fmt.Sprintf("No changes. %s is %s already.", plan.Sale, plan.Phase)
	}
	return fmt.Sprintf("No changes. %s is as its file declares it: generation %d, %s.", plan.Sale, plan.Generation, plan.Phase)
}

// whereAndWhen returns the text after the name of the sale above its plan.
func whereAndWhen(sale spec.Sale, plan *planner.Plan) string {
	text := " (" + sale.File + ")"
	switch {
	case plan.Kind == planner.KindDestroy && plan.Phase != "":
		text += " now " + plan.Phase
	case plan.Phase != "":
		text += fmt.Sprintf(" now %s, to generation %d", plan.Phase, plan.Generation)
	}
	return text
}

// inline is the maximum number of attributes printed after the address of an action, if each
// has at most inlineWidth characters.
const (
	inline      = 3
	inlineWidth = 60
)

// writeGroup prints similar actions: their resources, and the values of each attribute after them
// or, if there are several actions or long values, below them.
func writeGroup(w io.Writer, mark string, group []planner.Action, reason string, widest int) {
	var fields []planner.Field // with the text as After
	values := map[string][]string{}
	below, width := len(group) > 1, 0
	for _, a := range group {
		for _, f := range shownFields(a) {
			if values[f.Name] == nil {
				fields = append(fields, planner.Field{Name: f.Name})
			}
			values[f.Name] = append(values[f.Name], change(f))
		}
	}
	words := make([]string, len(fields))
	for i, f := range fields {
		fields[i].After = tally(values[f.Name], len(group))
		words[i] = f.Name + " " + fields[i].After
		below = below || len(fields) > inline || utf8.RuneCountInString(fields[i].After) > inlineWidth
		width = max(width, len(f.Name))
	}
	if !below {
		line := fmt.Sprintf("%-*s  %s", widest, group[0].Address, strings.Join(words, "  "))
		fmt.Fprintf(w, "  %s %s%s\n", mark, strings.TrimRight(line, " "), reason)
		return
	}
	fmt.Fprintf(w, "  %s %s%s\n", mark, resources(group), reason)
	for _, f := range fields {
		fmt.Fprintf(w, "      %-*s  %s\n", width, f.Name, f.After)
	}
}

// shownFields returns the attributes shown to people.
func shownFields(a planner.Action) []planner.Field {
	switch {
	case a.Action != planner.Delete:
		return a.Fields()
	case a.Before != nil: // a delete is identified by its address, and by what it ends
		return a.Before.Ends.Fields()
	}
	return nil
}

// change formats the change of one attribute.
func change(f planner.Field) string {
	if f.Before == "" {
		return f.After
	}
	return f.Before + " -> " + cmp.Or(f.After, "none")
}

// fold groups actions of a plan that do the same for the same reason to more than
// terminal.FoldBeyond resources of a kind. Each group is at the place of its first action.
func fold(actions []planner.Action, all bool) (groups [][]planner.Action, folds bool) {
	type likeness struct{ kind, action, reason string }
	of := func(a planner.Action) likeness {
		kind, _, _ := strings.Cut(a.Address, "/")
		return likeness{kind, a.Action, a.Reason}
	}
	like := map[likeness][]planner.Action{}
	for _, a := range actions {
		like[of(a)] = append(like[of(a)], a)
	}
	for _, a := range actions {
		group := like[of(a)]
		switch {
		case all || len(group) <= terminal.FoldBeyond:
			groups = append(groups, []planner.Action{a})
		case group[0].Address == a.Address:
			groups, folds = append(groups, group), true
		}
	}
	return groups, folds
}

// resources names the resources of a group: sale/tickets, or 64 shards: 0-63.
func resources(group []planner.Action) string {
	if len(group) == 1 {
		return group[0].Address
	}
	kind, _, _ := strings.Cut(group[0].Address, "/")
	var numbers []int
	for _, a := range group {
		if n, err := strconv.Atoi(strings.TrimPrefix(a.Address, kind+"/")); err == nil {
			numbers = append(numbers, n)
		}
	}
	text := spec.Count(len(group), kind)
	if len(numbers) == len(group) {
		text += ": " + spec.Numbers(numbers)
	}
	return text
}

// tally counts each value: "1954 for 128, 1953 for 896". total is the possible number of
// values.
func tally(values []string, total int) string {
	const limit = 4
	var distinct []string
	times := map[string]int{}
	for _, v := range values {
		if times[v]++; times[v] == 1 {
			distinct = append(distinct, v)
		}
	}
	switch {
	case len(distinct) == 1 && len(values) == total:
		return distinct[0]
	case len(distinct) > limit:
		return fmt.Sprintf("%s different, the first %s", spec.Grouped(len(distinct)), distinct[0])
	}
	words := make([]string, len(distinct))
	for i, v := range distinct {
		words[i] = fmt.Sprintf("%s for %s", v, spec.Grouped(times[v]))
	}
	return strings.Join(words, ", ")
}
