package ledger

import (
	"fmt"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// The methods below apply each op to a shard, and reject it where it is not allowed.
// Drafts check the same conditions before they write an op.

func (s *State) own(c *pb.Commit, op *pb.Own) error {
	if c.GetEpoch() != s.Epoch+1 {
		return fmt.Errorf("an owner takes epoch %d, not %d", s.Epoch+1, c.GetEpoch())
	}
	s.Epoch, s.Owner, s.owner = c.GetEpoch(), op.GetAddress(), string(c.GetWriter())
	return nil
}

func (s *State) claim(c *pb.Commit, i int, op *pb.Claim) error {
	n := int64(len(op.GetUnits()))
	entry, grab := op.GetEntry(), op.GetFill() != 0
	switch {
	case entry != s.settings.GetDraw():
		return fmt.Errorf("an entry in a sale that is no draw, or a claim in one that is")
	case entry && (grab || n > 0 || op.GetHeldUntilUs() != 0 || op.GetGraceUs() != 0 || op.GetRequested() != 0):
		return fmt.Errorf("an entry that has units, or a hold")
	case op.GetFill() != s.Totals.Fill:
		return fmt.Errorf("a claim of fill %d, the shard is at %d", op.GetFill(), s.Totals.Fill)
	case !grab && !s.IsOwner(c.GetWriter()):
		return fmt.Errorf("a claim by a writer that is not the owner")
	case grab && op.GetHeldUntilUs() != 0:
		return fmt.Errorf("a grab that is held")
	case grab && op.GetRequested() != 0:
		return fmt.Errorf("a grab that requested more than it was given")
	case n == 0 && !entry:
		return fmt.Errorf("a claim for nothing")
	case max(len(op.GetUser()), len(op.GetKey())) > maxText:
		return fmt.Errorf("a user or key of more than %d bytes", maxText)
	}
	at := s.claims.indexOf(op.GetUser(), string(op.GetKey()))
	if at.claim != 0 {
		return nil // the same request: it has its answer
	}
	timeUs := c.GetTimeUs()
	if grab {
		timeUs = op.GetGrantedUs()
	}
	if no := s.refusal(timeUs); no != Allowed {
		return fmt.Errorf("a claim when the sale is %s", no)
	}
	if err := checkRuling(s.settings, op); err != nil {
		return err
	}
	if entry {
		if at.user != 0 {
			return fmt.Errorf("user %q has an entry and may not have another", op.GetUser())
		}
		s.claims.insert(at, s.next, i, op)
		s.Totals.Entries++
		return nil
	}
	had, unpaid := s.users.sums(at)
	if n > s.settings.GetPerUserLimit()-had {
		return fmt.Errorf("user %q has %s and may not have %d more", op.GetUser(), spec.Count(had, "unit"), n)
	}
	if overUnpaid(s.settings, unpaid) {
		return fmt.Errorf("user %q has %s that were cancelled or have expired, and may claim no more", op.GetUser(), spec.Count(unpaid, "claim"))
	}
	if err := checkTerm("a claim", s.settings, c.GetTimeUs(), op); err != nil {
		return err
	}
	if err := checkPartial(s.settings, op, had, s.Available); err != nil {
		return err
	}
	if err := eachRun(op.GetUnits(), s.available.Remove); err != nil {
		return err
	}
	s.claims.insert(at, s.next, i, op)
	s.Totals.claim(n, op.GetHeldUntilUs() != 0)
	return nil
}

// checkPartial checks a claim that was given fewer units than it requested, of a user with had
// units before: the settings allow it, and no more units remain for the user.
func checkPartial(settings *pb.Settings, op *pb.Claim, had, available int64) error {
	requested, n := int64(op.GetRequested()), int64(len(op.GetUnits()))
	switch {
	case requested == 0:
		return nil
	case !settings.GetPartial():
		return fmt.Errorf("a claim of %s that requested %d, and by the settings it gets all or nothing", spec.Count(n, "unit"), requested)
	case requested <= n:
		return fmt.Errorf("a claim of %s that requested %d, which is not more", spec.Count(n, "unit"), requested)
	case n < settings.GetPerUserLimit()-had && n < available:
		return fmt.Errorf("a claim of %s that requested %d, of a user who has %d, where %d are available",
			spec.Count(n, "unit"), requested, had, available)
	}
	return nil
}

// term returns the deadline and the grace of a claim or award at timeUs; 0: it is sold at once.
func term(settings *pb.Settings, timeUs int64) (untilUs, graceUs int64) {
	p := settings.GetPayment()
	if p == nil {
		return 0, 0
	}
	return timeUs + p.GetHoldForUs(), p.GetGraceUs()
}

// checkTerm checks that a claim or award is held for the term in force, or sold at once if there is none.
func checkTerm(what string, settings *pb.Settings, timeUs int64, op interface {
	GetHeldUntilUs() int64
	GetGraceUs() int64
}) error {
	if until, grace := term(settings, timeUs); op.GetHeldUntilUs() != until || op.GetGraceUs() != grace {
		return fmt.Errorf("%s that is held until %d and %d us of grace, by the settings it is until %d and %d",
			what, op.GetHeldUntilUs(), op.GetGraceUs(), until, grace)
	}
	return nil
}

// rebuild excludes the grabs of all earlier fills. Any process that drains a node may
// write it: a node's list does not belong to the owner.
func (s *State) rebuild(op *pb.Rebuild) error {
	switch {
	case op.GetFill() != s.Totals.Fill+1:
		return fmt.Errorf("fill %d after %d", op.GetFill(), s.Totals.Fill)
	case s.settings.GetPhase() == pb.Phase_CLOSED:
		return fmt.Errorf("a rebuild of the list of a closed shard")
	case s.Totals.Fill == 0 && s.Claims() > 0:
		return fmt.Errorf("a first list of a shard that has sold without one")
	}
	s.Totals.Fill = op.GetFill()
	return nil
}

// generation applies the op of a generation.
func (s *State) generation(op *pb.Generation) error {
	if op.GetNumber() <= s.Generation {
		return nil // it was applied before
	}
	closed := s.settings.GetPhase() == pb.Phase_CLOSED
	if err := s.holdings.generation(op); err != nil {
		return err
	}
	if !closed && s.settings.GetPhase() == pb.Phase_CLOSED {
		s.awardBound = s.mayBeAwarded()
	}
	s.claims.rulings.change(s.next, s.settings)
	return nil
}

// maxTerm is the maximum duration in the settings of a payment, in microseconds, so that no
// deadline overflows: 142 years.
const maxTerm = 1 << 52

func payable(p *pb.Payment) error {
	switch most := max(p.GetHoldForUs(), p.GetGraceUs(), p.GetExtendByUs()); {
	case p.GetHoldForUs() < 1 || min(p.GetGraceUs(), p.GetExtendByUs(), p.GetUnpaidPerUser()) < 0 || most > maxTerm:
		return fmt.Errorf("a payment with %d us to hold, %d us of grace, extended by %d us", p.GetHoldForUs(), p.GetGraceUs(), p.GetExtendByUs())
	case p.GetLate() != pb.Payment_REFUSE && p.GetLate() != pb.Payment_RESELL:
		return fmt.Errorf("a payment that is late is refused or resold, not %v", p.GetLate())
	}
	return nil
}

func (s *State) seal() error {
	if s.settings.GetPhase() != pb.Phase_CLOSED || s.InFlight != 0 || s.Held != 0 {
		return fmt.Errorf("a seal on a shard that is %s, with %s in flight and %d held", s.Phase, spec.Count(s.InFlight, "unit"), s.Held)
	}
	s.Phase = PhaseSealed
	return nil
}

// Refusal is the reason why a shard accepts no claim at a time.
type Refusal string

// The refusals that depend on the sale alone.
const (
	Allowed       Refusal = ""
	RefusedNotYet Refusal = "not open yet"
	RefusedPaused Refusal = "paused"
	RefusedClosed Refusal = "closed"
)

// refusal returns the reason why no claim is accepted in a commit at timeUs; Allowed: claims are.
func (s *State) refusal(timeUs int64) Refusal {
	switch opens, closes := s.settings.GetOpensAtUs(), s.settings.GetClosesAtUs(); {
	case s.entries != nil || s.settings.GetPhase() == pb.Phase_CLOSED || closes != 0 && timeUs >= closes:
		return RefusedClosed
	case s.settings.GetPhase() == pb.Phase_PAUSED:
		return RefusedPaused
	case opens != 0 && timeUs < opens:
		return RefusedNotYet
	}
	return Allowed
}
