package ledger

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
)

// An export is NDJSON: a header, a line a claim, then a line a commit, both by
// shard and slot, and at last the commits of the sale's own log and of that of its units
// (exportlogs.go). Nothing in it depends on when or where it was written, so two
// exports of one sealed sale are the same bytes.

// ExportFormat is the version of the format, in the header's field format.
const ExportFormat = 1

// KindExport is what the header's field kind says, and no other file of salectl.
const KindExport = "export"

// ExportHeader is the first line.
type ExportHeader struct {
	Format int          `json:"format"`
	Kind   string       `json:"kind"`
	Sale   string       `json:"sale"`
	UID    string       `json:"uid"`
	Roots  []Hash       `json:"roots"` // of each shard: the hash of its last slot
	Counts ExportCounts `json:"counts"`

	// The logs that follow the commits of the shards: the sale's own, which says what was
	// planned, and that of what its units are, nil if they are numbers or it is left out.
	// Files that were written before there were such logs have none of them.
	SaleLog  *LogPart `json:"saleLog,omitempty"`
	UnitsLog *LogPart `json:"unitsLog,omitempty"`

	// Redacted says that keys are replaced by digests, and what else is gone that
	// only the owner of an export may have.
	Redacted bool `json:"redacted,omitempty"`

	// Packets is what the units came to, nil if they are no packets of money.
	Packets *ExportPackets `json:"packets,omitempty"`

	// Draw is how the sale was drawn, nil if it was not: draw.Verify works it out again.
	Draw *draw.Record `json:"draw,omitempty"`
}

// ExportCounts are the sums over all shards.
type ExportCounts struct {
	Shards    int    `json:"shards"`
	Slots     uint64 `json:"slots"`
	Claims    int64  `json:"claims"`
	Sold      int64  `json:"sold"` // units, as all below
	Held      int64  `json:"held"`
	Available int64  `json:"available"`
	InFlight  int64  `json:"inFlight"`
	Outcomes
}

// ExportClaim is the line of a claim. A key that is no UTF-8 text is written as
// base64 in keyBase64 instead.
type ExportClaim struct {
	Claim   string   `json:"claim"` // as Claim.ID has it
	Sale    string   `json:"sale"`
	User    string   `json:"user"`
	Units   []int64  `json:"units"`
	Asked   int64    `json:"asked,omitempty"`   // units asked for, where fewer were given
	Amounts []string `json:"amounts,omitempty"` // of a red packet: what each unit is worth
	// Payloads is what each of the units is, by the names of what it has. Secrets are left out
	// of a claim that was never sold: its buyer has not been told them.
	Payloads  []map[string]string `json:"payloads,omitempty"`
	State     string              `json:"state"` // sold, held, cancelled, expired, refunded, entered
	At        string              `json:"at"`    // RFC 3339, UTC
	Key       string              `json:"key,omitempty"`
	KeyBase64 []byte              `json:"keyBase64,omitempty"`

	// KeyDigest stands for the key where that was redacted.
	KeyDigest *draw.Digest `json:"keyDigest,omitempty"`

	// Of an entry of a draw: its label, and its rank if that was published.
	Label *draw.Digest `json:"label,omitempty"`
	Rank  int64        `json:"rank,omitempty"`

	// Of a claim that rules have let in: the hash of the rule set, and the first 16 bytes
	// of the digest of what was known of the user, both in hex.
	Rules      string `json:"rules,omitempty"`
	Attributes string `json:"attributes,omitempty"`

	// Of a claim that was held or refunded: its deadline, what its state came to at
	// last, and which payments bought it and which bought nothing.
	HeldUntil string   `json:"heldUntil,omitempty"` // RFC 3339, UTC, as below
	SettledAt string   `json:"settledAt,omitempty"`
	Who       string   `json:"who,omitempty"`
	Why       string   `json:"why,omitempty"`
	Payment   string   `json:"payment,omitempty"`
	Retired   bool     `json:"retired,omitempty"` // its units went out of the sale
	RefundDue []string `json:"refundDue,omitempty"`
}

// ExportCommit is the line of a commit: the bytes of a slot.
type ExportCommit struct {
	Shard  int    `json:"shard"`
	Slot   uint64 `json:"slot"`
	Commit []byte `json:"commit"` // base64
	// Hash is the SHA-256 of the bytes that the slot has, where Commit is redacted.
	Hash *Hash `json:"hash,omitempty"`
}

// Header returns the first line of an export of the shards as they are folded,
// but for what only the sale's own log says.
func Header(sale string, uid string, shards []*State) ExportHeader {
	h := ExportHeader{Format: ExportFormat, Kind: KindExport, Sale: sale, UID: uid}
	for _, s := range shards {
		h.Roots = append(h.Roots, s.Root())
		h.Counts.Slots += s.Next()
		h.Counts.Claims += int64(s.Claims())
		h.Counts.Sold += s.Sold
		h.Counts.Held += s.Held
		h.Counts.Available += s.Available
		h.Counts.InFlight += s.InFlight
		h.Counts.Outcomes.Add(s.Outcomes)
	}
	h.Counts.Shards = len(shards)
	return h
}

// Export writes an export of the shards as they are folded. The commits are
// read once more and must hash to the same roots. The sale's own log must be of the same
// run (else ErrGone) and have every generation that the shards have; what units are
// is read by payloads, which is nil where they are numbers.
func Export(ctx context.Context, logs Logs, sale, uid string, shards []*State, payloads *PayloadReader, to io.Writer) error {
	x, err := loadOfSale(ctx, logs, sale, uid)
	if err != nil {
		return err
	}
	return x.export(ctx, logs, sale, uid, shards, payloads, to)
}

// ExportBy is Export with the sale's own log as it is folded.
func ExportBy(ctx context.Context, logs Logs, sale string, log *Sale, shards []*State, payloads *PayloadReader, to io.Writer) error {
	x, err := readOfSale(ctx, logs, log)
	if err != nil {
		return err
	}
	return x.export(ctx, logs, sale, log.UID(), shards, payloads, to)
}

// ExportRedacted is ExportBy for somebody who is not to have the keys of requests, see
// redaction. That of a draw is ErrDrawRedacted.
func ExportRedacted(ctx context.Context, logs Logs, sale string, log *Sale, shards []*State, payloads *PayloadReader, to io.Writer) error {
	x, err := readOfSale(ctx, logs, log)
	if err != nil {
		return err
	}
	if x.draw != nil {
		return ErrDrawRedacted
	}
	x.redact = &redaction{uid: log.UID(), secret: payloads.Secret()}
	return x.export(ctx, logs, sale, log.UID(), shards, payloads, to)
}

func (x *ofSale) export(ctx context.Context, logs Logs, sale, uid string, shards []*State, payloads *PayloadReader, to io.Writer) error {
	x.draw.Cut(DrawShards(shards))
	if err := x.readUnits(ctx, payloads, shards); err != nil {
		return err
	}
	w := bufio.NewWriterSize(to, 1<<16)
	lines := lineEncoder(w)
	header := x.header(sale, uid, shards)
	if err := lines.Encode(header); err != nil {
		return err
	}
	for shard, s := range shards {
		for i := range s.Claims() {
			line, err := x.claim(ctx, payloads, sale, shard, s.Claim(i))
			if err != nil {
				return err
			}
			x.redact.claim(&line)
			if err := lines.Encode(line); err != nil {
				return err
			}
		}
	}
	for shard, s := range shards {
		if err := exportCommits(ctx, logs, shard, s, x.redact, lines); err != nil {
			return err
		}
	}
	if err := x.exportLogs(ctx, logs, header, lines); err != nil {
		return err
	}
	return w.Flush()
}

// header is the first line of the shards as they are folded.
func (x *ofSale) header(sale, uid string, shards []*State) ExportHeader {
	h := Header(sale, uid, shards)
	h.Redacted = x.redact != nil
	if h.UnitsLog = x.units; x.sale != nil {
		h.SaleLog = x.sale.Part(NewestGeneration(shards))
	}
	h.Packets, h.Draw = x.packets.header(shards), x.draw.Record(DrawShards(shards))
	return h
}

// claim is the line of a claim, with what its units are.
func (x *ofSale) claim(ctx context.Context, payloads *PayloadReader, sale string, shard int, c Claim) (ExportClaim, error) {
	line := exportClaim(sale, shard, c, x)
	told, err := payloads.OfClaim(ctx, c)
	if err != nil {
		return line, fmt.Errorf("claim %s: %w", line.Claim, err)
	}
	for _, p := range told {
		line.Payloads = append(line.Payloads, p.Map())
	}
	return line, nil
}

func exportClaim(sale string, shard int, c Claim, x *ofSale) ExportClaim {
	line := ExportClaim{
		Claim: c.ID(shard), Sale: sale, User: c.User, Units: c.Units, Asked: c.Asked, Amounts: x.amounts(c.Units),
		State: c.State.String(), At: time.UnixMicro(c.TimeUs).UTC().Format(time.RFC3339Nano),
		HeldUntil: FormatTime(c.HeldUntilUs), SettledAt: FormatTime(c.SettledUs),
		Who: c.Who, Why: c.Reason, Payment: c.Payment, Retired: c.Retired, RefundDue: c.RefundsDue,
	}
	if c.Ruling.Rules != "" {
		line.Rules, line.Attributes = fmt.Sprintf("%x", c.Ruling.Rules), fmt.Sprintf("%x", c.Ruling.Attributes)
	}
	if x != nil && x.draw != nil {
		label, rank := x.draw.Label(shard, c)
		line.Label, line.Rank = &label, rank
	}
	if utf8.ValidString(c.Key) {
		line.Key = c.Key
	} else {
		line.KeyBase64 = []byte(c.Key)
	}
	return line
}

func exportCommits(ctx context.Context, logs Logs, shard int, s *State, redact *redaction, lines *json.Encoder) error {
	return copySlots(ctx, logs, NewTail(s.Log()), s.Next(), s.Root(), func(slot uint64, entry []byte, commit *pb.Commit, hash Hash) (err error) {
		line := ExportCommit{Shard: shard, Slot: slot, Commit: entry}
		if redact != nil {
			if line.Commit, err = redact.commit(commit); err != nil {
				return err
			}
			line.Hash = &hash
		}
		return lines.Encode(line)
	})
}

// copySlots reads a log once more from where copied stands to a slot, before which it must
// have the hash that was folded, and hands out what it has.
func copySlots(ctx context.Context, logs Logs, copied *Tail, to uint64, root Hash, each func(slot uint64, entry []byte, commit *pb.Commit, hash Hash) error) error {
	for copied.Next() < to {
		_, entries, err := logs.Read(ctx, copied.Log(), copied.Next(), readAtOnce)
		if err != nil {
			return fmt.Errorf("exporting log %s: %w", copied.Log(), err)
		}
		if len(entries) == 0 {
			return fmt.Errorf("exporting log %s: %w at slot %d", copied.Log(), ErrGone, copied.Next())
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

// exportLine is a line as Export writes it.
func exportLine(v any) []byte {
	var line bytes.Buffer
	if err := lineEncoder(&line).Encode(v); err != nil {
		panic(err) // plain fields cannot fail to encode
	}
	return line.Bytes()
}

func lineEncoder(to io.Writer) *json.Encoder {
	lines := json.NewEncoder(to)
	lines.SetEscapeHTML(false)
	return lines
}
