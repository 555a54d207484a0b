package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/hashicorp/go-multierror"

	"salectl/planner"
	"salectl/rules"
	"salectl/spec"
)

// source selects the sales of a command, and the form of its answer.
type source struct {
	files    []string // values of -f
	named    bool     // -f was given
	names    []string // names of the selected sales; empty: all
	selector spec.Selector
	json     bool
	all      bool          // fold no list
	timeout  time.Duration // 0: only those of single steps
}

func parseSource(f *flags) source {
	return source{files: f.files(), named: f.c.IsSet("f"), names: f.names(), selector: f.selector(), json: f.on("json"), all: f.on("all"), timeout: f.duration("timeout", 0)}
}

// filesGiven returns the flags -f, for a suggested command line.
func (from source) filesGiven() (flags string) {
	if from.named {
		for _, path := range from.files {
			flags += " -f " + quoted(path)
		}
	}
	return flags
}

// bounded returns ctx with the command's time limit.
func (from source) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if from.timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, from.timeout, timedOut(from.timeout))
}

// late adds the duration to an error caused by --timeout. ctx is the result of bounded.
func late(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if !errors.Is(cause, errTimeout) || errors.Is(err, errTimeout) || !errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(shown)) {
		return err
	}
	what, remedy := split(err)
	return advised{cause.Error() + ": " + what, remedy, err}
}

// load reads the sales and returns the selected ones. An invalid one is an error even if it is
// not selected: a folder is applied as a whole, and the invalid one may be a copy that was not
// renamed.
func (p *program) load(ctx context.Context, from source) ([]spec.Sale, error) {
	sales, err := p.loadAll(ctx, from)
	if err != nil {
		return nil, err
	}
	return from.chosen(sales)
}

// loadAll is load without selection.
func (p *program) loadAll(ctx context.Context, from source) ([]spec.Sale, error) {
	if err := noPlans(from.files); err != nil {
		return nil, err
	}
	sales, foreign, err := p.read(from.files, &endingReader{ctx, p.in})
	if len(foreign) > 0 {
		names := strings.Join(foreign[:min(len(foreign), 5)], ", ")
		if more := len(foreign) - 5; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		p.logf("Ignored, since they declare no sale: %s. Add names or patterns to .salectlignore in their folder to omit this line.", names)
	}
	p.files, p.several = from.filesGiven(), len(sales) > 1
	err = withExpressions(sales, err)
	switch {
	case err == nil:
		return sales, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx) // an incomplete file has no problems
	}
	problems := spec.Problems(err)
	if from.json {
		p.emit(struct {
			Problems []*spec.Problem `json:"problems"`
		}{problems})
	}
	p.report(err)
	p.logf("\n%s in the sale files.", count(len(problems), "problem"))
	return nil, shown{err}
}

// chosen returns the sales that --sale and the selector select. An empty result is an error,
// and so is an unknown name: a typing error must not appear to succeed.
func (from source) chosen(sales []spec.Sale) (chosen []spec.Sale, err error) {
	for _, name := range from.names {
		if !slices.ContainsFunc(sales, func(s spec.Sale) bool { return s.Name == name }) {
			return nil, advised{
				fmt.Sprintf("no file under -f declares the sale %s", name),
				fmt.Sprintf("Run 'salectl validate%[2]s': the files declare %[1]s.", count(len(sales), "sale"), from.filesGiven()),
				errUsage,
			}
		}
	}
	for _, sale := range sales {
		if (len(from.names) == 0 || slices.Contains(from.names, sale.Name)) && from.selector.Matches(sale.Labels) {
			chosen = append(chosen, sale)
		}
	}
	if len(chosen) == 0 {
		return nil, advised{
			fmt.Sprintf("the labels of no sale match --selector %q", from.selector),
			fmt.Sprintf("Run 'salectl validate --json%[2]s' for the labels: the files declare %[1]s.", count(len(sales), "sale"), from.filesGiven()),
			errUsage,
		}
	}
	return chosen, nil
}

// withExpressions adds problems of CEL expressions to those of the sale files. Package spec
// does not parse expressions.
func withExpressions(sales []spec.Sale, err error) error {
	all := &multierror.Error{ErrorFormat: spec.ErrorFormat}
	if err != nil {
		all = multierror.Append(all, err)
	}
	for _, sale := range sales {
		if _, err := rules.ForSale(sale); err != nil {
			all = multierror.Append(all, err)
		}
		if _, _, err := rules.ForPayments(sale); err != nil {
			all = multierror.Append(all, err)
		}
	}
	return all.ErrorOrNil()
}

// endingReader is a reader whose reads end with ctx at the latest, even those of a terminal. A
// pending read of r then stays, and ends with the process.
type endingReader struct {
	ctx context.Context
	r   io.Reader
}

func (e *endingReader) Read(b []byte) (int, error) {
	type result struct {
		text []byte
		err  error
	}
	done := make(chan result, 1)
	// An abandoned read must not write to the caller's buffer.
	own := make([]byte, len(b))
	go func() {
		n, err := e.r.Read(own)
		done <- result{own[:n], err}
	}()
	select {
	case <-e.ctx.Done():
		return 0, context.Cause(e.ctx)
	case is := <-done:
		return copy(b, is.text), is.err
	}
}

// eachSale runs do for every sale, in order. A failure is reported at once and does not stop
// the others. With JSON, every sale has its line: do prints it, or the line has the error.
func (p *program) eachSale(ctx context.Context, from source, sales []spec.Sale, do func(spec.Sale) error) error {
	var failures *multierror.Error
	for _, sale := range sales {
		if ctx.Err() != nil {
			return multierror.Append(failures, context.Cause(ctx))
		}
		err := late(ctx, do(sale))
		if err == nil {
			continue
		}
		failures = multierror.Append(failures, p.failed(sale.Name, from.json, err))
	}
	return failures.ErrorOrNil()
}

// forEach loads the sales and runs do for each, within the command's time limit.
func (p *program) forEach(ctx context.Context, from source, do func(context.Context, spec.Sale) error) error {
	return p.forEachIf(ctx, from, func([]spec.Sale) error { return nil }, do)
}

// forEachIf is forEach for a command that may refuse the sales as a whole.
func (p *program) forEachIf(ctx context.Context, from source, check func([]spec.Sale) error, do func(context.Context, spec.Sale) error) error {
	sales, err := p.load(ctx, from)
	if err == nil {
		err = check(sales)
	}
	if err != nil {
		return err
	}
	ctx, cancel := from.bounded(ctx)
	defer cancel()
	return p.eachSale(ctx, from, sales, func(sale spec.Sale) error { return do(ctx, sale) })
}

// isForOne returns a check that refuses several sales if a flag is given that is for one.
func isForOne(command, flag string, given bool) func([]spec.Sale) error {
	return func(sales []spec.Sale) error {
		if given && len(sales) > 1 {
			return &usageError{"salectl " + command, fmt.Sprintf("--%s is for one sale, but %d are selected", flag, len(sales))}
		}
		return nil
	}
}

// failed reports the failure of one sale.
func (p *program) failed(sale string, asJSON bool, err error) error {
	if errors.As(err, new(shown)) {
		return err
	}
	err = p.withSaleFlags(sale, err)
	if asJSON {
		p.emit(failure(sale, err))
	}
	words := strings.FieldsFunc(err.Error(), func(r rune) bool { return r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if !slices.Contains(words, sale) {
		err = fmt.Errorf("%s: %w", sale, err)
	}
	p.report(err)
	return shown{err}
}

// withSaleFlags completes the commands of an error's remedy.
func (p *program) withSaleFlags(sale string, err error) error {
	what, remedy := split(err)
	if remedy == "" {
		return err
	}
	return advised{what, p.withFlags(remedy, sale), err}
}

// suggested matches a command in a text, unless it names a file or an address.
var suggested = regexp.MustCompile(`'salectl [a-z0-9 -]+'`)

// withFlags adds to the commands in a text the flags for the sale and its files, so that they
// can be pasted. The text must not come from a server or a user.
func (p *program) withFlags(text, sale string) string {
	flags := p.files
	if p.several {
		flags += " --sale " + quoted(sale)
	}
	return suggested.ReplaceAllStringFunc(text, func(command string) string {
		return strings.TrimSuffix(command, "'") + flags + "'"
	})
}

// failure returns the failureLine of a sale.
func failure(sale string, err error) failureLine {
	what, remedy := split(err)
	f := failureLine{Sale: sale, Error: what, Remedy: remedy, ExitCode: ExitCode(err)}
	if drift := new(planner.DriftError); errors.As(err, &drift) {
		f.Address, f.ActionReason = drift.Address, drift.Reason
	}
	return f
}

// failureLine replaces a sale's answer if the command failed for it.
type failureLine struct {
	Sale     string `json:"sale"`
	Error    string `json:"error"`
	Remedy   string `json:"remedy,omitempty"`
	ExitCode int    `json:"exitCode"`
	// Address and ActionReason describe drift that only people can repair, as in a plan.
	Address      string               `json:"address,omitempty"`
	ActionReason planner.ActionReason `json:"actionReason,omitempty"`
}
