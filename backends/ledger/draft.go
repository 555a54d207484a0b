package ledger

import (
	"fmt"

	pb "salectl/backends/ledger/ledgerpb"
)

// Draft is a commit in the making: ops decided against a state that does not
// change meanwhile. What it grants exists only once the commit is appended.
type Draft struct {
	state     *State
	commit    *pb.Commit
	totals    Totals
	available Units
	users     map[string]int64 // units granted here, by user
	requests  map[request]int  // ops here, by request
	size      int              // about the bytes of the entry
	slab      []claimOp
}

type request struct{ user, key string }

// claimOp is a Claim with the two shells that protobuf wants around it, so that
// a batch of them is one allocation.
type claimOp struct {
	op    pb.Op
	oneof pb.Op_Claim
	claim pb.Claim
}

// softEntry is where a draft takes no more claims, well below MaxEntry; the
// largest claim fits in between.
const softEntry = MaxEntry - 64<<10

// Draft begins a commit to follow the state, by a writer whose clock says
// timeUs (microseconds since 1970).
func (s *State) Draft(writer []byte, timeUs int64) *Draft {
	return &Draft{
		state:     s,
		commit:    &pb.Commit{Writer: writer, Epoch: s.Epoch, TimeUs: max(timeUs, s.timeUs)},
		totals:    s.Totals,
		available: append(Units(nil), s.available...),
		users:     make(map[string]int64),
		requests:  make(map[request]int),
		size:      64,
	}
}

// Verdict is what a draft says to a claim.
type Verdict struct {
	Kind VerdictKind
	// Op is the claim's place among the commit's ops, for Granted and SameHere.
	Op int
	// Claim is the earlier one, for SameBefore.
	Claim Claim
	// Refusal says why, for NotNow.
	Refusal Refusal
}

// VerdictKind is the kind of a Verdict.
type VerdictKind int

// The verdicts.
const (
	Granted    VerdictKind = iota
	SameHere               // the same request was granted earlier in this draft
	SameBefore             // the same request has a claim in the log
	OtherAsk               // the key was used for another quantity
	NotNow                 // see Refusal
	OverLimit              // the user would pass the per-user limit
	Short                  // the shard has too few units
	Full                   // the commit is as large as it may be: try the next one
)

// Claim decides one request. held is the deadline of a hold in microseconds
// since 1970, or 0 to sell at once.
func (d *Draft) Claim(user, key string, quantity, heldUntilUs int64) Verdict {
	s := d.state
	if i, ok := s.claims.find(user, key); ok {
		if int64(s.claims.records.at(i).count) != quantity {
			return Verdict{Kind: OtherAsk}
		}
		return Verdict{Kind: SameBefore, Claim: s.claims.at(i)}
	}
	id := request{user, key}
	if op, ok := d.requests[id]; ok {
		if int64(len(d.Units(op))) != quantity {
			return Verdict{Kind: OtherAsk}
		}
		return Verdict{Kind: SameHere, Op: op}
	}
	if no := s.refusal(d.commit.TimeUs); no != Allowed {
		return Verdict{Kind: NotNow, Refusal: no}
	}
	if s.claims.unitsOf(user)+d.users[user]+quantity > s.settings.GetPerUserLimit() {
		return Verdict{Kind: OverLimit}
	}
	if d.totals.Available < quantity {
		return Verdict{Kind: Short}
	}
	size := len(user) + len(key) + 10*int(quantity) + 32
	if d.size+size > softEntry {
		return Verdict{Kind: Full}
	}
	d.size += size
	d.users[user] += quantity
	d.totals.claim(quantity, heldUntilUs != 0)
	op := d.newClaim()
	op.claim.User, op.claim.Key, op.claim.HeldUntilUs = user, []byte(key), heldUntilUs
	op.claim.Units = d.available.takeLowest(make([]int64, 0, quantity), quantity)
	d.requests[id] = len(d.commit.Ops)
	d.commit.Ops = append(d.commit.Ops, &op.op)
	return Verdict{Kind: Granted, Op: len(d.commit.Ops) - 1}
}

func (d *Draft) newClaim() *claimOp {
	if len(d.slab) == 0 {
		d.slab = make([]claimOp, 64)
	}
	op := &d.slab[0]
	d.slab = d.slab[1:]
	op.op.Op, op.oneof.Claim = &op.oneof, &op.claim
	return op
}

// Units returns the units of a claim granted here.
func (d *Draft) Units(op int) []int64 { return d.commit.Ops[op].GetClaim().GetUnits() }

// Available returns how many units would be left.
func (d *Draft) Available() int64 { return d.totals.Available }

// Ops returns how many ops the commit has.
func (d *Draft) Ops() int { return len(d.commit.Ops) }

// TimeUs returns the commit's time.
func (d *Draft) TimeUs() int64 { return d.commit.TimeUs }

// Own makes the writer the owner, under the next epoch.
func (d *Draft) Own(address string) {
	d.commit.Epoch = d.state.Epoch + 1
	d.totals.Epoch, d.totals.Owner = d.commit.Epoch, address
	d.add(&pb.Op{Op: &pb.Op_Own{Own: &pb.Own{Address: address}}})
}

// Out sends the n highest units to another shard, to which no transfer may be
// open.
func (d *Draft) Out(to int, n int64) Transfer {
	units := d.available.takeHighest(n)
	t := Transfer{To: to, K: d.state.peer(to).outK + 1, Units: units}
	d.totals.out(units.Count())
	d.add(&pb.Op{Op: &pb.Op_Out{Out: &pb.Out{To: uint32(to), K: t.K, Units: units.toProto()}}})
	return t
}

// In receives a transfer; one that was received before changes nothing. The
// units can be claimed from the next commit on.
func (d *Draft) In(from int, k uint64, units Units) {
	if k <= d.state.Received(from) {
		return
	}
	d.totals.in(units.Count())
	d.add(&pb.Op{Op: &pb.Op_In{In: &pb.In{From: uint32(from), K: k, Units: units.toProto()}}})
}

// Ack ends a transfer that the other side has received.
func (d *Draft) Ack(to int, k uint64) {
	p := d.state.peer(to)
	if k <= p.ackK {
		return
	}
	d.totals.ack(p.out.Count())
	d.add(&pb.Op{Op: &pb.Op_Ack{Ack: &pb.Ack{To: uint32(to), K: k}}})
}

// Generation brings the shard to the next generation. It must be the commit's
// first op, since what follows would have been decided under the old settings.
func (d *Draft) Generation(op *pb.Generation) error {
	add, err := unitsOf(op.GetAdd())
	if err != nil {
		return fmt.Errorf("generation %d: %w", op.GetNumber(), err)
	}
	d.totals.generation(op, add.Count())
	d.add(&pb.Op{Op: &pb.Op_Generation{Generation: op}})
	return nil
}

// Seal ends the log.
func (d *Draft) Seal() {
	d.totals.seal()
	d.add(&pb.Op{Op: &pb.Op_Seal{Seal: &pb.Seal{}}})
}

func (d *Draft) add(op *pb.Op) { d.commit.Ops = append(d.commit.Ops, op) }

// Entry is a draft as it is to be stored.
type Entry struct {
	Commit *pb.Commit
	Hash   Hash
	Bytes  []byte
	Head   []byte
}

// Encode completes the commit.
func (d *Draft) Encode() (*Entry, error) {
	bytes, hash, err := d.state.encode(d.commit)
	if err != nil {
		return nil, err
	}
	head := Head{Slot: d.state.next, Hash: hash, Totals: d.totals}
	return &Entry{Commit: d.commit, Hash: hash, Bytes: bytes, Head: head.Encode()}, nil
}

// Reset makes the draft an empty one against the state as it is now, keeping
// its memory. Nothing of the old commit may be in use any more.
func (d *Draft) Reset(timeUs int64) {
	clear(d.users)
	clear(d.requests)
	ops := d.commit.Ops[:0]
	d.commit = &pb.Commit{Writer: d.commit.Writer, Epoch: d.state.Epoch, TimeUs: max(timeUs, d.state.timeUs), Ops: ops}
	d.totals, d.size = d.state.Totals, 64
	d.available = append(d.available[:0], d.state.available...)
}
