package ledger

import (
	"cmp"
	"fmt"

	pb "salectl/backends/ledger/ledgerpb"
)

// Draft is a commit under construction. Its ops are decided against a state, which must not change before the
// draft is encoded or reset. They take effect only once the commit is appended and applied. After an error the
// draft must not be used before Reset.
type Draft struct {
	state   *State
	commit  *pb.Commit
	clockUs int64    // the writer's clock
	after   holdings // units, transfers and totals of the shard after the ops of this draft
	changes claimChanges
	memory  claimMemory
	size    int // estimated bytes of the entry, plus entryBudget minus bounds.Claims
	bounds  Bounds
}

// claimChanges are the claims that a draft grants, and those of its state that it settles.
type claimChanges struct {
	claims *claims // of the state

	users map[string]userChange
	later map[claimKey]int // index of the op of each claim granted in this draft, except the first of each user

	settled    map[uint32]Claim   // claims of the state that this draft settles, by index, as they are afterwards
	refundsDue map[refundDue]bool // payments that this draft records as refunds due or, if true, as returned
}

// claimKey is the user and the key of a claim, which identify its request.
type claimKey struct{ user, key string }

// userChange is the sum of the changes of a draft for one user. units and unpaid may be negative.
type userChange struct {
	units  int64 // granted by the draft, minus those of claims that it ends
	unpaid int64 // claims that the draft cancels or expires, minus those that it sells for a late payment
	first  int   // index of the op of the first claim granted to the user, +1; 0: none
}

// recordGrant records that the op with index op grants n units to a user under a key.
func (c *claimChanges) recordGrant(user, key string, op int, n int64) {
	sum := c.users[user]
	if sum.units += n; sum.first == 0 {
		sum.first = op + 1
	} else {
		c.later[claimKey{user, key}] = op
	}
	c.users[user] = sum
}

// find returns the change for a user, and the index of the op that grants the claim of that user and key. ops
// are the draft's. If none of them grants that claim, ok is false.
func (c *claimChanges) find(ops []*pb.Op, user, key string) (sum userChange, op int, ok bool) {
	if sum = c.users[user]; sum.first == 0 {
		return sum, 0, false
	}
	if op = sum.first - 1; string(ops[op].GetClaim().GetKey()) == key {
		return sum, op, true
	}
	op, ok = c.later[claimKey{user, key}]
	return sum, op, ok
}

// current returns the claim with the slot and index of claim as it is after the draft, and its number n in claims.
func (c *claimChanges) current(claim Claim) (n uint32, now Claim, ok bool) {
	n, ok = c.claims.locate(claim.Slot, claim.Index)
	if !ok {
		return 0, Claim{}, false
	}
	if now, ok = c.settled[n]; !ok {
		now = c.claims.at(n)
	}
	return n, now, true
}

// status returns the state of claim n in relation to a payment, after the draft. now is the claim as of current.
func (c *claimChanges) status(n uint32, now Claim, payment string) claimStatus {
	returned, due := c.refundsDue[refundDue{n, payment}]
	if !due && now.RefundsDueTotal > 0 {
		var back *Returned
		back, due = c.claims.refundsDue.known[refundDue{n, payment}]
		returned = back != nil
	}
	return claimStatus{
		state: now.State, releaseUs: now.ReleaseUs(), extended: now.Extended, grabbed: now.Grabbed,
		another:   payment != "" && now.Payment != payment && (now.Payment != "" || now.HeldUntilUs == 0),
		refundDue: due, returned: returned,
	}
}

// claimMemory allocates the ops and unit numbers of a draft's claims in blocks. Draft.Reset permits reuse of the
// ops, but not of the unit numbers: callers may still refer to them.
type claimMemory struct {
	ops   []*claimOp
	used  int // number of ops in use
	units []int64
}

// newClaim returns an op, which may have the contents of an earlier claim.
func (memory *claimMemory) newClaim() *claimOp {
	if memory.used == len(memory.ops) {
		slab := make([]claimOp, 64)
		for i := range slab {
			slab[i].op.Op, slab[i].oneof.Claim = &slab[i].oneof, &slab[i].claim
			memory.ops = append(memory.ops, &slab[i])
		}
	}
	memory.used++
	return memory.ops[memory.used-1]
}

// unitSlice returns an empty slice with capacity for n unit numbers.
func (memory *claimMemory) unitSlice(n int) []int64 {
	at := len(memory.units)
	if cap(memory.units)-at < n {
		memory.units, at = make([]int64, 0, max(n, 256)), 0
	}
	memory.units = memory.units[:at+n]
	return memory.units[at : at : at+n]
}

// claimOp is a pb.Claim with its two protobuf wrappers, in one allocation.
type claimOp struct {
	op    pb.Op
	oneof pb.Op_Claim
	claim pb.Claim
}

// entryBudget is the size of an entry, in estimated bytes, up to which a draft accepts claims, grabs and
// settlements. The space from there to MaxEntry is for other ops, such as transfers.
const entryBudget = MaxEntry - 64<<10

// Draft returns an empty draft of the next commit after the state. timeUs is the writer's clock in microseconds
// since 1970; 0: the commit has the log's time.
func (s *State) Draft(writer []byte, timeUs int64) *Draft {
	draft := &Draft{state: s, commit: &pb.Commit{Writer: writer}, after: holdings{transfers: make(transfers), before: s.transfers},
		changes: claimChanges{
			claims: &s.claims, users: make(map[string]userChange), later: make(map[claimKey]int),
			settled: make(map[uint32]Claim), refundsDue: make(map[refundDue]bool),
		},
	}
	draft.SetBounds(Bounds{})
	draft.Reset(timeUs)
	return draft
}

// Claim is DecideClaim for a sale without rules and a claim that chooses no units.
func (draft *Draft) Claim(user, key string, quantity int64) Decision {
	return draft.DecideClaim(Ruling{}, user, key, quantity, Demand{})
}

// DecideClaim decides one claim against the state and the ops of the draft. If the decision is Granted, it adds
// the claim's op to the draft. The draft's writer must be the owner of the shard. user is UTF-8 text, quantity at
// least 1, and the user, the key and the units fit into 64 KiB together.
//
// ruling is the decision of the rules that admitted the claim. If other rules are in force, the decision is
// OtherRules. demand is what the claim requests beyond a quantity. In a draw the claim becomes an entry
// without units. In a sale with payment it is held, and otherwise it is sold.
//
// If the settings permit partial claims and this one does not choose units, its quantity is reduced to the user's
// limit. If the shard has fewer units, or not the chosen ones, the decision is Short, and Want is the quantity.
// If partial claims are permitted and Demand.Partial is set, the claim gets the units that the shard has instead,
// and the decision is Short only if there are none.
func (draft *Draft) DecideClaim(ruling Ruling, user, key string, quantity int64, demand Demand) Decision {
	quantity = demand.quantity(quantity)
	change, op, ok := draft.changes.find(draft.commit.Ops, user, key)
	if ok {
		if c := draft.commit.Ops[op].GetClaim(); max(int64(len(c.GetUnits())), int64(c.GetRequested()), 1) != quantity || !demand.fits(c.GetUnits(), c.GetRequested()) {
			return Decision{Kind: KeyReused}
		}
		return Decision{Kind: ReplayHere, Op: op}
	}
	at := draft.state.claims.indexOf(user, key)
	if v, ok := draft.state.recallWith(at, quantity, change, draft.commit.TimeUs, demand); ok {
		return v
	}
	if demand.chooses() && !draft.state.settings.GetChoose() {
		return Decision{Kind: NoChoice}
	}
	if string(draft.state.settings.GetRules()) != ruling.Rules {
		return Decision{Kind: OtherRules}
	}
	if draft.state.settings.GetDraw() {
		return draft.enter(ruling, user, key)
	}
	requested := quantity
	partial := draft.state.settings.GetPartial() && !demand.chooses()
	if partial {
		had, _ := draft.state.users.sums(at)
		quantity = min(quantity, draft.state.settings.GetPerUserLimit()-had-change.units)
	}
	first, available := draft.after.choose(quantity, demand, draft.state.settings.GetRows())
	if draft.after.Available < quantity || !available {
		if !demand.Partial || !partial || draft.after.Available == 0 {
			return Decision{Kind: Short, Want: quantity}
		}
		quantity = draft.after.Available
	}
	until, grace := term(draft.state.settings, draft.commit.TimeUs)
	size := len(user) + len(key) + 10*int(quantity) + 32
	if until != 0 {
		size += 16
	}
	if ruling.Rules != "" {
		size += 2 + AttributesLen
	}
	if quantity < requested {
		size += 6
	}
	if draft.size+size > entryBudget {
		return Decision{Kind: Full}
	}
	c := draft.beginClaim(size, ruling, user, key, quantity)
	if quantity < requested {
		c.Requested = uint32(requested)
	}
	c.HeldUntilUs, c.GraceUs = until, grace
	c.Units = draft.after.take(draft.memory.unitSlice(int(quantity)), quantity, first, demand)
	draft.after.claim(quantity, until != 0)
	return Decision{Kind: Granted, Op: len(draft.commit.Ops) - 1}
}

// Grab is the grant of one unit to a user by a node that has the shard's list.
type Grab struct {
	User, Key string
	Unit      int64
	GrantedUs int64 // by the node's clock
}

// Grab adds a claim for a grab under the present fill of the list, and returns Granted or, if the entry is full,
// Full. It returns Replay or ReplayHere if the log or the draft has the grab already, and Void if the grab
// contradicts them: for example, another user has the unit, or the user has another claim.
func (draft *Draft) Grab(grab Grab) Decision {
	change, op, ok := draft.changes.find(draft.commit.Ops, grab.User, grab.Key)
	if ok {
		return grabReplay(Decision{Kind: ReplayHere, Op: op}, draft.commit.Ops[op].GetClaim().GetUnits(), grab.Unit)
	}
	if v, ok := draft.state.recallWith(draft.state.claims.indexOf(grab.User, grab.Key), 1, change, grab.GrantedUs, Demand{}); ok && v.Kind == Replay {
		return grabReplay(v, v.Claim.Units, grab.Unit)
	} else if ok {
		return Decision{Kind: Void}
	}
	size := len(grab.User) + len(grab.Key) + 52
	if draft.size+size > entryBudget {
		return Decision{Kind: Full}
	}
	if draft.state.settings.GetPayment() != nil || len(draft.state.settings.GetRules()) > 0 || draft.after.available.Remove(Range{grab.Unit, 1}) != nil {
		return Decision{Kind: Void}
	}
	c := draft.beginClaim(size, Ruling{}, grab.User, grab.Key, 1)
	c.Fill, c.GrantedUs = draft.after.Fill, grab.GrantedUs
	c.Units = append(draft.memory.unitSlice(1), grab.Unit)
	draft.after.claim(1, false)
	return Decision{Kind: Granted, Op: len(draft.commit.Ops) - 1}
}

// grabReplay returns replay if the units of the earlier claim are the one unit of the grab, and otherwise Void.
func grabReplay(replay Decision, units []int64, unit int64) Decision {
	if len(units) == 1 && units[0] == unit {
		return replay
	}
	return Decision{Kind: Void}
}

// beginClaim adds a claim of quantity units to the commit, with user, key and ruling, and returns it. The caller
// must set the other fields of the claim, and count it in the totals. size is the op's estimated size in bytes.
func (draft *Draft) beginClaim(size int, ruling Ruling, user, key string, quantity int64) *pb.Claim {
	draft.size += size
	draft.changes.recordGrant(user, key, len(draft.commit.Ops), quantity)
	op := draft.memory.newClaim()
	draft.commit.Ops = append(draft.commit.Ops, &op.op)
	claim := &op.claim
	claim.User, claim.Key, claim.Attributes = user, append(claim.Key[:0], key...), claim.Attributes[:0]
	if ruling.Rules != "" {
		claim.Attributes = append(claim.Attributes, ruling.Attributes[:]...)
	}
	claim.Units, claim.Requested, claim.Entry = nil, 0, false
	claim.HeldUntilUs, claim.GraceUs, claim.Fill, claim.GrantedUs = 0, 0, 0, 0
	return claim
}

// Available returns the number of units available after the draft.
func (draft *Draft) Available() int64 { return draft.after.Available }

// Ops returns the number of ops in the commit.
func (draft *Draft) Ops() int { return len(draft.commit.Ops) }

// TimeUs returns the commit's time in microseconds since 1970.
func (draft *Draft) TimeUs() int64 { return draft.commit.TimeUs }

// Own makes the writer the owner of the shard, under the next epoch. If the log's time is ahead of the writer's
// clock by more than MaxAhead, Own sets it back to that clock. An earlier writer's clock was then wrong, and must
// not determine when the sale opens and closes. The caller must have checked its own clock.
func (draft *Draft) Own(address string) {
	draft.commit.TimeUs = draft.state.commitTime(draft.clockUs)
	draft.commit.Epoch = draft.state.Epoch + 1
	draft.after.Epoch, draft.after.Owner = draft.commit.Epoch, address
	draft.addOp(&pb.Op{Op: &pb.Op_Own{Own: &pb.Own{Address: address}}})
}

// Out transfers the n highest available units to another shard, or fewer if they have more ranges than Bounds
// permits. The last transfer to that shard must have been acknowledged.
func (draft *Draft) Out(to int, n int64) Transfer {
	units := draft.after.AvailableUnits()
	t, _ := draft.OutUnits(to, units.takeHighest(n, draft.bounds.Ranges)) // they are available
	return t
}

// OutUnits transfers the given units to another shard. It fails if one of them is not available, or if the last
// transfer to that shard is not acknowledged.
func (draft *Draft) OutUnits(to int, units Units) (Transfer, error) {
	k := draft.after.peer(to).outK + 1
	if err := draft.after.out(to, k, units); err != nil {
		return Transfer{}, fmt.Errorf("a transfer to shard %d: %w", to, err)
	}
	draft.addOp(&pb.Op{Op: &pb.Op_Out{Out: &pb.Out{To: uint32(to), K: k, Units: units.Proto()}}})
	return Transfer{To: to, K: k, Units: units}, nil
}

// Rebuild begins a new fill of the shard's list and returns its number. A fill is the contents of the list from
// one rebuild to the next. Rebuild must be the only op of its commit.
func (draft *Draft) Rebuild() uint64 {
	draft.after.Fill++
	draft.addOp(&pb.Op{Op: &pb.Op_Rebuild{Rebuild: &pb.Rebuild{Fill: draft.after.Fill}}})
	return draft.after.Fill
}

// MaxRanges is the maximum number of ranges of a transfer. Such a transfer fits into a message to another
// process, and into an entry with claims up to entryBudget.
const MaxRanges = 1000

// Bounds are the limits of a draft. Their defaults, for 0, are MaxRanges and entryBudget.
type Bounds struct {
	Ranges int // of a transfer
	Claims int // estimated bytes of the claims in a commit
}

// SetBounds sets the bounds of the draft. They take effect with the next Reset.
func (draft *Draft) SetBounds(b Bounds) {
	draft.bounds = Bounds{cmp.Or(b.Ranges, MaxRanges), cmp.Or(b.Claims, entryBudget)}
}

// In receives transfer k from another shard. A transfer that was received before changes nothing. Later claims of
// the draft may use the units.
func (draft *Draft) In(from int, k uint64, units Units) error {
	if k <= draft.after.peer(from).inK {
		return nil
	}
	if err := draft.after.in(from, k, units); err != nil {
		return fmt.Errorf("transfer %d from shard %d: %w", k, from, err)
	}
	draft.addOp(&pb.Op{Op: &pb.Op_In{In: &pb.In{From: uint32(from), K: k, Units: units.Proto()}}})
	return nil
}

// Ack records that another shard has received transfer k, which ends it. For any other transfer, Ack does nothing.
func (draft *Draft) Ack(to int, k uint64) {
	if k > draft.after.peer(to).ackK && draft.after.ack(to, k) == nil {
		draft.addOp(&pb.Op{Op: &pb.Op_Ack{Ack: &pb.Ack{To: uint32(to), K: k}}})
	}
}

// Generation adds the shard's next generation to the commit. It ignores a generation that the shard has already.
// It fails if the generation is not the next, or does not fit the shard. Later claims of the draft get Full: the
// next commit decides them under the new settings.
func (draft *Draft) Generation(op *pb.Generation) error {
	if op.GetNumber() <= draft.after.Generation {
		return nil
	}
	draft.after.dropped = draft.state.DroppedUnits()
	if err := draft.after.generation(op); err != nil {
		return fmt.Errorf("generation %d: %w", op.GetNumber(), err)
	}
	draft.addOp(&pb.Op{Op: &pb.Op_Generation{Generation: op}})
	draft.size = MaxEntry
	return nil
}

// Seal adds the op that ends the log.
func (draft *Draft) Seal() {
	draft.after.Phase = PhaseSealed
	draft.addOp(&pb.Op{Op: &pb.Op_Seal{Seal: &pb.Seal{}}})
}

// addOp adds an op other than a claim or a settlement.
func (draft *Draft) addOp(op *pb.Op) {
	draft.size += op.SizeVT() + 8
	draft.commit.Ops = append(draft.commit.Ops, op)
}

// Encode completes the commit and encodes it with its head.
func (draft *Draft) Encode() (*Entry, error) {
	return draft.state.encode(draft.commit, draft.after.Totals)
}

// Reset empties the draft, bases it on the present state and reuses its memory. The previous commit must no
// longer be in use, except for the slices of its units.
func (draft *Draft) Reset(timeUs int64) {
	draft.commit = &pb.Commit{
		Writer: draft.commit.Writer, Epoch: draft.state.Epoch, TimeUs: max(timeUs, draft.state.timeUs), Ops: draft.commit.Ops[:0],
	}
	draft.clockUs = timeUs
	draft.after.Totals, draft.after.settings, draft.size = draft.state.Totals, draft.state.settings, 64+entryBudget-draft.bounds.Claims
	draft.after.available = append(draft.after.available[:0], draft.state.available...)
	clear(draft.after.transfers)
	clear(draft.changes.users)
	clear(draft.changes.later)
	clear(draft.changes.settled)
	clear(draft.changes.refundsDue)
	draft.memory.used = 0
}
