package export

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/ledger/payload"
	"salectl/spec"
	"salectl/units"
)

// This file reads the logs of an export. It folds those of the shards into the books, and the sale's
// own log and that of its units, with which the books and the claims are compared.

// auditedLog is one of the logs, as far as it was read.
type auditedLog struct {
	what string         // in problems
	has  ledger.LogPart // as the header has it; Slots 0: unknown
	at   interface {
		Next() uint64
		Root() ledger.Hash
	}
	fold   func(c Commit, hash ledger.Hash) error
	number int   // of the line of the last commit applied; 0: none
	damage error // reason why later commits are not judged
}

// openLogs prepares to read the logs that the header names.
func (x *fileAudit) openLogs() {
	h := x.header
	for i, b := range x.Books {
		x.logs = append(x.logs, &auditedLog{what: fmt.Sprintf("shard %d", i), has: ledger.LogPart{Root: h.Roots[i]}, at: b,
			fold: func(c Commit, hash ledger.Hash) error { return b.FoldRedacted(c.Commit, hash) }})
	}
	x.sale, x.payloads = ledger.NewSale(spec.SaleLog(h.Sale)), payload.NewLog(spec.UnitsLog(h.UID))
	x.skipTo(nil)
	x.logs = append(x.logs, &auditedLog{what: fmt.Sprintf("the log %q", saleLogName), has: *h.SaleLog, at: x.sale, fold: x.foldSale})
	if h.UnitsLog != nil {
		x.logs = append(x.logs, &auditedLog{what: fmt.Sprintf("the log %q", unitsLogName), has: *h.UnitsLog, at: x.payloads,
			fold: func(c Commit, _ ledger.Hash) error {
				x.entries = append(x.entries, c.Commit)
				return x.payloads.Fold(c.Commit)
			}})
	}
}

// skipTo moves to the first slot of the sale's log in the file, if slots of earlier runs precede
// it. before is the hash of the last of them, nil if it is not known yet.
func (x *fileAudit) skipTo(before []byte) {
	if first := x.header.SaleLog.First; first > 0 {
		h := ledger.Head{Slot: first - 1}
		copy(h.Hash[:], before)
		x.sale.Skip(h)
	}
}

// logOf returns the index of the log of a line; -1: the header does not name it.
func (x *fileAudit) logOf(c Commit) int {
	shards := len(x.shards)
	switch {
	case c.Shard != nil && *c.Shard >= 0 && *c.Shard < shards:
		return *c.Shard
	case c.Shard == nil && c.Log == saleLogName:
		return shards
	case c.Shard == nil && c.Log == unitsLogName && x.header.UnitsLog != nil:
		return shards + 1
	}
	return -1
}

// commit reads the line of a commit.
func (x *fileAudit) commit() {
	var c Commit
	if err := json.Unmarshal(x.line, &c); err != nil {
		x.at("it cannot be read: %v", err)
		return
	}
	i := x.logOf(c)
	switch {
	case i < 0 && c.Shard != nil:
		x.at("it is of shard %d, and the header names the roots of %d shards", *c.Shard, len(x.shards))
		return
	case i < 0:
		x.at("it is of the log %q, and the header names no such log", c.Log)
		return
	}
	l := x.logs[i]
	slot := fmt.Sprintf("slot %d of %s", c.Slot, l.what)
	redacted := c.Shard != nil && x.header.Redacted
	switch {
	case !bytes.Equal(x.line, encode(c)):
		x.at("%s does not have the form that salectl writes", slot)
	case c.Log != saleLogName && redacted != (c.Hash != nil):
		x.at("%s is redacted: %v; by the header: %v", slot, c.Hash != nil, x.header.Redacted)
	case slices.ContainsFunc(x.logs[i+1:], func(later *auditedLog) bool { return later.number > 0 }):
		x.at("%s follows slots of a later log", slot)
	}
	switch next := l.at.Next(); {
	case l.damage != nil: // later slots cannot be verified
	case c.Slot < next:
		x.at("%s is repeated or out of order", slot)
	case c.Slot > next && l.number == 0:
		l.damage = fmt.Errorf("line %d: %s is in the place of slot %d: earlier slots are missing, and later ones cannot be verified", x.number, slot, next)
	case c.Slot > next:
		l.damage = fmt.Errorf("line %d: %s follows slot %d in line %d: the slots between are missing, and later ones cannot be verified",
			x.number, slot, next-1, l.number)
	default:
		hash := ledger.Hash(sha256.Sum256(c.Commit))
		if c.Hash != nil && (redacted || c.Log == saleLogName) {
			hash = *c.Hash
		}
		if err := l.fold(c, hash); err != nil {
			l.damage = fmt.Errorf("line %d: %s does not continue the previous slot, and later ones cannot be verified: %w", x.number, slot, err)
			return
		}
		l.number = x.number
	}
}

// foldSale applies a commit of the sale's log. If the part of the log begins after earlier runs, the
// file lacks the slot before it, and foldSale accepts the hash that the commit names.
func (x *fileAudit) foldSale(c Commit, hash ledger.Hash) error {
	if first := x.header.SaleLog.First; c.Slot == first && first > 0 {
		begins := new(pb.Commit)
		if err := proto.Unmarshal(c.Commit, begins); err != nil {
			return x.sale.Corrupt("does not decode: %v", err)
		}
		x.skipTo(begins.GetPrev())
	}
	commit, err := x.sale.Decode(c.Commit)
	if err != nil {
		return err
	}
	if c.Hash != nil {
		planned := slices.ContainsFunc(commit.GetOps(), func(op *pb.Op) bool { return op.GetPlanned() != nil })
		if p := x.header.Packets; p == nil || len(p.Seed) > 0 || !planned || slices.ContainsFunc(commit.GetOps(), hasSeed) {
			return fmt.Errorf("it has a hash as one from which a seed was left out, and is none")
		}
	}
	return x.sale.Apply(commit, hash)
}

// whole compares the end of a log with the header, after the last line. It reports the difference, or
// why the log was not read to its end, and returns whether it was.
func (x *fileAudit) whole(l *auditedLog) bool {
	next := l.at.Next()
	switch {
	case l.damage != nil:
		x.Problem("%v", l.damage)
	case l.at.Root() == l.has.Root && (l.has.Slots == 0 || next == l.has.First+l.has.Slots):
		return true
	case l.number == 0:
		x.Problem("%s has no slot %d, but a root in the header (line 1): its lines are missing, or the file was cut off", l.what, next)
	default:
		x.Problem("line %d: %s does not end here with the root of the header (line 1): later slots are missing, or one of the two lines was altered", l.number, l.what)
	}
	return false
}

// endLogs compares the sale's log and that of its units with the header, and drops a log that cannot
// be trusted.
func (x *fileAudit) endLogs() {
	n := len(x.shards)
	switch {
	case !x.whole(x.logs[n]):
		x.sale = nil
	case x.sale.UID() != x.UID || x.sale.Shards() != n:
		x.Problem("the log %q is of run %q with %s, the header of run %q with %s", saleLogName,
			x.sale.UID(), spec.Count(x.sale.Shards(), "shard"), x.UID, spec.Count(n, "shard"))
		x.sale = nil
	}
	if len(x.logs) > n+1 && !x.whole(x.logs[n+1]) {
		x.payloads = nil
	}
}

// checkUnits checks that the units stored are those that the sale's log has planned.
func (x *fileAudit) checkUnits() {
	if x.sale.Newest().GetUnits() == nil {
		return
	}
	switch {
	case x.header.UnitsLog == nil && !x.header.Redacted:
		x.Problem("line 1: the header names no log of units, but the sale's log declares payloads")
	case x.header.UnitsLog != nil && x.payloads != nil:
		x.Payloads(x.payloads, addedTo(x.sale, x.shards))
	}
}

// openUnits makes the reader of the units; nil if they cannot be read. A key that opens nothing
// of the file is an error.
func (x *fileAudit) openUnits(key *units.Key) error {
	sealedWith := ""
	if x.payloads != nil {
		sealedWith = x.payloads.KeyID()
	}
	switch {
	case key != nil && sealedWith == "" && !x.damaged(-1):
		return errors.New("the file has no encrypted units: audit it without a key")
	case key != nil && key.ID() != sealedWith:
		return fmt.Errorf("the units in the file are encrypted with key %s, not with the given key %s", sealedWith, key.ID())
	case x.payloads == nil || x.header.UnitsLog == nil || x.sale == nil:
		return nil
	case sealedWith != "" && key == nil:
		x.locked = true
		return nil
	}
	x.reader = payload.NewReaderOf(fileLog{slots: x.entries}, x.payloads, key)
	x.reader.Follow(addedTo(x.sale, x.shards))
	return nil
}

// payloadsOf returns the payloads that the line of a claim must have by the log of units, or
// those of the line if these are unknown.
func (x *fileAudit) payloadsOf(line Claim, c ledger.Claim) []map[string]string {
	if x.reader == nil {
		return line.Payloads
	}
	all, err := x.reader.OfClaim(context.Background(), c)
	if err != nil {
		x.at("the payloads of claim %s: %v", line.Claim, err)
		return line.Payloads
	}
	return all
}

// fileLog is a Logs for a reader, with the slots of one log.
type fileLog struct {
	ledger.Logs // nil: a reader calls Read alone
	slots       [][]byte
}

func (f fileLog) Read(_ context.Context, _ string, from uint64, n int) (head []byte, entries [][]byte, err error) {
	from = min(from, uint64(len(f.slots)))
	return nil, f.slots[from:min(from+uint64(n), uint64(len(f.slots)))], nil
}
