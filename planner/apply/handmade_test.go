package apply

import (
	"crypto/sha256"
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/proto"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/planner"
)

// Plans that no planner makes.

// planOf returns a plan that appends planned, with actions that nobody has checked.
func planOf(t testing.TB, kind planner.Kind, actual *planner.Actual, planned *pb.Planned, actions ...planner.Action) *planner.Plan {
	t.Helper()
	sale := actual.Sale
	p := &planner.Plan{
		FormatVersion: planner.PlanVersion, Kind: kind, Sale: actual.Name, Phase: sale.Phase(), Slot: sale.Next(), After: sale.Root(),
		Actions: actions, Warnings: []string{},
	}
	seal(t, p, planned)
	return p
}

// seal makes a plan append planned.
func seal(t testing.TB, p *planner.Plan, planned *pb.Planned) {
	t.Helper()
	payload, err := proto.MarshalOptions{Deterministic: true}.Marshal(planned)
	if err != nil {
		t.Fatal(err)
	}
	p.UID, p.Run, p.Generation, p.Payload = planned.GetUid(), planned.GetRun(), planned.GetGeneration(), payload
	if p.Digest, err = planDigest(p); err != nil {
		t.Fatal(err)
	}
}

// planDigest returns the digest of a plan as whoever forges one does.
func planDigest(p *planner.Plan) (ledger.Hash, error) {
	bare := *p
	bare.Digest, bare.Labels = ledger.Hash{}, nil
	b, err := json.Marshal(&bare)
	return sha256.Sum256(b), err
}

// next returns the next generation of a sale, with another phase.
func next(sale *ledger.Sale, phase pb.Phase) *pb.Planned {
	p := proto.CloneOf(sale.Newest())
	p.Generation, p.Settings.Phase = sale.Generation()+1, phase
	p.PlanDigest, p.Who, p.Seed, p.Draw, p.Shards = nil, "", nil, nil, nil
	for range sale.Shards() {
		p.Shards = append(p.Shards, &pb.ShardChange{})
	}
	return p
}

// settings returns those that a plan gives to shards.
func settings(t testing.TB, p *planner.Plan) *pb.Settings {
	t.Helper()
	planned, err := p.Intent()
	if err != nil {
		t.Fatal(err)
	}
	return planned.GetSettings()
}
