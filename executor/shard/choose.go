package shard

import (
	"slices"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/executor/request"
)

// Claims may choose their units, by their numbers or as a run of adjacent ones. The home
// shard decides them, like all claims of its users. It requests the units that it lacks of
// other shards, in the messages by which it requests any units. Which units a shard has is
// unknown, so the home shard sends requests to all shards that have some: for named units to
// all at once and for all claims that wait, for adjacent ones to one shard after the other. A
// shard that has some of the named units sends exactly those; one that has a run of adjacent
// ones sends the lowest. Runs are not composed of the units of several shards.
//
// A claim waits until each shard that has units has answered one request that was sent after
// the claim had arrived, or has been silent for ReplyTimeout. Then it is refused if it has not
// got its units, so that it ends in any case. It may be refused while its units are on
// their way between two shards, which is why it may be repeated.
//
// Units that came for a claim that is refused stay where they are. Each transfer answers a
// request, and each claim causes one request to each shard, and one more whenever that shard
// resends a transfer, so that units come to rest when no claims arrive any more. Two claims
// that name each other's units do not swap them either. A shard sends the units that its waiting
// claims name to a lower-numbered shard only: of the claims that name a unit, the one on the
// lowest shard gets it. A shard whose claims wait for any units still sends those that others
// name, because other units serve its claims as well. Units for which claims without a choice
// wait are sent to lower numbers only, as in transfer.go.

// maxNamedUnits bounds the units that one request names, so that one transfer has room for them. It is
// enough for any claim.
const maxNamedUnits = api.MaxQuantity

// notFound returns the answer to a claim whose chosen units no shard has.
func notFound(t *request.Ticket) request.Answer {
	if t.Adjacent {
		return request.Refusal(api.NotAdjacent)
	}
	return request.Refusal(api.UnitsTaken)
}

// mayFind reports whether another shard may have the units that a claim chooses and this shard lacks.
func (x *transfers) mayFind(t *request.Ticket) bool {
	answered := func(shard int) bool { return t.Search != nil && t.Search.None[shard] }
	return slices.ContainsFunc(x.unitRequests, func(r unitRequest) bool { return !answered(r.shard) }) ||
		slices.ContainsFunc(x.totals.withUnits(x.shard, t.MinUnits()), func(r unitRequest) bool { return !answered(r.shard) })
}

// awaitsReply reports whether a claim still waits for replies of other shards: one that chooses its
// units while a request is unanswered, another one if a shard left a request unanswered that was sent
// before the claim waited.
func (x *transfers) awaitsReply(t *request.Ticket) bool {
	if t.Chooses() {
		return len(x.unitRequests) > 0
	}
	return x.firstSilent != 0 && t.FirstRequest > x.firstSilent
}

// addSearches adds to whom requests for the units that waiting claims choose and lack, and returns the
// units named among them.
func (x *transfers) addSearches(d *ledger.Draft, whom []unitRequest) ([]unitRequest, ledger.Units) {
	claims := x.searchingClaims()
	if len(claims) == 0 {
		return whom, nil
	}
	var named ledger.Units
	for _, t := range claims {
		named.Include(t.Units)
	}
	named = d.Missing(named)
	for _, other := range x.totals.withUnits(x.shard, 1) {
		if x.hasRequested(other.shard) {
			continue
		}
		r := unitRequest{shard: other.shard}
		i := slices.IndexFunc(whom, func(r unitRequest) bool { return r.shard == other.shard })
		if i >= 0 {
			r = whom[i]
		}
		for _, t := range claims {
			switch {
			case t.Search.None[r.shard]:
			case !t.Adjacent:
				r.named = true
			case r.run == 0 && t.Search.RequestedShard == 0 && t.Quantity <= other.units:
				r.run, t.Search.RequestedShard = t.Quantity, r.shard+1
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

// searchingClaims returns the claims with a search, in their order. Where they name more units than a
// request may have, the last ones wait.
func (x *transfers) searchingClaims() (claims []*request.Ticket) {
	room := x.maxNamed
	for _, t := range x.requests.short() {
		if t.Search != nil {
			room -= len(t.Units)
		}
	}
	for _, t := range x.requests.short() {
		switch {
		case !t.Chooses() || t.Withdrawn():
			continue
		case t.Search == nil && len(t.Units) > room:
			continue
		case t.Search == nil:
			room -= len(t.Units)
			t.Search, t.FirstRequest = &request.Search{None: make(map[int]bool)}, x.lastRequest+1
		}
		claims = append(claims, t)
	}
	return claims
}

// recordSearch records that a shard has sent units, or did not reply to a request in time. answers is false if it is
// unknown whether the units answer the request, because the shard has resent them: claims that got no fitting units
// keep searching there.
func (x *transfers) recordSearch(r unitRequest, sent ledger.Units, answers bool) {
	adjacent := r.run > 0 && sent.HasRun(r.run, x.state.Settings())
	for _, t := range x.requests.waiting {
		s := t.Search
		if s == nil || t.FirstRequest > r.number {
			continue
		}
		if s.RequestedShard == r.shard+1 {
			s.RequestedShard = 0
		}
		if answers && (t.Adjacent && r.run > 0 && r.run <= t.Quantity && !adjacent || !t.Adjacent && r.named) {
			s.None[r.shard] = true
		}
	}
}

// draftOut adds a transfer to a shard that requested units to the draft.
func (x *transfers) draftOut(d *ledger.Draft, w Message) (ledger.Transfer, error) {
	chooses := w.Run > 0 || len(w.Units) > 0
	any, run := w.Lacks > 0 || !chooses, w.Run
	if x.withholds(w) {
		any, run = false, 0
	}
	kept := x.reservedUnits(w)
	if any && !chooses && len(kept) == 0 {
		return d.Out(w.From, share(d.Available(), w.Lacks)), nil
	}
	units := d.Pick(w.Units, run, func(spare int64) int64 {
		if !any {
			return 0
		}
		return share(spare, w.Lacks)
	}, kept)
	if len(units) == 0 {
		return ledger.Transfer{}, nil
	}
	return d.OutUnits(w.From, units)
}

// reservedUnits returns the units that the requesting shard does not get, because claims that wait here
// name them.
func (x *transfers) reservedUnits(w Message) (kept ledger.Units) {
	if w.From < x.shard {
		return nil
	}
	for _, t := range x.requests.waiting {
		if len(t.Units) > 0 && !t.Withdrawn() {
			kept.Include(t.Units)
		}
	}
	return kept
}
