package export

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	"salectl/draw"
	"salectl/spec"
	"salectl/units"
)

// An audit of an export has the file alone, and no store. It keeps the same books of the
// commits as an audit of the ledger. It compares the books with the sale's own log, and header
// and claims with both. Each problem of a line begins with the number of the line.

// Audit audits an export. An error means that the file is not an export, or cannot be read;
// faults of its contents are in the report. unproven lists what such a file cannot prove. key
// is the key of the units, which proves what these are: nil if they are public, or if that is to
// stay unproven. A key that does not open them is an error.
func Audit(from io.ReadSeeker, key *units.Key) (a *audit.Report, unproven []string, err error) {
	x := fileAudit{Recount: &audit.Recount{Report: new(audit.Report)}, lineReader: lineReader{lines: bufio.NewReaderSize(from, 1<<16)}}
	if err := x.open(); err != nil {
		return nil, nil, err
	}
	if err := x.book(); err != nil {
		return nil, nil, err
	}
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return nil, nil, err
	}
	x.account()
	if err := x.openUnits(key); err != nil {
		return nil, nil, err
	}
	x.lineReader, x.number = lineReader{lines: bufio.NewReaderSize(from, 1<<16)}, 0
	if err := x.claims(); err != nil {
		return nil, nil, err
	}
	x.OK = len(x.Problems) == 0
	return x.Report, x.unproven(), nil
}

// read is like next, and counts lines. A line cut off by the end of the file is a problem, and not judged.
func (x *fileAudit) read() error {
	err := x.next()
	x.number++
	if errors.Is(err, io.ErrUnexpectedEOF) {
		x.at("the file ends in the middle of this line: its end was cut off")
		x.line, err = nil, nil
	}
	return err
}

// open reads and checks the header.
func (x *fileAudit) open() error {
	if err := x.read(); err != nil {
		return err
	}
	if err := json.Unmarshal(x.line, &x.header); err != nil {
		return fmt.Errorf("an export begins with a header: %w", err)
	}
	h := x.header
	switch {
	case h.Kind != Kind:
		return fmt.Errorf("an export begins with a header of kind %q, and this one is of kind %q", Kind, h.Kind)
	case h.Format != Format:
		return fmt.Errorf("an export of format %d cannot be read, only format %d", h.Format, Format)
	}
	if n := len(h.Roots); n < 1 || n > spec.MaxLockCount {
		return fmt.Errorf("the export's header names the roots of %d shards: there are 1 to %d", n, spec.MaxLockCount)
	}
	if h.SaleLog == nil {
		return errors.New("the export's header has no saleLog: export the sale again")
	}
	x.Recount, x.shards = audit.NewRecount(h.Sale, h.UID, len(h.Roots), ledger.NewState)
	x.openLogs()
	return nil
}

// book folds the commits into the books and the other logs.
func (x *fileAudit) book() error {
	for {
		if err := x.read(); err != nil || len(x.line) == 0 {
			return err
		}
		if !isClaim(x.line) {
			x.commit()
		}
	}
}

// account checks the books by themselves, against each other, and against what was planned.
func (x *fileAudit) account() {
	for i, b := range x.Books() {
		x.whole(x.logs[i])
		x.Shard(b)
	}
	x.Claims()
	x.endLogs()
	x.ends()
	x.Units(x.sale)
	if x.sale != nil {
		x.units()
	}
}

// ends reports the shards that cannot have ended where they do in the file, though each is
// complete by itself.
func (x *fileAudit) ends() {
	applied := uint64(0)
	if x.sale != nil {
		applied = x.sale.Applied()
	}
	for i, what := range ledger.MissingData(applied, x.shards) {
		if what != "" && !x.damaged(i) {
			x.Problem("shard %d %s", i, what)
		}
	}
}

// claims compares the header and the lines of the claims with the books.
func (x *fileAudit) claims() error {
	if err := x.read(); err != nil {
		return err
	}
	if x.sale == nil || !x.headerHolds(x.shards) {
		return nil
	}
	total := 0
	for _, s := range x.shards {
		total += s.Claims()
	}
	expected, stop := iter.Pull2(x.claimsInOrder())
	defer stop()
	shard, c, _ := expected()    // the claim whose line comes next
	next := 0                    // its index
	var places map[string]int    // index of each claim; made once a line is out of place
	missing := func(until int) { // moves to a claim
		if n := until - next; n > 0 {
			x.at("before it the lines of %s are missing, the first of them claim %s of user %q", spec.Count(n, "claim"), c.ID(shard), c.User)
		}
		for ; next < until; next++ {
			shard, c, _ = expected()
		}
	}
	verifier := x.verifier()
	unjudged := 0
	for {
		if err := x.read(); err != nil {
			return err
		}
		if !isClaim(x.line) {
			break
		}
		var line Claim
		if err := json.Unmarshal(x.line, &line); err != nil {
			x.at("it cannot be read: %v", err)
			continue
		}
		if next == total || c.ID(shard) != line.Claim {
			if places == nil {
				places = make(map[string]int, total)
				i := 0
				for shard, c := range x.claimsInOrder() {
					places[c.ID(shard)], i = i, i+1
				}
			}
			at, known := places[line.Claim]
			of := -2
			fmt.Sscanf(line.Claim, "%d-", &of)
			switch {
			case !known && of >= 0 && x.damaged(of):
				unjudged++
				continue
			case !known:
				x.at("claim %s of user %q is in no commit", line.Claim, line.User)
				continue
			case at < next:
				x.at("claim %s is repeated or out of order", line.Claim)
				continue
			}
			missing(at)
		}
		x.compareClaim(line, shard, c)
		if verifier != nil && line.Label != nil {
			if err := verifier.Add(draw.Line{Claim: line.Claim, User: line.User, Key: c.Key, State: line.State, At: line.At, Label: *line.Label, Rank: line.Rank}); err != nil {
				x.at("%v", err)
			}
		}
		next++
		shard, c, _ = expected()
	}
	missing(total)
	if unjudged > 0 {
		x.Problem("%s could not be verified, since commits cannot be read", spec.Count(unjudged, "claim"))
	}
	if verifier != nil && !x.damaged(-1) {
		x.Draw = verifier.Report()
		for _, problem := range x.Draw.Problems {
			x.Problem("the draw: %s", problem)
		}
	}
	if p, has := x.of.packets, x.header.Packets; has != nil && x.of.lacksSeed() {
		granted, left := p.Format(x.worth), p.Format(p.Total-x.worth)
		if granted != has.Granted || left != has.Refund {
			x.Problem("line 1: by the claims, packets of %s are granted and %s are left; by the header, %s and %s",
				granted, left, has.Granted, has.Refund)
		}
	}
	return nil
}

// claimsInOrder returns the claims of all shards in the order of their lines, with their shards.
func (x *fileAudit) claimsInOrder() iter.Seq2[int, ledger.Claim] {
	return func(yield func(int, ledger.Claim) bool) {
		for shard, s := range x.shards {
			for i := range s.Claims() {
				if !yield(shard, s.Claim(i)) {
					return
				}
			}
		}
	}
}

// compareClaim compares the line of a claim with its commits.
func (x *fileAudit) compareClaim(line Claim, shard int, c ledger.Claim) {
	want := x.of.claimLine(x.Sale, shard, c)
	want.Payloads = x.payloadsOf(line, c)
	if p := x.of.packets; x.of.lacksSeed() {
		want.Amounts = line.Amounts
		sum := int64(0)
		for _, text := range line.Amounts {
			minor, ok := p.Parse(text)
			if !ok || minor < p.Min {
				x.at("claim %s has an amount of %q, the least is %s", line.Claim, text, p.Format(p.Min))
			}
			sum += minor
		}
		if len(line.Amounts) != len(c.Units) {
			x.at("claim %s has %s for %s", line.Claim, spec.Count(len(line.Amounts), "amount"), spec.Count(len(c.Units), "unit"))
		}
		if c.State == ledger.StateSold || c.State == ledger.StateHeld {
			x.worth += sum
		}
	}
	if x.header.Redacted {
		redactedLine(&want, c.Key)
	}
	x.differs("claim "+line.Claim, encode(want), "its commits say")
}

// headerHolds compares the header with the books and the sale's log, and reports whether claims can
// be compared with these.
func (x *fileAudit) headerHolds(states []*ledger.State) bool {
	h := x.header
	x.of = ofSale{sale: x.sale}
	if h.Redacted {
		x.of.redact = new(redaction)
	}
	if err := x.ofLog(states); err != nil {
		x.Problem("%v", err)
		return false
	}
	x.of.draw.Cut(ledger.DrawShards(states))
	x.Entries(x.of.draw.Trees())
	if x.damaged(-1) {
		return true
	}
	want := x.of.header(h.Sale, h.UID, states)
	want.Roots = h.Roots // account has compared them
	if p := want.Packets; p != nil {
		if x.of.lacksSeed() && h.Packets != nil {
			p.Granted, p.Refund, p.Commitment = h.Packets.Granted, h.Packets.Refund, h.Packets.Commitment
		}
		// While a sale begins, shards may not have applied the generation with their packets yet.
		// Limits add up rather than counts: a transfer received and not yet acknowledged is in the counts of two shards.
		limit := int64(0)
		for _, s := range states {
			limit += s.Limit
		}
		began := !slices.ContainsFunc(states, func(s *ledger.State) bool { return s.Generation == 0 })
		if began && limit != x.of.packets.Packets {
			x.at("there are to be %d packets, and the commits have another number of units", p.Packets)
		}
	}
	// Until all shards are sealed these are from heads, which may be later than the commits.
	if d, has := want.Draw, h.Draw; d != nil && has != nil && !x.sealed() &&
		has.Lapsed >= d.Lapsed && has.Winners+has.Lapsed >= d.Winners+d.Lapsed && has.Reach >= d.Reach {
		d.Winners, d.Lapsed, d.Reach = has.Winners, has.Lapsed, has.Reach
	}
	x.differs("the header", encode(want), "the commits say")
	return true
}

// ofLog reads, from the sale's log and that of its units, the data that header and claims are
// compared with. While packets may still be given the file lacks their seed, and the amount of
// each is unknown.
func (x *fileAudit) ofLog(states []*ledger.State) error {
	red, err := ledger.DeclaredRedPacket(x.sale)
	if err == nil {
		x.of.draw, err = ledger.DrawResultOf(x.sale)
	}
	if err != nil {
		return err
	}
	x.of.units = x.header.UnitsLog
	if x.payloads != nil && x.header.UnitsLog != nil {
		x.of.units = x.payloads.Part(x.added())
	}
	if red == nil {
		return nil
	}
	x.of.packets = red
	if len(red.Seed) == 0 && (!over(states) || x.damaged(-1)) {
		x.SameRedPacket(x.sale, red)
		return nil
	}
	x.RedPacket(x.sale)
	if red.Validate() == nil { // else RedPacket has reported it
		x.of.dealt = red.Deal()
	}
	return nil
}

func (x *fileAudit) sealed() bool {
	return !slices.ContainsFunc(x.shards, func(s *ledger.State) bool { return !s.Sealed() })
}

func (x *fileAudit) verifier() *draw.Verifier {
	if x.header.Draw == nil {
		return nil
	}
	v, err := draw.NewVerifier(x.Sale, x.UID, *x.header.Draw, draw.Options{})
	if err != nil {
		x.Problem("line 1: %v", err)
		return nil
	}
	return v
}

// unproven returns what the file alone cannot prove.
func (x *fileAudit) unproven() (all []string) {
	all = append(all, "that the file as a whole is genuine: compare its SHA-256 with that of 'salectl history' after destroy, or that of a live export with its manifest")
	if x.of.lacksSeed() {
		const left = "the seed is left out while packets may still be given"
		all = append(all, "the amount of each packet, and the content of the commitment: "+left,
			"the parts of the first generation that the shards do not repeat: "+left+", so the bytes of the commit differ from the hashed ones")
	}
	if x.header.Draw != nil && !x.sealed() {
		all = append(all, "the number of units of the draw, its lapsed awards and the last rank that may be awarded: the sale was not over, and draw.winners, draw.lapsed and draw.reach may be later than the commits")
	}
	if x.header.Redacted {
		all = append(all, "that the commits are the ledger's: their keys are redacted, so their bytes differ from the hashed ones; compare the file with the whole export line by line")
	}
	switch {
	case x.locked:
		all = append(all, "the payloads of the units: they are encrypted; give the file of their key with --units-key-file")
	case x.sale != nil && x.sale.Newest().GetUnits() != nil && x.header.UnitsLog == nil:
		all = append(all, "the payloads of the units: they are secret, and were left out of a file for sharing")
	}
	return all
}
