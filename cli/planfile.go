package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"salectl/cli/terminal"
	"salectl/internal/files"
	"salectl/planner"
	"salectl/spec"
)

// planFileArgument is the usage of a saved plan as an argument.
const planFileArgument = "[PLAN-FILE]"

// savedPlan is a file of saved plans. It is read once, since it may be a pipe.
type savedPlan struct {
	path string
	text []byte // nil: the file does not begin like a plan, or err is set
	err  error  // why the file cannot be read
}

// readSavedPlan reads a file, completely only if it begins like a plan.
func readSavedPlan(path string) savedPlan {
	s := savedPlan{path: path}
	f, err := files.Open(path)
	if err != nil {
		s.err = err
		return s
	}
	defer f.Close()
	begin, err := io.ReadAll(io.LimitReader(f, 4096))
	begin = bytes.TrimPrefix(begin, []byte("\ufeff"))
	if err == nil && planner.LooksLikePlan(begin) {
		s.text, err = io.ReadAll(f)
		s.text = append(begin, s.text...)
	}
	s.err = err
	return s
}

// planFile returns the saved plan in the arguments; without one its path is "".
func (f *flags) planFile() savedPlan {
	if f.c.NArg() == 0 {
		return savedPlan{}
	}
	path := f.c.Args().First()
	if path == "" {
		f.refuse("the name of the plan's file is empty")
	}
	s := readSavedPlan(path)
	if ext := filepath.Ext(path); ext == ".yaml" || ext == ".yml" || isFolder(path) || s.text == nil && s.err == nil {
		f.refuse("unexpected argument %q, which is not a saved plan; name sale files with -f: %s -f %s", path, f.c.Command.HelpName, quoted(path))
	}
	return s
}

// savePlans writes plans for a later run. Only the owner may read the file: it reveals what is
// about to be sold.
func savePlans(path string, plans []*planner.Plan) error {
	_, err := files.Saving{Replace: true}.Save(path, func(w io.Writer) error {
		for _, plan := range plans {
			text, err := plan.Encode()
			if err != nil {
				return err
			}
			if _, err := w.Write(text); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("saving the plan: %w", err)
	}
	return nil
}

// noPlans refuses saved plans given as sale files.
func noPlans(paths []string) error {
	for _, path := range paths {
		if info, err := files.Stat(path); err == nil && info.Mode().IsRegular() && readSavedPlan(path).text != nil {
			return advised{
				path + " is a saved plan, not a sale file",
				fmt.Sprintf("Give it as an argument, as in 'salectl show %s'; -f still names the sale file.", quoted(path)),
				errUsage,
			}
		}
	}
	return nil
}

// job is a plan to be carried out.
type job struct {
	sale spec.Sale
	plan *planner.Plan
}

// savedJobs reads the plans of a file for the sales of the sale files, which give the location
// of each sale. Each plan must be of the command's kind; "": any.
func savedJobs(saved savedPlan, sales []spec.Sale, command string, kind planner.Kind) (jobs []job, err error) {
	if saved.err != nil {
		return nil, fmt.Errorf("reading the plan: %w", saved.err)
	}
	plans, err := planner.DecodePlans(saved.text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", saved.path, err)
	}
	byName := make(map[string]spec.Sale)
	for _, sale := range sales {
		byName[sale.Name] = sale
	}
	for _, plan := range plans {
		sale, found := byName[plan.Sale]
		switch {
		case kind != "" && plan.Kind != kind:
			return nil, &usageError{"salectl " + command, fmt.Sprintf("%s has a plan to %s the sale %s: salectl %[2]s carries it out", saved.path, plan.Kind, plan.Sale)}
		case !found:
			return nil, &usageError{"salectl " + command, fmt.Sprintf(
				"%s has a plan for the sale %s, which no file under -f declares; that file names the stores", saved.path, plan.Sale)}
		}
		jobs = append(jobs, job{sale, plan})
	}
	return jobs, nil
}

// checkJobs makes all plans of a file anew before the first is carried out: the file may be
// forged.
func (p *program) checkJobs(ctx context.Context, from source, jobs []job) error {
	return p.allOrNone(ctx, from, salesOf(jobs), func(i int) (err error) {
		jobs[i].plan, err = p.checkPlan(ctx, from, jobs[i])
		return err
	})
}

func (p *program) checkPlan(ctx context.Context, from source, j job) (*planner.Plan, error) {
	return p.makePlan(ctx, j.sale, planOptions{source: from, destroy: j.plan.Kind == planner.KindDestroy, saved: j.plan})
}

func salesOf(jobs []job) (sales []spec.Sale) {
	for _, j := range jobs {
		sales = append(sales, j.sale)
	}
	return sales
}

// allOrNone runs do for every sale; it must succeed for all before any sale is changed.
// Failures are reported; with JSON the other sales have their line, too.
func (p *program) allOrNone(ctx context.Context, from source, sales []spec.Sale, do func(i int) error) error {
	at := -1
	var failed []string
	err := p.eachSale(ctx, from, sales, func(sale spec.Sale) error {
		at++
		err := do(at)
		if err != nil {
			failed = append(failed, sale.Name)
		}
		return err
	})
	if err == nil || len(sales) == 1 || ctx.Err() != nil {
		return err
	}
	why := "nothing was changed, since " + strings.Join(failed, ", ") + " failed"
	if !from.json {
		p.say("\n%s%s.", strings.ToUpper(why[:1]), why[1:])
		return err
	}
	for _, sale := range sales {
		if !strings.Contains(" "+strings.Join(failed, " ")+" ", " "+sale.Name+" ") {
			p.emit(failureLine{Sale: sale.Name, Error: why, ExitCode: ExitCode(err)})
		}
	}
	return err
}

// newJobs makes and shows a plan for each sale.
func (p *program) newJobs(ctx context.Context, o planOptions, sales []spec.Sale) (jobs []job, err error) {
	err = p.allOrNone(ctx, o.source, sales, func(i int) error {
		plan, err := p.makePlan(ctx, sales[i], o)
		if err != nil {
			return err
		}
		if !o.json {
			p.planText(sales[i], plan, o.all)
		}
		jobs = append(jobs, job{sales[i], plan})
		return nil
	})
	return jobs, err
}

// carryOutAll carries out jobs in sequence, continues after failures, and finally reports the
// outcome of each.
func (p *program) carryOutAll(ctx context.Context, from source, jobs []job, do func(job) error) error {
	at, told := -1, make([]string, len(jobs))
	for i := range told {
		told[i] = "not begun"
	}
	err := p.eachSale(ctx, from, salesOf(jobs), func(spec.Sale) error {
		at++
		j := jobs[at]
		err := do(j)
		told[at] = outcomeOf(j, err)
		return err
	})
	if len(jobs) > 1 && !from.json {
		t := terminal.NewTable("sale", "outcome")
		for i, j := range jobs {
			t.Row(j.sale.Name, told[i])
		}
		fmt.Fprintln(p.out)
		t.Write(p.out, "", p.colours(p.out).Dim)
	}
	return err
}

// outcomeOf describes the outcome of a plan in a few words.
func outcomeOf(j job, err error) string {
	switch {
	case err != nil:
		what, _ := explain(err)
		return "failed: " + firstLine(what)
	case j.plan.Empty():
		return "unchanged"
	case j.plan.Kind == planner.KindDestroy:
		return "destroyed"
	}
	return fmt.Sprintf("applied, generation %d", j.plan.Generation)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// askForAll asks for one confirmation of all plans with changes.
func (p *program) askForAll(ctx context.Context, from source, jobs []job, yes bool, question func(job) string, several string) error {
	var changes []job
	var names []string
	for _, j := range jobs {
		if !j.plan.Empty() {
			changes, names = append(changes, j), append(names, j.sale.Name)
		}
	}
	ask := ""
	switch len(changes) {
	case 0:
		return nil
	case 1:
		ask = question(changes[0])
	default:
		ask = fmt.Sprintf(several, strings.Join(names[:len(names)-1], ", ")+" and "+names[len(names)-1])
	}
	err := p.askPerson(ctx, ask, yes, from.json)
	switch {
	case err == nil:
		return nil
	case len(changes) == 1:
		return p.failed(names[0], from.json, late(ctx, err))
	case from.json:
		for _, name := range names {
			p.emit(failure(name, err))
		}
	}
	p.report(err)
	return shown{err}
}
