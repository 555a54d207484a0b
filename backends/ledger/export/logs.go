package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
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

// addedTo returns the plans that have added units up to the newest generation of the shards.
func addedTo(sale *ledger.Sale, shards []*ledger.State) []ledger.Added {
	return sale.AddedBy(min(max(ledger.NewestGeneration(shards), 1), sale.Generation()))
}

// writtenLog is a log of an export.
type writtenLog struct {
	line Commit // with the field that names the log
	from *ledger.Tail
	to   uint64 // slot after the last one
	root ledger.Hash
	omit func(*pb.Commit) bool // removes what the export omits, and reports whether there is any; nil: nothing is omitted
}

// logs returns the logs of an export with header h.
func (x *contents) logs(h Header) (all []writtenLog) {
	for i, s := range x.shards {
		log := writtenLog{Commit{Shard: &i}, ledger.NewTail(s.Log()), s.Next(), s.Root(), nil}
		if x.redact != nil {
			log.omit = x.redact.commit
		}
		all = append(all, log)
	}
	part := func(name string, from *ledger.Tail, has ledger.LogPart, omit func(*pb.Commit) bool) {
		all = append(all, writtenLog{Commit{Log: name}, from, has.First + has.Slots, has.Root, omit})
	}
	if h.SaleLog != nil {
		var omit func(*pb.Commit) bool
		if h.Packets != nil && len(h.Packets.Seed) == 0 {
			omit = omitSeed
		}
		part(saleLogName, x.sale.RunTail(), *h.SaleLog, omit)
	}
	if h.UnitsLog != nil {
		part(unitsLogName, ledger.NewTail(spec.UnitsLog(h.UID)), *h.UnitsLog, nil)
	}
	return all
}

// readAtOnce is the number of slots of a log that are read at once.
const readAtOnce = 64

// write reads the log again, and writes its commits. They must be those that were folded: the hash of the
// last one is root.
func (l *writtenLog) write(ctx context.Context, logs ledger.Logs, lines *json.Encoder) error {
	for l.from.Next() < l.to {
		_, entries, err := logs.Read(ctx, l.from.Log(), l.from.Next(), readAtOnce)
		if err != nil {
			return fmt.Errorf("exporting log %s: %w", l.from.Log(), err)
		}
		if len(entries) == 0 {
			return fmt.Errorf("exporting log %s: %w at slot %d", l.from.Log(), ledger.ErrGone, l.from.Next())
		}
		for _, entry := range entries[:min(uint64(len(entries)), l.to-l.from.Next())] {
			line := l.line
			line.Slot, line.Commit = l.from.Next(), entry
			commit, err := l.from.Take(entry)
			if err != nil {
				return err
			}
			if l.omit != nil && l.omit(commit) {
				hash := l.from.Root()
				line.Hash = &hash
				if line.Commit, err = proto.Marshal(commit); err != nil {
					return fmt.Errorf("redacting a commit: %w", err)
				}
			}
			if err := lines.Encode(line); err != nil {
				return err
			}
		}
	}
	if l.from.Root() != l.root {
		return l.from.Corrupt("the log is not what was folded from it before")
	}
	return nil
}

// omitSeed removes the seed of packets that may still be given: it reveals the amount of each packet
// that no user has yet.
func omitSeed(commit *pb.Commit) (omitted bool) {
	for _, op := range commit.GetOps() {
		if hasSeed(op) {
			op.GetPlanned().Seed, omitted = nil, true
		}
	}
	return omitted
}

func hasSeed(op *pb.Op) bool { return len(op.GetPlanned().GetSeed()) > 0 }

// ErrDrawRedacted reports that a draw cannot be exported in redacted form: its order follows from
// the keys. draw.Publish writes a list without keys that can be verified.
var ErrDrawRedacted = errors.New("the export of a draw cannot be redacted: 'salectl draw list' writes a public list without users and keys")

// redaction removes from an export what only the owner of the sale may have; nil removes nothing.
// It removes the keys of requests, since user and key grant access to the result of a claim; what
// units are, if that is secret; and the digests of users' attributes, which can be guessed.
//
// A key is replaced by its digest, that of draw.Label, in lines and commits. So two requests
// remain distinct, and a reader who has a key finds its claim.
type redaction struct {
	uid    string
	secret bool // what units are is secret
}

func (r *redaction) claim(line *Claim) {
	if r == nil {
		return
	}
	key := line.Key
	if line.KeyBase64 != nil {
		key = string(line.KeyBase64)
	}
	digest := draw.Label(r.uid, line.User, key)
	redactedLine(line, string(digest[:]))
	if r.secret {
		line.Payloads = nil
	}
}

// redactedLine replaces the key of a line by its digest, and removes its attributes.
func redactedLine(line *Claim, digest string) {
	line.Key, line.KeyBase64, line.Attributes, line.KeyDigest = "", nil, "", new(draw.Digest)
	copy(line.KeyDigest[:], digest)
}

// commit removes from a commit what is redacted. It reports true: each commit of a shard is redacted.
func (r *redaction) commit(c *pb.Commit) bool {
	for _, op := range c.GetOps() {
		if claim := op.GetClaim(); claim != nil {
			digest := draw.Label(r.uid, claim.GetUser(), string(claim.GetKey()))
			claim.Key = digest[:]
			clear(claim.GetAttributes())
		}
	}
	return true
}
