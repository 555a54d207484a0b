package shard

import (
	"slices"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
)

// Claims that choose their units, by their numbers or so many that lie side by side. The
// home shard decides, as on all claims of its users. What it lacks it asks the other shards
// for, in the messages by which it asks for any units. Nobody knows which units a shard has,
// so it asks all that have some: for units named all at once and for all claims that wait,
// for adjacent ones one shard after the other. A shard that has some of the units named
// sends exactly those; one that has a run of adjacent ones sends the lowest. Runs are not put
// together from what several shards have.
//
// A claim waits until each shard that has units has answered one request that was made after
// the claim had come, or has been silent for RepeatAfter; then it is refused if it has not
// got its units. So it ends, whatever the others do. It may be refused while its units are on
// their way between two shards, which is why it may be asked again.
//
// Units that came for a claim that is refused stay where they are: each transfer answers a
// request, and each claim makes one request of each shard, and one more whenever that sends a
// transfer again, so that units come to rest when no claims come any more. Two claims that
// want each other's units do not swap them either. A shard keeps units that claims which wait
// here name, and gives them to a lower-numbered shard only: of the claims that want a unit,
// the one on the lowest shard gets it. A shard whose claims wait for any units gives those
// that others name all the same: it can do with others. And units that claims wait for which
// do not choose go to lower numbers only, as ever.

// search is what is known of other shards, for one claim that waits.
type search struct {
	firstRequest uint64       // the number of the first request that counts for it
	none         map[int]bool // shards that have answered one, and not sent what would do
	askedShard   int          // the shard that is asked for adjacent units for it, +1; 0: none is
}

// mostNamed bounds the units that a shard is asked for by their numbers at a time, so that a
// transfer has them all. It is enough for any claim.
const maxNamedUnits = api.MaxQuantity

// notFound is what a claim is told for which no shard has what it chooses.
func notFound(t *Ticket) Answer {
	if t.Adjacent {
		return Answer{Outcome: api.NotAdjacent, RetryAfter: time.Second}
	}
	return Answer{Outcome: api.UnitsTaken, RetryAfter: time.Second}
}

// least is how many units a shard must have to be asked on behalf of a claim.
func (t *Ticket) minUnits() int64 {
	if t.Adjacent {
		return t.Quantity
	}
	return 1
}

// mayFind reports whether another shard may have what a claim chooses and lacks here.
func (x *transfers) mayFind(t *Ticket) bool {
	answered := func(shard int) bool { return t.search != nil && t.search.none[shard] }
	return slices.ContainsFunc(x.requested, func(r request) bool { return !answered(r.shard) }) ||
		x.totals.anyOtherHas(x.shard, t.minUnits(), answered)
}

// searches reports whether a claim that chooses waits for what others have been asked for.
func (x *transfers) isSearching(t *Ticket) bool { return t.Chooses() && len(x.requested) > 0 }

// search adds to whom other shards are about to be asked what claims that wait choose and
// lack, and returns the units named among that.
func (x *transfers) addSearches(d *ledger.Draft, whom []request) ([]request, ledger.Units) {
	claims := x.searchingClaims()
	if len(claims) == 0 {
		return whom, nil
	}
	var named ledger.Units
	for _, t := range claims {
		d.Missing(&named, t.Units)
	}
	for _, other := range x.totals.withUnits(x.shard, 1) {
		if x.hasRequested(other.shard) {
			continue
		}
		r := request{shard: other.shard}
		i := slices.IndexFunc(whom, func(r request) bool { return r.shard == other.shard })
		if i >= 0 {
			r = whom[i]
		}
		for _, t := range claims {
			switch {
			case t.search.none[r.shard]:
			case !t.Adjacent:
				r.named = true
			case r.run == 0 && t.search.askedShard == 0 && t.Quantity <= other.units:
				r.run, t.search.askedShard = t.Quantity, r.shard+1
			}
		}
		switch {
		case i >= 0:
			whom[i] = r
		case r.named || r.run > 0:
			whom = append(whom, r)
		}
	}
	return whom, named
}

// searching returns the claims for which others are searched, in their order. Where they name
// more units than may be asked for, the last ones wait.
func (x *transfers) searchingClaims() (claims []*Ticket) {
	room := x.maxNamed
	for _, t := range x.requests.short() {
		if t.search != nil {
			room -= len(t.Units)
		}
	}
	for _, t := range x.requests.short() {
		switch {
		case !t.Chooses() || t.withdrawn():
			continue
		case t.search == nil && len(t.Units) > room:
			continue
		case t.search == nil:
			room -= len(t.Units)
			t.search = &search{firstRequest: x.number + 1, none: make(map[int]bool)}
		}
		claims = append(claims, t)
	}
	return claims
}

// searched takes in that a shard has answered a request, with those units, or not at all.
func (x *transfers) recordSearch(r request, sent ledger.Units) {
	adjacent := r.run > 0 && sent.HasRun(r.run, x.state.Settings())
	for _, t := range x.requests.waiting {
		s := t.search
		if s == nil || s.firstRequest > r.number {
			continue
		}
		if s.askedShard == r.shard+1 {
			s.askedShard = 0
		}
		if t.Adjacent && r.run > 0 && r.run <= t.Quantity && !adjacent || !t.Adjacent && r.named {
			s.none[r.shard] = true
		}
	}
}

// searchAnew takes back a request: the shard has sent units again, and nobody knows whether
// they answer it. Claims go on searching there, if what came does not do.
func (x *transfers) retrySearch(r request) {
	for _, t := range x.requests.waiting {
		if t.search != nil && t.search.askedShard == r.shard+1 {
			t.search.askedShard = 0
		}
	}
}

// out puts units for a shard that asked for some into the draft.
func (x *transfers) draftOut(d *ledger.Draft, w Message) (ledger.Transfer, error) {
	chooses := w.Run > 0 || len(w.Units) > 0
	any, run := w.N > 0 || !chooses, w.Run
	if x.withholds(w) {
		any, run = false, 0
	}
	kept := x.reservedUnits(w)
	if any && !chooses && len(kept) == 0 {
		return d.Out(w.From, share(d.Available(), w.N)), nil
	}
	units := d.Pick(w.Units, run, func(spare int64) int64 {
		if !any {
			return 0
		}
		return share(spare, w.N)
	}, kept)
	if len(units) == 0 {
		return ledger.Transfer{}, nil
	}
	return d.OutTaken(w.From, units)
}

// kept returns the units that a shard that asked does not get, because claims name them that
// wait here.
func (x *transfers) reservedUnits(w Message) (kept ledger.Units) {
	if w.From < x.shard {
		return nil
	}
	for _, t := range x.requests.waiting {
		if len(t.Units) > 0 && !t.withdrawn() {
			kept.Include(t.Units)
		}
	}
	return kept
}
