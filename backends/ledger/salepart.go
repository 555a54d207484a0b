package ledger

import pb "salectl/backends/ledger/ledgerpb"

// LogPart is a range of slots of a log, as an export has it.
type LogPart struct {
	First uint64 `json:"first"` // slot; of a sale's own log: that of the run's first generation
	Slots uint64 `json:"slots"`
	Root  Hash   `json:"root"` // hash of the last of them
}

// logMark is the position in a sale's log after a slot that an export must have.
type logMark struct {
	next       uint64 // slot after it
	hash       Hash
	generation uint64 // generation planned in it; 0: it is a step of a draw
}

// mark records the position after a commit that an export must have.
func (s *Sale) mark(c *pb.Commit) {
	for _, op := range c.GetOps() {
		switch op.GetOp().(type) {
		case *pb.Op_Planned, *pb.Op_EntriesClosed, *pb.Op_Drawn, *pb.Op_Ranked:
			s.marks = append(s.marks, logMark{s.next, s.hash, op.GetPlanned().GetGeneration()})
		}
	}
}

// Part returns the part of the log that belongs to shards whose newest generation is generation,
// nil before the first. It ends with that generation, or with the last step of the draw. Later
// slots (that the generation was applied, or another planned that no shard applies any more) may
// depend on when the log was read. Without them two exports of sealed shards are the same.
func (s *Sale) Part(generation uint64) *LogPart {
	if len(s.marks) == 0 {
		return nil
	}
	last := s.marks[0]
	for _, m := range s.marks {
		if m.generation <= generation {
			last = m
		}
	}
	return &LogPart{First: s.slots[0], Slots: last.next - s.slots[0], Root: last.hash}
}

// RunTail returns the tail of the log before the first slot of the present run, which must
// exist.
func (s *Sale) RunTail() *Tail {
	return &Tail{chain{log: s.log, next: s.slots[0], hash: s.before}}
}

// Skip moves to the slot after that of a head. It is for a new Sale that omits the slots of
// earlier runs.
func (s *Sale) Skip(h Head) { s.next, s.hash, s.timeUs = h.Slot+1, h.Hash, h.TimeUs }

// NewestGeneration returns the newest generation of any of the shards, 0 if none has one.
func NewestGeneration(shards []*State) (newest uint64) {
	for _, s := range shards {
		newest = max(newest, s.Generation)
	}
	return newest
}
