package ledger

import (
	"fmt"
	"maps"
	"slices"

	pb "salectl/backends/ledger/ledgerpb"
)

// Phases of a sale, as heads and people name them.
const (
	PhasePlanned   = "planned" // accepted, not yet on every shard
	PhaseOpen      = "open"
	PhasePaused    = "paused"
	PhaseClosed    = "closed"
	PhaseSealed    = "sealed"
	PhaseDestroyed = "destroyed"
)

// PhaseName returns the word for a phase that a declaration set.
func PhaseName(p pb.Phase) string {
	switch p {
	case pb.Phase_OPEN:
		return PhaseOpen
	case pb.Phase_PAUSED:
		return PhasePaused
	case pb.Phase_CLOSED:
		return PhaseClosed
	}
	return PhasePlanned
}

// State is one shard: the fold of its log, and never anything else. Its methods
// that begin with an op's name are the one implementation of what is allowed;
// whoever decides (Draft) asks the same questions first.
//
// A State is not safe for concurrent use; readers may share it while nobody
// folds.
type State struct {
	chain
	Totals

	settings  *pb.Settings
	owner     string // the writer id of the owner
	available Units
	claims    claims
	peers     map[int]*peer
	removed   int64 // by the newest generation
	shortfall int64 // units that the newest generation should have removed and could not
	sealed    bool
	bytes     int64
}

// peer is what a shard has exchanged with one other.
type peer struct {
	outK, ackK uint64 // transfers sent, and acknowledged
	inK        uint64 // transfers received
	out        Units  // of transfer outK, while it is not acknowledged
}

// Transfer is one transfer that has not been acknowledged.
type Transfer struct {
	To    int
	K     uint64
	Units Units
}

// NewState returns a shard before its first slot.
func NewState(log string) *State {
	return &State{chain: newChain(log), claims: newClaims(), peers: make(map[int]*peer)}
}

// Fold takes in the next slot. After an error the state is of no use.
func (s *State) Fold(entry []byte) error {
	commit, err := s.decode(entry)
	if err != nil {
		return err
	}
	return s.Apply(commit, sum(entry), len(entry))
}

// Apply takes in a commit whose stored bytes are known to be right: it was
// decoded or encoded here.
func (s *State) Apply(c *pb.Commit, hash Hash, size int) error {
	if s.sealed {
		return s.corrupt("something was appended after the seal")
	}
	s.claims.times = append(s.claims.times, c.GetTimeUs())
	for i, op := range c.GetOps() {
		if err := s.applyOp(c, i, op); err != nil {
			return s.corrupt("op %d: %v", i, err)
		}
	}
	s.advance(c, hash)
	s.bytes += int64(size)
	return nil
}

func (s *State) applyOp(c *pb.Commit, i int, op *pb.Op) error {
	if _, isOwn := op.GetOp().(*pb.Op_Own); !isOwn && c.GetEpoch() != s.Epoch {
		return fmt.Errorf("it was written under epoch %d, the shard is at %d", c.GetEpoch(), s.Epoch)
	}
	if _, first := op.GetOp().(*pb.Op_Generation); s.Generation == 0 && !first {
		return fmt.Errorf("a log begins with its first generation")
	}
	switch op := op.GetOp().(type) {
	case *pb.Op_Claim:
		return s.claim(c, i, op.Claim)
	case *pb.Op_Settle:
		return s.settle(c, op.Settle)
	case *pb.Op_Own:
		return s.own(c, op.Own)
	case *pb.Op_Out:
		return s.out(c, op.Out)
	case *pb.Op_In:
		return s.in(op.In)
	case *pb.Op_Ack:
		return s.ack(op.Ack)
	case *pb.Op_Generation:
		return s.generation(op.Generation)
	case *pb.Op_Seal:
		return s.seal()
	}
	return fmt.Errorf("it is of a kind that no shard has (written by a newer version?)")
}

func (s *State) own(c *pb.Commit, op *pb.Own) error {
	if c.GetEpoch() != s.Epoch+1 {
		return fmt.Errorf("an owner takes epoch %d, not %d", s.Epoch+1, c.GetEpoch())
	}
	s.Epoch, s.Owner, s.owner = c.GetEpoch(), op.GetAddress(), string(c.GetWriter())
	return nil
}

func (s *State) claim(c *pb.Commit, i int, op *pb.Claim) error {
	n := int64(len(op.GetUnits()))
	switch {
	case string(c.GetWriter()) != s.owner:
		return fmt.Errorf("a claim by somebody who is not the owner")
	case n == 0:
		return fmt.Errorf("a claim for nothing")
	}
	if _, had := s.claims.find(op.GetUser(), string(op.GetKey())); had {
		return nil // the same request: it has its answer
	}
	if no := s.refusal(c.GetTimeUs()); no != Allowed {
		return fmt.Errorf("a claim when the sale is %s", no)
	}
	if had := s.claims.unitsOf(op.GetUser()); had+n > s.settings.GetPerUserLimit() {
		return fmt.Errorf("user %q has %d units and may not have %d more", op.GetUser(), had, n)
	}
	for j := 0; j < len(op.GetUnits()); { // by runs: a claim's units usually are one
		k := j + 1
		for k < len(op.GetUnits()) && op.GetUnits()[k] == op.GetUnits()[k-1]+1 {
			k++
		}
		if err := s.available.Remove(Range{op.GetUnits()[j], int64(k - j)}); err != nil {
			return err
		}
		j = k
	}
	s.claims.insert(s.next, i, op.GetUser(), string(op.GetKey()), op.GetUnits(), op.GetHeldUntilUs())
	s.Totals.claim(n, op.GetHeldUntilUs() != 0)
	return nil
}

func (s *State) settle(c *pb.Commit, op *pb.Settle) error {
	i, ok := s.claims.locate(op.GetSlot(), int(op.GetIndex()))
	if !ok {
		return fmt.Errorf("no claim stands at slot %d, op %d", op.GetSlot(), op.GetIndex())
	}
	r := s.claims.records.at(i)
	if r.state != StateHeld {
		return nil // settled before; the first one counts
	}
	late := c.GetTimeUs() >= s.claims.heldUntil[i]
	switch op.GetHow() {
	case pb.Settle_CONFIRM:
		if late {
			return fmt.Errorf("a payment after the deadline")
		}
		r.state = StateSold
	case pb.Settle_CANCEL:
		r.state = StateCancelled
	case pb.Settle_EXPIRE:
		if !late {
			return fmt.Errorf("a hold that expires before its deadline")
		}
		r.state = StateExpired
	default:
		return fmt.Errorf("a hold is confirmed, cancelled or expired")
	}
	s.Totals.settle(int64(r.count), r.state)
	if r.state == StateSold {
		return nil
	}
	s.claims.users.at(r.user).units -= int64(r.count)
	for _, unit := range s.claims.units(i) {
		if err := s.available.Add(Range{unit, 1}); err != nil {
			return err
		}
	}
	return nil
}

func (s *State) out(c *pb.Commit, op *pb.Out) error {
	units, err := unitsOf(op.GetUnits())
	if err != nil {
		return err
	}
	p := s.peer(int(op.GetTo()))
	switch {
	case string(c.GetWriter()) != s.owner:
		return fmt.Errorf("a transfer by somebody who is not the owner")
	case s.settings.GetPhase() == pb.Phase_CLOSED:
		return fmt.Errorf("a transfer out of a closed shard")
	case p.outK != p.ackK || op.GetK() != p.outK+1:
		return fmt.Errorf("transfer %d to shard %d while %d of %d are acknowledged", op.GetK(), op.GetTo(), p.ackK, p.outK)
	}
	for _, r := range units {
		if err := s.available.Remove(r); err != nil {
			return err
		}
	}
	p.outK, p.out = op.GetK(), units
	s.Totals.out(units.Count())
	return nil
}

func (s *State) in(op *pb.In) error {
	p := s.peer(int(op.GetFrom()))
	if op.GetK() <= p.inK {
		return nil // it was received before
	}
	if op.GetK() != p.inK+1 {
		return fmt.Errorf("transfer %d from shard %d after %d", op.GetK(), op.GetFrom(), p.inK)
	}
	units, err := unitsOf(op.GetUnits())
	if err != nil {
		return err
	}
	for _, r := range units {
		if err := s.available.Add(r); err != nil {
			return err
		}
	}
	p.inK = op.GetK()
	s.Totals.in(units.Count())
	return nil
}

func (s *State) ack(op *pb.Ack) error {
	p := s.peer(int(op.GetTo()))
	if op.GetK() <= p.ackK {
		return nil // it was acknowledged before
	}
	if op.GetK() != p.outK {
		return fmt.Errorf("transfer %d to shard %d is acknowledged, %d were sent", op.GetK(), op.GetTo(), p.outK)
	}
	s.Totals.ack(p.out.Count())
	p.ackK, p.out = op.GetK(), nil
	return nil
}

func (s *State) generation(op *pb.Generation) error {
	if op.GetNumber() <= s.Generation {
		return nil // it was taken before
	}
	if op.GetNumber() != s.Generation+1 {
		return fmt.Errorf("generation %d after %d", op.GetNumber(), s.Generation)
	}
	add, err := unitsOf(op.GetAdd())
	if err != nil {
		return err
	}
	for _, r := range add {
		if err := s.available.Add(r); err != nil {
			return err
		}
	}
	s.Totals.generation(op, add.Count())
	gone := s.available.takeHighest(op.GetRemove())
	s.removed = gone.Count()
	s.shortfall = op.GetRemove() - s.removed
	s.settings = op.GetSettings()
	return nil
}

func (s *State) seal() error {
	if s.settings.GetPhase() != pb.Phase_CLOSED || s.InFlight != 0 || s.Held != 0 {
		return fmt.Errorf("a seal on a shard that is %s, with %d units in flight and %d held", s.Phase, s.InFlight, s.Held)
	}
	s.sealed = true
	s.Totals.seal()
	return nil
}

func (s *State) peer(shard int) *peer {
	p := s.peers[shard]
	if p == nil {
		p = new(peer)
		s.peers[shard] = p
	}
	return p
}

// Refusal is why a shard takes no claim at a time.
type Refusal string

// The refusals that depend on the sale alone.
const (
	Allowed       Refusal = ""
	RefusedNotYet Refusal = "not open yet"
	RefusedPaused Refusal = "paused"
	RefusedClosed Refusal = "closed"
)

// refusal says whether claims are accepted in a commit of a time.
func (s *State) refusal(timeUs int64) Refusal {
	switch opens, closes := s.settings.GetOpensAtUs(), s.settings.GetClosesAtUs(); {
	case s.sealed || s.settings.GetPhase() == pb.Phase_CLOSED || closes != 0 && timeUs >= closes:
		return RefusedClosed
	case s.settings.GetPhase() == pb.Phase_PAUSED:
		return RefusedPaused
	case opens != 0 && timeUs < opens:
		return RefusedNotYet
	}
	return Allowed
}

// Refusal says whether claims are accepted in the next commit of a writer whose
// clock says timeUs.
func (s *State) Refusal(timeUs int64) Refusal { return s.refusal(max(timeUs, s.timeUs)) }

// Next returns the slot after the last one folded.
func (s *State) Next() uint64 { return s.next }

// Root returns the hash of the last slot folded.
func (s *State) Root() Hash { return s.hash }

// Head returns the head as it stands beside the last slot folded.
func (s *State) Head() Head { return Head{Slot: s.next - 1, Hash: s.hash, Totals: s.Totals} }

// Bytes returns the size of the entries folded.
func (s *State) Bytes() int64 { return s.bytes }

// Sealed says whether the log has ended.
func (s *State) Sealed() bool { return s.sealed }

// Shortfall returns how many units the newest generation should have removed
// and could not, since they were not available.
func (s *State) Shortfall() int64 { return s.shortfall }

// Settings returns those of the newest generation, nil before the first.
func (s *State) Settings() *pb.Settings { return s.settings }

// IsOwner says whether a writer is the shard's owner.
func (s *State) IsOwner(writer []byte) bool { return s.owner == string(writer) }

// Claims returns how many claims were accepted.
func (s *State) Claims() int { return s.claims.records.len() }

// Claim returns the i-th claim accepted.
func (s *State) Claim(i int) Claim { return s.claims.at(uint32(i)) }

// Find returns the claim that a request was given, if it was accepted.
func (s *State) Find(user, key string) (Claim, bool) {
	i, ok := s.claims.find(user, key)
	if !ok {
		return Claim{}, false
	}
	return s.claims.at(i), true
}

// User returns a user's claims in the order of their acceptance.
func (s *State) User(user string) []Claim { return s.claims.ofUser(user) }

// UserUnits returns how many units a user has, held and sold.
func (s *State) UserUnits(user string) int64 { return s.claims.unitsOf(user) }

// Open returns the transfers sent and not yet acknowledged, in order of shards.
func (s *State) Open() []Transfer {
	var open []Transfer
	for _, to := range slices.Sorted(maps.Keys(s.peers)) {
		if p := s.peers[to]; p.outK != p.ackK {
			open = append(open, Transfer{To: to, K: p.outK, Units: p.out})
		}
	}
	return open
}

// Received returns the number of the last transfer received from a shard.
func (s *State) Received(from int) uint64 {
	if p := s.peers[from]; p != nil {
		return p.inK
	}
	return 0
}
