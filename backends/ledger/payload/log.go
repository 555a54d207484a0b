// Package payload stores and reads what the units of a sale are, where they are more than numbers:
// codes, seats, or other texts that their buyers are told.
//
// They stand in a log of their own, which nobody owns: whoever carries out a plan appends to it
// with a ledger.Writer, before the sale's log has the plan. Log folds that log and keeps where each
// unit stands. Reader reads the units themselves, opens those that are sealed with a key, and keeps
// what it has read last; its methods are safe for concurrent use. A sealed payload cannot be moved
// to another unit, plan or sale (Seal): ErrCorrupt says that one was.
//
// Which plan has added a unit is for the sale's log to say, and for callers to hand on (Follow).
// They also decide who is told: Reader.Tells says what a claim's buyer may know.
package payload

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
)

// Log is what the log of a run's units has: for each plan that adds units to the run,
// where it says what they are. Like ledger.State it is never anything but a fold. It keeps places
// and not the payloads, which may be many.
//
// Whoever carries out a plan stores what its units are before the sale's log has its
// Planned. So there may be payloads of plans that came to nothing, for numbers that
// another plan has given to other units: which plan has added a unit the sale's log says.
// Several processes that carry out one plan store the same units; what is stored twice
// counts once.
type Log struct {
	tail   *ledger.Tail
	plans  map[ledger.Hash]*planPayloads
	hashes []ledger.Hash // of each slot
}

// planPayloads are those of one plan.
type planPayloads struct {
	columns []string
	key     string
	parts   []part // each begins where the one before ends
}

// part are units of one slot.
type part struct {
	units ledger.Range
	slot  uint64
}

// NewLog returns a log of units before its first slot.
func NewLog(log string) *Log {
	return &Log{tail: ledger.NewTail(log), plans: make(map[ledger.Hash]*planPayloads)}
}

// Log returns the log's name.
func (p *Log) Log() string { return p.tail.Log() }

// Next returns the slot after the last one folded.
func (p *Log) Next() uint64 { return p.tail.Next() }

// Root returns the hash of the last slot folded.
func (p *Log) Root() ledger.Hash { return p.tail.Root() }

// Fold takes in the next slot. After an error the state is of no use.
func (p *Log) Fold(entry []byte) error {
	commit, err := p.tail.Decode(entry)
	if err != nil {
		return err
	}
	return p.Apply(commit, sha256.Sum256(entry))
}

// Apply takes in a commit whose stored bytes are known to be right.
func (p *Log) Apply(c *pb.Commit, hash ledger.Hash) error {
	payload, err := payloadOf(c)
	if err != nil {
		return p.tail.Corrupt("%v", err)
	}
	if err := p.add(payload, true); err != nil {
		return p.tail.Corrupt("%v", err)
	}
	p.tail.Skip(ledger.Head{Slot: p.tail.Next(), Hash: hash, TimeUs: c.GetTimeUs()})
	p.hashes = append(p.hashes, hash)
	return nil
}

// payloadOf is the one op that a commit of such a log has.
func payloadOf(c *pb.Commit) (*pb.Payload, error) {
	if ops := c.GetOps(); len(ops) == 1 && ops[0].GetPayload() != nil {
		return ops[0].GetPayload(), nil
	}
	return nil, fmt.Errorf("it is of a kind that no log of units has (written by a newer version?)")
}

// add takes a payload in, or only says whether it could be.
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
		known.parts = append(known.parts, part{ledger.Range{First: op.GetFirst(), Count: op.GetCount()}, p.tail.Next()})
		p.plans[plan] = known
	}
	return nil
}

// end is the unit behind the last that is stored.
func (k *planPayloads) end() int64 {
	return k.parts[len(k.parts)-1].units.End()
}

// Stored returns the unit behind the last of a plan that is stored; 0: none is.
func (p *Log) Stored(plan ledger.Hash) int64 {
	if known := p.plans[plan]; known != nil {
		return known.end()
	}
	return 0
}

// Find returns the slot that has a unit of a plan, and the units beside it there.
func (p *Log) Find(plan ledger.Hash, unit int64) (slot uint64, beside ledger.Range, ok bool) {
	known := p.plans[plan]
	if known == nil {
		return 0, ledger.Range{}, false
	}
	i, found := slices.BinarySearchFunc(known.parts, unit, func(x part, unit int64) int { return x.units.Compare(unit) })
	if !found {
		return 0, ledger.Range{}, false
	}
	return known.parts[i].slot, known.parts[i].units, true
}

// Part returns how much of the log an export has: to the last of those units that plans have
// added, nil if none is stored.
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

// Missing returns those units of a plan that the log does not say anything of.
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

// Entry encodes a payload to follow. It fails on one that could not.
func (p *Log) Entry(writer []byte, timeUs int64, op *pb.Payload) (*ledger.Entry, error) {
	if err := p.add(op, false); err != nil {
		return nil, fmt.Errorf("log %s, slot %d: %w", p.tail.Log(), p.tail.Next(), err)
	}
	return p.tail.Entry(&pb.Commit{Writer: writer, TimeUs: timeUs, Ops: []*pb.Op{{Op: &pb.Op_Payload{Payload: op}}}})
}
