// Package export writes a sale's ledger to a file, finds claims in a ledger, and audits such files.
//
// An export is NDJSON: a header, a line for each claim, a line for each commit of the shards, and
// at last the commits of the sale's own log and of the log of its units. Nothing in it depends on
// when or where it was written, so two exports of one sealed sale are the same bytes. Sale.Write takes
// shards in their folded state (ledger.LoadShards) and reads their commits again: ErrCorrupt means
// that these differ from those that were folded. WriteCSV and WriteExtract write parts, which prove
// nothing.
//
// Sale.Check compares an export with the ledger that it was written from, before that is deleted. Audit
// has the file alone: it recounts the commits by package audit, and compares the header and the
// lines of the claims with the result. It reports what such a file cannot prove.
//
// Callers choose a cut of the shards, keep the file safe and complete (a failed write leaves a part
// of one), and provide the key to read encrypted units.
//
// Audit is here rather than in package audit because a line is derived from a claim of the reducer:
// so export imports audit, and audit imports neither exports nor the reducer.
package export

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"salectl/backends/ledger"
	"salectl/backends/ledger/payload"
	"salectl/draw"
	"salectl/spec"
)

// Format is the version of the format, in the header's field format.
const Format = 1

// Kind is the field kind of an export's header. No other file of salectl has it.
const Kind = "export"

// Header is the first line of an export.
type Header struct {
	Format int           `json:"format"`
	Kind   string        `json:"kind"`
	Sale   string        `json:"sale"`
	UID    string        `json:"uid"`
	Roots  []ledger.Hash `json:"roots"` // by shard: hash of its last slot
	Counts Counts        `json:"counts"`

	// The logs that follow the commits of the shards: the sale's own, with the planned
	// generations, and that of its units, nil if these are numbers or are omitted. Files
	// written before such logs were exported have neither.
	SaleLog  *ledger.LogPart `json:"saleLog,omitempty"`
	UnitsLog *ledger.LogPart `json:"unitsLog,omitempty"`

	// Redacted means that keys are replaced by digests, and that other data is omitted
	// which only the owner of an export may have.
	Redacted bool `json:"redacted,omitempty"`

	// Packets is the result of the red packet, nil if the units are not packets of money.
	Packets *Packets `json:"packets,omitempty"`

	// Draw is the record of the draw, nil if the sale is not a draw: draw.Verify recomputes it.
	Draw *draw.Record `json:"draw,omitempty"`
}

// Counts are the sums over all shards.
type Counts struct {
	Shards    int    `json:"shards"`
	Slots     uint64 `json:"slots"`
	Claims    int64  `json:"claims"`
	Sold      int64  `json:"sold"` // units, as all below
	Held      int64  `json:"held"`
	Available int64  `json:"available"`
	InFlight  int64  `json:"inFlight"`
	ledger.Outcomes
}

// Claim is the line of a claim. A key that is not UTF-8 text is written in base64 as
// keyBase64 instead.
type Claim struct {
	Claim     string   `json:"claim"` // ID by ledger.Claim.ID
	Sale      string   `json:"sale"`
	User      string   `json:"user"`
	Units     []int64  `json:"units"`
	Requested int64    `json:"requested,omitempty"` // quantity of the request, if fewer were granted
	Amounts   []string `json:"amounts,omitempty"`   // of a red packet: the amount of each unit
	// Payloads has the payload of each unit, by the names of its columns. Secrets are omitted
	// if the claim was never sold: its buyer has not received them.
	Payloads  []map[string]string `json:"payloads,omitempty"`
	State     string              `json:"state"` // sold, held, cancelled, expired, refunded, entered
	At        string              `json:"at"`    // RFC 3339, UTC
	Key       string              `json:"key,omitempty"`
	KeyBase64 []byte              `json:"keyBase64,omitempty"`

	// KeyDigest replaces a redacted key.
	KeyDigest *draw.Digest `json:"keyDigest,omitempty"`

	// Of an entry of a draw: its label, and its rank; 0: not published.
	Label *draw.Digest `json:"label,omitempty"`
	Rank  int64        `json:"rank,omitempty"`

	// Of a claim that rules have admitted: the hash of the rule set, and the first 16 bytes
	// of the digest of what was known of the user, both in hex.
	Rules      string `json:"rules,omitempty"`
	Attributes string `json:"attributes,omitempty"`

	Settlement
}

// Settlement is the part of a claim that was held or refunded: its deadline, the last change of
// its state, and the payments that bought it, are owed back and were paid back.
type Settlement struct {
	HeldUntil string `json:"heldUntil,omitempty"` // RFC 3339, UTC, as below
	SettledAt string `json:"settledAt,omitempty"`
	Who       string `json:"who,omitempty"`
	Why       string `json:"why,omitempty"`
	Payment   string `json:"payment,omitempty"`
	Retired   bool   `json:"retired,omitempty"` // its units left the sale

	RefundDue []string   `json:"refundDue,omitempty"` // payments that bought nothing, or whose purchase was refunded
	Returned  []Returned `json:"returned,omitempty"`  // those of RefundDue that were paid back
}

// Returned is the record that a payment was paid back.
type Returned struct {
	Payment string `json:"payment"`
	At      string `json:"at"` // RFC 3339, UTC
	Who     string `json:"who,omitempty"`
	Why     string `json:"why,omitempty"`
}

// PaidBack describes each return of a payment.
func (s *Settlement) PaidBack() (texts []string) {
	for _, r := range s.Returned {
		text := r.Payment + " (" + strings.Join(slices.DeleteFunc([]string{r.At, r.Who, r.Why}, func(part string) bool { return part == "" }), ", ") + ")"
		texts = append(texts, text)
	}
	return texts
}

// Owed returns the payments that are still to be paid back.
func (s *Settlement) Owed() []string {
	return slices.DeleteFunc(slices.Clone(s.RefundDue), func(payment string) bool {
		return slices.ContainsFunc(s.Returned, func(r Returned) bool { return r.Payment == payment })
	})
}

// Commit is the line of a commit: the bytes of a slot.
type Commit struct {
	Shard  *int   `json:"shard,omitempty"`
	Log    string `json:"log,omitempty"` // of another log than those of the shards: saleLogName or unitsLogName
	Slot   uint64 `json:"slot"`
	Commit []byte `json:"commit"` // base64
	// Hash is the SHA-256 of the slot's stored bytes, if Commit is redacted or lacks the seed of a
	// red packet.
	Hash *ledger.Hash `json:"hash,omitempty"`
}

// Sale is a sale to export.
type Sale struct {
	Name     string
	Log      *ledger.Sale    // the sale's own log, with every generation that the shards have
	Shards   []*ledger.State // all of one cut
	Logs     ledger.Logs     // with the commits that were folded
	Payloads *payload.Reader // of the units; nil: they are numbers
	Redacted bool            // Write omits what only the owner of the sale may have, see redaction
}

// Write writes an export. It reads the commits again, which must hash to the roots of the shards. A
// redacted draw is ErrDrawRedacted.
func (s Sale) Write(ctx context.Context, to io.Writer) error {
	x, err := s.contents(ctx)
	switch {
	case err != nil:
		return err
	case s.Redacted && x.draw != nil:
		return ErrDrawRedacted
	case s.Redacted:
		x.redact = &redaction{uid: s.Log.UID(), secret: s.Payloads.Secret()}
	}
	if s.Payloads != nil && (x.redact == nil || !x.redact.secret) {
		if x.units, err = s.Payloads.Part(ctx, addedTo(s.Log, s.Shards)); err != nil {
			return err
		}
	}
	w := bufio.NewWriterSize(to, 1<<16)
	lines := lineEncoder(w)
	header := x.header()
	if err := lines.Encode(header); err != nil {
		return err
	}
	for shard, c := range claims(s.Shards, Filter{}) {
		line, err := x.claim(ctx, s.Payloads, shard, c)
		if err != nil {
			return err
		}
		x.redact.claim(&line)
		if err := lines.Encode(line); err != nil {
			return err
		}
	}
	for _, log := range x.logs(header) {
		if err := log.write(ctx, s.Logs, lines); err != nil {
			return err
		}
	}
	return w.Flush()
}

// claims returns the claims that match f, with their shards, in the order of an export.
func claims(shards []*ledger.State, f Filter) iter.Seq2[int, ledger.Claim] {
	return func(yield func(int, ledger.Claim) bool) {
		for shard, s := range shards {
			for i := range s.Claims() {
				if c := s.Claim(i); f.matches(c) && !yield(shard, c) {
					return
				}
			}
		}
	}
}

// contents are the data that the header and the lines of claims are derived from.
type contents struct {
	name    string
	sale    *ledger.Sale
	shards  []*ledger.State
	units   *ledger.LogPart    // nil: the units are numbers, or their payloads are omitted
	packets *ledger.RedPacket  // nil: units are no packets of money
	dealt   *spec.Packets      // the packets; nil: units are no packets, or the file lacks their seed
	draw    *ledger.DrawResult // nil: the sale is no draw
	redact  *redaction         // nil: nothing is redacted
}

// contents returns the contents, except for units and redact. It reads the heads of a draw's shards.
func (s Sale) contents(ctx context.Context) (*contents, error) {
	x := &contents{name: s.Name, sale: s.Log, shards: s.Shards}
	var err error
	if x.packets, err = ledger.RedPacketOf(s.Log); err != nil {
		return nil, err
	}
	if x.packets != nil {
		x.dealt = x.packets.Deal()
	}
	heads, err := ledger.ReadDrawHeads(ctx, s.Logs, s.Log)
	if err == nil {
		x.draw, err = ledger.NewDrawResult(s.Log, ledger.DrawShards(s.Shards), heads)
	}
	return x, err
}

// CountsOf returns the sums over shards.
func CountsOf(shards []*ledger.State) (c Counts) {
	c.Shards = len(shards)
	for _, s := range shards {
		c.Slots += s.Next()
		c.Claims += int64(s.Claims())
		c.Sold += s.Sold
		c.Held += s.Held
		c.Available += s.Available
		c.InFlight += s.InFlight
		c.Outcomes.Add(s.Outcomes)
	}
	return c
}

// header returns the first line.
func (x *contents) header() Header {
	h := Header{
		Format: Format, Kind: Kind, Sale: x.name, UID: x.sale.UID(), Counts: CountsOf(x.shards),
		SaleLog: x.sale.Part(ledger.NewestGeneration(x.shards)), UnitsLog: x.units, Redacted: x.redact != nil,
		Packets: x.packetsHeader(),
	}
	for _, s := range x.shards {
		h.Roots = append(h.Roots, s.Root())
	}
	if x.draw != nil {
		h.Draw = &x.draw.Record
	}
	return h
}

// claim returns the line of a claim, with the payloads of its units.
func (x *contents) claim(ctx context.Context, payloads *payload.Reader, shard int, c ledger.Claim) (Claim, error) {
	line := x.claimLine(shard, c)
	var err error
	if line.Payloads, err = payloads.OfClaim(ctx, c); err != nil {
		return line, fmt.Errorf("claim %s: %w", line.Claim, err)
	}
	return line, nil
}

func (x *contents) claimLine(shard int, c ledger.Claim) Claim {
	line := Claim{
		Claim: c.ID(shard), Sale: x.name, User: c.User, Units: c.Units, Requested: c.Requested, Amounts: x.amounts(c.Units),
		State: c.State.String(), At: ledger.FormatTime(c.TimeUs),
		Settlement: Settlement{
			HeldUntil: ledger.FormatTime(c.HeldUntilUs), SettledAt: ledger.FormatTime(c.SettledUs),
			Who: c.Who, Why: c.Reason, Payment: c.Payment, Retired: c.Retired, RefundDue: c.RefundsDue,
		},
	}
	for _, r := range c.Returned {
		line.Returned = append(line.Returned, Returned{r.Payment, ledger.FormatTime(r.TimeUs), r.Who, r.Reason})
	}
	if c.Ruling.Rules != "" {
		line.Rules, line.Attributes = fmt.Sprintf("%x", c.Ruling.Rules), fmt.Sprintf("%x", c.Ruling.Attributes)
	}
	if x.draw != nil {
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

// encode returns a line as Write writes it.
func encode(v any) []byte {
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

// Check compares an export with the output of Write, byte for byte. ErrCorrupt means that the export
// was altered or extended since it was written, or that a log is not what was folded from it;
// io.ErrUnexpectedEOF means that the export ends too early. Check reads the payloads again, and keeps
// only a part of the export in memory.
func (s Sale) Check(ctx context.Context, from io.Reader) error {
	s.Payloads = s.Payloads.Fresh()
	if err := s.Write(ctx, &comparison{from: from, line: 1}); err != nil {
		return err
	}
	switch _, err := io.ReadFull(from, make([]byte, 1)); {
	case err == nil:
		return fmt.Errorf("the export continues after its end: %w", ledger.ErrCorrupt)
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

// comparison is an io.Writer that compares its input with from.
type comparison struct {
	from io.Reader
	has  []byte
	line int // number of the line being compared
}

func (c *comparison) Write(want []byte) (int, error) {
	c.has = slices.Grow(c.has[:0], len(want))[:len(want)]
	n, err := io.ReadFull(c.from, c.has)
	ends := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if err != nil && !ends {
		return 0, err
	}
	for i, b := range c.has[:n] {
		if b != want[i] {
			return i, fmt.Errorf("line %d of the export differs from the ledger: %w", c.line, ledger.ErrCorrupt)
		}
		if b == '\n' {
			c.line++
		}
	}
	if ends {
		return n, fmt.Errorf("the export ends in line %d: %w", c.line, io.ErrUnexpectedEOF)
	}
	return n, nil
}
