// Package payload stores and reads the payloads of a sale's units, where these are more than numbers:
// codes, seats, or other texts that their buyers receive.
//
// Payloads are in a log of their own, which has no owner: any process that carries out a plan appends
// to it with a ledger.Writer, before the sale's log has the plan. Log folds that log and keeps the slot
// of each unit. Reader reads the payloads, opens those that are sealed with a key, and caches those
// read last; its methods are safe for concurrent use. A sealed payload cannot be moved to another
// unit, plan or sale (Seal): ErrCorrupt reports that one was.
//
// The sale's log determines which plan has added a unit; callers pass that on (Follow). They also
// decide who receives a payload: Reader.Discloses reports whether a claim's buyer may.
package payload

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
)

// Log is the fold of the log of a run's units and nothing else: for each plan that adds units to
// the run, the slots of their payloads. It does not keep the payloads, which may be many.
//
// A process that carries out a plan stores its payloads before the sale's log has its Planned.
// So there may be payloads of plans that failed, for numbers that another plan has given to
// other units: the sale's log determines which plan has added a unit. Several processes that
// carry out one plan store the same payloads; a payload that is stored twice counts once.
type Log struct {
	*ledger.Tail
	plans  map[ledger.Hash]*planPayloads
	hashes []ledger.Hash // of each slot
}

// planPayloads are the payloads of one plan.
type planPayloads struct {
	columns []string
	key     string
	parts   []part // each begins where the one before ends
}

// part is a range of units in one slot.
type part struct {
	units ledger.Range
	slot  uint64
}

// NewLog returns a log of units before its first slot.
func NewLog(log string) *Log {
	return &Log{Tail: ledger.NewTail(log), plans: make(map[ledger.Hash]*planPayloads)}
}

// Fold applies the entry of the next slot. After an error the state must not be used.
func (p *Log) Fold(entry []byte) error {
	commit, err := p.Decode(entry)
	if err != nil {
		return err
	}
	return p.Apply(commit, sha256.Sum256(entry))
}

// Apply applies a commit whose stored bytes are known to be right.
func (p *Log) Apply(c *pb.Commit, hash ledger.Hash) error {
	payload, err := payloadOf(c)
	if err != nil {
		return p.Corrupt("%v", err)
	}
	if err := p.add(payload, true); err != nil {
		return p.Corrupt("%v", err)
	}
	p.Skip(ledger.Head{Slot: p.Next(), Hash: hash, TimeUs: c.GetTimeUs()})
	p.hashes = append(p.hashes, hash)
	return nil
}

// payloadOf returns the one op of a commit in a log of units.
func payloadOf(c *pb.Commit) (*pb.Payload, error) {
	if ops := c.GetOps(); len(ops) == 1 && ops[0].GetPayload() != nil {
		return ops[0].GetPayload(), nil
	}
	return nil, fmt.Errorf("it is of a kind that no log of units has (written by a newer version?)")
}

// add records a payload or, unless keep is set, only checks it.
func (p *Log) add(op *pb.Payload, keep bool) error {
	var plan ledger.Hash
	if len(op.GetPlan()) != len(plan) || op.GetCount() < 1 || !(ledger.Range{First: op.GetFirst(), Count: op.GetCount()}).Valid() {
		return fmt.Errorf("units %d+%d of plan %x are no payload", op.GetFirst(), op.GetCount(), op.GetPlan())
	}
	copy(plan[:], op.GetPlan())
	known := p.plans[plan]
	switch {
	case known == nil:
		known = &planPayloads{columns: op.GetColumns(), key: op.GetKey()}
	case known.key != op.GetKey() || !slices.Equal(known.columns, op.GetColumns()):
		return fmt.Errorf("the units of plan %v are stored under two keys, or with two sets of columns", plan)
	case op.GetFirst() < known.end():
		return nil // another process has stored them
	case op.GetFirst() > known.end():
		return fmt.Errorf("the units of plan %v go on with %d after %d", plan, op.GetFirst(), known.end()-1)
	}
	if keep {
		known.parts = append(known.parts, part{ledger.Range{First: op.GetFirst(), Count: op.GetCount()}, p.Next()})
		p.plans[plan] = known
	}
	return nil
}

// end returns the unit after the last one stored.
func (k *planPayloads) end() int64 {
	return k.parts[len(k.parts)-1].units.End()
}

// Stored returns the unit after the last one of a plan that is stored; 0: none is.
func (p *Log) Stored(plan ledger.Hash) int64 {
	if known := p.plans[plan]; known != nil {
		return known.end()
	}
	return 0
}

// Find returns the slot that has a unit of a plan.
func (p *Log) Find(plan ledger.Hash, unit int64) (slot uint64, ok bool) {
	known := p.plans[plan]
	if known == nil {
		return 0, false
	}
	i, ok := slices.BinarySearchFunc(known.parts, unit, func(x part, unit int64) int { return x.units.Compare(unit) })
	if !ok {
		return 0, false
	}
	return known.parts[i].slot, true
}

// Part returns the part of the log to export: up to the last stored unit of the plans in added,
// nil if none is stored.
func (p *Log) Part(added []ledger.Added) *ledger.LogPart {
	next := uint64(0)
	for _, a := range added {
		if known := p.plans[a.Plan]; known != nil {
			next = max(next, known.parts[len(known.parts)-1].slot+1)
		}
	}
	if next == 0 {
		return nil
	}
	return &ledger.LogPart{Slots: next, Root: p.hashes[next-1]}
}

// Missing returns the units of a plan whose payloads the log does not have.
func (p *Log) Missing(a ledger.Added) ledger.Units {
	missing := ledger.Units{a.Units}
	if known := p.plans[a.Plan]; known != nil {
		for _, part := range known.parts {
			missing = missing.Minus(ledger.Units{part.units})
		}
	}
	return missing
}

// KeyID returns the id of the key that units are sealed with, "" if none are.
func (p *Log) KeyID() (id string) {
	for _, known := range p.plans {
		id = known.key
	}
	return id
}

// Entry encodes the next commit, with op. It fails if the log would reject op.
func (p *Log) Entry(writer []byte, timeUs int64, op *pb.Payload) (*ledger.Entry, error) {
	if err := p.add(op, false); err != nil {
		return nil, fmt.Errorf("log %s, slot %d: %w", p.Log(), p.Next(), err)
	}
	return p.Tail.Entry(&pb.Commit{Writer: writer, TimeUs: timeUs, Ops: []*pb.Op{{Op: &pb.Op_Payload{Payload: op}}}})
}
