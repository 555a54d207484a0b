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

// This file reads the sale's own log and that of its units from an export, and compares the
// books of the shards and the claims with them.

// auditedLog is one of these two logs, as far as it was read.
type auditedLog struct {
	name   string // in the lines
	place  int    // in fileAudit.last
	has    *ledger.LogPart
	at     *ledger.Tail
	apply  func(*pb.Commit, ledger.Hash) error
	damage error // reason why later commits are not judged
}

// openLogs prepares to read the logs that the header names.
func (x *fileAudit) openLogs() {
	h, shards := x.header, len(x.shards)
	x.last = append(x.last, 0, 0)
	x.sale, x.payloads = ledger.NewSale(spec.SaleLog(h.Sale)), payload.NewLog(spec.UnitsLog(h.UID))
	sale := &auditedLog{name: saleLogName, place: shards, has: h.SaleLog, at: ledger.NewTail(x.sale.Log()), apply: x.sale.Apply}
	sale.begin(x.sale, nil)
	x.logs = []*auditedLog{sale}
	if h.UnitsLog != nil {
		x.logs = append(x.logs, &auditedLog{name: unitsLogName, place: shards + 1, has: h.UnitsLog, at: ledger.NewTail(x.payloads.Log()), apply: x.payloads.Apply})
	}
}

// begin moves to the first slot of the sale's log in the file, if slots of earlier runs precede
// it. before is the hash of the last of them, nil if it is not known yet.
func (l *auditedLog) begin(sale *ledger.Sale, before []byte) {
	if l.has.First > 0 {
		h := ledger.Head{Slot: l.has.First - 1}
		copy(h.Hash[:], before)
		l.at.Skip(h)
		sale.Skip(h)
	}
}

func isLogCommit(line []byte) bool { return bytes.HasPrefix(line, []byte(`{"log":`)) }

// logCommit reads the line of a commit of one of the two logs.
func (x *fileAudit) logCommit() {
	var c LogCommit
	if err := json.Unmarshal(x.line, &c); err != nil {
		x.at("it cannot be read: %v", err)
		return
	}
	i := slices.IndexFunc(x.logs, func(l *auditedLog) bool { return l.name == c.Log })
	if i < 0 {
		x.at("it is of the log %q, and the header names no such log", c.Log)
		return
	}
	l := x.logs[i]
	switch {
	case !bytes.Equal(x.line, encode(c)):
		x.at("slot %d of the log %q is written otherwise than salectl writes it", c.Slot, c.Log)
	case slices.ContainsFunc(x.last[l.place+1:], func(line int) bool { return line > 0 }):
		x.at("slot %d of the log %q stands behind those of a later log", c.Slot, c.Log)
	}
	switch {
	case l.damage != nil:
	case c.Slot < l.at.Next():
		x.at("slot %d of the log %q stands here a second time, or out of order", c.Slot, c.Log)
	case c.Slot > l.at.Next():
		l.damage = fmt.Errorf("line %d: slot %d of the log %q stands where slot %d should: what was between is missing, and what follows cannot be judged",
			x.number, c.Slot, c.Log, l.at.Next())
	default:
		if err := x.fold(l, c); err != nil {
			l.damage = fmt.Errorf("line %d: slot %d of the log %q does not continue what is before it, and what follows cannot be judged: %w", x.number, c.Slot, c.Log, err)
			return
		}
		x.last[l.place] = x.number
		if l.name == unitsLogName {
			x.entries = append(x.entries, c.Commit)
		}
	}
}

// fold applies the commit of a line. If the part of the log begins after earlier runs, the file
// lacks the slot before it, and fold accepts the hash that the commit names.
func (x *fileAudit) fold(l *auditedLog, c LogCommit) error {
	if begins := x.last[l.place] == 0; begins && l.has.First > 0 {
		first := new(pb.Commit)
		if err := proto.Unmarshal(c.Commit, first); err != nil {
			return l.at.Corrupt("does not decode: %v", err)
		}
		l.begin(x.sale, first.GetPrev())
	}
	hash := ledger.Hash(sha256.Sum256(c.Commit))
	if c.Hash != nil {
		hash = *c.Hash
	}
	commit, err := l.at.TakeRedacted(c.Commit, hash)
	if err != nil {
		return err
	}
	if c.Hash != nil {
		planned := slices.ContainsFunc(commit.GetOps(), func(op *pb.Op) bool { return op.GetPlanned() != nil })
		if p := x.header.Packets; p == nil || len(p.Seed) > 0 || !planned || slices.ContainsFunc(commit.GetOps(), hasSeed) {
			return fmt.Errorf("it has a hash as one from which a seed was left out, and is none")
		}
	}
	return l.apply(commit, hash)
}

// endLogs compares both logs with the header, after the last line, and drops a log that cannot be
// trusted.
func (x *fileAudit) endLogs() {
	whole := func(l *auditedLog) bool {
		if l.damage == nil && (l.at.Next() != l.has.First+l.has.Slots || l.at.Root() != l.has.Root) {
			l.damage = errors.New(x.endsOtherwise(l.place, fmt.Sprintf("the log %q", l.name), l.at.Next()))
		}
		if l.damage != nil {
			x.Problem("%v", l.damage)
		}
		return l.damage == nil
	}
	switch {
	case !whole(x.logs[0]):
		x.sale = nil
	case x.sale.UID() != x.UID || x.sale.Shards() != len(x.shards):
		x.Problem("the log %q is of run %q with %s, the header of run %q with %s", saleLogName,
			x.sale.UID(), spec.Count(x.sale.Shards(), "shard"), x.UID, spec.Count(len(x.shards), "shard"))
		x.sale = nil
	}
	if len(x.logs) > 1 && !whole(x.logs[1]) {
		x.payloads = nil
	}
}

// units checks that the units stored are those that the sale's log has planned.
func (x *fileAudit) units() {
	if x.sale.Newest().GetUnits() == nil {
		return
	}
	switch {
	case x.header.UnitsLog == nil && !x.header.Redacted:
		x.Problem("line 1: the header names no log of units, and the sale's log says that they are more than numbers")
	case x.header.UnitsLog != nil && x.payloads != nil:
		x.Payloads(x.payloads, x.added())
	}
}

// added returns the units that the generations of the shards have added.
func (x *fileAudit) added() []ledger.Added { return addedTo(x.sale, x.shards) }

// openUnits makes the reader of the units; nil if they cannot be read. A key that opens nothing
// of the file is an error.
func (x *fileAudit) openUnits(key *units.Key) error {
	sealedWith := ""
	if x.payloads != nil {
		sealedWith = x.payloads.KeyID()
	}
	switch {
	case key != nil && sealedWith == "" && !x.damaged(-1):
		return errors.New("the file has no units that are encrypted: audit it without a key")
	case key != nil && key.ID() != sealedWith:
		return fmt.Errorf("the units in the file are encrypted with the key %s, and the one given is %s", sealedWith, key.ID())
	case x.payloads == nil || x.header.UnitsLog == nil || x.sale == nil:
		return nil
	case sealedWith != "" && key == nil:
		x.locked = true
		return nil
	}
	x.reader = payload.NewReaderOf(fileLog(x.entries), x.payloads, key)
	x.reader.Follow(x.added())
	return nil
}

// payloadsOf returns the payloads that the line of a claim must have by the log of units, or
// those of the line if these are unknown.
func (x *fileAudit) payloadsOf(line Claim, c ledger.Claim) []map[string]string {
	if x.reader == nil {
		return line.Payloads
	}
	told, err := x.reader.OfClaim(context.Background(), c)
	if err != nil {
		x.at("what the units of claim %s are: %v", line.Claim, err)
		return line.Payloads
	}
	var all []map[string]string
	for _, p := range told {
		all = append(all, p.Map())
	}
	return all
}

// fileLog is a read-only Logs with the slots of one log.
type fileLog [][]byte

func (f fileLog) Read(_ context.Context, _ string, from uint64, n int) (head []byte, entries [][]byte, err error) {
	from = min(from, uint64(len(f)))
	return nil, f[from:min(from+uint64(n), uint64(len(f)))], nil
}

var errFileLog = errors.New("an export can only be read")

func (fileLog) Append(context.Context, string, uint64, []byte, []byte, []byte) error {
	return errFileLog
}
func (fileLog) Heads(context.Context, []string) ([][]byte, error) { return nil, errFileLog }
func (fileLog) Delete(context.Context, string, uint64) error      { return errFileLog }
