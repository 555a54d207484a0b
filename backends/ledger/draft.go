package ledger

import (
	"cmp"
	"fmt"

	"google.golang.org/protobuf/proto"

	pb "salectl/backends/ledger/ledgerpb"
)

// Draft is a commit under construction: ops decided against a state that does not
// change meanwhile. Its grants take effect only once the commit is appended. After
// an error it must not be used before Reset.
type Draft struct {
	state     *State
	commit    *pb.Commit
	clockUs   int64 // the writer's clock
	totals    Totals
	available Units
	peers     transfers // as changed by ops of this draft
	size      int       // estimated bytes of the entry, plus the bytes by which bounds.Claims is below entryBudget
	bounds    Bounds

	// Claims granted in this draft, under the same hashes as the state's claims.
	requests    table // to ops
	users       table // to userChanges
	userChanges []userChange

	// Claims of the state that this draft settled, by index, in their new state.
	settlements map[uint32]Claim
	owed        map[owedPayment]struct{} // payments that this draft records as refunds due

	// Memory for claims. Reset reuses ops, but not units: callers may still have those
	// that they were granted.
	ops   []*claimOp
	used  int // of ops
	units []int64
}

// userChange is the sum of the changes of a draft for one user. Either number may be negative.
type userChange struct {
	user   string
	units  int64 // granted, minus those of claims that the draft ends
	unpaid int64 // claims that the draft cancels or expires, minus those that a late payment buys
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
	d := &Draft{state: s, commit: &pb.Commit{Writer: writer}, peers: make(transfers)}
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
// OtherRules. w is what the claim demands beyond the quantity. With a draw the claim becomes an entry
// without units; with payment it is held; otherwise it is sold.
//
// Where the settings are partial and the claim does not choose units, it is reduced to the units that the
// user's limit leaves. If the shard has too few units, or not the chosen ones, the decision is Short, and
// Want is the number that the claim may have; with Demand.Partial the claim gets the units that the shard
// has.
func (d *Draft) DecideClaim(r Ruling, user, key string, quantity int64, w Demand) Decision {
	quantity = w.quantity(quantity)
	at := d.state.claims.look(user, key)
	g, more := d.changeOfUser(at, user)
	if op, ok := d.requested(at, g, user, key); ok {
		if d.quantity(op) != quantity || !w.fits(d.Units(op), d.commit.Ops[op].GetClaim().GetAsked()) {
			return Decision{Kind: KeyReused}
		}
		return Decision{Kind: ReplayHere, Op: op}
	}
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
		return d.enter(at, g, r, user, key)
	}
	asked := quantity
	partial := d.state.settings.GetPartial() && !w.chooses()
	if partial {
		had, _ := d.state.users.sums(at)
		quantity = min(quantity, d.state.settings.GetPerUserLimit()-had-more.units)
	}
	chosen, has := d.choose(quantity, w)
	if d.totals.Available < quantity || !has {
		if !w.Partial || !partial || d.totals.Available == 0 {
			return Decision{Kind: Short, Want: quantity}
		}
		quantity = d.totals.Available
	}
	until, grace := term(d.state.settings, d.commit.TimeUs)
	size := len(user) + len(key) + 10*int(quantity) + 32
	if until != 0 {
		size += 16
	}
	if r.Rules != "" {
		size += 2 + AttributesLen
	}
	if quantity < asked {
		size += 6
	}
	if d.size+size > entryBudget {
		return Decision{Kind: Full}
	}
	op := d.beginClaim(at, g, size, user, key, quantity)
	if quantity < asked {
		op.claim.Asked = uint32(asked)
	}
	if r.Rules != "" {
		op.claim.Attributes = append(op.claim.Attributes, r.Attributes[:]...)
	}
	op.claim.HeldUntilUs, op.claim.GraceUs = until, grace
	d.totals.claim(quantity, until != 0)
	op.claim.Units = d.takeUnits(int(quantity), chosen, w)
	d.add(&op.op)
	return Decision{Kind: Granted, Op: len(d.commit.Ops) - 1}
}

// Grab is one unit that a node gave to a user from a shard's list.
type Grab struct {
	User, Key string
	Unit      int64
	GrantedUs int64 // by the node's clock
}

// Grab adds a grab under the present fill of the shard. It returns Granted; ReplayHere or
// Replay if the log has the grab already; Full; or Void if the grab contradicts the log,
// for example because the unit has another owner or the user another claim.
func (d *Draft) Grab(g Grab) Decision {
	at := d.state.claims.look(g.User, g.Key)
	i, more := d.changeOfUser(at, g.User)
	if op, ok := d.requested(at, i, g.User, g.Key); ok {
		return grabReplay(Decision{Kind: ReplayHere, Op: op}, d.Units(op), g.Unit)
	}
	if v, ok := d.state.recallWith(at, 1, more, g.GrantedUs, Demand{}); ok && v.Kind == Replay {
		return grabReplay(v, v.Claim.Units, g.Unit)
	} else if ok {
		return Decision{Kind: Void}
	}
	size := len(g.User) + len(g.Key) + 52
	if d.size+size > entryBudget {
		return Decision{Kind: Full}
	}
	if d.state.settings.GetPayment() != nil || len(d.state.settings.GetRules()) > 0 || d.available.Remove(Range{g.Unit, 1}) != nil {
		return Decision{Kind: Void}
	}
	op := d.beginClaim(at, i, size, g.User, g.Key, 1)
	d.totals.claim(1, false)
	op.claim.HeldUntilUs, op.claim.GraceUs, op.claim.Fill, op.claim.GrantedUs = 0, 0, d.totals.Fill, g.GrantedUs
	op.claim.Units = append(d.unitSlice(1), g.Unit)
	d.add(&op.op)
	return Decision{Kind: Granted, Op: len(d.commit.Ops) - 1}
}

// grabReplay returns v, a replay, if the claim found has just the unit of the grab, else Void.
func grabReplay(v Decision, units []int64, unit int64) Decision {
	if len(units) == 1 && units[0] == unit {
		return v
	}
	return Decision{Kind: Void}
}

// beginClaim adds a claim of n units to the draft's counts and returns its op with user and key. The caller
// sets the other fields and adds the op to the commit. size is the estimated size of the op in bytes.
func (d *Draft) beginClaim(at claimIndex, g uint32, size int, user, key string, n int64) *claimOp {
	d.size += size
	d.addChange(at, g, user, userChange{units: n})
	d.requests.add(d.state.claims.text.mix(at.userHash, key), uint32(len(d.commit.Ops)))
	op := d.newClaim()
	op.claim.User, op.claim.Key, op.claim.Attributes = user, append(op.claim.Key[:0], key...), op.claim.Attributes[:0]
	op.claim.Asked, op.claim.Entry = 0, false
	return op
}

// addChange adds more to the change for a user. g is the result of changeOfUser.
func (d *Draft) addChange(at claimIndex, g uint32, user string, more userChange) {
	if g == 0 {
		g = uint32(len(d.userChanges)) + 1
		d.userChanges = append(d.userChanges, userChange{user: user})
		d.users.add(at.userHash, g-1)
	}
	d.userChanges[g-1].units += more.units
	d.userChanges[g-1].unpaid += more.unpaid
}

// requested returns the index of the op of this draft that answered the same request, if there is one. g is
// the result of changeOfUser; 0: the draft has no claim of the user.
func (d *Draft) requested(at claimIndex, g uint32, user, key string) (int, bool) {
	if g == 0 {
		return 0, false
	}
	op, ok := d.requests.find(d.state.claims.text.mix(at.userHash, key), func(op uint32) bool {
		c := d.commit.Ops[op].GetClaim()
		return c.GetUser() == user && string(c.GetKey()) == key
	})
	return int(op), ok
}

// changeOfUser returns the change for a user in this draft, and its index in userChanges plus 1; 0: there
// is none.
func (d *Draft) changeOfUser(at claimIndex, user string) (g uint32, more userChange) {
	g, ok := d.users.find(at.userHash, func(g uint32) bool { return d.userChanges[g].user == user })
	if !ok {
		return 0, userChange{}
	}
	return g + 1, d.userChanges[g]
}

func (d *Draft) newClaim() *claimOp {
	if d.used == len(d.ops) {
		slab := make([]claimOp, 64)
		for i := range slab {
			slab[i].op.Op, slab[i].oneof.Claim = &slab[i].oneof, &slab[i].claim
			d.ops = append(d.ops, &slab[i])
		}
	}
	d.used++
	return d.ops[d.used-1]
}

// unitSlice returns an empty slice with room for n units.
func (d *Draft) unitSlice(n int) []int64 {
	at := len(d.units)
	if cap(d.units)-at < n {
		d.units, at = make([]int64, 0, max(n, 256)), 0
	}
	d.units = d.units[:at+n]
	return d.units[at : at : at+n]
}

// Units returns the units of a claim granted here.
func (d *Draft) Units(op int) []int64 { return d.commit.Ops[op].GetClaim().GetUnits() }

// quantity returns the number of units that a claim granted in this draft asked for.
func (d *Draft) quantity(op int) int64 {
	c := d.commit.Ops[op].GetClaim()
	if c.GetEntry() {
		return 1
	}
	return max(int64(len(c.GetUnits())), int64(c.GetAsked()))
}

// Available returns the number of units available after the draft.
func (d *Draft) Available() int64 { return d.totals.Available }

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
	d.totals.Epoch, d.totals.Owner = d.commit.Epoch, address
	d.addOther(&pb.Op{Op: &pb.Op_Own{Own: &pb.Own{Address: address}}})
}

// Out sends the n highest units to another shard, to which no transfer may be
// open; fewer, if they are so scattered that their ranges would fill a commit.
func (d *Draft) Out(to int, n int64) Transfer {
	return d.out(to, d.available.takeHighest(n, d.bounds.Ranges))
}

// OutTaken is like Out, for units taken from the shard's list, or requested by the other shard
// by number. It fails if one of them is not available.
func (d *Draft) OutTaken(to int, units Units) (Transfer, error) {
	for _, r := range units {
		if err := d.available.Remove(r); err != nil {
			return Transfer{}, fmt.Errorf("a transfer to shard %d: %w", to, err)
		}
	}
	return d.out(to, units), nil
}

func (d *Draft) out(to int, units Units) Transfer {
	p := d.peer(to)
	p.outK, p.out = p.outK+1, units
	d.totals.out(units.Count())
	d.addOther(&pb.Op{Op: &pb.Op_Out{Out: &pb.Out{To: uint32(to), K: p.outK, Units: units.Proto()}}})
	return Transfer{To: to, K: p.outK, Units: units}
}

// Rebuild begins a new fill of the shard's list and returns its number. It must be
// the only op of its commit.
func (d *Draft) Rebuild() uint64 {
	d.totals.Fill++
	d.addOther(&pb.Op{Op: &pb.Op_Rebuild{Rebuild: &pb.Rebuild{Fill: d.totals.Fill}}})
	return d.totals.Fill
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
	p := d.peer(from)
	if k <= p.inK {
		return nil
	}
	for _, r := range units {
		if err := d.available.Add(r); err != nil {
			return fmt.Errorf("transfer %d from shard %d: %w", k, from, err)
		}
	}
	p.inK = k
	d.totals.in(units.Count())
	d.addOther(&pb.Op{Op: &pb.Op_In{In: &pb.In{From: uint32(from), K: k, Units: units.Proto()}}})
	return nil
}

// Ack ends a transfer that the other shard has received.
func (d *Draft) Ack(to int, k uint64) {
	p := d.peer(to)
	if k <= p.ackK {
		return
	}
	d.totals.ack(p.out.Count())
	p.ackK, p.out = k, nil
	d.addOther(&pb.Op{Op: &pb.Op_Ack{Ack: &pb.Ack{To: uint32(to), K: k}}})
}

// peer returns the draft's own copy of the exchange with another shard.
func (d *Draft) peer(shard int) *peer {
	p := d.peers[shard]
	if p == nil {
		p = new(peer)
		if was := d.state.transfers[shard]; was != nil {
			*p = *was
		}
		d.peers[shard] = p
	}
	return p
}

// Generation adds the shard's next generation to the commit. A generation that the shard has already is
// ignored; one that does not follow, or whose change does not fit the shard, is an error. Claims get Full
// from here on: the next commit decides them under the new settings.
func (d *Draft) Generation(op *pb.Generation) error {
	if op.GetNumber() <= d.totals.Generation {
		return nil
	}
	if op.GetNumber() != d.totals.Generation+1 {
		return fmt.Errorf("generation %d cannot follow %d", op.GetNumber(), d.totals.Generation)
	}
	if err := checkStaysDraw(d.state.settings, op); err != nil {
		return err
	}
	c, err := changeOf(op)
	if err == nil {
		c, err = c.made(&d.available, new(d.state.DroppedUnits()))
	}
	if err != nil {
		return fmt.Errorf("generation %d: %w", op.GetNumber(), err)
	}
	d.totals.generation(op, c.added, c.removed)
	d.addOther(&pb.Op{Op: &pb.Op_Generation{Generation: op}})
	d.size = MaxEntry
	return nil
}

// Seal ends the log.
func (d *Draft) Seal() {
	d.totals.seal()
	d.addOther(&pb.Op{Op: &pb.Op_Seal{Seal: &pb.Seal{}}})
}

func (d *Draft) addOther(op *pb.Op) {
	d.size += proto.Size(op) + 8
	d.add(op)
}

func (d *Draft) add(op *pb.Op) { d.commit.Ops = append(d.commit.Ops, op) }

// Entry is an encoded commit with its head, ready to be appended.
type Entry struct {
	Commit *pb.Commit
	Hash   Hash
	Bytes  []byte
	Head   []byte
}

// Encode completes the commit and encodes it with its head.
func (d *Draft) Encode() (*Entry, error) {
	stored, hash, err := d.state.encode(d.commit)
	if err != nil {
		return nil, err
	}
	head := Head{Slot: d.state.next, Hash: hash, TimeUs: d.commit.GetTimeUs(), Totals: d.totals}
	return &Entry{Commit: d.commit, Hash: hash, Bytes: stored, Head: head.Encode()}, nil
}

// Reset empties the draft and bases it on the present state, keeping its memory. The
// old commit must no longer be in use, except for the units that it granted.
func (d *Draft) Reset(timeUs int64) {
	d.commit = &pb.Commit{
		Writer: d.commit.Writer, Epoch: d.state.Epoch, TimeUs: max(timeUs, d.state.timeUs), Ops: d.commit.Ops[:0],
	}
	d.clockUs = timeUs
	d.totals, d.size, d.used = d.state.Totals, 64+entryBudget-d.bounds.Claims, 0
	d.available = append(d.available[:0], d.state.available...)
	d.requests.clear()
	d.users.clear()
	clear(d.userChanges)
	d.userChanges = d.userChanges[:0]
	clear(d.settlements)
	clear(d.owed)
	clear(d.peers)
}
