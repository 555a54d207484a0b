package planner

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/planner/plannertest"
)

// How the sale's log stands to a plan decides whether it is carried out, completed
// or stale.
func TestStanding(t *testing.T) {
	digest := ledger.Hash(bytes.Repeat([]byte{7}, 32))
	first, second := plannertest.PlannedOp(plannertest.UID, 1, 1), plannertest.PlannedOp(plannertest.UID, 2, 7)
	one := plannertest.Log(t, first, plannertest.AppliedOp(1))
	intent := new(pb.Planned)
	for name, test := range map[string]struct {
		plan   Plan
		intent *pb.Planned
		ops    []*pb.Op
		want   Standing
	}{
		"of a new sale":               {Plan{After: plannertest.Log(t).Root()}, intent, nil, IsDue},
		"the slot is free":            {Plan{UID: plannertest.UID, Slot: 2, After: one.Root(), Digest: digest}, intent, []*pb.Op{first, plannertest.AppliedOp(1)}, IsDue},
		"the log is another":          {Plan{UID: plannertest.UID, Slot: 2, After: ledger.Hash{1}, Digest: digest}, intent, []*pb.Op{first, plannertest.AppliedOp(1)}, IsOther},
		"the log lags":                {Plan{UID: plannertest.UID, Slot: 2, After: one.Root(), Digest: digest}, intent, []*pb.Op{first}, IsBehind},
		"the slot has the plan":       {Plan{UID: plannertest.UID, Slot: 2, After: one.Root(), Digest: digest}, intent, []*pb.Op{first, plannertest.AppliedOp(1), second}, IsPlanned},
		"the slot has it, and more":   {Plan{UID: plannertest.UID, Slot: 2, After: one.Root(), Digest: digest}, intent, []*pb.Op{first, plannertest.AppliedOp(1), second, plannertest.AppliedOp(2)}, IsPlanned},
		"the slot has another plan":   {Plan{UID: plannertest.UID, Slot: 2, After: one.Root(), Digest: ledger.Hash{9}}, intent, []*pb.Op{first, plannertest.AppliedOp(1), second}, IsOther},
		"another slot has the plan":   {Plan{UID: plannertest.UID, Slot: 1, Digest: digest}, intent, []*pb.Op{first, plannertest.AppliedOp(1), second}, IsOther},
		"the run is sealed":           {Plan{UID: plannertest.UID, Slot: 2, Digest: digest}, intent, []*pb.Op{first, plannertest.AppliedOp(1), plannertest.SealedOp()}, IsEnded},
		"another run is sealed":       {Plan{UID: "another", Slot: 2, Digest: digest}, intent, []*pb.Op{first, plannertest.AppliedOp(1), plannertest.SealedOp()}, IsOther},
		"nothing to append":           {Plan{UID: plannertest.UID, Slot: 2, Generation: 1}, nil, []*pb.Op{first, plannertest.AppliedOp(1)}, IsPlanned},
		"nothing, a later generation": {Plan{UID: plannertest.UID, Slot: 2, Generation: 1}, nil, []*pb.Op{first, plannertest.AppliedOp(1), second}, IsOther},
		"nothing, another run":        {Plan{UID: "another", Slot: 2, Generation: 1}, nil, []*pb.Op{first, plannertest.AppliedOp(1)}, IsOther},
		"nothing, the run is sealed":  {Plan{UID: plannertest.UID, Slot: 2, Generation: 1}, nil, []*pb.Op{first, plannertest.AppliedOp(1), plannertest.SealedOp()}, IsEnded},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.plan.Standing(test.intent, plannertest.Log(t, test.ops...)); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

// withRemedy returns the text of an error and, if it is a refusal, the remedy.
func withRemedy(err error) string {
	if refusal, is := errors.AsType[*Refusal](err); is {
		return err.Error() + ". " + refusal.Remedy
	}
	return err.Error()
}

// A stale plan names the generation that the sale has instead, its author and its changes.
func TestStaleNamesTheChange(t *testing.T) {
	planned := func(generation uint64, change func(*pb.Planned)) *pb.Op {
		op := plannertest.PlannedOp(plannertest.UID, generation, 1)
		p := op.GetPlanned()
		p.Who, p.Spec = "ada@shop", plannertest.JSON(t, plannertest.Tickets(9))
		change(p)
		return op
	}
	for name, c := range map[string]struct {
		change func(*pb.Planned)
		slot   uint64
		want   string
	}{
		"a phase":  {func(p *pb.Planned) { p.Settings.Phase = pb.Phase_PAUSED }, 2, ": generation 2 by ada@shop: phase open -> paused"},
		"a stock":  {func(p *pb.Planned) { p.Spec = plannertest.JSON(t, plannertest.Tickets(8)) }, 2, ": generation 2 by ada@shop: stock 9 -> 8"},
		"nobody":   {func(p *pb.Planned) { p.Who, p.Settings.Phase = "", pb.Phase_PAUSED }, 2, ": generation 2: phase open -> paused"},
		"nothing":  {func(*pb.Planned) {}, 2, ": generation 2 by ada@shop"},
		"a future": {func(p *pb.Planned) { p.Spec = []byte(`{"apiVersion":"salectl/v9"}`) }, 2, ": generation 2 by ada@shop"},
		"before":   {func(*pb.Planned) {}, 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			sale := plannertest.Log(t, planned(1, func(*pb.Planned) {}), plannertest.AppliedOp(1), planned(2, c.change))
			err := (&Plan{Slot: c.slot}).Changed(sale)
			if !errors.Is(err, ErrStale) || !strings.HasSuffix(err.Error(), "has changed since the plan was made"+c.want+"; make a new plan") {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	if err := (&Plan{}).Changed(plannertest.Log(t, planned(1, func(*pb.Planned) {}))); !strings.HasSuffix(err.Error(), ": generation 1 by ada@shop; make a new plan") {
		t.Errorf("a new run: %v", err)
	}
}
