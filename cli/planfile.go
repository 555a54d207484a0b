package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"salectl/cli/planview"
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
func savePlans(path string, plans []planview.Part) error {
	_, err := files.Saving{Replace: true}.Save(path, func(w io.Writer) error {
		for _, part := range plans {
			text, err := part.Plan.Encode()
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
				fmt.Sprintf("Pass it as an argument, as in 'salectl show %s'; -f still names the sale file.", quoted(path)),
				errUsage,
			}
		}
	}
	return nil
}

// job is a sale with the plan to carry out.
type job struct {
	sale spec.Sale
	plan *planner.Plan // nil: not made yet
}

// jobsOf returns the jobs of sales, without plans, or those of the plans in a file. The sale
// files declare the location of each sale. Each plan must be of the command's kind; "": any.
func jobsOf(saved savedPlan, sales []spec.Sale, command string, kind planner.Kind) (jobs []job, err error) {
	if saved.path == "" {
		for _, sale := range sales {
			jobs = append(jobs, job{sale: sale})
		}
		return jobs, nil
	}
	if saved.err != nil {
		return nil, fmt.Errorf("reading the plan: %w", saved.err)
	}
	plans, err := planner.DecodePlans(saved.text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", saved.path, err)
	}
	for _, plan := range plans {
		at := slices.IndexFunc(sales, func(s spec.Sale) bool { return s.Name == plan.Sale })
		switch {
		case kind != "" && plan.Kind != kind:
			return nil, &usageError{"salectl " + command, fmt.Sprintf("%s has a plan to %s the sale %s: salectl %[2]s carries it out", saved.path, plan.Kind, plan.Sale)}
		case at < 0:
			return nil, &usageError{"salectl " + command, fmt.Sprintf(
				"%s has a plan for the sale %s, which no file under -f declares; that file names the stores", saved.path, plan.Sale)}
		}
		jobs = append(jobs, job{sales[at], plan})
	}
	return jobs, nil
}

// eachJob is eachSale for jobs.
func (p *program) eachJob(ctx context.Context, from source, jobs []job, do func(*job) error) error {
	var sales []spec.Sale
	for _, j := range jobs {
		sales = append(sales, j.sale)
	}
	at := -1
	return p.eachSale(ctx, from, sales, func(spec.Sale) error {
		at++
		return do(&jobs[at])
	})
}

// makeAll makes the plans of all jobs and shows new ones, before any sale is changed. Saved plans
// are made anew, since the file may be forged. Failures are reported; with JSON the other sales
// have their line, too.
func (p *program) makeAll(ctx context.Context, o planOptions, jobs []job) error {
	var made, failed []string
	err := p.eachJob(ctx, o.source, jobs, func(j *job) (err error) {
		isNew := j.plan == nil
		if j.plan, err = p.makePlan(ctx, *j, o); err != nil {
			failed = append(failed, j.sale.Name)
			return err
		}
		if made = append(made, j.sale.Name); isNew && !o.json {
			p.planText(j.sale, j.plan, o.all)
		}
		return nil
	})
	if err == nil || len(jobs) == 1 || ctx.Err() != nil {
		return err
	}
	why := "nothing was changed, since " + strings.Join(failed, ", ") + " failed"
	if !o.json {
		p.logf("\n%s%s.", strings.ToUpper(why[:1]), why[1:])
		return err
	}
	for _, name := range made {
		p.emit(failureLine{Sale: name, Error: why, ExitCode: ExitCode(err)})
	}
	return err
}

// carryOutAll carries out jobs in sequence, continues after failures, and finally reports the
// outcome of each.
func (p *program) carryOutAll(ctx context.Context, from source, jobs []job, do func(job) error) error {
	outcomes := terminal.NewTable("sale", "outcome")
	begun := 0
	err := p.eachJob(ctx, from, jobs, func(j *job) error {
		err := do(*j)
		begun++
		outcomes.Row(j.sale.Name, outcomeOf(*j, err))
		return err
	})
	if len(jobs) > 1 && !from.json {
		for _, j := range jobs[begun:] {
			outcomes.Row(j.sale.Name, "not begun")
		}
		fmt.Fprintln(p.out)
		outcomes.Write(p.out, "", p.colours(p.out).Dim)
	}
	return err
}

// outcomeOf describes the outcome of a plan in a few words.
func outcomeOf(j job, err error) string {
	switch {
	case err != nil:
		what, _ := split(err)
		what, _, _ = strings.Cut(what, "\n")
		return "failed: " + what
	case j.plan.Empty():
		return "unchanged"
	case j.plan.Kind == planner.KindDestroy:
		return "destroyed"
	}
	return fmt.Sprintf("applied, generation %d", j.plan.Generation)
}

// confirmAll prompts for one confirmation of all plans with changes.
func (p *program) confirmAll(ctx context.Context, from source, jobs []job, yes bool, question func(job) string, several string) error {
	var changes []job
	var names []string
	for _, j := range jobs {
		if !j.plan.Empty() {
			changes, names = append(changes, j), append(names, j.sale.Name)
		}
	}
	prompt := ""
	switch len(changes) {
	case 0:
		return nil
	case 1:
		prompt = question(changes[0])
	default:
		prompt = fmt.Sprintf(several, strings.Join(names[:len(names)-1], ", ")+" and "+names[len(names)-1])
	}
	err := p.confirm(ctx, prompt, yes, from.json)
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
