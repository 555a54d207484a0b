package ledger

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"sort"

	"salectl/backends/ledger/internal/chunked"
	pb "salectl/backends/ledger/ledgerpb"
)

// claims has every accepted claim of a shard: the units of each user, and the answer to
// each request. A million claims take some 60 bytes each beside the names of users and
// requests. Records refer to texts, users and claims by index. They have no pointers, so
// the garbage collector has nothing to trace.
//
// Two tables index them: by the hash of a user, and by the hash of a request if the user has
// several claims. Most users have one, which is found by its user. The seed of the hashes is
// new in each process, so nobody can choose names that collide; nothing depends on its value.
type claims struct {
	seed    maphash.Seed
	mask    uint64 // of hashes; small in tests, so that they collide
	byUser  table  // to users
	byKey   table  // to records of users with several claims, where owners decide
	users   chunked.List[userRecord]
	records chunked.List[claimRecord]
	text    arena
	times   []int64 // of each slot, in microseconds since 1970
	granted []int64 // time of each record that is a grab, by its node's clock; empty where owners decide

	// Units of the few records whose units are not one run, or have numbers above 32 bits.
	scattered map[uint32][]int64

	// Numbers of claims of the users with more than mostCounted; smaller ones are counted on demand.
	many map[uint32]uint32

	// Numbers of units of users that do not fit into a userRecord.
	overflowUnits map[uint32]int64

	// Numbers of claims of users that were cancelled or have expired.
	unpaid map[uint32]uint32

	// Quantities asked for by the records that were given fewer units.
	asked map[uint32]uint32

	// Original units of the records for which a late payment has bought other units.
	resold map[uint32][]int64

	// Records that were held or refunded, or have payments owed back; see holdRecord.
	byClaim     table // from records to holdRecords
	holdRecords chunked.List[holdRecord]
	owed        chunked.List[owedRecord]
	byOwed      table    // from claims and payments to owed
	queue       []queued // open holds, by their release
	tally       HoldTally
	awarded     []uint32 // of a draw: records that were given a unit, in the order of their awards

	rulings rulings
}

type userRecord struct {
	name  text
	units uint32 // held and sold; tooMany: see overflowUnits
	last  uint32 // newest claim of the user, +1
}

const tooMany = math.MaxUint32

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
	Asked       int64 // units asked for, if fewer were given; else 0
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

	// Payments that bought nothing, in order. State.Claim returns all of them, every other
	// method the newest. Owed is their total number.
	RefundsDue []string
	Owed       int
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

// GrabID returns the name of the claim by which a node gave a unit.
func GrabID(shard int, unit int64) string { return fmt.Sprintf("%d-u%d", shard, unit) }

func newClaims() claims {
	return claims{
		seed:          maphash.MakeSeed(),
		mask:          math.MaxUint64,
		scattered:     make(map[uint32][]int64),
		many:          make(map[uint32]uint32),
		overflowUnits: make(map[uint32]int64),
		unpaid:        make(map[uint32]uint32),
		asked:         make(map[uint32]uint32),
		resold:        make(map[uint32][]int64),
	}
}

func (c *claims) hash(s string) uint64 { return maphash.String(c.seed, s) & c.mask }

// claimIndex is the position of a request among the claims. It is valid until the next
// insert.
type claimIndex struct {
	userHash    uint64
	user, claim uint32 // +1; 0: there is none
}

// look returns the indexes of a user and of the claim that answered the user's request.
func (c *claims) look(user, key string) claimIndex {
	at := claimIndex{userHash: c.hash(user)}
	if u, ok := c.findUser(at.userHash, user); ok {
		at.user = u + 1
		at.claim = c.findClaim(at.userHash, u, key)
	}
	return at
}

// requestHash returns the hash of a request, given that of its user. It is computed on
// demand: most users make one request.
func (c *claims) requestHash(user uint64, key string) uint64 {
	return (user*0x9e3779b97f4a7c15 ^ c.hash(key)) & c.mask
}

func (c *claims) findUser(hash uint64, user string) (uint32, bool) {
	return c.byUser.find(hash, func(i uint32) bool { return c.text.equal(c.users.At(i).name, user) })
}

// findClaim returns the index of a user's claim under key, +1; 0: none. hash is that of the user.
func (c *claims) findClaim(hash uint64, user uint32, key string) uint32 {
	last := c.users.At(user).last
	if r := c.records.At(last - 1); r.prev == 0 {
		if c.text.equal(r.key, key) {
			return last
		}
		return 0
	}
	if len(c.granted) > 0 {
		return c.findGrab(last, key)
	}
	i, ok := c.byKey.find(c.requestHash(hash, key), func(i uint32) bool {
		r := c.records.At(i)
		return r.user == user && c.text.equal(r.key, key)
	})
	if !ok {
		return 0
	}
	return i + 1
}

// findGrab is like findClaim, where nodes give units, at most one to a user: byKey would not
// pay off. i is the user's newest claim, +1.
func (c *claims) findGrab(i uint32, key string) uint32 {
	for i != 0 && !c.text.equal(c.records.At(i-1).key, key) {
		i = c.records.At(i - 1).prev
	}
	return i
}

// unitsAt returns the number of units of a user, held and sold.
func (c *claims) unitsAt(at claimIndex) int64 {
	if at.user == 0 {
		return 0
	}
	return c.unitsOf(at.user - 1)
}

// unitsOf returns the number of units of a user, held and sold.
func (c *claims) unitsOf(user uint32) int64 {
	if n := c.users.At(user).units; n != tooMany {
		return int64(n)
	}
	return c.overflowUnits[user]
}

// unpaidAt returns the number of claims of a user that were cancelled or have expired.
func (c *claims) unpaidAt(at claimIndex) int64 {
	if at.user == 0 {
		return 0
	}
	return int64(c.unpaid[at.user-1])
}

// giveUser adds n, which may be negative, to the units of a user.
func (c *claims) giveUser(user uint32, n int64) {
	u := c.users.At(user)
	n += c.unitsOf(user)
	delete(c.overflowUnits, user)
	if n >= tooMany {
		c.overflowUnits[user], n = n, tooMany
	}
	u.units = uint32(n)
}

// insert adds a new claim for a request that has none.
func (c *claims) insert(at claimIndex, slot uint64, index int, op *pb.Claim) {
	if at.user == 0 {
		u := c.users.Add(userRecord{name: c.text.put(op.GetUser())})
		c.byUser.add(at.userHash, u)
		at.user = u + 1
	}
	units := op.GetUnits()
	owner := c.users.At(at.user - 1)
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
	} else if owner.last != 0 {
		if before := c.records.At(owner.last - 1); before.prev == 0 {
			c.byKey.add(c.requestHash(at.userHash, c.text.get(before.key)), owner.last-1)
		}
		c.byKey.add(c.requestHash(at.userHash, string(op.GetKey())), i)
	}
	if owner.last != 0 {
		if n := c.claimsOf(at.user-1) + 1; n > mostCounted {
			c.many[at.user-1] = uint32(n)
		}
	}
	owner.last = i + 1
	c.giveUser(at.user-1, int64(len(units)))
	if op.GetAsked() != 0 {
		c.asked[i] = op.GetAsked()
	}
	c.rulings.add(i, op.GetAttributes())
	if r.state() == StateHeld {
		c.enqueue(c.newHoldRecord(holdRecord{claim: i, heldUntil: op.GetHeldUntilUs(), grace: op.GetGraceUs()}))
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
		User: c.text.get(c.users.At(r.user).name), Key: c.text.get(r.key),
		Units: c.units(i), Asked: int64(c.asked[i]), State: r.state(), TimeUs: c.times[r.slot],
		Ruling: c.rulings.of(i, uint64(r.slot)),
	}
	if int(i) < len(c.granted) {
		claim.Grabbed, claim.TimeUs = true, c.granted[i]
	}
	if d := c.holdRecord(i); d != nil {
		c.addHold(&claim, d, due)
	}
	return claim
}

// quantity returns the number of units that a claim asked for.
func (c *claims) quantity(i uint32) int64 {
	if asked := c.asked[i]; asked != 0 {
		return int64(asked)
	}
	return max(int64(c.records.At(i).count), 1) // an entry is for one
}

// chosen reports whether a claim may be the answer to a demand, by the units that it chose.
func (c *claims) chosen(i uint32, w Demand) bool {
	if !w.chooses() {
		return true
	}
	units, ok := c.resold[i]
	if !ok {
		units = c.units(i)
	}
	return w.fits(units, c.asked[i])
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

// ofUser returns the newest claims of a user, at most most, in the order of their acceptance,
// and the number of all claims of the user.
func (c *claims) ofUser(user string, most int) (newest []Claim, count int) {
	u, ok := c.findUser(c.hash(user), user)
	if !ok {
		return nil, 0
	}
	for i := c.users.At(u).last; i != 0 && len(newest) < most; i = c.records.At(i - 1).prev {
		newest = append(newest, c.at(i-1))
	}
	slices.Reverse(newest)
	return newest, c.claimsOf(u)
}

// olderThan returns the index, +1, of the claim of a user before the one at slot and index, or before
// the grab of unit; of the newest if slot and unit are 0; 0: none. ok is false if there is no such claim.
func (c *claims) olderThan(user string, slot uint64, index int, unit int64) (i uint32, ok bool) {
	all := slot == 0 && unit == 0
	u, ok := c.findUser(c.hash(user), user)
	if !ok {
		return 0, all
	}
	i = c.users.At(u).last
	switch {
	case all:
		return i, true
	case unit != 0: // such a user has few claims
		for i != 0 && (int(i-1) >= len(c.granted) || int64(c.records.At(i-1).first) != unit) {
			i = c.records.At(i - 1).prev
		}
		if i == 0 {
			return 0, false
		}
		return c.records.At(i - 1).prev, true
	}
	if i, ok = c.locate(slot, index); !ok || c.records.At(i).user != u {
		return 0, false
	}
	return c.records.At(i).prev, true
}

const mostCounted = 8

// claimsOf returns the number of claims of a user.
func (c *claims) claimsOf(user uint32) int {
	if n, ok := c.many[user]; ok {
		return int(n)
	}
	n := 0
	for i := c.users.At(user).last; i != 0; i = c.records.At(i - 1).prev {
		n++
	}
	return n
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
