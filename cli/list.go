package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"
	urfave "github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"salectl/backends"
	"salectl/cli/planview"
	"salectl/cli/terminal"
	"salectl/planner/current"
	"salectl/spec"
)

func (p *program) listCommand() *urfave.Command {
	return &urfave.Command{
		Name: "list", Category: groupInspect, Usage: "list all sales in the ledgers that the files name",
		Description: "Lists every sale in each ledger that a file under -f names, and the file that declares " +
			"it. A live sale without a file may have been applied from elsewhere, or its file was " +
			"deleted: to destroy it, run 'salectl destroy' with a file that declares it.",
		Flags:  []urfave.Flag{fileFlag(), timeoutFlag(), jsonFlag()},
		Action: action(parseSource, p.list),
	}
}

// keptAt is a location of ledgers, with the declarations of sales there.
type keptAt struct {
	home  spec.Home
	sales []spec.Sale // never empty
}

// placesOf groups sales by location.
func placesOf(sales []spec.Sale) (all []keptAt, err error) {
	for _, sale := range sales {
		home, err := sale.Ledger()
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(all, func(k keptAt) bool { return k.home.Key() == home.Key() })
		if i < 0 {
			i = len(all)
			all = append(all, keptAt{home: home})
		}
		all[i].sales = append(all[i].sales, sale)
	}
	return all, nil
}

// declaredBy returns the file that declares a sale, "" if none does.
func (k *keptAt) declaredBy(sale string) string {
	for _, s := range k.sales {
		if s.Name == sale {
			return s.File
		}
	}
	return ""
}

// listed is the output of list for one location.
type listed struct {
	Place string       `json:"place"`
	Sales []listedSale `json:"sales"` // by name
}

type listedSale struct {
	Sale           string `json:"sale"`
	*current.Brief        // nil if Error is set
	File           string `json:"file,omitempty"` // declaring file; "": none under -f
	Error          string `json:"error,omitempty"`
}

func (p *program) list(ctx context.Context, from source) error {
	show := pick(from.json, p.listText, func(l *listed) { p.emit(l) })
	sales, err := p.load(ctx, from)
	if err != nil {
		return err
	}
	places, err := placesOf(sales)
	if err != nil {
		return err
	}
	ctx, cancel := from.bounded(ctx)
	defer cancel()
	var failures *multierror.Error
	for _, at := range places {
		err := p.withStore(at.sales[0], func(store *backends.Store) error {
			l, err := listPlace(ctx, store, at)
			if l != nil {
				show(l)
			}
			return err
		})
		if err != nil {
			failures = multierror.Append(failures, p.failed(at.home.At(), from.json, late(ctx, err)))
		}
	}
	return failures.ErrorOrNil()
}

// listedAtOnce bounds the number of sales read concurrently, so that one that does not answer
// delays no other.
const listedAtOnce = 16

// listPlace reads all sales of a location. Beside an error of some sales it returns the
// others.
func listPlace(ctx context.Context, store *backends.Store, at keptAt) (*listed, error) {
	names, err := current.ListSales(ctx, store.Logs)
	if err != nil {
		return nil, err
	}
	l := &listed{Place: at.home.At(), Sales: make([]listedSale, len(names))}
	failures := make([]error, len(names))
	var reading errgroup.Group
	reading.SetLimit(listedAtOnce)
	for i, name := range names {
		reading.Go(func() error {
			one := listedSale{Sale: name, File: at.declaredBy(name)}
			var err error
			if one.Brief, err = current.Summarize(ctx, store.Logs, name); err != nil {
				failures[i] = late(ctx, err)
				one.Error = failures[i].Error()
			}
			l.Sales[i] = one
			return nil
		})
	}
	reading.Wait()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errTimeout) {
		return nil, cause
	}
	return l, multierror.Append(nil, failures...).ErrorOrNil()
}

func (p *program) listText(l *listed) {
	c := p.colours(p.out)
	p.gap()
	fmt.Fprintf(p.out, "%s: %s\n", c.Bold(l.Place), count(len(l.Sales), "sale"))
	if len(l.Sales) == 0 {
		return
	}
	t := terminal.NewTable("sale", "phase", ">run", ">generation", ">stock", ">available", ">held", ">sold", "declared in", "")
	for _, s := range l.Sales {
		if s.Error != "" {
			t.Row(s.Sale, c.Red("unknown"), "", "", "", "", "", "", s.Error, "")
			continue
		}
		var about []string
		s.About.Each(func(key, text string) { about = append(about, key+": "+text) })
		t.Row(s.Sale, s.Phase, s.Run, s.Generation, grouped(s.Stock), grouped(s.Available), grouped(s.Held), grouped(s.Sold)+partly(s.Unread), orDash(s.File), strings.Join(about, "; "))
	}
	t.Write(p.out, "  ", c.Dim)
}

// partly marks sums that omit shards.
func partly(unread int) string {
	if unread == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s not read)", count(int64(unread), "shard"))
}

// undeclaredAt returns the live sales of the locations of a folder's files that no file
// declares. It omits a location that cannot be read, since the plans of its sales have
// reported that.
func (p *program) undeclaredAt(ctx context.Context, sales []spec.Sale) (all []planview.UndeclaredSales, err error) {
	places, err := placesOf(sales)
	if err != nil {
		return nil, err
	}
	for _, at := range places {
		err := p.withStore(at.sales[0], func(store *backends.Store) error {
			l, err := listPlace(ctx, store, at)
			if l == nil {
				return err
			}
			u := planview.UndeclaredSales{Place: l.Place}
			for _, s := range l.Sales {
				if s.Error == "" && s.File == "" && s.Live() {
					u.Undeclared = append(u.Undeclared, s.Sale)
				}
			}
			if len(u.Undeclared) > 0 {
				all = append(all, u)
			}
			return nil
		})
		if err != nil && ctx.Err() != nil {
			return all, context.Cause(ctx)
		}
	}
	return all, nil
}

func (p *program) undeclaredText(u planview.UndeclaredSales) {
	fmt.Fprintf(p.out, "\n%s has %s that no file here declares, and that nothing here changes: %s\n",
		strings.ToUpper(u.Place[:1])+u.Place[1:], count(int64(len(u.Undeclared)), "live sale"), strings.Join(u.Undeclared, ", "))
}
