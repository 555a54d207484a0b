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
	export      string // file of the export by that destroy, of one sale only; "": the default
	cancelHolds bool   // by that destroy
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

// kind returns the kind of the plans.
func (o planOptions) kind() planner.Kind {
	if o.destroy {
		return planner.KindDestroy
	}
	return planner.KindApply
}

func (p *program) plan(ctx context.Context, o planOptions) error {
	page := &planview.Page{Title: o.title, How: o.showsAll()}
	err := p.planSales(ctx, o, page)
	if o.markdown {
		fmt.Fprint(p.out, page.Text())
	}
	return err
}

// planSales prints plans of sales, or adds them to the page, whose readers have neither
// standard error nor the saved file.
func (p *program) planSales(ctx context.Context, o planOptions, page *planview.Page) error {
	trouble := func(err error) error {
		cause := err
		if seen, is := errors.AsType[shown](err); is {
			cause = seen.error
		}
		for _, e := range failuresOf(cause) {
			page.Errors = append(page.Errors, failureText(e))
		}
		return err
	}
	all, err := p.loadAll(ctx, o.source)
	if err != nil {
		return trouble(err)
	}
	sales, err := o.chosen(all)
	if err != nil {
		return trouble(err)
	}
	ctx, cancel := o.bounded(ctx)
	defer cancel()
	planned := p.eachSale(ctx, o.source, sales, func(sale spec.Sale) error {
		plan, err := p.makePlan(ctx, job{sale: sale}, o)
		return p.showPlan(ctx, o.source, o.markdownFlags, page, sale, plan, err)
	})
	if ctx.Err() != nil {
		trouble(context.Cause(ctx))
	}
	if o.out != "" && planned == nil {
		if planned = savePlans(o.out, page.Parts); planned != nil {
			trouble(planned)
		} else if !o.json && !o.markdown {
			p.savedText(o, page.Changes())
		}
	}
	if planned == nil && o.detailed && page.Changes() {
		planned = shown{errChanges}
	}
	if slices.ContainsFunc(o.files, isFolder) && ctx.Err() == nil {
		undeclared, err := p.undeclaredAt(ctx, all)
		page.Undeclared = undeclared
		for _, u := range undeclared {
			if o.json {
				p.emit(u)
			} else if !o.markdown {
				p.undeclaredText(u)
			}
		}
		return errors.Join(planned, err)
	}
	return planned
}

// showPlan adds a plan to the page, and prints it unless its form is Markdown. err is why there is
// none; the caller reports it.
func (p *program) showPlan(ctx context.Context, from source, form markdownFlags, page *planview.Page, sale spec.Sale, plan *planner.Plan, err error) error {
	part := planview.Part{Sale: sale, Plan: plan}
	if err != nil {
		part.Error = failureText(p.withSaleFlags(sale.Name, late(ctx, err)))
	} else {
		plan.Labels, plan.Env, part.Warnings = sale.Labels, sale.Env, p.completed(plan.Warnings, sale.Name)
	}
	page.Parts = append(page.Parts, part)
	switch {
	case err != nil, form.markdown:
	case from.json:
		p.emit(plan)
	default:
		p.planText(sale, plan, from.all)
	}
	return err
}

func isFolder(path string) bool {
	info, err := files.Stat(path)
	return err == nil && info.IsDir()
}

// makePlan makes the plan of a job. With a saved plan, the new one must agree with it.
func (p *program) makePlan(ctx context.Context, j job, o planOptions) (plan *planner.Plan, err error) {
	read := current.Read
	if o.destroy {
		read = current.ReadSale
	}
	err = p.withActual(ctx, j.sale, read, func(cfg apply.Config, actual *planner.Actual) error {
		plans := func() (*planner.Plan, error) { return p.planOf(ctx, cfg, j.sale, actual, o) }
		if j.plan != nil {
			plan, err = j.plan.Check(j.sale, actual, plans)
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

// completed adds the flags of the sale to the remedies of planner. Other warnings may contain texts of servers.
func (p *program) completed(warnings []string, sale string) []string {
	all := slices.Clone(warnings)
	for i, w := range all {
		for _, remedy := range []string{planner.TrustRemedy, planner.DrawRemedy, planner.ExportRemedy} {
			if what, found := strings.CutSuffix(w, remedy); found {
				all[i] = what + p.withFlags(remedy, sale)
			}
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
		f.refuse("--json and --markdown are two formats: use one of them")
	case m.title != "" && !m.markdown:
		f.refuse("--title is for --markdown")
	case m.title != "" && (len(m.title) > 60 || !titleForm.MatchString(m.title)):
		f.refuse("--title must be at most 60 letters and digits of ASCII, with single blanks, dots, dashes, slashes and underscores between them, not %q", m.title)
	}
	return m
}
