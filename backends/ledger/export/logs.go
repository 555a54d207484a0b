package export

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/ledger/payload"
	"salectl/spec"
)

// An export has two logs besides those of the shards. An audit compares the shards with the
// generations planned in the sale's own log, and the claims with the payloads stored in the log
// of its units.

// Names of the logs in the lines of their commits.
const (
	saleLogName  = "sale"
	unitsLogName = "units"
)

// LogCommit is the line of a commit of one of these logs.
type LogCommit struct {
	Log    string `json:"log"` // sale or units
	Slot   uint64 `json:"slot"`
	Commit []byte `json:"commit"` // base64
	// Hash is the SHA-256 of the slot's stored bytes, if Commit lacks the seed of a red
	// packet.
	Hash *ledger.Hash `json:"hash,omitempty"`
}

// addedTo returns the plans that have added units up to the newest generation of the shards.
func addedTo(sale *ledger.Sale, shards []*ledger.State) []ledger.Added {
	return sale.AddedBy(min(max(ledger.NewestGeneration(shards), 1), sale.Generation()))
}

// readUnits determines the part of the units' log to export. A redacted export omits secret
// units even in encrypted form.
func (x *ofSale) readUnits(ctx context.Context, payloads *payload.Reader, shards []*ledger.State) error {
	if payloads == nil || x.redact != nil && payloads.Secret() {
		return nil
	}
	part, err := payloads.Part(ctx, addedTo(x.sale, shards))
	x.units = part
	return err
}

// writeLogs writes the commits of both logs, which must be those that were folded.
func (x *ofSale) writeLogs(ctx context.Context, logs ledger.Logs, h Header, lines *json.Encoder) error {
	for _, log := range x.logs(h) {
		err := copySlots(ctx, logs, log.from, log.has.First+log.has.Slots, log.has.Root, func(slot uint64, entry []byte, commit *pb.Commit, hash ledger.Hash) error {
			line, err := newLogCommit(log.name, slot, entry, commit, hash, log.open)
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

// writtenLog is one of the two logs, as a header has it.
type writtenLog struct {
	name string // in the lines
	from *ledger.Tail
	has  ledger.LogPart
	open bool // its red packet has packets that may still be given
}

// logs returns the logs of an export with header h.
func (x *ofSale) logs(h Header) (all []writtenLog) {
	if h.SaleLog != nil {
		all = append(all, writtenLog{saleLogName, x.sale.RunTail(), *h.SaleLog, h.Packets != nil && len(h.Packets.Seed) == 0})
	}
	if h.UnitsLog != nil {
		all = append(all, writtenLog{unitsLogName, ledger.NewTail(spec.UnitsLog(h.UID)), *h.UnitsLog, false})
	}
	return all
}

// newLogCommit returns the line of a slot. While packets may still be given it omits their seed,
// which reveals the amount of each packet that no user has yet.
func newLogCommit(log string, slot uint64, entry []byte, commit *pb.Commit, hash ledger.Hash, open bool) (LogCommit, error) {
	line := LogCommit{Log: log, Slot: slot, Commit: entry}
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
	if line.Commit, err = proto.Marshal(commit); err != nil {
		return line, fmt.Errorf("leaving out a seed: %w", err)
	}
	line.Hash = &hash
	return line, nil
}

func hasSeed(op *pb.Op) bool { return len(op.GetPlanned().GetSeed()) > 0 }

// readAtOnce is the number of slots of a log that are read at once.
const readAtOnce = 64

// copySlots reads a log again, from the position of copied up to slot to, and calls each for its
// slots. The hash before slot to must be root, the one that was folded.
func copySlots(ctx context.Context, logs ledger.Logs, copied *ledger.Tail, to uint64, root ledger.Hash, each func(slot uint64, entry []byte, commit *pb.Commit, hash ledger.Hash) error) error {
	for copied.Next() < to {
		_, entries, err := logs.Read(ctx, copied.Log(), copied.Next(), readAtOnce)
		if err != nil {
			return fmt.Errorf("exporting log %s: %w", copied.Log(), err)
		}
		if len(entries) == 0 {
			return fmt.Errorf("exporting log %s: %w at slot %d", copied.Log(), ledger.ErrGone, copied.Next())
		}
		for _, entry := range entries[:min(uint64(len(entries)), to-copied.Next())] {
			slot := copied.Next()
			commit, err := copied.Take(entry)
			if err != nil {
				return err
			}
			if err := each(slot, entry, commit, copied.Root()); err != nil {
				return err
			}
		}
	}
	if copied.Root() != root {
		return copied.Corrupt("the log is not what was folded from it before")
	}
	return nil
}
