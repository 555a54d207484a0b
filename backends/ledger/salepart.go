package ledger

import pb "salectl/backends/ledger/ledgerpb"

// LogPart is a run of slots of a log, as an export of a sale has it.
type LogPart struct {
	First uint64 `json:"first"` // slot: of a sale's own log that of the run's first generation
	Slots uint64 `json:"slots"`
	Root  Hash   `json:"root"` // of the last of them
}

// logMark is how far a sale's log goes with a slot that an export must have.
type logMark struct {
	next       uint64 // the slot behind it
	hash       Hash
	generation uint64 // that it has planned; 0: it is a step of a draw
}

// mark notes a commit that was taken in, if it is one that an export must have.
func (s *Sale) mark(c *pb.Commit) {
	for _, op := range c.GetOps() {
		switch op.GetOp().(type) {
		case *pb.Op_Planned, *pb.Op_EntriesClosed, *pb.Op_Drawn, *pb.Op_Ranked:
			s.marks = append(s.marks, logMark{s.next, s.hash, op.GetPlanned().GetGeneration()})
		}
	}
}

// Part returns how much of the log belongs to shards of which the newest has a generation, nil
// before the first: to that generation, or to the last step of the draw. What is behind it (that
// the generation was applied, or another planned that no shard takes any more) may depend on when
// the log was read, and two exports of sealed shards are the same.
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

// RunTail returns the tail of the log before the first slot of the present run, of which there
// must be one.
func (s *Sale) RunTail() *Tail {
	return &Tail{chain{log: s.log, next: s.slots[0], hash: s.before}}
}

// Skip goes to the slot behind the one that a head belongs to. It is for a new Sale of which the
// slots of earlier runs are left out.
func (s *Sale) Skip(h Head) { s.next, s.hash, s.timeUs = h.Slot+1, h.Hash, h.TimeUs }

// NewestGeneration returns the newest generation that one of some shards has, 0 if none has any.
func NewestGeneration(shards []*State) (newest uint64) {
	for _, s := range shards {
		newest = max(newest, s.Generation)
	}
	return newest
}
