package rehearse

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"salectl/api"
	"salectl/spec"
)

// judge compares all answers of a rehearsal with the promises to buyers. It has a buyer's knowledge
// only: if an answer is missing, it assumes in favor of the server.
type judge struct {
	c          Config
	violations []string

	// unresolved reports that a claim may have been accepted without an answer.
	unresolved bool

	owners  map[int64]*record   // first claim that was sold a unit, by unit
	claims  map[string]*record  // first answer with a claim, by its name
	keys    map[string]*accepts // by key, which implies its user
	units   map[string]int64    // by user, of distinct claims
	pairs   map[int64]bool      // whether a unit and the next one are adjacent
	choice  *Choice             // nil: buyers may not choose
	soldOut *record             // a request answered sold_out
	money   int64               // amount reported to buyers, in minor units

	// Of a draw.
	entered  map[string]*record // first entry, by user
	entrants []*entrant         // ordered by key

	// Of held claims.
	plays  []*play
	byID   map[string]*play
	payAt  []time.Time // times of the first payment for each unit, in order; nil: not computed yet
	free   []int64     // returned units without owner
	reused int64       // number of times that a returned unit was given to another buyer
}

// accepts are the accepted answers of one key.
type accepts struct {
	first *record // by time of arrival
	new   int     // number of answers with status 201
}

// judged judges the answers of a rehearsal: it finds the sold units and all violations. A nil w means
// that the sale is not a draw.
func judged(c Config, records []record, plays []*play, w *drawn) (found *judge) {
	j := &judge{
		c:      c,
		owners: map[int64]*record{}, claims: map[string]*record{},
		keys: map[string]*accepts{}, units: map[string]int64{},
		plays: plays, byID: map[string]*play{}, entered: map[string]*record{}, pairs: map[int64]bool{},
	}
	for first, rows := int64(1), c.Rows; len(rows) > 0; first, rows = first+rows[0], rows[1:] {
		for i := range rows[0] - 1 {
			j.pairs[first+i] = true
		}
	}
	// In order of arrival, so that the first record is the first answer, and equal answers cause
	// equal messages.
	slices.SortFunc(records, func(a, b record) int {
		return cmp.Or(cmp.Compare(a.ended.Mono, b.ended.Mono), cmp.Compare(a.key, b.key))
	})
	slices.SortFunc(j.plays, func(a, b *play) int { return cmp.Compare(a.key, b.key) })
	for _, v := range j.plays {
		j.byID[v.claim.ID] = v
		j.follow(v)
	}
	for i := range records {
		if records[i].accepted() {
			j.accept(&records[i])
		}
	}
	if c.Payment != nil {
		j.held()
	}
	for i := range records {
		if !records[i].accepted() {
			j.refuse(&records[i])
		}
	}
	if w != nil {
		j.drawn(w, records)
	}
	j.wholeSale(records)
	if len(c.Places) > 0 {
		j.choice = j.choices(records)
	}
	return j
}

func (j *judge) accept(r *record) {
	if r.ID == "" || r.User != r.user || r.Sale != j.c.Name || !j.asMany(r) {
		j.violated("%s requested %s and received %d %s with claim %q of user %q in sale %q and %s",
			r.key, spec.Count(r.quantity, "unit"), r.status, r.Outcome, r.ID, r.User, r.Sale, spec.Count(len(r.Units), "unit"))
		return
	}
	key := j.keys[r.key]
	if key == nil {
		key = &accepts{first: r}
		j.keys[r.key] = key
	}
	if r.status == http.StatusCreated {
		if key.new++; key.new == 2 {
			j.violated("%s was twice reported as new (201)", r.key)
		}
		j.ruled(r)
		if r.choice != (choice{}) {
			j.chosen(r)
		}
	}
	if f := key.first; f != r {
		if f.ID != r.ID || !j.sameUnits(f, r) || !f.At.Equal(r.At) || !slices.Equal(f.Amounts, r.Amounts) {
			j.violated("%s had two answers: claim %s with units %v%s, then claim %s with units %v%s",
				r.key, f.ID, f.Units, worth(f), r.ID, r.Units, worth(r))
		} else {
			return // a repeated answer
		}
	}
	if other := j.claims[r.ID]; other == nil {
		j.claims[r.ID] = r
	} else if other.key != r.key {
		j.violated("claim %s was given to %s and to %s", r.ID, other.key, r.key)
	}
	switch {
	case j.c.Draw != nil:
		j.enter(r)
		return
	case j.c.Payment != nil:
		j.hold(r)
		return
	}
	for _, unit := range r.Units {
		j.sold(unit, r)
	}
	j.worth(r)
	given := int64(len(r.Units))
	j.units[r.user] += given
	if had := j.units[r.user]; had > j.c.PerUserLimit && had-given <= j.c.PerUserLimit {
		j.violated("%s has %s, the limit is %d", r.user, spec.Count(had, "unit"), j.c.PerUserLimit)
	}
}

// sold records a unit that was sold.
func (j *judge) sold(unit int64, r *record) {
	if other := j.owners[unit]; other != nil {
		j.violated("unit %d was sold twice: to %s in claim %s and to %s in claim %s", unit, other.key, other.ID, r.key, r.ID)
		return
	}
	j.owners[unit] = r
}

// least returns the number of units that a claim gets at least, if it is accepted. A choice gets all.
func (c *Config) least(r *record) int64 {
	if c.Partial && r.choice == (choice{}) {
		return 1
	}
	return r.quantity
}

// asMany reports whether a claim got as many units as requested or, with Partial and unless it chose,
// some of them with the requested number in its answer. An entry of a draw gets none.
func (j *judge) asMany(r *record) bool {
	given := int64(len(r.Units))
	if j.c.Draw != nil {
		return given == 0 && r.Outcome == api.Entered
	}
	return given == r.quantity && r.Requested == 0 || given > 0 && given >= j.c.least(r) && given < r.quantity && r.Requested == r.quantity
}

func (j *judge) refuse(r *record) {
	if r.later() {
		j.unresolved = true
		return
	}
	// Concurrent requests with one key may be decided in either order, and refusals are not stored.
	// But a request sent after the answer of acceptance must not be refused.
	if key := j.keys[r.key]; key != nil && r.began.Mono > key.first.ended.Mono && !j.hasEnded(key.first, r) {
		j.violated("%s was accepted as claim %s, then answered %d %s", r.key, key.first.ID, r.status, r.Outcome)
	}
	if r.Outcome == api.NotEligible {
		j.ruled(r)
	}
	if r.Outcome == api.UnitsTaken && r.first == 0 || r.Outcome == api.NotAdjacent && !r.adjacent {
		j.violated("%s received %s, and chose no such units", r.key, r.Outcome)
	}
	if r.Outcome == api.SoldOut {
		j.soldOut = r
		j.tooEarly(r)
	}
}

// wholeSale checks the promises that depend on all answers together.
func (j *judge) wholeSale(records []record) {
	sold := int64(len(j.owners))
	if sold > j.c.Stock {
		j.violated("%s sold of a stock of %d", spec.Count(sold, "unit"), j.c.Stock)
	}
	if p := j.c.RedPacket; p != nil && (j.money > p.Total || sold == j.c.Stock && j.money != p.Total) {
		j.violated("the packets of %d units come to %s, and %d have %s", sold, p.Format(j.money), j.c.Stock, p.Format(p.Total))
	}
	if j.unresolved {
		return
	}
	if j.c.Payment == nil && j.soldOut != nil && sold < j.c.Stock {
		j.violated("%s received sold_out, but only %d of %d units are sold", j.soldOut.key, sold, j.c.Stock)
	}
	for i := range records {
		r := &records[i]
		if had := j.units[r.user]; r.Outcome == api.LimitReached && had+j.c.least(r) <= j.c.PerUserLimit {
			j.violated("%s received limit_reached, but has %s, requested %d, at most %d are allowed", r.key, spec.Count(had, "unit"), r.quantity, j.c.PerUserLimit)
		}
	}
}

// worth checks and adds up the amounts of a new claim of a red packet.
func (j *judge) worth(r *record) {
	p := j.c.RedPacket
	if p == nil {
		return
	}
	if len(r.Amounts) != len(r.Units) || r.Currency != p.Currency {
		j.violated("%s received claim %s with units %v and amounts %q %s", r.key, r.ID, r.Units, r.Amounts, r.Currency)
		return
	}
	for i, text := range r.Amounts {
		minor, ok := p.Parse(text)
		if !ok || minor < p.Min {
			j.violated("%s received unit %d with the amount %q, and the least is %s", r.key, r.Units[i], text, p.Format(p.Min))
		}
		j.money += minor
	}
}

// worth formats the amounts reported for a claim, or returns "".
func worth(r *record) string {
	if len(r.Amounts) == 0 {
		return ""
	}
	return fmt.Sprintf(" worth %s", r.Amounts)
}

func (j *judge) violated(format string, args ...any) {
	j.violations = append(j.violations, fmt.Sprintf(format, args...))
}

// ruled checks that the rule named in an answer, or "" in that of an accepted claim, is the decision of
// the rules. It may change while a claim is under way.
func (j *judge) ruled(r *record) {
	refused := j.c.Refused
	if refused == nil {
		refused = func(string, int64, string, time.Time) string { return "" }
	}
	before, after := refused(r.user, r.quantity, r.key, r.began.Wall), refused(r.user, r.quantity, r.key, r.ended.Wall)
	if r.rule != before && r.rule != after {
		j.violated("%s of %s was answered %d %s by rule %q, expected rule %q", r.key, r.user, r.status, r.Outcome, r.rule, before)
	}
}
