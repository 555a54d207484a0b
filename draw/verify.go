package draw

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Options are optional inputs of Verify.
type Options struct {
	User   string // user whose rank to report; "": none
	Key    string // of that user's request; "": any, where the list has users
	Beacon []byte // value of the beacon's round, from the beacon itself; nil: not compared

	// Values noted when they were published; nil: not compared.
	Commitment *Digest
	Root       *Digest
}

// Report is the result of Verify.
type Report struct {
	Sale     string   `json:"sale"`
	UID      string   `json:"uid"`
	OK       bool     `json:"ok"`
	Revealed bool     `json:"revealed"` // if not, there are only entries yet
	Entries  int64    `json:"entries"`
	Awarded  int64    `json:"awarded"`
	Waiting  int64    `json:"waiting"` // entries that are due a unit, and have none yet
	Problems []string `json:"problems"`

	// Notes are findings that no file can decide, and that a person should check.
	Notes []string `json:"notes"`

	Published // compare the values with those noted in time

	// Of Options.User; 0: the user has no entry, or nothing is revealed yet.
	Rank  int64  `json:"rank,omitempty"`
	Claim string `json:"claim,omitempty"`
	State string `json:"state,omitempty"`
}

// ErrNoDraw reports that an export is not of a draw.
var ErrNoDraw = errors.New("the export is not of a draw")

// ErrKeyNeeded reports that a list without users was queried for a user without the request's key.
var ErrKeyNeeded = errors.New("the list has no users, so only the key of the request identifies the user's entry")

// Verify reads an export and recomputes the draw: commitment, entries, roots, order, and
// awards. Discrepancies are in the report, each with its place. An error means that the
// export cannot be read, or it is ErrKeyNeeded.
func Verify(from io.Reader, o Options) (*Report, error) {
	var v *Verifier
	err := readExport(from, func(h exportHeader) (err error) {
		v, err = NewVerifier(h.Sale, h.UID, *h.Draw, o)
		return err
	}, func(line Line) error { return v.Add(line) })
	switch {
	case err != nil:
		return nil, err
	case o.User != "" && o.Key == "" && v.user == 0 && v.unnamed:
		return nil, ErrKeyNeeded
	}
	return v.Report(), nil
}

// Verifier is Verify for callers that have the lines already.
type Verifier struct {
	options Options
	record  Record
	closes  time.Time
	report  *Report
	entries []entry
	shards  [][]Digest       // labels
	users   map[string]int32 // index of each user's entry, where the list has users
	states  map[string]int64 // number of entries by state
	keyless int64            // entries with a user and without a key
	unnamed bool             // there are entries without a user
	user    int              // index of the entry of options.User, +1; 0: none
}

// entry is the part of a line that is kept.
type entry struct {
	Entry
	rank  int64
	state string
}

func (v *Verifier) problem(format string, args ...any) {
	const enough = 100
	if len(v.report.Problems) < enough {
		v.report.Problems = append(v.report.Problems, fmt.Sprintf(format, args...))
	}
}

// NewVerifier returns the verifier of the draw of a run.
func NewVerifier(sale, uid string, r Record, o Options) (*Verifier, error) {
	v := &Verifier{
		options: o, record: r, shards: make([][]Digest, len(r.Shards)), users: map[string]int32{}, states: map[string]int64{},
		report: &Report{Sale: sale, UID: uid, Published: r.Published, Problems: []string{}, Notes: []string{}},
	}
	var err error
	if v.closes, err = time.Parse(time.RFC3339Nano, r.Closes); err != nil {
		return nil, fmt.Errorf("draw.closesAt: %w", err)
	}
	return v, nil
}

// Add adds the line of an entry. Lines must be in the order of the shards and their logs. An
// error means that the line cannot be that of an entry.
func (v *Verifier) Add(line Line) error {
	place, err := parseClaim(line.Claim)
	if err != nil {
		return err
	}
	place.Label = line.Label
	at, err := time.Parse(time.RFC3339Nano, line.At)
	if err != nil {
		return fmt.Errorf("claim %s: %w", line.Claim, err)
	}
	if n := len(v.entries); n > 0 && !before(v.entries[n-1].Entry, place) {
		v.problem("claim %s: it is out of order or repeated", line.Claim)
	}
	if !at.Before(v.closes) {
		v.problem("claim %s: it was entered at %s, and the sale closed at %s", line.Claim, line.At, v.record.Closes)
	}
	v.known(line)
	v.entries = append(v.entries, entry{place, line.Rank, line.State})
	if v.mine(line) {
		v.user = len(v.entries)
	}
	switch {
	case place.Shard < len(v.shards):
		v.shards[place.Shard] = append(v.shards[place.Shard], line.Label)
	case len(v.shards) > 0:
		v.problem("claim %s: there are %d shards, from 0", line.Claim, len(v.shards))
	}
	return nil
}

// known checks the state and the user of an entry, before it is added.
func (v *Verifier) known(line Line) {
	v.states[line.State]++
	switch line.State {
	case StateEntered, stateSold, stateHeld, stateExpired, stateCancelled, stateRefunded:
	default:
		v.problem("claim %s: an entry cannot be in the state %q", line.Claim, line.State)
	}
	if line.User == "" {
		v.unnamed = true
		return
	}
	if other, ok := v.users[line.User]; ok {
		v.problem("claims %s and %s: user %q has two entries", v.entries[other].claim(), line.Claim, line.User)
	} else {
		v.users[line.User] = int32(len(v.entries))
	}
	key := line.Key
	if line.KeyBase64 != nil {
		key = string(line.KeyBase64)
	}
	switch {
	case key == "":
		v.keyless++
	case Label(v.report.UID, line.User, key) != line.Label:
		v.problem("claim %s: its label is not that of its user and key", line.Claim)
	}
}

func (v *Verifier) mine(line Line) bool {
	switch {
	case v.options.User == "":
		return false
	case line.User != "" && (line.User != v.options.User || v.options.Key == ""):
		return line.User == v.options.User
	}
	return line.Label == Label(v.report.UID, v.options.User, v.options.Key)
}

// parseClaim returns an entry with the shard, slot and index in the name of its claim.
func parseClaim(claim string) (e Entry, err error) {
	shard, rest, _ := strings.Cut(claim, "-")
	slot, index, _ := strings.Cut(rest, "-")
	e.Shard, _ = strconv.Atoi(shard)
	e.Slot, _ = strconv.ParseUint(slot, 10, 64)
	e.Index, _ = strconv.Atoi(index)
	if e.Shard < 0 || e.Index < 0 || e.claim() != claim {
		return e, fmt.Errorf("%q is not the name of a claim: <shard>-<slot>-<index>", claim)
	}
	return e, nil
}

// claim returns the name of the entry's claim.
func (e Entry) claim() string { return fmt.Sprintf("%d-%d-%d", e.Shard, e.Slot, e.Index) }

// before reports whether a precedes b in the ledger.
func before(a, b Entry) bool {
	return a.Shard < b.Shard || a.Shard == b.Shard && (a.Slot < b.Slot || a.Slot == b.Slot && a.Index < b.Index)
}

// Report returns the result, once all lines were added.
func (v *Verifier) Report() *Report {
	v.report.Entries = int64(len(v.entries))
	if v.user > 0 {
		e := v.entries[v.user-1]
		v.report.Claim, v.report.State = e.claim(), e.state
	}
	v.published()
	v.counts()
	v.trees()
	order := v.order()
	if sorted := v.sorted(order); order != nil {
		v.ranks(sorted)
	}
	if v.report.Revealed = v.record.Link != nil; !v.report.Revealed {
		for _, e := range v.entries {
			if e.state != StateEntered || e.rank != 0 {
				v.problem("claim %s: it has a rank or a unit, but nothing is revealed yet", e.claim())
			}
		}
	}
	v.report.OK = len(v.report.Problems) == 0
	return v.report
}

// published compares the header with the values noted in time.
func (v *Verifier) published() {
	if noted := v.options.Commitment; noted != nil && *noted != v.record.Commitment {
		v.problem("header: draw.commitment is %v, but you have noted %v", v.record.Commitment, noted)
	}
	switch noted := v.options.Root; {
	case noted == nil:
	case v.record.Root == nil:
		v.problem("header: draw.root is missing, but you have noted %v", noted)
	case *noted != *v.record.Root:
		v.problem("header: draw.root is %v, but you have noted %v", v.record.Root, noted)
	}
}

// counts compares the states of all entries with the numbers of the header. These may be later
// than the lines until the draw has ended: then an award may have lapsed since its line was
// read, and both its line and that of its substitute have the unit.
func (v *Verifier) counts() {
	r := v.record
	has := v.states[stateSold] + v.states[stateHeld]
	lapsed := v.states[stateExpired] + v.states[stateCancelled] + v.states[stateRefunded]
	later := r.Lapsed - lapsed
	switch {
	case later < 0 || r.Ended && later > 0:
		v.problem("header: draw.lapsed is %d, and %d entries are expired, cancelled or refunded", r.Lapsed, lapsed)
	case has > r.Winners+later:
		v.problem("header: draw.winners is %d, and %d entries are sold or held: more than there are units", r.Winners, has)
	case later > 0:
		v.note("draw.lapsed is %d, and %d entries are expired, cancelled or refunded: the others were read before their awards lapsed. A later export shows them", r.Lapsed, lapsed)
	}
	if v.keyless > 0 {
		v.note("%d entries have a user and no key: whether their labels are those of their users was not checked", v.keyless)
	}
}

func (v *Verifier) note(format string, args ...any) {
	v.report.Notes = append(v.report.Notes, fmt.Sprintf(format, args...))
}

// trees compares the entries with the trees published at the close.
func (v *Verifier) trees() {
	switch {
	case v.record.Root == nil && v.record.Link != nil:
		v.problem("header: the secret is revealed, but the root of the entries was never published")
	case v.record.Root == nil && len(v.record.Shards) > 0:
		v.problem("header: there are draw.shards, and there is no draw.root")
	case v.record.Root != nil && RootOf(v.record.Shards) != *v.record.Root:
		v.problem("header: draw.root is not that of draw.shards")
	}
	for i, tree := range v.record.Shards {
		switch labels := v.shards[i]; {
		case tree.Entries != int64(len(labels)):
			v.problem("shard %d: there are %d entries, and at the close there were %d: some were added or removed", i, len(labels), tree.Entries)
		case tree.Root != Root(labels):
			v.problem("shard %d: the root of its entries is %v, and at the close it was %v: some were exchanged or altered", i, Root(labels), tree.Root)
		}
	}
}

// order returns the order that follows from the revealed values; nil: there is none.
func (v *Verifier) order() *Order {
	if v.record.Link == nil {
		return nil
	}
	v.committed()
	if beacon, ok := v.beacon(); ok && v.record.Root != nil {
		return NewOrder(v.report.UID, *v.record.Root, *v.record.Link, beacon)
	}
	return nil
}

// committed compares the revealed link, and the terms of the draw, with the commitment.
func (v *Verifier) committed() {
	r := v.record
	terms := Terms{Closes: r.CommittedCloses, Substitutes: r.Substitutes, Beacon: r.Beacon}
	switch {
	case terms.Commitment(v.report.UID, *r.Link) != r.Commitment:
		v.problem("header: draw.commitment is not that of draw.link, committedClosesAt, substitutes and beacon: one of them was changed after the commitment")
	case r.CommittedCloses == r.Closes:
	case r.Beacon != nil:
		v.problem("header: draw.closesAt is %s, and %s was committed to: a sale that is drawn by a beacon cannot close later", r.Closes, r.CommittedCloses)
	default:
		v.note("draw.closesAt is %s, but %s was committed to: it was changed during the entries. Compare it with the announcement", r.Closes, r.CommittedCloses)
	}
}

// sorted returns the entries in an order, or in that of their labels if it is nil. It reports
// entries with the same label, which are adjacent in either.
func (v *Verifier) sorted(order *Order) []*entry {
	sorted := make([]*entry, len(v.entries))
	for i := range v.entries {
		sorted[i] = &v.entries[i]
		if order != nil {
			sorted[i].Value = order.Value(sorted[i].Label)
		}
	}
	slices.SortFunc(sorted, func(a, b *entry) int { return a.Compare(b.Entry) })
	for i := 1; i < len(sorted); i++ {
		if a, b := sorted[i-1], sorted[i]; a.Label == b.Label {
			if before(b.Entry, a.Entry) {
				a, b = b, a
			}
			v.problem("claims %s and %s: they have the same label, so one entry is repeated", a.claim(), b.claim())
		}
	}
	return sorted
}

// ranks compares ranks and awards with the order of the entries.
func (v *Verifier) ranks(sorted []*entry) {
	const most = 10 // waiting entries that are named
	v.rankCount()
	last := min(v.record.Ranks, v.record.Reach)
	for i, e := range sorted {
		rank, published, awarded := int64(i+1), int64(i+1), e.state != StateEntered
		if rank > v.record.Ranks {
			published = 0
		}
		if e.rank != published {
			v.problem("claim %s: it is entry %d in the order and should have rank %s, but the export has %s",
				e.claim(), rank, rankText(published), rankText(e.rank))
		}
		if awarded {
			v.report.Awarded++
		}
		switch {
		case awarded && rank > v.record.Ranks:
			v.problem("claim %s: it was awarded a unit, but only %d ranks are published", e.claim(), v.record.Ranks)
		case awarded && rank > last:
			v.problem("claim %s: it was awarded a unit at rank %d, and there were %d units and %d awards that lapsed: only ranks up to %d could have one",
				e.claim(), rank, v.record.Winners, v.record.Lapsed, last)
		case !awarded && rank <= last && v.record.Ended:
			v.problem("claim %s: it has rank %d and no award, although ranks up to %d win a unit: a winner was skipped, or the sale was closed before",
				e.claim(), rank, last)
		case !awarded && rank <= last:
			if v.report.Waiting++; v.report.Waiting <= most {
				v.note("claim %s: it has rank %d and waits for its unit", e.claim(), rank)
			}
		}
		if v.user > 0 && e == &v.entries[v.user-1] {
			v.report.Rank = rank
		}
	}
	if more := v.report.Waiting - most; more > 0 {
		v.note("%d more wait for their units", more)
	}
}

// rankCount compares the number of ranks, and of those that may be awarded, with the entries,
// the stock and the substitutes.
func (v *Verifier) rankCount() {
	r := v.record
	var entries int64 // at the close; trees has compared them with the lines
	for _, tree := range r.Shards {
		entries += tree.Entries
	}
	want := min(entries, min(r.Stock, entries)+min(r.Substitutes, entries))
	awarded := int64(len(v.entries)) > v.states[StateEntered]
	switch brokenOff := r.Ranks < want && r.Ranks >= 0 && !awarded; {
	case brokenOff && r.Ended:
		v.problem("header: draw.ranks is %d, %d were to be published, and nothing was awarded: ranks were left out, or the sale was closed before", r.Ranks, want)
	case brokenOff:
		v.note("%d of %d ranks are published, and nothing is awarded yet: the draw is being revealed, or the reveal was interrupted", r.Ranks, want)
	case r.Ranks != want:
		v.problem("header: draw.ranks is %d, and %d entries, a stock of %d and %d substitutes make %d ranks", r.Ranks, entries, r.Stock, r.Substitutes, want)
	}
	switch {
	case r.Reach > r.Winners+r.Lapsed:
		v.problem("header: draw.reach is %d, but there were %d units and %d lapsed awards", r.Reach, r.Winners, r.Lapsed)
	case r.Reach < r.Stock:
		v.note("ranks up to %d might be awarded, and the stock was %d when the draw was revealed: the sale was closed before", r.Reach, r.Stock)
	}
}

// beacon returns the beacon's value, which may be nil; false: it is not in hex.
func (v *Verifier) beacon() ([]byte, bool) {
	b := v.record.Beacon
	if b == nil {
		if v.options.Beacon != nil {
			v.problem("header: the sale declares no beacon, but the value of one was passed")
		}
		return nil, true
	}
	if b.Value == "" {
		if b.Fallback != "secret" {
			v.problem("header: draw.beacon has no value, and the sale declares no fallback")
		}
		if v.options.Beacon != nil {
			v.problem("header: round %s of %s has a value, but the draw ignores it", b.Round, b.Name)
		}
		return nil, true
	}
	value, err := hex.DecodeString(b.Value)
	if err != nil {
		v.problem("header: draw.beacon.value %q is not in hex", b.Value)
		return nil, false
	}
	if v.options.Beacon != nil && !bytes.Equal(value, v.options.Beacon) {
		v.problem("header: draw.beacon.value is %s, and round %s of %s has %x: it is the value of another round", b.Value, b.Round, b.Name, v.options.Beacon)
	}
	return value, true
}

func rankText(rank int64) string {
	if rank == 0 {
		return "none"
	}
	return strconv.FormatInt(rank, 10)
}
