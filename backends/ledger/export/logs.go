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

// What an export has of two logs besides those of the shards. By the sale's own log an audit
// holds the shards against what was planned, by that of its units the claims against what was
// stored.

// The logs, as the lines of their commits name them.
const (
	saleLogName  = "sale"
	unitsLogName = "units"
)

// LogCommit is the line of a commit of such a log.
type LogCommit struct {
	Log    string `json:"log"` // sale or units
	Slot   uint64 `json:"slot"`
	Commit []byte `json:"commit"` // base64
	// Hash is the SHA-256 of the bytes that the slot has, where Commit lacks the seed of a red
	// packet.
	Hash *ledger.Hash `json:"hash,omitempty"`
}

// addedTo returns which plans have added units by the generations that an export of shards has.
func addedTo(sale *ledger.Sale, shards []*ledger.State) []ledger.Added {
	return sale.AddedBy(min(max(ledger.NewestGeneration(shards), 1), sale.Generation()))
}

// readUnits looks how much there is to export of what the units are. Somebody who is not to
// have secrets does not get them encrypted either.
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
	open bool // it is that of a red packet of which packets may still be given
}

// logs are those that stand in an export with a header.
func (x *ofSale) logs(h Header) (all []writtenLog) {
	if h.SaleLog != nil {
		all = append(all, writtenLog{saleLogName, x.sale.RunTail(), *h.SaleLog, h.Packets != nil && len(h.Packets.Seed) == 0})
	}
	if h.UnitsLog != nil {
		all = append(all, writtenLog{unitsLogName, ledger.NewTail(spec.UnitsLog(h.UID)), *h.UnitsLog, false})
	}
	return all
}

// newLogCommit is the line of a slot. While packets may still be given it lacks their seed:
// who has it knows what each packet holds that nobody has yet.
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

// readAtOnce is how many slots of a log are read at once.
const readAtOnce = 64

// copySlots reads a log once more from where copied stands to a slot, before which it must
// have the hash that was folded, and hands out what it has.
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
