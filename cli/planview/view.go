// Package planview prints plans: as text for people, and as a comment of a merge request in
// the Markdown of GitHub and GitLab.
//
// It guarantees that nothing in a plan or an error is markup of a comment, that a comment has
// no more characters than those services accept, and that it says what it leaves out. Making
// the plans, reporting their errors and where the text goes are the caller's.
package planview

import (
	"fmt"
	"io"
	"slices"
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
	fmt.Fprintf(w, "%s%s\n\n", c.Bold(plan.Sale), c.Dim(whereAndWhen(sale, plan)))
	writeActions(w, c, plan.Actions, all)
	if len(plan.Warnings) > 0 {
		fmt.Fprintln(w)
		terminal.WriteWarnings(w, c, warnings, all)
	}
	fmt.Fprintf(w, "\n%s %d to create, %d to update, %d to delete.\n",
		c.Bold("Plan:"), plan.Summary.Create, plan.Summary.Update, plan.Summary.Delete)
	fmt.Fprintf(w, "  %s\n", legend(c))
}

// legend describes the marks of actions.
func legend(c terminal.Palette) string {
	return c.Green("+") + " create  " + c.Yellow("~") + " update  " + c.Red("-") + " delete"
}

// writeActions prints the actions of a plan, and folds similar ones unless all is set.
func writeActions(w io.Writer, c terminal.Palette, actions []planner.Action, all bool) {
	groups, folds := Fold(actions, all)
	widest := 0
	for _, group := range groups {
		if len(group) == 1 {
			widest = max(widest, len(group[0].Address))
		}
	}
	for i, group := range groups {
		a := group[0]
		if i > 0 && a.Reason == groups[i-1][0].Reason {
			a.Reason = "" // printed once
		}
		if len(group) > 1 {
			writeFolded(w, actionMark(c, a), reasonText(c, a), group)
			continue
		}
		writeAction(w, c, a, widest)
	}
	if folds {
		terminal.ListsAll(w, c, "shard")
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
	words := []string{" (" + sale.File + ")"}
	switch {
	case plan.Kind == planner.KindDestroy && plan.Phase != "":
		words = append(words, "now "+plan.Phase)
	case plan.Phase != "":
		words = append(words, fmt.Sprintf("now %s, to generation %d", plan.Phase, plan.Generation))
	}
	return strings.Join(words, " ")
}

// inline is the maximum number of attributes printed after the address of an action, if each
// has at most inlineWidth characters.
const (
	inline      = 3
	inlineWidth = 60
)

// writeAction prints one action, with its attributes after its address or, if they are long,
// below it.
func writeAction(w io.Writer, c terminal.Palette, a planner.Action, widest int) {
	mark, reason, fields := actionMark(c, a), reasonText(c, a), shownFields(a)
	long := func(f planner.Field) bool { return utf8.RuneCountInString(change(f)) > inlineWidth }
	if len(fields) > inline || slices.ContainsFunc(fields, long) {
		fmt.Fprintf(w, "  %s %s%s\n", mark, a.Address, reason)
		name := 0
		for _, f := range fields {
			name = max(name, len(f.Name))
		}
		for _, f := range fields {
			fmt.Fprintf(w, "      %-*s  %s\n", name, f.Name, change(f))
		}
		return
	}
	var words []string
	for _, f := range fields {
		words = append(words, f.Name+" "+change(f))
	}
	line := fmt.Sprintf("%-*s  %s", widest, a.Address, strings.Join(words, "  "))
	fmt.Fprintf(w, "  %s %s%s\n", mark, strings.TrimRight(line, " "), reason)
}

// actionMark returns the mark of an action.
func actionMark(c terminal.Palette, a planner.Action) string {
	return map[string]string{
		planner.Create: c.Green("+"), planner.Update: c.Yellow("~"), planner.Delete: c.Red("-"),
	}[a.Action]
}

// reasonText returns the text after an action.
func reasonText(c terminal.Palette, a planner.Action) string {
	if a.Reason == "" {
		return ""
	}
	return "  " + c.Dim("# "+a.Reason)
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
	switch {
	case f.Before == "":
		return f.After
	case f.After == "":
		return f.Before + " -> none"
	}
	return f.Before + " -> " + f.After
}
