package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"salectl/planner"
	"salectl/spec"
)

// planText shows a plan, for plan and for the commands that carry one out.
func (p *program) planText(sale spec.Sale, plan *planner.Plan) {
	c := p.colours(p.out)
	p.gap()
	if plan.Empty() {
		fmt.Fprintln(p.out, nothingToDo(plan))
		writeWarnings(p.out, c, plan.Warnings)
		return
	}
	fmt.Fprintf(p.out, "%s%s\n\n", c.bold(plan.Sale), c.dim(whereAndWhen(sale, plan)))
	widest := 0
	for _, a := range plan.Actions {
		widest = max(widest, len(a.Address))
	}
	for i, a := range plan.Actions {
		if i > 0 && a.Reason == plan.Actions[i-1].Reason {
			a.Reason = "" // once is enough
		}
		writeAction(p.out, c, a, widest)
	}
	if len(plan.Warnings) > 0 {
		fmt.Fprintln(p.out)
		writeWarnings(p.out, c, plan.Warnings)
	}
	fmt.Fprintf(p.out, "\n%s %d to create, %d to update, %d to delete.\n",
		c.bold("Plan:"), plan.Summary.Create, plan.Summary.Update, plan.Summary.Delete)
}

// writeWarnings writes what is part of an answer and not as it should be.
func writeWarnings(w io.Writer, c palette, warnings []string) {
	for _, text := range warnings {
		fmt.Fprintf(w, "  %s %s\n", c.yellow("!"), text)
	}
}

// nothingToDo says why a plan is empty.
func nothingToDo(plan *planner.Plan) string {
	switch plan.Kind {
	case planner.KindDestroy:
		return fmt.Sprintf("No changes. There is nothing of %s to destroy.", plan.Sale)
	case planner.KindPhase:
		return fmt.Sprintf("No changes. %s is %s already.", plan.Sale, plan.Phase)
	}
	return fmt.Sprintf("No changes. %s is as its file declares it: generation %d, %s.", plan.Sale, plan.Generation, plan.Phase)
}

// whereAndWhen follows the name of the sale above its plan.
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

// inline is how many attributes of an action fit behind its address, if these have not
// more than inlineWidth characters each.
const (
	inline      = 3
	inlineWidth = 60
)

// writeAction writes one action: what it sets behind its address, or below it
// if that is much.
func writeAction(w io.Writer, c palette, a planner.Action, widest int) {
	mark := map[string]string{
		planner.Create: c.green("+"), planner.Update: c.yellow("~"), planner.Delete: c.red("-"),
	}[a.Action]
	fields := a.Fields()
	reason := ""
	if a.Reason != "" {
		reason = "  " + c.dim("# "+a.Reason)
	}
	if a.Action == planner.Delete {
		fields = nil // what goes away is named by its address
		if a.Before != nil {
			fields = a.Before.Ends.Fields() // and by what it ends
		}
	}
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

// change writes what becomes of one attribute.
func change(f planner.Field) string {
	switch {
	case f.Before == "":
		return f.After
	case f.After == "":
		return f.Before + " -> none"
	}
	return f.Before + " -> " + f.After
}

// savedText says where a plan is. Whoever asked for JSON gave --out, and knows.
func (p *program) savedText(plan *planner.Plan, path string) {
	if plan.Empty() {
		fmt.Fprintf(p.out, "Saved in %s.\n", path)
		return
	}
	fmt.Fprintf(p.out, "\nSaved in %s. To carry it out:\n  salectl apply --plan %s\n", path, quoted(path))
}
