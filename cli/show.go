package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"salectl/backends"
	"salectl/backends/ledger"
	"salectl/cli/planview"
	"salectl/planner"
	"salectl/planner/current"
	"salectl/spec"
)

// showOptions is the command line of show.
type showOptions struct {
	source
	saved savedPlan // no path: the declarations
	markdownFlags
}

func (p *program) showCommand() *urfave.Command {
	return &urfave.Command{
		Name: "show", Category: groupInspect, Usage: "print the applied declaration of a sale, or a saved plan", ArgsUsage: planFileArgument,
		Description: "Prints the declaration of each sale from the ledger as a document whose plan has no " +
			"changes. With --sale it also finds sales that no file declares, in the ledgers that the " +
			"files under -f name. Paths are relative to the working directory. The ledger does not " +
			"keep paths: the document of a sale without a file has names to be filled in.\n\n" +
			"Of a plan that 'salectl plan --out' has saved, prints what apply or destroy would do " +
			"now, and fails if they would refuse it.",
		Flags: salesFlags(markdownFlag(), titleFlag(), timeoutFlag(), allFlag(), jsonFlag()),
		Action: actionUpTo(1, func(f *flags) showOptions {
			o := showOptions{source: parseSource(f), saved: f.planFile(), markdownFlags: f.markdown()}
			if o.markdown && o.saved.path == "" {
				f.refuse("--markdown is for a saved plan: name its file")
			}
			if name := o.saved.path; errors.Is(o.saved.err, fs.ErrNotExist) && !strings.ContainsAny(name, "./") {
				f.refuse("unexpected argument %q, which is not a saved plan; name a sale with --sale: salectl show --sale %s", name, quoted(name))
			}
			return o
		}, p.show),
	}
}

// showPlans prints what apply or destroy would do with saved plans, since the content of a
// file may be forged.
func (p *program) showPlans(ctx context.Context, o showOptions, sales []spec.Sale) error {
	file := o.saved.path
	jobs, err := jobsOf(o.saved, sales, "show", "")
	if err != nil {
		return err
	}
	page := &planview.Page{Title: o.title, How: "salectl show" + o.filesGiven() + " " + quoted(file)}
	err = p.eachJob(ctx, o.source, jobs, func(j *job) error {
		plan, err := p.makePlan(ctx, *j, planOptions{source: o.source, destroy: j.plan.Kind == planner.KindDestroy})
		if err == nil {
			j.sale.File = map[bool]string{false: file}[o.markdown]
		}
		return p.showPlan(ctx, o.source, o.markdownFlags, page, j.sale, plan, err)
	})
	if o.markdown {
		fmt.Fprint(p.out, page.Text())
	}
	return err
}

// declaration is the output of show for a sale.
type declaration struct {
	Sale        string          `json:"sale"`
	Generation  uint64          `json:"generation"`
	Declaration json.RawMessage `json:"declaration"` // as stored in the ledger and compared by plans
	Document    string          `json:"document"`    // YAML
	Run         int64           `json:"run"`
	Destroyed   bool            `json:"destroyed,omitempty"` // the run is destroyed
}

func (p *program) show(ctx context.Context, o showOptions) error {
	sales, err := p.loadAll(ctx, o.source)
	if err != nil {
		return err
	}
	ctx, cancel := o.bounded(ctx)
	defer cancel()
	if o.saved.path != "" {
		if sales, err = o.chosen(sales); err != nil {
			return err
		}
		return p.showPlans(ctx, o, sales)
	}
	places, err := placesOf(sales)
	if err != nil {
		return err
	}
	for _, name := range o.names {
		if !slices.ContainsFunc(sales, func(s spec.Sale) bool { return s.Name == name }) {
			sales = append(sales, spec.Sale{Name: name}) // no file declares it
		}
	}
	wanted, err := o.chosen(sales)
	if err != nil {
		return err
	}
	shown := 0
	return p.eachSale(ctx, o.source, wanted, func(sale spec.Sale) error {
		d, err := p.inForce(ctx, sale, places)
		if err != nil {
			return err
		}
		if d.Destroyed {
			p.warn([]string{fmt.Sprintf("sale %s is destroyed; this is the declaration of its run %d; 'metadata.run: %d' starts a new run", d.Sale, d.Run, d.Run+1)})
		}
		switch {
		case o.json:
			p.emit(d)
			return nil
		case shown > 0:
			fmt.Fprintln(p.out, "---")
		}
		shown++
		fmt.Fprint(p.out, d.Document)
		return nil
	})
}

// inForce reads the declaration of a sale. A sale without a declaration is searched for at all
// locations.
func (p *program) inForce(ctx context.Context, sale spec.Sale, places []keptAt) (*declaration, error) {
	at := []spec.Sale{sale}
	if sale.File == "" {
		at = nil
		for _, place := range places {
			at = append(at, place.sales[0])
		}
	}
	for _, local := range at {
		var found *ledger.Sale
		err := p.withStore(local, func(store *backends.Store) (err error) {
			found, err = current.ReadOwnLog(ctx, store.Logs, sale.Name)
			return err
		})
		switch {
		case err != nil:
			return nil, err
		case found.UID() != "":
			return newDeclaration(sale.Name, found, local)
		}
	}
	if sale.File == "" { // apply does not create it
		return nil, advised{fmt.Sprintf("sale %s does not exist", sale.Name), "", ledger.ErrGone}
	}
	return nil, ledger.NoSale{Sale: sale.Name}
}

// newDeclaration returns the declaration of a sale's newest generation, with the folder and
// the files named by a file for the same location.
func newDeclaration(name string, sale *ledger.Sale, local spec.Sale) (*declaration, error) {
	stored := sale.Newest().GetSpec()
	declared, err := spec.FromJSON(stored)
	if err != nil {
		return nil, fmt.Errorf("sale %s: %w", name, err)
	}
	document, err := declared.WithFiles(local).YAML()
	if err != nil {
		return nil, fmt.Errorf("sale %s: %w", name, err)
	}
	return &declaration{name, sale.Generation(), stored, string(document), sale.Run(), sale.Destroyed()}, nil
}
