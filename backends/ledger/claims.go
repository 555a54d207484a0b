package ledger

import (
	"fmt"
	"hash/maphash"
	"iter"
	"math"
	"slices"
	"sort"

	"salectl/backends/ledger/internal/chunked"
	pb "salectl/backends/ledger/ledgerpb"
)

// claims has every accepted claim of a shard, and the answer to each request. A million claims take
// some 70 bytes each beside the names of users and requests. Records refer to texts, users and claims
// by index. They have no pointers, so the garbage collector has nothing to trace.
//
// A request is found by its user or, if the user has several claims, by its hash in byKey. Most users
// have one claim.
type claims struct {
	users
	holds
	rulings rulings

	text    *texts // of users, requests and holds
	records chunked.List[claimRecord]
	byKey   table    // to records of users with several claims
	times   []int64  // of each slot, in microseconds since 1970
	granted []int64  // time of each record that is a grab, by its node's clock; empty where owners decide
	awarded []uint32 // of a draw: records that were given a unit, in the order of their awards

	// Units of the few records whose units are not one run, or have numbers above 32 bits.
	scattered map[uint32][]int64

	// Requested quantities of the records that got fewer units.
	requested map[uint32]uint32

	// Original units of the records for which a late payment has bought other units.
	originalUnits map[uint32][]int64
}

type claimRecord struct {
	key   text
	first uint32 // lowest unit; the others follow it, or are in scattered
	user  uint32
	prev  uint32 // previous claim of the user, +1
	slot  uint32
	count uint32 // number of units
	place uint32 // index and state
}

// index returns the position of the claim among the ops of its commit. It has 24 bits, more
// than enough for the ops of an entry of MaxEntry bytes.
func (r *claimRecord) index() int { return int(r.place >> 8) }

func (r *claimRecord) state() ClaimState { return ClaimState(r.place) }

func (r *claimRecord) setState(s ClaimState) { r.place = r.place&^0xff | uint32(s) }

// ClaimState is the state of a claim. All but StateHeld and StateEntered are terminal, except
// that a refund ends a sale and a late payment may turn an expired claim into a sold one.
type ClaimState uint8

// The states of a claim.
const (
	StateSold ClaimState = iota
	StateHeld
	StateCancelled
	StateExpired
	StateRefunded
	StateEntered // of a draw: without units until an award
)

func (s ClaimState) String() string {
	return [...]string{"sold", "held", "cancelled", "expired", "refunded", "entered"}[s]
}

// Claim is one accepted claim, as recorded in its log.
type Claim struct {
	Slot        uint64
	Index       int // among the ops of the commit
	User        string
	Key         string
	Units       []int64
	Requested   int64 // requested units, if fewer were given; else 0
	State       ClaimState
	TimeUs      int64 // time of its commit, or of the grab by its node's clock
	HeldUntilUs int64 // deadline of its hold; 0: never held
	GraceUs     int64 // from the deadline to the release
	Extended    bool  // the deadline was extended
	Grabbed     bool  // from a list on a node
	Ruling      Ruling

	// Settlement of the claim: time, person and reason of the last change of its state, and
	// the payment that bought it.
	SettledUs int64 // 0: unchanged since it was made
	Who       string
	Reason    string
	Payment   string
	Retired   bool // a refund removed its units from the sale

	// Payments that bought nothing or whose purchase was refunded, in order. State.Claim returns
	// all of them, every other method the newest. RefundsDueTotal is their number. Returned has
	// those of RefundsDue that were paid back.
	RefundsDue      []string
	RefundsDueTotal int
	Returned        []Returned
}

// Returned is the record that a payment was paid back.
type Returned struct {
	Payment string
	TimeUs  int64 // of its commit
	Who     string
	Reason  string
}

// ReleaseUs returns the time from which a hold may expire and no payment is accepted.
func (c Claim) ReleaseUs() int64 { return c.HeldUntilUs + c.GraceUs }

// ID returns the claim's name in the ledger: <shard>-<slot>-<index>, or
// <shard>-u<unit> for a grab, which is named before it has a slot.
func (c Claim) ID(shard int) string {
	if c.Grabbed {
		return GrabID(shard, c.Units[0])
	}
	return fmt.Sprintf("%d-%d-%d", shard, c.Slot, c.Index)
}

// GrabID returns the name of the claim by which a node granted a unit.
func GrabID(shard int, unit int64) string { return fmt.Sprintf("%d-u%d", shard, unit) }

func newClaims() claims {
	text := &texts{seed: maphash.MakeSeed(), mask: math.MaxUint64}
	return claims{
		text:          text,
		users:         users{text: text, unpaid: make(map[uint32]uint32)},
		holds:         holds{refundsDue: refundsDue{known: make(map[refundDue]*Returned), byClaim: make(map[uint32][]string)}},
		scattered:     make(map[uint32][]int64),
		requested:     make(map[uint32]uint32),
		originalUnits: make(map[uint32][]int64),
	}
}

// claimIndex is the position of a request among the claims. It is valid until the next
// insert.
type claimIndex struct {
	userHash    uint64
	user, claim uint32 // +1; 0: there is none
}

// indexOf returns the indexes of a user and of the claim that answered the user's request.
func (c *claims) indexOf(user, key string) claimIndex {
	at := claimIndex{userHash: c.text.hash(user)}
	if u, ok := c.users.find(at.userHash, user); ok {
		at.user = u + 1
		at.claim = c.findClaim(at.userHash, u, key)
	}
	return at
}

// findClaim returns the index of a user's claim under key, +1; 0: none. hash is that of the user.
func (c *claims) findClaim(hash uint64, user uint32, key string) uint32 {
	last := c.users.records.At(user).last
	if r := c.records.At(last - 1); r.prev == 0 {
		if c.text.equal(r.key, key) {
			return last
		}
		return 0
	}
	i, ok := c.byKey.find(c.text.mix(hash, key), func(i uint32) bool {
		r := c.records.At(i)
		return r.user == user && c.text.equal(r.key, key)
	})
	if !ok {
		return 0
	}
	return i + 1
}

// insert adds a new claim for a request that has none.
func (c *claims) insert(at claimIndex, slot uint64, index int, op *pb.Claim) {
	if at.user == 0 {
		at.user = c.users.add(at.userHash, op.GetUser()) + 1
	}
	units := op.GetUnits()
	owner := c.users.records.At(at.user - 1)
	r := claimRecord{
		key: c.text.put(string(op.GetKey())), user: at.user - 1, prev: owner.last,
		slot: uint32(slot), count: uint32(len(units)), place: uint32(index) << 8,
	}
	switch {
	case op.GetEntry():
		r.setState(StateEntered)
	case op.GetHeldUntilUs() != 0:
		r.setState(StateHeld)
	}
	i := c.records.Add(r)
	c.writeUnits(i, units)
	if op.GetFill() != 0 {
		c.granted = append(c.granted, op.GetGrantedUs()) // before the first fill there is no claim
	}
	if owner.last != 0 {
		if before := c.records.At(owner.last - 1); before.prev == 0 {
			c.byKey.add(c.text.mix(at.userHash, c.text.get(before.key)), owner.last-1)
		}
		c.byKey.add(c.text.mix(at.userHash, string(op.GetKey())), i)
	}
	owner.last, owner.claims, owner.units = i+1, owner.claims+1, owner.units+int64(len(units))
	if op.GetRequested() != 0 {
		c.requested[i] = op.GetRequested()
	}
	c.rulings.add(i, op.GetAttributes())
	if r.state() == StateHeld {
		c.holds.enqueue(c.holds.add(holdRecord{claim: i, heldUntil: op.GetHeldUntilUs(), grace: op.GetGraceUs()}))
	}
}

// writeUnits sets the units of a claim.
func (c *claims) writeUnits(i uint32, units []int64) {
	switch {
	case len(units) == 0: // an entry
	case isRun(units) && units[0] <= math.MaxUint32:
		c.records.At(i).first = uint32(units[0])
		delete(c.scattered, i)
	default:
		c.scattered[i] = slices.Clone(units)
	}
}

func isRun(units []int64) bool {
	for i, unit := range units {
		if unit != units[0]+int64(i) {
			return false
		}
	}
	return true
}

// at returns a claim with the newest of its refunds due.
func (c *claims) at(i uint32) Claim { return c.with(i, mostDue) }

// with returns a claim with the newest of its refunds due, at most due.
func (c *claims) with(i uint32, due int) Claim {
	r := c.records.At(i)
	claim := Claim{
		Slot: uint64(r.slot), Index: r.index(),
		User: c.users.name(r.user), Key: c.text.get(r.key),
		Units: c.units(i), Requested: int64(c.requested[i]), State: r.state(), TimeUs: c.times[r.slot],
		Ruling: c.rulings.of(i, uint64(r.slot)),
	}
	if int(i) < len(c.granted) {
		claim.Grabbed, claim.TimeUs = true, c.granted[i]
	}
	if d := c.holds.of(i); d != nil {
		all := c.refundsDue.byClaim[i]
		claim.RefundsDueTotal, claim.RefundsDue = len(all), slices.Clip(all[max(0, len(all)-due):])
		claim.Returned = c.refundsDue.returned(i, claim.RefundsDue)
		claim.HeldUntilUs, claim.GraceUs, claim.Extended, claim.Retired = d.heldUntil, d.grace, d.extended, d.retired
		claim.Payment, claim.Who, claim.Reason = c.text.get(d.payment), c.text.get(d.who), c.text.get(d.reason)
		if d.settled != 0 {
			claim.SettledUs = c.times[d.settled-1]
		}
	}
	return claim
}

// quantity returns the number of units that a claim requested.
func (c *claims) quantity(i uint32) int64 {
	if requested := c.requested[i]; requested != 0 {
		return int64(requested)
	}
	return max(int64(c.records.At(i).count), 1) // an entry is for one
}

// chosen reports whether a claim may be the answer to a demand, by the units that it chose.
func (c *claims) chosen(i uint32, w Demand) bool {
	if !w.chooses() {
		return true
	}
	units, ok := c.originalUnits[i]
	if !ok {
		units = c.units(i)
	}
	return w.fits(units, c.requested[i])
}

func (c *claims) units(i uint32) []int64 {
	if units, ok := c.scattered[i]; ok {
		return slices.Clone(units)
	}
	r := c.records.At(i)
	units := make([]int64, r.count)
	for j := range units {
		units[j] = int64(r.first) + int64(j)
	}
	return units
}

// locate returns the index of the claim at a slot and an op index.
func (c *claims) locate(slot uint64, index int) (uint32, bool) {
	n := c.records.Len()
	i := sort.Search(n, func(i int) bool {
		r := c.records.At(uint32(i))
		return uint64(r.slot) > slot || uint64(r.slot) == slot && r.index() >= index
	})
	if i == n {
		return 0, false
	}
	r := c.records.At(uint32(i))
	return uint32(i), uint64(r.slot) == slot && r.index() == index
}

// The methods below read the claims of a State.

// Claims returns the number of claims accepted.
func (c *claims) Claims() int { return c.records.Len() }

// Claim returns the i-th claim accepted, with all its refunds due.
func (c *claims) Claim(i int) Claim { return c.with(uint32(i), math.MaxInt) }

// ClaimAt returns the claim at a place in the log: a slot, and an index among the ops of
// its commit.
func (c *claims) ClaimAt(slot uint64, index int) (Claim, bool) {
	i, ok := c.locate(slot, index)
	if !ok {
		return Claim{}, false
	}
	return c.at(i), true
}

// ClaimOfGrab returns the claim of a unit that a node granted from a list. It scans all such claims, a
// million in a few milliseconds: they have no index.
func (c *claims) ClaimOfGrab(unit int64) (Claim, bool) {
	for i := range uint32(len(c.granted)) {
		if int64(c.records.At(i).first) == unit {
			return c.at(i), true
		}
	}
	return Claim{}, false
}

// Find returns the claim that answered a request, if it was accepted.
func (c *claims) Find(user, key string) (Claim, bool) {
	at := c.indexOf(user, key)
	if at.claim == 0 {
		return Claim{}, false
	}
	return c.at(at.claim - 1), true
}

// Newest returns the newest claims of a user, at most most, in the order of their acceptance,
// and the number of all claims of the user.
func (c *claims) Newest(user string, most int) (newest []Claim, count int) {
	u, ok := c.users.find(c.text.hash(user), user)
	if !ok {
		return nil, 0
	}
	owner := c.users.records.At(u)
	for i := owner.last; i != 0 && len(newest) < most; i = c.records.At(i - 1).prev {
		newest = append(newest, c.at(i-1))
	}
	slices.Reverse(newest)
	return newest, int(owner.claims)
}

// Backward returns the claims of a user that precede the one at slot and index, or the grab of unit,
// the newest first; all, if slot and unit are 0. ok is false if the user has no such claim.
func (c *claims) Backward(user string, slot uint64, index int, unit int64) (older iter.Seq[Claim], ok bool) {
	ok = slot == 0 && unit == 0
	var i uint32 // the claim to begin with, +1; 0: there is none
	u, known := c.users.find(c.text.hash(user), user)
	switch at, found := c.locate(slot, index); {
	case !known:
	case ok:
		i = c.users.records.At(u).last
	case unit != 0: // such a user has few claims
		for i = c.users.records.At(u).last; i != 0 && !ok; i = c.records.At(i - 1).prev {
			ok = int(i-1) < len(c.granted) && int64(c.records.At(i-1).first) == unit
		}
	case found && c.records.At(at).user == u:
		i, ok = c.records.At(at).prev, true
	}
	return func(yield func(Claim) bool) {
		for at := i; at != 0 && yield(c.at(at-1)); {
			at = c.records.At(at - 1).prev
		}
	}, ok
}

// RefundsDue returns the newest refunds due of the claim at slot and index, at most most, in
// their order, and those of them that were paid back; with before, only those that precede it. more
// reports whether there are older ones. ok is false if there is no such claim or payment.
func (c *claims) RefundsDue(slot uint64, index int, before string, most int) (due []string, returned []Returned, more, ok bool) {
	i, ok := c.locate(slot, index)
	if !ok {
		return nil, nil, false, false
	}
	all := c.refundsDue.byClaim[i]
	end := len(all)
	if before != "" {
		end = slices.Index(all, before)
	}
	if end < 0 {
		return nil, nil, false, false
	}
	from := max(0, end-most)
	due = slices.Clip(all[from:end])
	return due, c.refundsDue.returned(i, due), from > 0, true
}

// users has the users with claims on a shard, with the sums that their limits apply to.
type users struct {
	text    *texts
	byName  table // to records
	records chunked.List[userRecord]

	unpaid map[uint32]uint32 // numbers of claims that were cancelled or have expired
}

type userRecord struct {
	name   text
	units  int64  // held and sold
	claims uint32 // number of claims
	last   uint32 // newest claim of the user, +1
}

// find returns the index of a user. hash is that of the name.
func (u *users) find(hash uint64, name string) (uint32, bool) {
	return u.byName.find(hash, func(i uint32) bool { return u.text.equal(u.records.At(i).name, name) })
}

// add adds a user and returns its index.
func (u *users) add(hash uint64, name string) uint32 {
	i := u.records.Add(userRecord{name: u.text.put(name)})
	u.byName.add(hash, i)
	return i
}

func (u *users) name(i uint32) string { return u.text.get(u.records.At(i).name) }

// sums returns the number of units of the user of a request, held and sold, and the number of the
// user's claims that were cancelled or have expired.
func (u *users) sums(at claimIndex) (units, unpaid int64) {
	if at.user == 0 {
		return 0, 0
	}
	return u.records.At(at.user - 1).units, int64(u.unpaid[at.user-1])
}

// Users returns an iterator over the users who have claims here, each with the number of its
// units, held and sold.
func (u *users) Users() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for i := range uint32(u.records.Len()) {
			if !yield(u.name(i), u.records.At(i).units) {
				return
			}
		}
	}
}

// UserUnits returns the number of units of a user, held and sold.
func (u *users) UserUnits(user string) int64 {
	i, ok := u.find(u.text.hash(user), user)
	if !ok {
		return 0
	}
	return u.records.At(i).units
}
