package ledger

import (
	"cmp"
	"fmt"

	pb "salectl/backends/ledger/ledgerpb"
)

// Draft is a commit under construction: ops decided against a state that must not
// change meanwhile. The ops take effect only once the commit is appended and applied. After
// an error the draft must not be used before Reset.
type Draft struct {
	state   *State
	commit  *pb.Commit
	clockUs int64    // the writer's clock
	after   holdings // of the shard: units, transfers and totals after the ops of this draft
	changes changes
	memory  claimMemory
	size    int // estimated bytes of the entry, plus the bytes by which bounds.Claims is below entryBudget
	bounds  Bounds
}

// changes are the changes of a draft to the claims of its state.
type changes struct {
	claims *claims // of the state

	users map[string]userChange
	later map[requestOf]int // indexes of the ops of claims granted in this draft, without the first claim of each user

	// Claims of the state that this draft settled, by index, in their new state.
	settled    map[uint32]Claim
	refundsDue map[refundDue]struct{} // payments that this draft records as refunds due
}

// requestOf identifies a request of a claim by user and key.
type requestOf struct{ user, key string }

// userChange is the sum of the changes of a draft for one user. Either number may be negative.
type userChange struct {
	units  int64 // granted, minus those of claims that the draft ends
	unpaid int64 // claims that the draft cancels or expires, minus those that a late payment buys
	first  int   // index of the op of the first claim granted to the user, +1; 0: none
}

// recordGrant records that the op with index op grants n units to a user.
func (c *changes) recordGrant(user, key string, op int, n int64) {
	sum := c.users[user]
	if sum.units += n; sum.first == 0 {
		sum.first = op + 1
	} else {
		c.later[requestOf{user, key}] = op
	}
	c.users[user] = sum
}

// find returns the change for a user, and the index of the op that granted the same request in this
// draft; ok is false if there is none.
func (c *changes) find(ops []*pb.Op, user, key string) (sum userChange, op int, ok bool) {
	if sum = c.users[user]; sum.first == 0 {
		return sum, 0, false
	}
	if op = sum.first - 1; string(ops[op].GetClaim().GetKey()) == key {
		return sum, op, true
	}
	op, ok = c.later[requestOf{user, key}]
	return sum, op, ok
}

// current returns a claim in its state after the draft, and its index in the state's claims.
func (c *changes) current(claim Claim) (n uint32, now Claim, ok bool) {
	n, ok = c.claims.locate(claim.Slot, claim.Index)
	if !ok {
		return 0, Claim{}, false
	}
	if now, ok = c.settled[n]; !ok {
		now = c.claims.at(n)
	}
	return n, now, true
}

// status is like claims.status, for claim n in its state now after the draft.
func (c *changes) status(n uint32, now Claim, payment string) claimStatus {
	_, due := c.refundsDue[refundDue{n, payment}]
	if !due && now.RefundsDueTotal > 0 {
		_, due = c.claims.refundsDue.known[refundDue{n, payment}]
	}
	return claimStatus{
		state: now.State, releaseUs: now.ReleaseUs(), extended: now.Extended, grabbed: now.Grabbed,
		another:   payment != "" && now.Payment != payment && (now.Payment != "" || now.HeldUntilUs == 0),
		refundDue: due,
	}
}

// claimMemory is the memory for the claims of a draft. Reset lets ops be reused, but not units: callers may
// still use the units that they were granted.
type claimMemory struct {
	ops   []*claimOp
	used  int // of ops
	units []int64
}

func (m *claimMemory) newClaim() *claimOp {
	if m.used == len(m.ops) {
		slab := make([]claimOp, 64)
		for i := range slab {
			slab[i].op.Op, slab[i].oneof.Claim = &slab[i].oneof, &slab[i].claim
			m.ops = append(m.ops, &slab[i])
		}
	}
	m.used++
	return m.ops[m.used-1]
}

// unitSlice returns an empty slice with capacity for n units.
func (m *claimMemory) unitSlice(n int) []int64 {
	at := len(m.units)
	if cap(m.units)-at < n {
		m.units, at = make([]int64, 0, max(n, 256)), 0
	}
	m.units = m.units[:at+n]
	return m.units[at : at : at+n]
}

// claimOp is a Claim with its two protobuf wrappers, so that many of them are one
// allocation.
type claimOp struct {
	op    pb.Op
	oneof pb.Op_Claim
	claim pb.Claim
}

// entryBudget is the size of an entry, in estimated bytes, up to which a draft takes claims, grabs and
// settlements. The other ops, such as transfers, use the space up to MaxEntry.
const entryBudget = MaxEntry - 64<<10

// Draft begins the commit that follows the state. timeUs is the writer's clock in
// microseconds since 1970; 0 means no clock: the commit has the log's time.
func (s *State) Draft(writer []byte, timeUs int64) *Draft {
	d := &Draft{state: s, commit: &pb.Commit{Writer: writer}, after: holdings{transfers: make(transfers), before: s.transfers},
		changes: changes{
			claims: &s.claims, users: make(map[string]userChange), later: make(map[requestOf]int),
			settled: make(map[uint32]Claim), refundsDue: make(map[refundDue]struct{}),
		},
	}
	d.SetBounds(Bounds{})
	d.Reset(timeUs)
	return d
}

// Claim is like DecideClaim, without rules, for any units.
func (d *Draft) Claim(user, key string, quantity int64) Decision {
	return d.DecideClaim(Ruling{}, user, key, quantity, Demand{})
}

// DecideClaim decides one claim against the state and the ops of the draft. If the decision is Granted, the
// draft has the claim's op. The draft's writer must be the owner of the shard. user is UTF-8 text, quantity
// at least 1, and the user, the key and the units fit into 64 KiB together.
//
// r is the decision of the rules that admitted the claim; if other rules are in force, the decision is
// OtherRules. w is the demand beyond the quantity. With a draw the claim becomes an entry
// without units; with payment it is held; otherwise it is sold.
//
// Where the settings are partial and the claim does not choose units, it is reduced to the units that the
// user's limit leaves. If the shard has too few units, or not the chosen ones, the decision is Short, and
// Want is the number that the claim may have; with Demand.Partial the claim gets the units that the shard
// has.
func (d *Draft) DecideClaim(r Ruling, user, key string, quantity int64, w Demand) Decision {
	quantity = w.quantity(quantity)
	more, op, ok := d.changes.find(d.commit.Ops, user, key)
	if ok {
		if c := d.commit.Ops[op].GetClaim(); max(int64(len(c.GetUnits())), int64(c.GetRequested()), 1) != quantity || !w.fits(c.GetUnits(), c.GetRequested()) {
			return Decision{Kind: KeyReused}
		}
		return Decision{Kind: ReplayHere, Op: op}
	}
	at := d.state.claims.indexOf(user, key)
	if v, ok := d.state.recallWith(at, quantity, more, d.commit.TimeUs, w); ok {
		return v
	}
	if w.chooses() && !d.state.settings.GetChoose() {
		return Decision{Kind: NoChoice}
	}
	if string(d.state.settings.GetRules()) != r.Rules {
		return Decision{Kind: OtherRules}
	}
	if d.state.settings.GetDraw() {
		return d.enter(r, user, key)
	}
	requested := quantity
	partial := d.state.settings.GetPartial() && !w.chooses()
	if partial {
		had, _ := d.state.users.sums(at)
		quantity = min(quantity, d.state.settings.GetPerUserLimit()-had-more.units)
	}
	chosen, has := d.after.choose(quantity, w, d.state.settings.GetRows())
	if d.after.Available < quantity || !has {
		if !w.Partial || !partial || d.after.Available == 0 {
			return Decision{Kind: Short, Want: quantity}
		}
		quantity = d.after.Available
	}
	until, grace := term(d.state.settings, d.commit.TimeUs)
	size := len(user) + len(key) + 10*int(quantity) + 32
	if until != 0 {
		size += 16
	}
	if r.Rules != "" {
		size += 2 + AttributesLen
	}
	if quantity < requested {
		size += 6
	}
	if d.size+size > entryBudget {
		return Decision{Kind: Full}
	}
	c := d.beginClaim(size, r, user, key, quantity)
	if quantity < requested {
		c.Requested = uint32(requested)
	}
	c.HeldUntilUs, c.GraceUs = until, grace
	c.Units = d.after.take(d.memory.unitSlice(int(quantity)), quantity, chosen, w)
	d.after.claim(quantity, until != 0)
	return Decision{Kind: Granted, Op: len(d.commit.Ops) - 1}
}

// Grab is one unit that a node granted to a user from a shard's list.
type Grab struct {
	User, Key string
	Unit      int64
	GrantedUs int64 // by the node's clock
}

// Grab adds a grab under the present fill of the shard's list. It returns Granted; ReplayHere or
// Replay if the log has the grab already; Full; or Void if the grab contradicts the log,
// for example because the unit has another owner or the user another claim.
func (d *Draft) Grab(g Grab) Decision {
	more, op, ok := d.changes.find(d.commit.Ops, g.User, g.Key)
	if ok {
		return grabReplay(Decision{Kind: ReplayHere, Op: op}, d.commit.Ops[op].GetClaim().GetUnits(), g.Unit)
	}
	if v, ok := d.state.recallWith(d.state.claims.indexOf(g.User, g.Key), 1, more, g.GrantedUs, Demand{}); ok && v.Kind == Replay {
		return grabReplay(v, v.Claim.Units, g.Unit)
	} else if ok {
		return Decision{Kind: Void}
	}
	size := len(g.User) + len(g.Key) + 52
	if d.size+size > entryBudget {
		return Decision{Kind: Full}
	}
	if d.state.settings.GetPayment() != nil || len(d.state.settings.GetRules()) > 0 || d.after.available.Remove(Range{g.Unit, 1}) != nil {
		return Decision{Kind: Void}
	}
	c := d.beginClaim(size, Ruling{}, g.User, g.Key, 1)
	c.Fill, c.GrantedUs = d.after.Fill, g.GrantedUs
	c.Units = append(d.memory.unitSlice(1), g.Unit)
	d.after.claim(1, false)
	return Decision{Kind: Granted, Op: len(d.commit.Ops) - 1}
}

// grabReplay returns the replay v if units, those of the earlier claim, are just the unit of the grab, else Void.
func grabReplay(v Decision, units []int64, unit int64) Decision {
	if len(units) == 1 && units[0] == unit {
		return v
	}
	return Decision{Kind: Void}
}

// beginClaim adds the op of a claim of n units to the commit, with user, key and ruling, and returns it.
// The caller sets its other fields, and counts it in the totals. size is the estimated size of the op in
// bytes.
func (d *Draft) beginClaim(size int, r Ruling, user, key string, n int64) *pb.Claim {
	d.size += size
	d.changes.recordGrant(user, key, len(d.commit.Ops), n)
	op := d.memory.newClaim()
	d.commit.Ops = append(d.commit.Ops, &op.op)
	c := &op.claim
	c.User, c.Key, c.Attributes = user, append(c.Key[:0], key...), c.Attributes[:0]
	if r.Rules != "" {
		c.Attributes = append(c.Attributes, r.Attributes[:]...)
	}
	c.Units, c.Requested, c.Entry = nil, 0, false
	c.HeldUntilUs, c.GraceUs, c.Fill, c.GrantedUs = 0, 0, 0, 0
	return c
}

// Available returns the number of units available after the draft.
func (d *Draft) Available() int64 { return d.after.Available }

// Ops returns the number of ops in the commit.
func (d *Draft) Ops() int { return len(d.commit.Ops) }

// TimeUs returns the commit's time.
func (d *Draft) TimeUs() int64 { return d.commit.TimeUs }

// Own makes the writer the owner, under the next epoch. If the log's time is ahead of the
// writer's clock by more than MaxAhead, Own sets it back to that clock: an earlier writer's clock
// was wrong, and the sale's hours must not be judged by it. The caller must have checked its own
// clock.
func (d *Draft) Own(address string) {
	d.commit.TimeUs = d.state.commitTime(d.clockUs)
	d.commit.Epoch = d.state.Epoch + 1
	d.after.Epoch, d.after.Owner = d.commit.Epoch, address
	d.addOther(&pb.Op{Op: &pb.Op_Own{Own: &pb.Own{Address: address}}})
}

// Out sends the n highest units to another shard, to which no transfer may be
// open; fewer, if they are so scattered that their ranges would fill a commit.
func (d *Draft) Out(to int, n int64) Transfer {
	units := d.after.AvailableUnits()
	t, _ := d.OutTaken(to, units.takeHighest(n, d.bounds.Ranges)) // they are available
	return t
}

// OutTaken is like Out, for units taken from the shard's list, or requested by the other shard
// by number. It fails if one of them is not available.
func (d *Draft) OutTaken(to int, units Units) (Transfer, error) {
	k := d.after.peer(to).outK + 1
	if err := d.after.out(to, k, units); err != nil {
		return Transfer{}, fmt.Errorf("a transfer to shard %d: %w", to, err)
	}
	d.addOther(&pb.Op{Op: &pb.Op_Out{Out: &pb.Out{To: uint32(to), K: k, Units: units.Proto()}}})
	return Transfer{To: to, K: k, Units: units}, nil
}

// Rebuild begins a new fill of the shard's list and returns its number. It must be
// the only op of its commit.
func (d *Draft) Rebuild() uint64 {
	d.after.Fill++
	d.addOther(&pb.Op{Op: &pb.Op_Rebuild{Rebuild: &pb.Rebuild{Fill: d.after.Fill}}})
	return d.after.Fill
}

// MaxRanges is the maximum number of ranges of a transfer, so that it fits into a message to
// another process, and into an entry beside a full load of claims.
const MaxRanges = 1000

// Bounds are the limits of a draft. 0 selects the default: MaxRanges or entryBudget.
type Bounds struct {
	Ranges int // of units, in a transfer
	Claims int // bytes of claims, in a commit
}

// SetBounds sets the bounds of the draft, from its next Reset on.
func (d *Draft) SetBounds(b Bounds) {
	d.bounds = Bounds{cmp.Or(b.Ranges, MaxRanges), cmp.Or(b.Claims, entryBudget)}
}

// In receives a transfer. A transfer that was received before changes nothing. Later
// claims of the draft may use the units.
func (d *Draft) In(from int, k uint64, units Units) error {
	if k <= d.after.peer(from).inK {
		return nil
	}
	if err := d.after.in(from, k, units); err != nil {
		return fmt.Errorf("transfer %d from shard %d: %w", k, from, err)
	}
	d.addOther(&pb.Op{Op: &pb.Op_In{In: &pb.In{From: uint32(from), K: k, Units: units.Proto()}}})
	return nil
}

// Ack ends a transfer that the other shard has received. An ack of any other transfer changes nothing.
func (d *Draft) Ack(to int, k uint64) {
	if k > d.after.peer(to).ackK && d.after.ack(to, k) == nil {
		d.addOther(&pb.Op{Op: &pb.Op_Ack{Ack: &pb.Ack{To: uint32(to), K: k}}})
	}
}

// Generation adds the shard's next generation to the commit. A generation that the shard has already is
// ignored; one that does not follow, or whose change does not fit the shard, is an error. Later
// claims of the draft get Full: the next commit decides them under the new settings.
func (d *Draft) Generation(op *pb.Generation) error {
	if op.GetNumber() <= d.after.Generation {
		return nil
	}
	d.after.dropped = d.state.DroppedUnits()
	if err := d.after.generation(op); err != nil {
		return fmt.Errorf("generation %d: %w", op.GetNumber(), err)
	}
	d.addOther(&pb.Op{Op: &pb.Op_Generation{Generation: op}})
	d.size = MaxEntry
	return nil
}

// Seal ends the log.
func (d *Draft) Seal() {
	d.after.Phase = PhaseSealed
	d.addOther(&pb.Op{Op: &pb.Op_Seal{Seal: &pb.Seal{}}})
}

func (d *Draft) addOther(op *pb.Op) {
	d.size += op.SizeVT() + 8
	d.commit.Ops = append(d.commit.Ops, op)
}

// Encode completes the commit and encodes it with its head.
func (d *Draft) Encode() (*Entry, error) { return d.state.encode(d.commit, d.after.Totals) }

// Reset empties the draft and bases it on the present state, keeping its memory. The
// old commit must no longer be in use, except for the units that it granted.
func (d *Draft) Reset(timeUs int64) {
	d.commit = &pb.Commit{
		Writer: d.commit.Writer, Epoch: d.state.Epoch, TimeUs: max(timeUs, d.state.timeUs), Ops: d.commit.Ops[:0],
	}
	d.clockUs = timeUs
	d.after.Totals, d.after.settings, d.size = d.state.Totals, d.state.settings, 64+entryBudget-d.bounds.Claims
	d.after.available = append(d.after.available[:0], d.state.available...)
	clear(d.after.transfers)
	clear(d.changes.users)
	clear(d.changes.later)
	clear(d.changes.settled)
	clear(d.changes.refundsDue)
	d.memory.used = 0
}
