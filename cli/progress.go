package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/schollz/progressbar/v3"

	"salectl/backends/ledger"
	"salectl/cli/terminal"
	"salectl/planner"
	"salectl/planner/apply"
	"salectl/spec"
)

// bar is a progress bar on standard error; nil draws nothing.
type bar struct{ drawn *progressbar.ProgressBar }

// newBar returns a bar with a number of steps, or nil if standard error is no terminal or
// quiet is set: with JSON there is no other output.
func (p *program) newBar(what string, steps int64, quiet bool, more ...progressbar.Option) *bar {
	if kind, _ := p.env("TERM"); quiet || kind == "dumb" || !terminal.IsTerminal(p.err) {
		return nil
	}
	columns, _ := terminal.Size(p.err)
	const describing = 24 // columns, so that the bar has a fixed place
	return &bar{progressbar.NewOptions64(steps, append([]progressbar.Option{
		progressbar.OptionSetWriter(p.err),
		progressbar.OptionSetDescription(fmt.Sprintf("%-*s", describing, what)),
		progressbar.OptionSetWidth(max(min(columns-describing-32, 40), 8)),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetRenderBlankState(true),
		progressbar.OptionClearOnFinish(),
	}, more...)...)}
}

// at sets the number of completed steps and the description of the last one.
func (b *bar) at(done int, what string) {
	if b != nil {
		b.drawn.Describe(fmt.Sprintf("%-24.24s", what))
		_ = b.drawn.Set(done) // a missing bar is no failure
	}
}

func (b *bar) add(steps int) {
	if b != nil {
		_ = b.drawn.Add(steps)
	}
}

// end removes the bar.
func (b *bar) end() {
	if b != nil {
		_ = b.drawn.Finish()
	}
}

// progress returns a function that reports each step of a plan, and one that ends the report. On
// a terminal, report draws a bar for a plan with many steps. Elsewhere it prints a line a step; of
// many shards or lists it prints only as many lines as lists fold.
func (p *program) progress(plan *planner.Plan, asJSON bool) (report func(apply.Progress), end func()) {
	if many := len(plan.Actions) > terminal.FoldBeyond; many {
		if bar := p.newBar("", int64(len(plan.Actions)), asJSON); bar != nil {
			return func(is apply.Progress) { bar.at(is.Done, is.Address+" "+done(is)) }, bar.end
		}
	}
	seen, each := 0, max(len(plan.Actions)/terminal.FoldBeyond, 1)
	return func(is apply.Progress) {
		note := ""
		switch kind, _, _ := strings.Cut(is.Address, "/"); {
		case is.Note != "":
			note = ": " + is.Note
		case kind == "shard" || kind == "list":
			if seen++; seen%each != 0 {
				return
			}
		}
		digits := len(fmt.Sprint(is.Total))
		p.logf("[%*d/%d] %s %s%s", digits, is.Done, is.Total, is.Address, done(is), note)
	}, func() {}
}

// done returns the past tense of a step's action.
func done(is apply.Progress) string {
	past := map[string]string{
		planner.Create: "created", planner.Update: "updated", planner.Delete: "deleted",
		"close": "closed", "wait": "waiting", "seal": "sealed", "export": "exported",
	}
	return cmp.Or(past[is.Action], is.Action)
}

// longRead is the number of slots from which on the progress of reading is shown.
const longRead = 20_000

// watchRead returns logs that show the progress of reading a sale, if that may take long and
// quiet is not set. passes is the number of reads of every slot. The caller must call end
// afterwards.
func (p *program) watchRead(ctx context.Context, logs ledger.Logs, sale, what string, passes int64, quiet bool) (watched ledger.Logs, end func()) {
	nothing := func() {}
	if quiet || !terminal.IsTerminal(p.err) {
		return logs, nothing
	}
	log := ledger.NewSale(spec.SaleLog(sale))
	if _, err := ledger.Load(ctx, logs, spec.SaleLog(sale), log); err != nil {
		return logs, nothing // the read of the sale reports why
	}
	w := &watchedLogs{Logs: logs, shards: map[string]bool{}}
	shards := log.ShardLogs()
	for _, name := range shards {
		w.shards[name] = true
	}
	heads, err := logs.Heads(ctx, shards)
	if err != nil {
		return logs, nothing
	}
	slots := int64(0)
	for _, head := range heads {
		if h, err := ledger.ParseHead(head); err == nil {
			slots += int64(h.Slot) + 1
		}
	}
	if slots < longRead {
		return logs, nothing
	}
	w.bar = p.newBar(what, slots*passes, quiet)
	if scanner, can := logs.(ledger.Scanner); can {
		return &watchedScanner{w, scanner}, w.bar.end
	}
	return w, w.bar.end
}

// watchedLogs counts the slots read from some logs.
type watchedLogs struct {
	ledger.Logs
	shards map[string]bool
	bar    *bar
}

func (w *watchedLogs) Read(ctx context.Context, log string, from uint64, max int) (head []byte, entries [][]byte, err error) {
	head, entries, err = w.Logs.Read(ctx, log, from, max)
	if w.shards[log] {
		w.bar.add(len(entries))
	}
	return head, entries, err
}

// watchedScanner also counts scanned slots.
type watchedScanner struct {
	*watchedLogs
	scanner ledger.Scanner
}

func (w *watchedScanner) Scan(ctx context.Context, logs []string, each func(log int, entry []byte) error) error {
	const together = 1000 // drawing takes longer than folding
	counted := 0
	return w.scanner.Scan(ctx, logs, func(log int, entry []byte) error {
		if counted++; counted%together == 0 {
			w.bar.add(together)
		}
		return each(log, entry)
	})
}
