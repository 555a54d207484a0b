package ledger

import (
	"fmt"
	"slices"

	pb "salectl/backends/ledger/ledgerpb"
)

// Payloads is what the log of a run's units has: for each plan that adds units to the run,
// where it says what they are. Like State it is never anything but a fold. It keeps places
// and not the payloads, which may be many.
//
// Whoever carries out a plan stores what its units are before the sale's log has its
// Planned. So there may be payloads of plans that came to nothing, for numbers that
// another plan has given to other units: which plan has added a unit the sale's log says.
// Several processes that carry out one plan store the same units; what is stored twice
// counts once.
type Payloads struct {
	chain
	plans  map[Hash]*planPayloads
	hashes []Hash // of each slot
}

// planPayloads are those of one plan.
type planPayloads struct {
	columns []string
	key     string
	parts   []part // each begins where the one before ends
}

// part are units of one slot.
type part struct {
	units Range
	slot  uint64
}

// NewPayloads returns a log of units before its first slot.
func NewPayloads(log string) *Payloads {
	return &Payloads{chain: newChain(log), plans: make(map[Hash]*planPayloads)}
}

// Next returns the slot after the last one folded.
func (p *Payloads) Next() uint64 { return p.next }

// Root returns the hash of the last slot folded.
func (p *Payloads) Root() Hash { return p.hash }

// Fold takes in the next slot. After an error the state is of no use.
func (p *Payloads) Fold(entry []byte) error {
	commit, err := p.decode(entry)
	if err != nil {
		return err
	}
	return p.Apply(commit, sum(entry))
}

// Apply takes in a commit whose stored bytes are known to be right.
func (p *Payloads) Apply(c *pb.Commit, hash Hash) error {
	payload, err := payloadOf(c)
	if err != nil {
		return p.corrupt("%v", err)
	}
	if err := p.add(payload, true); err != nil {
		return p.corrupt("%v", err)
	}
	p.advance(c, hash)
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
func (p *Payloads) add(op *pb.Payload, keep bool) error {
	var plan Hash
	if len(op.GetPlan()) != len(plan) || op.GetCount() < 1 || !(Range{op.GetFirst(), op.GetCount()}).valid() {
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
		known.parts = append(known.parts, part{Range{op.GetFirst(), op.GetCount()}, p.next})
		p.plans[plan] = known
	}
	return nil
}

// end is the unit behind the last that is stored.
func (k *planPayloads) end() int64 {
	return k.parts[len(k.parts)-1].units.end()
}

// Stored returns the unit behind the last of a plan that is stored; 0: none is.
func (p *Payloads) Stored(plan Hash) int64 {
	if known := p.plans[plan]; known != nil {
		return known.end()
	}
	return 0
}

// Find returns the slot that has a unit of a plan, and the units beside it there.
func (p *Payloads) Find(plan Hash, unit int64) (slot uint64, beside Range, ok bool) {
	known := p.plans[plan]
	if known == nil {
		return 0, Range{}, false
	}
	i, found := slices.BinarySearchFunc(known.parts, unit, func(x part, unit int64) int { return x.units.compare(unit) })
	if !found {
		return 0, Range{}, false
	}
	return known.parts[i].slot, known.parts[i].units, true
}

// Entry encodes a payload to follow. It fails on one that could not.
func (p *Payloads) Entry(writer []byte, timeUs int64, op *pb.Payload) (*Entry, error) {
	if err := p.add(op, false); err != nil {
		return nil, fmt.Errorf("log %s, slot %d: %w", p.log, p.next, err)
	}
	commit := &pb.Commit{Writer: writer, TimeUs: timeUs, Ops: []*pb.Op{{Op: &pb.Op_Payload{Payload: op}}}}
	stored, hash, err := p.encode(commit)
	if err != nil {
		return nil, err
	}
	head := Head{Slot: p.next, Hash: hash, TimeUs: commit.GetTimeUs()}
	return &Entry{Commit: commit, Hash: hash, Bytes: stored, Head: head.Encode()}, nil
}

// Added is what one plan has added to a run.
type Added struct {
	Plan  Hash // its digest
	Units Range
}

// Added returns which plans have added units to the present run, in the order of the units.
func (s *Sale) Added() []Added { return s.addedBy(s.Generation()) }

// addedBy is Added of the generations up to one of them.
func (s *Sale) addedBy(generation uint64) (all []Added) {
	first := int64(1)
	for _, p := range s.generations[:generation] {
		if next := p.GetNextUnit(); next > first {
			a := Added{Units: Range{first, next - first}}
			copy(a.Plan[:], p.GetPlanDigest())
			all, first = append(all, a), next
		}
	}
	return all
}
