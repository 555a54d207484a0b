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

	"github.com/hashicorp/go-multierror"

	"salectl/backends/ledger"
	"salectl/executor/payments"
	"salectl/planner"
	"salectl/rules"
	"salectl/spec"
)

// source is which sales a command is about, and how it answers.
type source struct {
	files    []string // as -f names them
	named    bool     // -f was given
	names    []string // of the sales to take; none: all of them
	selector spec.Selector
	json     bool
	all      bool          // no list is folded
	timeout  time.Duration // 0: none but that of each step
}

func parseSource(f *flags) source {
	return source{files: f.files(), named: f.c.IsSet("f"), names: f.names(), selector: f.selector(), json: f.on("json"), all: f.on("all"), timeout: f.duration("timeout", 0)}
}

// filesGiven repeats the flags -f, for a command line that is suggested.
func (from source) filesGiven() (flags string) {
	if from.named {
		for _, path := range from.files {
			flags += " -f " + quoted(path)
		}
	}
	return flags
}

// bounded is ctx with the command's time limit.
func (from source) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if from.timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, from.timeout, timedOut(from.timeout))
}

// late says of what was cut short by --timeout how long it has taken. ctx is what bounded
// has made.
func late(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if !errors.Is(cause, errTimeout) || errors.Is(err, errTimeout) || !errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(shown)) {
		return err
	}
	what, remedy := explain(err)
	what = strings.TrimSuffix(what, ": "+context.DeadlineExceeded.Error())
	return advised{cause.Error() + ": " + what, remedy, err}
}

// load reads the sales, and returns those that are chosen. One that is wrong stops all, chosen
// or not: whoever applies a folder means the whole folder, and the wrong one may be a copy
// that was not renamed.
func (p *program) load(ctx context.Context, from source) ([]spec.Sale, error) {
	sales, err := p.loadAll(ctx, from)
	if err != nil {
		return nil, err
	}
	return from.chosen(sales)
}

// loadAll is load, whatever is chosen.
func (p *program) loadAll(ctx context.Context, from source) ([]spec.Sale, error) {
	if err := noPlans(from.files); err != nil {
		return nil, err
	}
	sales, err := p.read(from.files, &endingReader{ctx, p.in})
	p.files, p.several = from.filesGiven(), len(sales) > 1
	err = withExpressions(sales, err)
	switch {
	case err == nil:
		return sales, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx) // a file that was cut short has no problems
	}
	problems := spec.Problems(err)
	if from.json {
		p.emit(problemsJSON(problems))
	}
	p.report(err)
	p.say("\n%s in the sale files.", count(len(problems), "problem"))
	return nil, shown{err}
}

// chosen are the sales that --sale names and the selector chooses. That there are none is an
// error, and so is a name that no sale has: a slip must not look like work done.
func (from source) chosen(sales []spec.Sale) (chosen []spec.Sale, err error) {
	for _, name := range from.names {
		if !slices.ContainsFunc(sales, func(s spec.Sale) bool { return s.Name == name }) {
			return nil, advised{
				fmt.Sprintf("no file under -f declares the sale %s", name),
				fmt.Sprintf("'salectl validate%s' names each of the %s.", from.filesGiven(), count(len(sales), "sale")),
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
			fmt.Sprintf("'salectl validate --json%s' lists the labels of each of the %s.", from.filesGiven(), count(len(sales), "sale")),
			errUsage,
		}
	}
	return chosen, nil
}

// withExpressions adds to what is wrong with sale files what is wrong with the expressions
// in them, which package spec does not read.
func withExpressions(sales []spec.Sale, err error) error {
	all := &multierror.Error{ErrorFormat: spec.ErrorFormat}
	if err != nil {
		all = multierror.Append(all, err)
	}
	for _, sale := range sales {
		if _, err := rules.ForSale(sale); err != nil {
			all = multierror.Append(all, err)
		}
		if err := payments.Validate(sale); err != nil {
			all = multierror.Append(all, err)
		}
	}
	return all.ErrorOrNil()
}

// endingReader is a reader whose reads end with ctx at the latest, also those of
// a terminal. A read of r that is under way then is left behind, and ends with
// the process.
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
	// A read that is left behind must not write to what the caller has back.
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

// eachSale does one thing for every sale, in order. What fails for one is
// told at once and does not stop the others. With JSON, every sale has its
// line: do prints it, or it names the error.
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

// forEach loads the sales and does one thing for each, within the command's time.
func (p *program) forEach(ctx context.Context, from source, do func(context.Context, spec.Sale) error) error {
	sales, err := p.load(ctx, from)
	if err != nil {
		return err
	}
	ctx, cancel := from.bounded(ctx)
	defer cancel()
	return p.eachSale(ctx, from, sales, func(sale spec.Sale) error { return do(ctx, sale) })
}

// failed tells that something failed for one sale.
func (p *program) failed(sale string, asJSON bool, err error) error {
	if errors.As(err, new(shown)) {
		return err
	}
	err = p.plainly(sale, err)
	if asJSON {
		p.emit(failure(sale, err))
	}
	if !strings.Contains(err.Error(), sale) {
		err = fmt.Errorf("%s: %w", sale, err)
	}
	p.report(err)
	return shown{err}
}

// plainly leaves of a sale that is not there (any more) the sentence that says
// so: which log was missing helps nobody. It completes the commands of the remedy.
func (p *program) plainly(sale string, err error) error {
	what, remedy := explain(err)
	about := "sale " + sale + " "
	gone, found := strings.CutSuffix(what, ": "+ledger.ErrGone.Error())
	if found && errors.Is(err, ledger.ErrGone) && strings.HasPrefix(what, about) {
		if what = gone; what == about+"does not exist" {
			remedy = "Run 'salectl apply' first."
		}
	} else if remedy == "" {
		return err
	}
	return advised{what, p.withFlags(remedy, sale), err}
}

// suggested matches a command in a text of the program, unless it names a file or an address.
var suggested = regexp.MustCompile(`'salectl [a-z0-9 -]+'`)

// withFlags adds to the commands in a text the flags that name the sale and its files, so that
// they work when pasted. The text must not come from a server or a user.
func (p *program) withFlags(text, sale string) string {
	flags := p.files
	if p.several {
		flags += " --sale " + quoted(sale)
	}
	return suggested.ReplaceAllStringFunc(text, func(command string) string {
		return strings.TrimSuffix(command, "'") + flags + "'"
	})
}

// failure is the failureLine of a sale.
func failure(sale string, err error) failureLine {
	what, remedy := explain(err)
	f := failureLine{FormatVersion: formatVersion, Sale: sale, Error: what, Remedy: remedy, ExitCode: ExitCode(err)}
	if drift := new(planner.DriftError); errors.As(err, &drift) {
		f.Address, f.ActionReason = drift.Address, drift.Reason
	}
	return f
}

// failureLine stands in the place of a sale's answer where there is none.
type failureLine struct {
	FormatVersion int    `json:"formatVersion"`
	Sale          string `json:"sale"`
	Error         string `json:"error"`
	Remedy        string `json:"remedy,omitempty"`
	ExitCode      int    `json:"exitCode"`
	// Address and ActionReason are of drift that only people can mend, as a plan has them.
	Address      string               `json:"address,omitempty"`
	ActionReason planner.ActionReason `json:"actionReason,omitempty"`
}

// problemList is what is wrong with the files, as JSON.
type problemList struct {
	FormatVersion int           `json:"formatVersion"`
	Problems      []problemLine `json:"problems"`
}

type problemLine struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

func problemsJSON(problems []*spec.Problem) problemList {
	list := problemList{FormatVersion: formatVersion, Problems: []problemLine{}}
	for _, p := range problems {
		list.Problems = append(list.Problems, problemLine{p.File, p.Line, p.Column, p.Message, p.Remedy})
	}
	return list
}
