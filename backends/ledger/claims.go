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

// claims remembers every accepted claim of a shard: who has what, and what each
// request was answered. It holds a million of them at some 60 bytes each beside the
// names of users and requests, and
// without a pointer in a record, so that the garbage collector has nothing to
// trace: texts, users and claims are named by index.
//
// Two tables lead in: from the hash of a user, and from that of a request of a user who has
// several claims. Most have one, which is found by its user.
// The hash is seeded anew in each process, so nobody can choose names that
// collide; nothing depends on its value.
type claims struct {
	seed    maphash.Seed
	mask    uint64 // of hashes; a test makes it small, so that they collide
	byUser  table  // to users
	byKey   table  // to records of users who have several, where owners decide
	users   chunked.List[userRecord]
	records chunked.List[claimRecord]
	text    arena
	times   []int64 // of each slot, in microseconds since 1970
	granted []int64 // of each record: the time of a grab, by its node's clock; none where owners decide

	// The few claims whose units are not one run, or of a number that a record has no room for.
	scattered map[uint32][]int64

	// How many claims users have who have more than mostCounted, which are counted one by one.
	many map[uint32]uint32

	// The numbers of units that do not fit into the records of their users.
	overflowUnits map[uint32]int64

	// How many claims of users were cancelled or have expired.
	unpaid map[uint32]uint32

	// The quantities asked of claims that were given fewer units.
	asked map[uint32]uint32

	// What those were given first for which a late payment has bought other units.
	resold map[uint32][]int64

	// Those that were held or refunded; see dealRecord.
	byClaim     table // from records to deals
	holdRecords chunked.List[holdRecord]
	owed        chunked.List[owedRecord]
	byOwed      table    // from claims and payments to owed
	queue       []queued // the holds, by their release
	tally       HoldTally
	awarded     []uint32 // of a draw: the records that were given units, in the order of that

	rulings rulings
}

type userRecord struct {
	name  text
	units uint32 // held and sold; tooMany: see overflowUnits
	last  uint32 // the user's newest claim, +1
}

const tooMany = math.MaxUint32

type claimRecord struct {
	key   text
	first uint32 // lowest unit, the others follow; see scattered
	user  uint32
	prev  uint32 // the user's claim before this one, +1
	slot  uint32
	count uint32 // of units
	place uint32 // index and state
}

// index is the claim's place among the ops of its commit, which are fewer than bytes of an
// entry.
func (r *claimRecord) index() int { return int(r.place >> 8) }

func (r *claimRecord) state() ClaimState { return ClaimState(r.place) }

func (r *claimRecord) setState(s ClaimState) { r.place = r.place&^0xff | uint32(s) }

// ClaimState is where a claim stands. All but Held and Entered are terminal, but that a
// refund ends a sale and a late payment may make one of what has expired.
type ClaimState uint8

// The states of a claim.
const (
	StateSold ClaimState = iota
	StateHeld
	StateCancelled
	StateExpired
	StateRefunded
	StateEntered // of a draw: it has no units, and may be given some
)

func (s ClaimState) String() string {
	return [...]string{"sold", "held", "cancelled", "expired", "refunded", "entered"}[s]
}

// Claim is one accepted claim as its log has it.
type Claim struct {
	Slot        uint64
	Index       int // among the ops of the commit
	User        string
	Key         string
	Units       []int64
	Asked       int64 // units that were asked for, where fewer were given; else 0
	State       ClaimState
	TimeUs      int64 // of its commit, or of the grab by its node's clock
	HeldUntilUs int64 // the deadline of its hold; 0: never held
	GraceUs     int64 // from the deadline to the release
	Extended    bool  // its deadline is not the first
	Grabbed     bool  // from a list on a node
	Ruling      Ruling

	// What became of it: the time, person and reason of the last change of its state,
	// and the payment that bought it.
	SettledUs int64 // 0: it is as it was made
	Who       string
	Reason    string
	Payment   string
	Retired   bool // its units went out of the sale by its refund

	// Payments that bought nothing, in order: State.Claim has all of them, and whatever else
	// returns a claim the newest. Owed is how many there are.
	RefundsDue []string
	Owed       int
}

// ReleaseUs is when a hold may expire and no payment is taken any more.
func (c Claim) ReleaseUs() int64 { return c.HeldUntilUs + c.GraceUs }

// ID is the claim's name in the ledger: <shard>-<slot>-<index>, or
// <shard>-u<unit> for a grab, which has its name before it has its slot.
func (c Claim) ID(shard int) string {
	if c.Grabbed {
		return GrabID(shard, c.Units[0])
	}
	return fmt.Sprintf("%d-%d-%d", shard, c.Slot, c.Index)
}

// GrabID is the name of the claim that a unit was given in by a node.
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

// claimIndex is the place of a request among the claims. It is valid until the next
// insert.
type claimIndex struct {
	userHash    uint64
	user, claim uint32 // +1; 0: there is none
}

// look finds a user, and the claim that the user's request was given.
func (c *claims) look(user, key string) claimIndex {
	at := claimIndex{userHash: c.hash(user)}
	if u, ok := c.findUser(at.userHash, user); ok {
		at.user = u + 1
		at.claim = c.findClaim(at.userHash, u, key)
	}
	return at
}

// requestHash is of a request, whose user has a hash. It is made where it is wanted: most
// users ask once.
func (c *claims) requestHash(user uint64, key string) uint64 {
	return (user*0x9e3779b97f4a7c15 ^ c.hash(key)) & c.mask
}

func (c *claims) findUser(hash uint64, user string) (uint32, bool) {
	return c.byUser.find(hash, func(i uint32) bool { return c.text.equal(c.users.At(i).name, user) })
}

// findClaim returns the index of the claim under the key of a user with a hash, +1; 0: none.
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

// findGrab is findClaim where nodes give, at most one unit to a user: byKey would be
// for nothing.
func (c *claims) findGrab(i uint32, key string) uint32 {
	for i != 0 && !c.text.equal(c.records.At(i-1).key, key) {
		i = c.records.At(i - 1).prev
	}
	return i
}

// unitsAt returns how many units a user has, held and sold.
func (c *claims) unitsAt(at claimIndex) int64 {
	if at.user == 0 {
		return 0
	}
	return c.unitsOf(at.user - 1)
}

// unitsOf returns how many units a user has, held and sold.
func (c *claims) unitsOf(user uint32) int64 {
	if n := c.users.At(user).units; n != tooMany {
		return int64(n)
	}
	return c.overflowUnits[user]
}

// unpaidAt returns how many claims of a user were cancelled or have expired.
func (c *claims) unpaidAt(at claimIndex) int64 {
	if at.user == 0 {
		return 0
	}
	return int64(c.unpaid[at.user-1])
}

// giveUser adds to the units of a user, or takes away.
func (c *claims) giveUser(user uint32, n int64) {
	u := c.users.At(user)
	n += c.unitsOf(user)
	delete(c.overflowUnits, user)
	if n >= tooMany {
		c.overflowUnits[user], n = n, tooMany
	}
	u.units = uint32(n)
}

// insert remembers a new claim at an index where there was none.
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

// writeUnits says which units a claim has.
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

// with returns a claim with so many of its refunds due at most.
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

// quantity returns how many units a claim has asked for.
func (c *claims) quantity(i uint32) int64 {
	if asked := c.asked[i]; asked != 0 {
		return int64(asked)
	}
	return max(int64(c.records.At(i).count), 1) // an entry is for one
}

// chosen reports whether a claim may be one of a demand, if that chooses.
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
// and how many the user has in all.
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

// olderThan returns the number of the newest claim of a user, or of the one before the claim in a
// place of the log or with the unit of a grab, +1; 0: there is none. false: the user has no such claim.
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

// claimsOf returns how many claims a user has.
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

// locate returns the index of the claim at a place in the log.
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
