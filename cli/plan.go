package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"salectl/cli/planview"
	"salectl/internal/files"
	"salectl/planner"
	"salectl/planner/apply"
	"salectl/planner/current"
	"salectl/rules"
	"salectl/spec"
)

type planOptions struct {
	source
	out         string // file for the plan, "" for none
	detailed    bool   // exit with 2 if there are changes
	destroy     bool
	cancelHolds bool          // by the planned destroy
	saved       *planner.Plan // plan that the new one must agree with, nil: none
	markdownFlags
}

func (p *program) planCommand() *urfave.Command {
	return &urfave.Command{
		Name: "plan", Category: groupSale, Usage: "show what apply would change",
		Description: "Compares the files with the ledgers and the lock nodes. It changes nothing. 'salectl " +
			"apply FILE' and 'salectl destroy FILE' carry out saved plans, unless something has " +
			"changed since; 'salectl show FILE' prints them.",
		Flags: salesFlags(
			valueFlag("out", "save the plans to `FILE`"),
			onFlag("destroy", "plan a destroy"),
			onFlag("exit-code", "exit with 2 if there are changes, 0 if there are none"),
			markdownFlag(),
			titleFlag(),
			timeoutFlag(),
			allFlag(),
			jsonFlag(),
		),
		Action: action(func(f *flags) planOptions {
			return planOptions{
				source: parseSource(f), out: f.text("out"),
				detailed: f.on("exit-code"), destroy: f.on("destroy"), markdownFlags: f.markdown(),
			}
		}, p.plan),
	}
}

func (p *program) plan(ctx context.Context, o planOptions) error {
	if !o.markdown {
		return p.planSales(ctx, o, pick[planView](o.json, planHuman{p, o}, planJSON{p}))
	}
	page := planview.NewPage(o.title, o.showsAll())
	err := p.planSales(ctx, o, planMarkdown{page})
	fmt.Fprint(p.out, page.Text(planview.MostCharacters))
	return err
}

// planMarkdown is a comment for a merge request. Its readers do not have the saved file.
type planMarkdown struct{ page *planview.Page }

func (m planMarkdown) plan(sale spec.Sale, plan *planner.Plan) { m.page.Add(sale, plan) }
func (m planMarkdown) noPlan(sale spec.Sale, err error)        { m.page.AddFailed(sale, failureText(err)) }
func (m planMarkdown) undeclared(u undeclared)                 { m.page.AddUndeclared(u.Place, u.Undeclared) }
func (planMarkdown) saved(bool)                                {}

func (m planMarkdown) trouble(err error) {
	if seen, is := errors.AsType[shown](err); is {
		err = seen.error
	}
	for _, e := range failuresOf(err) {
		m.page.AddTrouble(failureText(e))
	}
}

// planView is the output of plan.
type planView interface {
	plan(spec.Sale, *planner.Plan)
	saved(changes bool)
	undeclared(undeclared)
	// noPlan receives why there is no plan of a sale, trouble why there is none of any, or an
	// error of all sales. Standard error has both.
	noPlan(spec.Sale, error)
	trouble(error)
}

type planHuman struct {
	*program
	o planOptions
}

func (h planHuman) plan(sale spec.Sale, plan *planner.Plan) { h.planText(sale, plan, h.o.all) }
func (h planHuman) saved(changes bool)                      { h.savedText(h.o, changes) }
func (h planHuman) undeclared(u undeclared)                 { h.undeclaredText(u) }
func (planHuman) noPlan(spec.Sale, error)                   {}
func (planHuman) trouble(error)                             {}

// planJSON leaves the line of a sale without a plan to eachSale.
type planJSON struct{ *program }

func (j planJSON) plan(_ spec.Sale, plan *planner.Plan) { j.emit(plan) }
func (planJSON) saved(bool)                             {} // no message: the user gave --out
func (j planJSON) undeclared(u undeclared)              { j.emit(u) }
func (planJSON) noPlan(spec.Sale, error)                {}
func (planJSON) trouble(error)                          {}

func (p *program) planSales(ctx context.Context, o planOptions, view planView) error {
	all, err := p.loadAll(ctx, o.source)
	if err != nil {
		view.trouble(err)
		return err
	}
	sales, err := o.chosen(all)
	if err != nil {
		view.trouble(err)
		return err
	}
	ctx, cancel := o.bounded(ctx)
	defer cancel()
	var plans []*planner.Plan
	changes := false
	planned := p.eachSale(ctx, o.source, sales, func(sale spec.Sale) error {
		plan, err := p.makePlan(ctx, sale, o)
		if err != nil {
			view.noPlan(sale, p.plainly(sale.Name, late(ctx, err)))
			return err
		}
		plan.Labels = sale.Labels
		plans, changes = append(plans, plan), changes || !plan.Empty()
		view.plan(sale, plan)
		return nil
	})
	if ctx.Err() != nil {
		view.trouble(context.Cause(ctx))
	}
	if o.out != "" && planned == nil {
		if planned = savePlans(o.out, plans); planned == nil {
			view.saved(changes)
		} else {
			view.trouble(planned)
		}
	}
	if planned == nil && o.detailed && changes {
		planned = shown{errChanges}
	}
	if slices.ContainsFunc(o.files, isFolder) && ctx.Err() == nil {
		undeclared, err := p.undeclaredAt(ctx, all)
		for _, u := range undeclared {
			view.undeclared(u)
		}
		return errors.Join(planned, err)
	}
	return planned
}

func isFolder(path string) bool {
	info, err := files.Stat(path)
	return err == nil && info.IsDir()
}

func (p *program) makePlan(ctx context.Context, sale spec.Sale, o planOptions) (plan *planner.Plan, err error) {
	read := current.Read
	if o.destroy {
		read = current.ReadSale
	}
	err = p.withActual(ctx, sale, read, func(cfg apply.Config, actual *planner.Actual) error {
		plans := func() (*planner.Plan, error) { return p.planOf(ctx, cfg, sale, actual, o) }
		if o.saved != nil {
			plan, err = o.saved.Check(sale, actual, plans)
		} else {
			plan, err = plans()
		}
		return err
	})
	return plan, err
}

// planOf plans for a sale that was read.
func (p *program) planOf(ctx context.Context, cfg apply.Config, sale spec.Sale, actual *planner.Actual, o planOptions) (*planner.Plan, error) {
	if o.destroy {
		defer sparing()()
		return p.makeDestroy(ctx, cfg, actual, o)
	}
	if err := drawKeyFits(sale, actual.Sale); err != nil {
		return nil, err
	}
	actual.Users = p.checkUsers(ctx, sale)
	if sale.History != nil {
		actual.NoHistory = rules.MatchNothing(sale.History.Files)
	}
	if err := readPayloads(ctx, cfg.Logs, sale, actual); err != nil {
		return nil, err
	}
	return planner.Make(sale, actual)
}

// planText prints a plan, for plan and for the commands that carry one out.
func (p *program) planText(sale spec.Sale, plan *planner.Plan, all bool) {
	p.gap()
	planview.Write(p.out, p.colours(p.out), sale, plan, p.completed(plan.Warnings, plan.Sale), all)
}

// completed adds the flags of the command to those warnings about the clock that suggest one.
// Other warnings may contain texts of servers.
func (p *program) completed(warnings []string, sale string) []string {
	all := slices.Clone(warnings)
	for i, w := range all {
		if what, found := strings.CutSuffix(w, planner.TrustRemedy); found {
			all[i] = what + p.withFlags(planner.TrustRemedy, sale)
		}
	}
	return all
}

// savedText prints where plans were saved.
func (p *program) savedText(o planOptions, changes bool) {
	if !changes {
		fmt.Fprintf(p.out, "Saved in %s.\n", o.out)
		return
	}
	command := "apply"
	if o.destroy {
		command = "destroy"
	}
	fmt.Fprintf(p.out, "\nSaved in %s. To carry it out:\n  salectl %s%s %s\n", o.out, command, o.filesGiven(), quoted(o.out))
}

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

// titleForm matches titles that are safe in an HTML comment.
var titleForm = regexp.MustCompile(`^[A-Za-z0-9]+([ ._/-][A-Za-z0-9]+)*$`)

// markdownFlags are the flags that select Markdown for plans.
type markdownFlags struct {
	markdown bool
	title    string
}

func markdownFlag() urfave.Flag {
	return onFlag("markdown", "print the plans as one comment for a merge request, in Markdown")
}

func titleFlag() urfave.Flag {
	return valueFlag("title", "with --markdown: `NAME` in the heading, which distinguishes the comments of several pipelines")
}

func (f *flags) markdown() markdownFlags {
	m := markdownFlags{markdown: f.on("markdown"), title: f.text("title")}
	switch {
	case m.markdown && f.on("json"):
		f.refuse("--json and --markdown are two formats: give one of them")
	case m.title != "" && !m.markdown:
		f.refuse("--title is for --markdown")
	case m.title != "" && (len(m.title) > 60 || !titleForm.MatchString(m.title)):
		f.refuse("--title must be at most 60 letters and digits of ASCII, with single blanks, dots, dashes, slashes and underscores between them, not %q", m.title)
	}
	return m
}
