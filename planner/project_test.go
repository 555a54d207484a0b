package planner

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/planner/plannertest"
)

// Generations that a shard has not taken yet are counted on top of its head, and one that
// cannot be read is not taken for one that there is not.
func TestProject(t *testing.T) {
	errDisk := errors.New("no disk")
	first, second, third := plannertest.PlannedOp(plannertest.UID, 1, 1), plannertest.PlannedOp(plannertest.UID, 2, 2), plannertest.PlannedOp(plannertest.UID, 3, 3)
	for _, op := range []*pb.Op{first, second, third} {
		op.GetPlanned().Shards = []*pb.ShardChange{{}, {}}
	}
	first.GetPlanned().Shards[0].Add = []*pb.Range{{First: 1, Count: 10}}
	second.GetPlanned().Shards[0].Remove = 7 // 4 are sold
	third.GetPlanned().Shards[0].Add = []*pb.Range{{First: 11, Count: 3}}
	a := &Actual{Name: "x", Sale: plannertest.Log(t, first, plannertest.AppliedOp(1), second, third), Shards: []ShardActual{
		{Head: &ledger.Head{Totals: ledger.Totals{Generation: 1, Limit: 10, Available: 6}}}, {Err: errDisk},
	}}
	views, err := a.project()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(views.limits, []int64{7, 0}) || !slices.Equal(views.available, []int64{3, 0}) {
		t.Errorf("the shards are seen as %+v", views)
	}
	if err := views.unreadable(); !errors.Is(err, errDisk) {
		t.Errorf("the shards are readable: %v", err)
	}
}

func TestPlanRefusesWhatDoesNotFit(t *testing.T) {
	scattered := new(pb.Planned)
	scattered.Shards = []*pb.ShardChange{{}}
	for i := range int64(200_000) {
		scattered.Shards[0].Drop = append(scattered.Shards[0].Drop, &pb.Range{First: 1 + 2*i, Count: 1})
	}
	if err := (&planning{Plan: &Plan{Sale: "tickets"}}).setPlanned(scattered); !errors.Is(err, ErrRefused) || !strings.Contains(withRemedy(err), "fewer units at a time") {
		t.Errorf("units in 200,000 places go at once: %v", err)
	}
}
