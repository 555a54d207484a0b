package ledger

import (
	"fmt"
	"slices"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// Sale is the fold of a sale's own log and nothing else: the generations of the present run
// and its progress. Take and Skip of its Tail move past slots without folding them.
type Sale struct {
	Tail
	drawing

	run         int64
	uid         string
	generations []*pb.Planned
	slots       []uint64 // slot of each generation
	before      Hash     // hash of the slot before the first of them
	marks       []logMark
	applied     uint64   // newest generation that every shard has
	unmarked    []string // lock nodes without a marker then
	sealed      *pb.Sealed
	destroyed   bool
}

// NewSale returns the state of a sale before its first slot.
func NewSale(log string) *Sale { return &Sale{Tail: *NewTail(log)} }

// Fold applies the entry of the next slot. After an error the state must not be used.
func (s *Sale) Fold(entry []byte) error {
	commit, err := s.decode(entry)
	if err != nil {
		return err
	}
	return s.Apply(commit, sum(entry))
}

// Apply applies a commit whose stored bytes are known to be right.
func (s *Sale) Apply(c *pb.Commit, hash Hash) error {
	for i, op := range c.GetOps() {
		if err := s.applyOp(op); err != nil {
			return s.corrupt("op %d: %v", i, err)
		}
	}
	s.advance(c, hash)
	for _, op := range c.GetOps() {
		switch op.GetOp().(type) {
		case *pb.Op_Planned, *pb.Op_EntriesClosed, *pb.Op_Drawn, *pb.Op_Ranked:
			s.marks = append(s.marks, logMark{s.next, s.hash, op.GetPlanned().GetGeneration()})
		}
	}
	return nil
}

func (s *Sale) applyOp(op *pb.Op) error {
	switch op := op.GetOp().(type) {
	case *pb.Op_Planned:
		return s.planned(op.Planned)
	case *pb.Op_Applied:
		if g := op.Applied.GetGeneration(); g > s.Generation() || s.sealed != nil {
			return fmt.Errorf("generation %d is applied, %d were planned", g, s.Generation())
		}
		if op.Applied.GetGeneration() >= s.applied {
			s.applied, s.unmarked = op.Applied.GetGeneration(), op.Applied.GetUnmarked()
		}
		return nil
	case *pb.Op_Sealed:
		if s.sealed != nil || s.Generation() == 0 {
			return fmt.Errorf("a seal on a sale that is %s", s.Phase())
		}
		if n := s.Shards(); len(op.Sealed.GetRoots()) != n || len(op.Sealed.GetSlots()) != n {
			return fmt.Errorf("a seal with %d roots and %d numbers of slots, for %d shards", len(op.Sealed.GetRoots()), len(op.Sealed.GetSlots()), n)
		}
		for i, root := range op.Sealed.GetRoots() {
			if len(root) != len(Hash{}) || op.Sealed.GetSlots()[i] == 0 {
				return fmt.Errorf("a seal with a root of %d bytes after %d slots, for shard %d", len(root), op.Sealed.GetSlots()[i], i)
			}
		}
		s.sealed = op.Sealed
		return nil
	case *pb.Op_EntriesClosed:
		return s.entriesClosed(op.EntriesClosed)
	case *pb.Op_Drawn:
		return s.reveal(op.Drawn)
	case *pb.Op_Ranked:
		return s.ranked(op.Ranked)
	case *pb.Op_Destroyed:
		if s.sealed == nil {
			return fmt.Errorf("a sale that is %s was destroyed before it was sealed", s.Phase())
		}
		s.destroyed = true
		return nil
	}
	return fmt.Errorf("it is of a kind that no sale has (written by a newer version?)")
}

func (s *Sale) planned(op *pb.Planned) error {
	fresh := s.uid == "" || s.destroyed
	if err := drawable(op); err != nil {
		return err
	}
	switch {
	case len(op.GetShards()) == 0:
		return fmt.Errorf("generation %d names no shards", op.GetGeneration())
	case !fresh && len(op.GetShards()) != s.Shards():
		return fmt.Errorf("generation %d names %d shards, the sale has %d", op.GetGeneration(), len(op.GetShards()), s.Shards())
	case fresh:
		if op.GetGeneration() != 1 || op.GetRun() <= s.run || op.GetUid() == s.uid {
			return fmt.Errorf("a run begins with generation 1, a new uid and a number above %d", s.run)
		}
		s.run, s.uid, s.generations, s.slots, s.before, s.marks = op.GetRun(), op.GetUid(), nil, nil, s.hash, nil
		s.applied, s.unmarked, s.sealed, s.destroyed, s.drawing = 0, nil, nil, false, drawing{}
	case s.sealed != nil:
		return fmt.Errorf("generation %d of a sealed sale", op.GetGeneration())
	case op.GetUid() != s.uid || op.GetGeneration() != s.Generation()+1:
		return fmt.Errorf("generation %d of run %s after %d of %s", op.GetGeneration(), op.GetUid(), s.Generation(), s.uid)
	default:
		if err := s.keepsUnits(op); err != nil {
			return err
		}
	}
	s.generations = append(s.generations, op)
	s.slots = append(s.slots, s.next)
	return nil
}

// Run returns metadata.run of the present run, 0 if there never was one.
func (s *Sale) Run() int64 { return s.run }

// UID returns the uid of the present run, "" if there never was one.
func (s *Sale) UID() string { return s.uid }

// Generation returns the newest generation planned, 0 if there is none.
func (s *Sale) Generation() uint64 { return uint64(len(s.generations)) }

// Planned returns a generation, counted from 1.
func (s *Sale) Planned(generation uint64) *pb.Planned { return s.generations[generation-1] }

// PlannedAt returns the slot of a generation.
func (s *Sale) PlannedAt(generation uint64) uint64 { return s.slots[generation-1] }

// Newest returns the newest generation, nil if there is none.
func (s *Sale) Newest() *pb.Planned {
	if len(s.generations) == 0 {
		return nil
	}
	return s.generations[len(s.generations)-1]
}

// Applied returns the newest generation that is known to be on every shard.
func (s *Sale) Applied() uint64 { return s.applied }

// Unmarked returns the lock nodes that had no marker of the sale when that
// generation was applied, because they were unreachable.
func (s *Sale) Unmarked() []string { return s.unmarked }

// Sealed returns the seal of the sale, nil if it is not sealed.
func (s *Sale) Sealed() *pb.Sealed { return s.sealed }

// Destroyed reports whether this log is all that is left of the run.
func (s *Sale) Destroyed() bool { return s.destroyed }

// Live reports whether there is a run that is neither sealed nor destroyed.
func (s *Sale) Live() bool { return s.uid != "" && s.sealed == nil }

// Phase returns the phase of the sale, "" if it never began.
func (s *Sale) Phase() string {
	switch {
	case s.uid == "":
		return ""
	case s.destroyed:
		return PhaseDestroyed
	case s.sealed != nil:
		return PhaseSealed
	case s.applied == 0:
		return PhasePlanned
	}
	return PhaseName(s.Newest().GetSettings().GetPhase())
}

// Shards returns the number of shards of the present run.
func (s *Sale) Shards() int {
	if len(s.generations) == 0 {
		return 0
	}
	return len(s.generations[0].GetShards())
}

// ShardLogs returns the names of the logs of the shards of the present run.
func (s *Sale) ShardLogs() []string {
	logs := make([]string, s.Shards())
	for i := range logs {
		logs[i] = spec.ShardLog(s.UID(), i, len(logs))
	}
	return logs
}

// ShardGeneration returns the op by which the log of a shard records a generation.
func (s *Sale) ShardGeneration(generation uint64, shard int) *pb.Generation {
	return shardGeneration(s.generations[generation-1], shard)
}

func shardGeneration(p *pb.Planned, shard int) *pb.Generation {
	change := p.GetShards()[shard]
	return &pb.Generation{
		Number: p.GetGeneration(), Add: change.GetAdd(), Remove: change.GetRemove(), Drop: change.GetDrop(), Restore: change.GetRestore(), Settings: p.GetSettings(),
	}
}

// CheckPlanned returns an error if a generation can never be applied, whatever units the shards
// have: its entry would be ErrTooLarge, or a shard rejects its change. Once it were in the
// sale's log, no shard could apply a later one.
func CheckPlanned(p *pb.Planned) error {
	if size := p.SizeVT(); size > MaxEntry {
		return fmt.Errorf("%d bytes: %w, which takes %d", size, ErrTooLarge, MaxEntry)
	}
	for i := range p.GetShards() {
		if _, err := changeOf(shardGeneration(p, i)); err != nil {
			return fmt.Errorf("shard %d: %w", i, err)
		}
	}
	return nil
}

// Entry encodes the next commit, by a writer whose clock reads timeUs. It fails if the sale in
// its present state, or one of its shards, would reject an op.
func (s *Sale) Entry(writer []byte, timeUs int64, ops ...*pb.Op) (*Entry, error) {
	after := *s
	after.generations, after.slots, after.ranks = slices.Clip(s.generations), slices.Clip(s.slots), slices.Clip(s.ranks)
	for _, op := range ops {
		err := after.applyOp(op)
		if planned := op.GetPlanned(); err == nil && planned != nil {
			err = CheckPlanned(planned)
		}
		if err != nil {
			return nil, fmt.Errorf("log %s, slot %d: %w", s.log, s.next, err)
		}
	}
	return s.encode(&pb.Commit{Writer: writer, TimeUs: timeUs, Ops: ops}, after.Head().Totals)
}

// Head returns the head that belongs to the last slot folded.
func (s *Sale) Head() Head {
	return Head{Slot: s.next - 1, Hash: s.hash, TimeUs: s.timeUs, Totals: Totals{Generation: s.Generation(), Phase: s.Phase()}}
}

// Added is the range of units that one plan added to a run.
type Added struct {
	Plan  Hash // digest of the plan
	Units Range
}

// Added returns the plans that added units to the present run, in the order of the units.
func (s *Sale) Added() []Added { return s.AddedBy(s.Generation()) }

// AddedBy is like Added, for the generations up to and including generation.
func (s *Sale) AddedBy(generation uint64) (all []Added) {
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

// NewestGeneration returns the newest generation of any of the shards, 0 if none has one.
func NewestGeneration(shards []*State) (newest uint64) {
	for _, s := range shards {
		newest = max(newest, s.Generation)
	}
	return newest
}
