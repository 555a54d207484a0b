package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// What an export has of two logs besides those of the shards. By the sale's own log an audit
// holds the shards against what was planned, by that of its units the claims against what was
// stored.

// The logs, as the lines of their commits name them.
const (
	exportedSale  = "sale"
	exportedUnits = "units"
)

// ExportLog says how much of a log stands in an export.
type ExportLog struct {
	First uint64 `json:"first"` // slot: that of the run's first generation
	Slots uint64 `json:"slots"`
	Root  Hash   `json:"root"` // of the last of them
}

// ExportLogCommit is the line of a commit of such a log.
type ExportLogCommit struct {
	Log    string `json:"log"` // sale or units
	Slot   uint64 `json:"slot"`
	Commit []byte `json:"commit"` // base64
	// Hash is the SHA-256 of the bytes that the slot has, where Commit lacks the seed of a red
	// packet.
	Hash *Hash `json:"hash,omitempty"`
}

// mark is how far a sale's log goes with a slot that an export must have.
type mark struct {
	next       uint64 // the slot behind it
	hash       Hash
	generation uint64 // that it has planned; 0: it is a step of a draw
}

// mark notes a commit that was taken in, if it is one that an export must have.
func (s *Sale) mark(c *pb.Commit) {
	for _, op := range c.GetOps() {
		switch op.GetOp().(type) {
		case *pb.Op_Planned, *pb.Op_EntriesClosed, *pb.Op_Drawn, *pb.Op_Ranked:
			s.marks = append(s.marks, mark{s.next, s.hash, op.GetPlanned().GetGeneration()})
		}
	}
}

// exported says how much of the log an export of shards has: to the last generation that one
// of them has taken, or to the last step of the draw. What is behind it (that the generation
// was applied, or another planned that no shard takes any more) may depend on when the log was
// read, and two exports of sealed shards are the same.
func (s *Sale) exported(shards []*State) *ExportLog {
	if len(s.marks) == 0 {
		return nil
	}
	last, taken := s.marks[0], takenBy(shards)
	for _, m := range s.marks {
		if m.generation <= taken {
			last = m
		}
	}
	return &ExportLog{First: s.slots[0], Slots: last.next - s.slots[0], Root: last.hash}
}

// addedTo is Added by the generations that an export of shards has.
func (s *Sale) addedTo(shards []*State) []Added {
	return s.addedBy(min(max(takenBy(shards), 1), s.Generation()))
}

// takenBy is the newest generation that one of the shards has.
func takenBy(shards []*State) (newest uint64) {
	for _, s := range shards {
		newest = max(newest, s.Generation)
	}
	return newest
}

// exported says how much of the log of units an export has: to the last of those that plans
// have added.
func (p *Payloads) exported(added []Added) *ExportLog {
	next := uint64(0)
	for _, a := range added {
		if known := p.plans[a.Plan]; known != nil {
			next = max(next, known.parts[len(known.parts)-1].slot+1)
		}
	}
	if next == 0 {
		return nil
	}
	return &ExportLog{Slots: next, Root: p.hashes[next-1]}
}

// readUnits looks how much there is to export of what the units are. Somebody who is not to
// have secrets does not get them encrypted either.
func (x *ofSale) readUnits(ctx context.Context, payloads *PayloadReader, shards []*State) error {
	if payloads == nil || x.redact != nil && payloads.Secret() {
		return nil
	}
	if err := payloads.CatchUp(ctx); err != nil {
		return err
	}
	added := x.sale.addedTo(shards)
	for _, a := range added {
		if next := max(payloads.fold.Stored(a.Plan), a.Units.First); next < a.Units.end() {
			return fmt.Errorf("exporting log %s, which does not say what unit %d is (did the read of it lag?): %w", payloads.fold.log, next, ErrGone)
		}
	}
	x.units = payloads.fold.exported(added)
	return nil
}

// exportLogs writes the commits of both logs, which must be those that were folded.
func (x *ofSale) exportLogs(ctx context.Context, logs Logs, h ExportHeader, lines *json.Encoder) error {
	for _, log := range x.logs(h) {
		err := copySlots(ctx, logs, &log.from, log.has.First+log.has.Slots, log.has.Root, func(slot uint64, entry []byte, commit *pb.Commit, hash Hash) error {
			line, err := exportLogCommit(log.name, slot, entry, commit, hash, log.open)
			if err != nil {
				return err
			}
			return lines.Encode(line)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// exportedLog is one of the two logs, as a header has it.
type exportedLog struct {
	name string // in the lines
	from chain
	has  ExportLog
	open bool // it is that of a red packet of which packets may still be given
}

// logs are those that stand in an export with a header.
func (x *ofSale) logs(h ExportHeader) (all []exportedLog) {
	if h.SaleLog != nil {
		from := chain{log: x.sale.log, next: h.SaleLog.First, hash: x.sale.before}
		all = append(all, exportedLog{exportedSale, from, *h.SaleLog, h.Packets != nil && len(h.Packets.Seed) == 0})
	}
	if h.UnitsLog != nil {
		all = append(all, exportedLog{exportedUnits, newChain(spec.UnitsLog(h.UID)), *h.UnitsLog, false})
	}
	return all
}

// exportLogCommit is the line of a slot. While packets may still be given it lacks their seed:
// who has it knows what each packet holds that nobody has yet.
func exportLogCommit(log string, slot uint64, entry []byte, commit *pb.Commit, hash Hash, open bool) (ExportLogCommit, error) {
	line := ExportLogCommit{Log: log, Slot: slot, Commit: entry}
	if !open || !slices.ContainsFunc(commit.GetOps(), hasSeed) {
		return line, nil
	}
	commit = proto.CloneOf(commit)
	for _, op := range commit.GetOps() {
		if hasSeed(op) {
			op.GetPlanned().Seed = nil
		}
	}
	var err error
	if line.Commit, err = appendCommit(nil, commit); err != nil {
		return line, fmt.Errorf("leaving out a seed: %w", err)
	}
	line.Hash = &hash
	return line, nil
}

func hasSeed(op *pb.Op) bool { return len(op.GetPlanned().GetSeed()) > 0 }
