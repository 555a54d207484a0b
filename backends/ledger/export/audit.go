package export

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	"salectl/backends/ledger/payload"
	"salectl/spec"
	"salectl/units"
)

// An audit of an export has the file alone, and no store. It keeps the same books of the
// commits as an audit of the ledger. It compares the books with the sale's own log, and header
// and claims with both. Each problem of a line begins with the number of the line.

// fileAudit is an audit of an export.
type fileAudit struct {
	*audit.Recount
	contents // by the commits; sale is nil if its log cannot be trusted
	lines    *bufio.Reader
	line     []byte // last line read; empty at the end
	number   int    // of that line
	header   Header
	worth    int64

	logs     []*auditedLog // of the shards, then the sale's own, and that of its units if the header names it
	payloads *payload.Log  // nil: that log cannot be trusted
	entries  [][]byte      // of the log of units
	reader   *payload.Reader
	locked   bool // the units are encrypted, and there is no key
}

// rewind begins to read a file.
func (x *fileAudit) rewind(from io.Reader) {
	x.lines, x.number = bufio.NewReaderSize(from, 1<<16), 0
}

// read reads the next line. A line cut off by the end of the file is a problem, and not judged.
func (x *fileAudit) read() (err error) {
	x.number++
	if x.line, err = x.lines.ReadBytes('\n'); err != io.EOF {
		return err
	}
	if len(x.line) > 0 {
		x.at("the file ends in the middle of this line: its end was cut off")
		x.line = nil
	}
	return nil
}

// isClaim reports whether the last line read is that of a claim.
func (x *fileAudit) isClaim() bool { return bytes.HasPrefix(x.line, []byte(`{"claim":`)) }

func (x *fileAudit) at(format string, args ...any) {
	x.Problem("line %d: %s", x.number, fmt.Sprintf(format, args...))
}

// damaged reports whether a shard could not be applied to its end, or any of them if shard is -1.
func (x *fileAudit) damaged(shard int) bool {
	for i, b := range x.Books {
		if (shard < 0 || i == shard) && (x.logs[i].damage != nil || !b.Compared()) {
			return true
		}
	}
	return false
}

// Audit audits an export. An error means that the file is not an export, or cannot be read;
// faults of its contents are in the report. unproven lists what such a file cannot prove. key
// is the key of the units, which proves what these are: nil if they are public, or if that is to
// stay unproven. A key that does not open them is an error.
func Audit(from io.ReadSeeker, key *units.Key) (a *audit.Report, unproven []string, err error) {
	x := fileAudit{Recount: &audit.Recount{Report: new(audit.Report)}}
	x.rewind(from)
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
	x.rewind(from)
	if err := x.claims(); err != nil {
		return nil, nil, err
	}
	x.OK = len(x.Problems) == 0
	return x.Report, x.unproven(), nil
}

// open reads and checks the header.
func (x *fileAudit) open() error {
	if err := x.read(); err != nil {
		return err
	}
	if err := json.Unmarshal(x.line, &x.header); err != nil {
		if !json.Valid(x.line) {
			err = errors.New("the first line is not JSON")
		}
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
		if !x.isClaim() {
			x.commit()
		}
	}
}

// account checks the books by themselves, against each other, and against what was planned.
func (x *fileAudit) account() {
	for i := range x.shards {
		x.whole(x.logs[i])
	}
	x.endLogs()
	x.ends()
	x.Account(x.sale)
	if x.sale != nil {
		x.Run = x.sale.Run()
		x.checkUnits()
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
	if x.sale == nil || !x.compareHeader() {
		return nil
	}
	places := sync.OnceValue(x.places)
	expected, stop := iter.Pull2(claims(x.shards, Filter{}))
	defer stop()
	shard, c, more := expected() // the claim whose line comes next
	next, unjudged := 0, 0       // its index
	missing := func(until int) { // moves to a claim
		if n := until - next; n > 0 {
			x.at("before it the lines of %s are missing, the first of them claim %s of user %q", spec.Count(n, "claim"), c.ID(shard), c.User)
		}
		for ; next < until; next++ {
			shard, c, more = expected()
		}
	}
	for {
		if err := x.read(); err != nil {
			return err
		}
		if !x.isClaim() {
			break
		}
		var line Claim
		if err := json.Unmarshal(x.line, &line); err != nil {
			x.at("it cannot be read: %v", err)
			continue
		}
		if !more || c.ID(shard) != line.Claim {
			at, known := places()[line.Claim]
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
		next++
		shard, c, more = expected()
	}
	missing(int(CountsOf(x.shards).Claims))
	if unjudged > 0 {
		x.Problem("%s could not be verified, since commits cannot be read", spec.Count(unjudged, "claim"))
	}
	if x.draw != nil && x.header.Draw != nil && !x.damaged(-1) {
		x.VerifyDraw(x.draw, *x.header.Draw)
	}
	if p, has := x.packets, x.header.Packets; has != nil && x.lacksSeed() {
		granted, left := p.Format(x.worth), p.Format(p.Total-x.worth)
		if granted != has.Granted || left != has.Refund {
			x.Problem("line 1: by the claims, packets of %s are granted and %s are left; by the header, %s and %s",
				granted, left, has.Granted, has.Refund)
		}
	}
	return nil
}

// places returns the index of each claim among those of all shards.
func (x *fileAudit) places() map[string]int {
	all := make(map[string]int)
	for shard, c := range claims(x.shards, Filter{}) {
		all[c.ID(shard)] = len(all)
	}
	return all
}

// compareClaim compares the line of a claim with its commits.
func (x *fileAudit) compareClaim(line Claim, shard int, c ledger.Claim) {
	want := x.claimLine(shard, c)
	want.Payloads = x.payloadsOf(line, c)
	if p := x.packets; x.lacksSeed() {
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
	x.differs("claim "+line.Claim, encode(want), "its commits have")
}

// compareHeader compares the header with the books and the sale's log, and reports whether claims can
// be compared with these.
func (x *fileAudit) compareHeader() bool {
	h := x.header
	x.name = h.Sale
	if h.Redacted {
		x.redact = new(redaction)
	}
	if err := x.ofLog(); err != nil {
		x.Problem("%v", err)
		return false
	}
	if x.draw != nil {
		x.Entries(x.draw.Record.Shards)
	}
	if x.damaged(-1) {
		return true
	}
	want := x.contents.header()
	want.Roots = h.Roots // account has compared them
	if p := want.Packets; p != nil {
		if x.lacksSeed() && h.Packets != nil {
			p.Granted, p.Refund, p.Commitment = h.Packets.Granted, h.Packets.Refund, h.Packets.Commitment
		}
		// While a sale begins, shards may not have applied the generation with their packets yet.
		// Limits add up rather than counts: a transfer received and not yet acknowledged is in the counts of two shards.
		limit := int64(0)
		for _, s := range x.shards {
			limit += s.Limit
		}
		began := !slices.ContainsFunc(x.shards, func(s *ledger.State) bool { return s.Generation == 0 })
		if began && limit != x.packets.Packets {
			x.at("there are to be %d packets, and the commits have another number of units", p.Packets)
		}
	}
	// Until all shards are sealed these are from heads, which may be later than the commits.
	if d, has := want.Draw, h.Draw; d != nil && has != nil && !d.Ended &&
		has.Lapsed >= d.Lapsed && has.Winners+has.Lapsed >= d.Winners+d.Lapsed && has.Reach >= d.Reach {
		d.Winners, d.Lapsed, d.Reach = has.Winners, has.Lapsed, has.Reach
	}
	x.differs("the header", encode(want), "the commits have")
	return true
}

// ofLog reads, from the sale's log and that of its units, the data that header and claims are
// compared with. While packets may still be given the file lacks their seed, and the amount of
// each is unknown.
func (x *fileAudit) ofLog() error {
	red, err := ledger.DeclaredRedPacket(x.sale)
	if err == nil {
		x.draw, err = ledger.NewDrawResult(x.sale, ledger.DrawShards(x.shards), nil)
	}
	if err != nil {
		return err
	}
	x.units = x.header.UnitsLog
	if x.payloads != nil && x.header.UnitsLog != nil {
		x.units = x.payloads.Part(addedTo(x.sale, x.shards))
	}
	if red == nil {
		return nil
	}
	x.packets = red
	if len(red.Seed) == 0 && (!over(x.shards) || x.damaged(-1)) {
		x.SameRedPacket(x.sale, red)
		return nil
	}
	x.RedPacket(x.sale, x.sale.Sealed())
	if red.Validate() == nil { // else RedPacket has reported it
		x.dealt = red.Deal()
	}
	return nil
}

// unproven returns what the file alone cannot prove.
func (x *fileAudit) unproven() (all []string) {
	all = append(all, "that the file as a whole is genuine: compare its SHA-256 with that of 'salectl history' after destroy, or that of a live export with its manifest")
	if x.lacksSeed() {
		const left = "the seed is left out while packets may still be given"
		all = append(all, "the amount of each packet, and the content of the commitment: "+left,
			"the parts of the first generation that the shards do not repeat: "+left+", so the bytes of the commit differ from the hashed ones")
	}
	if x.draw != nil && !x.draw.Record.Ended {
		all = append(all, "the number of units of the draw, its lapsed awards and the last rank that may be awarded: the sale was not over, and draw.winners, draw.lapsed and draw.reach may be later than the commits")
	}
	if x.header.Redacted {
		all = append(all, "that the commits are the ledger's: their keys are redacted, so their bytes differ from the hashed ones; compare the file with the whole export line by line")
	}
	switch {
	case x.locked:
		all = append(all, "the payloads of the units: they are encrypted; pass the file of their key with --units-key-file")
	case x.sale != nil && x.sale.Newest().GetUnits() != nil && x.header.UnitsLog == nil:
		all = append(all, "the payloads of the units: they are secret, and were left out of a file for sharing")
	}
	return all
}

// differs reports the fields in which the last line read differs from want, the line that source
// requires.
func (x *fileAudit) differs(what string, want []byte, source string) {
	if bytes.Equal(x.line, want) {
		return
	}
	is, should := fields(x.line), fields(want)
	names := maps.Clone(is)
	maps.Copy(names, should)
	found := false
	for _, name := range slices.Sorted(maps.Keys(names)) {
		switch a, b := is[name], should[name]; {
		case a == b:
			continue
		case a == "":
			x.at("%s has no %s, %s %s", what, name, source, b)
		case b == "":
			x.at("%s has %s %s, %s nothing of it", what, name, a, source)
		default:
			x.at("%s has %s %s, %s %s", what, name, a, source, b)
		}
		found = true
	}
	if !found {
		x.at("%s does not have the form that salectl writes", what)
	}
}

// fields returns the values of a JSON object by name; those of nested objects have dotted names.
func fields(line []byte) map[string]string {
	all := make(map[string]string)
	var walk func(prefix string, text json.RawMessage)
	walk = func(prefix string, text json.RawMessage) {
		var inner map[string]json.RawMessage
		if json.Unmarshal(text, &inner) != nil || inner == nil {
			all[strings.TrimSuffix(prefix, ".")] = string(text)
			return
		}
		for name, value := range inner {
			walk(prefix+name+".", value)
		}
	}
	walk("", line)
	return all
}
