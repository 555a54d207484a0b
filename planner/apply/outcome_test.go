package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/planner"
	"salectl/planner/machine"
)

// What an interrupted plan says depends on whether it may have changed something.
func TestStopped(t *testing.T) {
	for name, test := range map[string]struct {
		before func(*execution)
		cause  error
		want   []error
		not    []error
		says   string
	}{
		"at first":              {func(*execution) {}, context.Canceled, []error{errInterrupted, context.Canceled}, []error{planner.ErrPartly, planner.ErrTimeout}, "nothing was changed"},
		"at first, out of time": {func(*execution) {}, context.DeadlineExceeded, []error{planner.ErrTimeout, context.DeadlineExceeded}, []error{planner.ErrPartly}, ""},
		"the table is made":     {func(w *execution) { w.tableMade = true }, context.DeadlineExceeded, []error{planner.ErrPartly}, []error{planner.ErrTimeout}, ""},
		"the plan is sent":      {func(w *execution) { w.planned = sent }, context.Canceled, []error{planner.ErrPartly}, []error{errInterrupted}, ""},
		"the plan is stored":    {func(w *execution) { w.planned = stored }, context.Canceled, []error{planner.ErrPartly}, []error{errInterrupted}, ""},
		"after an error":        {func(w *execution) { w.core.Worry = errors.New("no disk") }, context.Canceled, []error{errInterrupted}, nil, "context canceled; the last error was: no disk"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &execution{core: machine.NewCore(time.Second), plan: &planner.Plan{Kind: planner.KindApply, Sale: "s"}, sale: ledger.NewSale("sale/s")}
			test.before(w)
			w.core.Step(clock.Now{}, func() { w.Stop(test.cause) })
			err := w.Outcome(w.core.Err)
			for _, want := range test.want {
				if !errors.Is(err, want) {
					t.Errorf("%v is not %v", err, want)
				}
			}
			for _, not := range test.not {
				if errors.Is(err, not) {
					t.Errorf("%v is %v", err, not)
				}
			}
			if !strings.Contains(fmt.Sprint(err), test.says) || !strings.HasPrefix(fmt.Sprint(err), "sale s: ") {
				t.Errorf("says %q", err)
			}
		})
	}
}

// An error after the first change leaves the plan carried out in part, unless it
// says more than that.
func TestVerdicts(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		tableMade bool
		planned   planned
		err       error
		partly    bool
	}{
		"before any change":   {false, unsent, broken, false},
		"after the table":     {true, unsent, broken, true},
		"after the plan":      {false, stored, broken, true},
		"stale":               {true, carriedOut, planner.ErrStale, false},
		"refused":             {true, carriedOut, planner.ErrRefused, false},
		"damaged":             {true, found, ledger.ErrCorrupt, false},
		"out of time":         {true, carriedOut, planner.ErrTimeout, false},
		"by the store, known": {false, found, planner.ErrStore, true},
		"by the store, sent":  {false, sent, planner.ErrStore, false},
	} {
		w := &execution{core: machine.NewCore(time.Second), plan: &planner.Plan{Sale: "s"}, tableMade: test.tableMade, planned: test.planned}
		if err := w.Outcome(test.err); !errors.Is(err, test.err) || errors.Is(err, planner.ErrPartly) != test.partly {
			t.Errorf("%s: %v", name, err)
		}
	}
	w := &execution{core: machine.NewCore(time.Second), plan: &planner.Plan{Sale: "s"}, nodes: []lockNode{{NodeInfo: quorum.NodeInfo{Name: "n0"}}, {NodeInfo: quorum.NodeInfo{Name: "n1"}, unmarked: quorum.ErrOtherRun}}}
	w.core.Changed = true
	if err := w.Outcome(nil); !errors.Is(err, planner.ErrPartly) || !strings.Contains(err.Error(), "lock node n1 could not be marked") || strings.Contains(err.Error(), "n0") {
		t.Errorf("an unmarked node: %v", err)
	}
	if !w.result.Changed {
		t.Error("nothing is said to be changed")
	}
	w.result.Shortfall = 3
	if err := w.Outcome(nil); !strings.Contains(err.Error(), ": 3 units ") || !strings.Contains(err.Error(), "; lock node n1") {
		t.Errorf("a shortfall: %v", err)
	}
	w = &execution{core: machine.NewCore(time.Second), plan: &planner.Plan{Sale: "s"}, nodes: []lockNode{{NodeInfo: quorum.NodeInfo{Name: "n0"}}}}
	if err := w.Outcome(nil); err != nil || w.result.Changed {
		t.Errorf("all done: %v, changed %v", err, w.result.Changed)
	}
}
