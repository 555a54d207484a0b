package planner

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/rules"
	"salectl/spec"
)

// Make plans how a sale reaches its declaration: its creation, a change of its units or
// settings, the completion of an earlier apply, or nothing. If the change is not allowed, the
// error is a *Refusal; if the sale contradicts its log, ledger.ErrCorrupt.
func Make(desired spec.Sale, actual *Actual) (*Plan, error) {
	switch sale := actual.Sale; {
	case sale.UID() == "":
		return create(desired, actual)
	case sale.Destroyed() && desired.Run <= sale.Run():
		return nil, Refuse("run %d of sale %s is destroyed, but its file declares run %d", sale.Run(), actual.Name, desired.Run).
			With("To sell under this name again, write metadata.run: %d; otherwise remove it from its file.", sale.Run()+1)
	case sale.Destroyed():
		return create(desired, actual)
	case sale.Sealed() != nil:
		return nil, Refuse("sale %s is sealed and exported, and not yet deleted", actual.Name).
			With("Run 'salectl destroy' again; then write metadata.run: %d to sell under this name again.", sale.Run()+1)
	case desired.Run > sale.Run():
		return nil, Refuse("run %d of sale %s is live, but its file declares run %d", sale.Run(), actual.Name, desired.Run).
			With("Destroy run %d first.", sale.Run())
	case desired.Run < sale.Run():
		return nil, Refuse("run %d of sale %s is live, but its file declares the earlier run %d", sale.Run(), actual.Name, desired.Run).
			With("Write metadata.run: %d.", sale.Run())
	}
	return change(desired, actual)
}

// create plans a new run.
func create(desired spec.Sale, actual *Actual) (*Plan, error) {
	if desired.Stock > maxUnit {
		return nil, tooManyUnits(actual.Name, desired.Stock)
	}
	if _, _, err := HomesOf(desired, desired); err != nil {
		return nil, Refuse("sale %s: %v", actual.Name, err)
	}
	declaration, err := desired.JSON()
	if err != nil {
		return nil, fmt.Errorf("sale %s: %w", actual.Name, err)
	}
	phase, err := firstPhase(desired, actual)
	if err != nil {
		return nil, err
	}
	p := newPlan(KindApply, actual)
	p.Phase, p.Nonce = "", actual.Nonce
	planned := &pb.Planned{
		Generation: 1, Uid: runUID(actual, declaration), Run: desired.Run, Spec: declaration,
		Settings: settingsOf(desired, phase), NextUnit: 1,
	}
	if err := p.who(desired, true); err != nil {
		return nil, err
	}
	if planned.Units, err = p.payloadDigest(desired); err != nil {
		return nil, err
	}
	planned.Settings.Rows = actual.Units.rowsFrom(1)
	why, reason := ReasonNew, "it does not exist"
	if actual.Sale.Destroyed() {
		why, reason = ReasonNewRun, fmt.Sprintf("run %d is destroyed, this is a new one", actual.Sale.Run())
	}
	if err := p.environment(true); err != nil {
		return nil, err
	}
	after := saleAttributes(desired, desired.Stock, ledger.PhaseName(phase), 1)
	after.UnitsDigest = hex.EncodeToString(planned.GetUnits())
	p.add(Action{Address: SaleAddress(p.Sale), Action: Create, ActionReason: why, Reason: reason, After: after})
	for i, units := range spec.Shares(desired.Stock, desired.LockCount) {
		added := deal(planned, units)
		planned.Shards = append(planned.Shards, &pb.ShardChange{Add: added})
		p.add(Action{
			Address: ShardAddress(i), Action: Create, ActionReason: why, Reason: "the sale is new",
			After: &Attributes{Limit: &units, Units: unitsText(added)},
		})
	}
	if desired.Engine == spec.EngineRedis && phase == pb.Phase_OPEN {
		p.newLists(desired)
	}
	p.markers()
	p.spreadWarning(desired)
	actual.WarnOfDurability(desired.Ack, p.warn)
	p.warnings(planned.GetSettings())
	return p.Plan, p.setPlanned(planned)
}

// environment refuses to change a sale whose table or lock nodes are not set up as required,
// and plans the creation of the table.
func (p *planning) environment(fresh bool) error {
	if err := CheckNodes(p.actual.infos(), len(p.actual.ListNodes) > 0); err != nil {
		return err
	}
	if err := p.table(p.actual.Table, fresh); err != nil {
		return fmt.Errorf("sale %s: %w", p.Sale, err)
	}
	return nil
}

// change plans what brings a live run to its declaration.
func change(desired spec.Sale, actual *Actual) (*Plan, error) {
	sale := actual.Sale
	newest := sale.Newest()
	old, err := Declared(newest)
	if err != nil {
		return nil, fmt.Errorf("sale %s: %w", actual.Name, err)
	}
	shards, err := actual.project()
	if err != nil {
		return nil, err
	}
	phase, err := nextPhase(&desired, old, actual)
	if err != nil {
		return nil, err
	}
	declaration, changed, err := differ(desired, old)
	if err != nil {
		return nil, fmt.Errorf("sale %s: %w", actual.Name, err)
	}
	if err := fixed(desired, old, actual, changed); err != nil {
		return nil, err
	}
	// The settings in force count, not those declared: they differ if a fault has stored a
	// generation with other settings than it declares.
	inForce := newest.GetSettings()
	moved := phase != inForce.GetPhase()
	drifted := inForce.GetPhase() != pb.Phase_CLOSED && !proto.Equal(withRows(inForce, nil), settingsOf(old, inForce.GetPhase()))
	delta, err := shards.delta(desired, old, actual)
	if err != nil {
		return nil, err
	}
	if err := keepsWinners(old, actual, delta); err != nil {
		return nil, err
	}
	p := newPlan(KindApply, actual)
	if err := p.environment(false); err != nil {
		return nil, err
	}
	if err := p.who(desired, false); err != nil {
		return nil, err
	}
	digest, err := p.payloadDigest(desired)
	if err != nil {
		return nil, err
	}
	changed = changed || !bytes.Equal(digest, newest.GetUnits())
	settings := withRows(settingsOf(desired, phase), slices.Concat(inForce.GetRows(), actual.Units.rowsFrom(newest.GetNextUnit())))
	actual.WarnOfDurability(desired.Ack, p.warn)
	if !changed && !drifted && !moved && delta == 0 {
		return p.Plan, p.remaining(shards)
	}
	p.spreadWarning(desired)
	planned := follow(sale, settings)
	planned.Spec, planned.Units = declaration, digest
	if err := shards.distribute(planned, delta, actual); err != nil {
		return nil, err
	}
	before := saleAttributes(old, desired.Stock-delta, p.Phase, newest.GetGeneration())
	before.UnitsDigest = hex.EncodeToString(newest.GetUnits())
	before.inForce(inForce)
	after := saleAttributes(desired, desired.Stock, p.Phase, planned.GetGeneration())
	if moved {
		after.Phase = ledger.PhaseName(phase)
	}
	after.UnitsDigest = hex.EncodeToString(digest)
	p.harm(inForce, settings, actual.At)
	why, reason := updateReason(changed, drifted, moved, declaration, sale)
	p.updateSale(why, reason, before, after)
	p.shards(shards, planned, why)
	p.lists(settings.GetPhase())
	p.leftLists(desired, old, sale.UID())
	p.markers()
	p.warnings(settings)
	return p.Plan, p.setPlanned(planned)
}

// who compares the declaration about users with the actual sources. fresh reports that the run
// is new.
func (p *planning) who(desired spec.Sale, fresh bool) error {
	users := p.actual.Users
	set, err := rules.ForSale(desired)
	if err != nil {
		return err
	}
	if set == nil && (desired.Users != nil || desired.History != nil) {
		p.warn("users or history are declared, but no rules read them")
	}
	for _, pattern := range p.actual.NoHistory {
		p.warn("no file matches %s of history.files, so rules see no purchases from there", pattern)
	}
	var source *rules.SourceError
	switch {
	case users == nil:
	case errors.As(users, &source):
		return Refuse("sale %s: %s", p.Sale, source.What).With("%s", source.Remedy)
	case len(spec.Problems(users)) > 0:
		return users
	case fresh:
		return fmt.Errorf("the users of sale %s cannot be read, which a new sale needs: %w", p.Sale, users)
	default:
		p.warn("the users cannot be checked: %s; while they cannot be read, claims that rules decide are refused", ShortError(users))
	}
	return nil
}

// runUID returns the uid of a new run. It is a hash of all inputs of the run and of a random
// nonce, so that no nonce can be chosen that yields the uid of another run.
func runUID(actual *Actual, declaration []byte) string {
	root := actual.Sale.Root()
	uid := sha256.Sum256(fmt.Appendf(nil, "salectl run\n%s\n%s\n%d\n%x\n%s", actual.Nonce, actual.Name, actual.Sale.Next(), root[:], declaration))
	return hex.EncodeToString(uid[:8])
}
