package ledger

import pb "salectl/backends/ledger/ledgerpb"

// Decision is the result of a draft or a state for a claim or grab.
type Decision struct {
	Kind DecisionKind
	// Op is the index of the claim among the commit's ops, for Granted and ReplayHere.
	Op int
	// Claim is the earlier claim, for Replay; otherwise nil.
	Claim *Claim
	// Refusal is the reason, for NotNow.
	Refusal Refusal
	// Want is, for Short, the number of units that the claim may have: the requested quantity or, where
	// the settings have partial and the claim does not choose, what the user's limit leaves of it.
	Want int64
}

// DecisionKind is the kind of a Decision.
type DecisionKind int

// The decisions.
const (
	Granted    DecisionKind = iota
	ReplayHere              // the same request was granted earlier in this draft
	Replay                  // the same request has a claim in the log
	KeyReused               // the key was used for another quantity, or for other units
	NotNow                  // see Refusal
	OverLimit               // the user would pass the per-user limit
	OverUnpaid              // the user has reached the limit of claims that were cancelled or have expired
	Short                   // the shard has too few units, or not the chosen ones; see Want
	Full                    // the commit has its maximum size: retry in the next one
	Void                    // a grab that contradicts the log
	OtherRules              // the rules in force are not those that admitted the claim
	NoChoice                // the settings do not permit choosing units
)

// Recall answers a request from the state alone if that suffices: the request has its
// answer already, or the time or a limit forbids a new claim. timeUs is the clock of the
// writer of the next commit.
func (s *State) Recall(user, key string, quantity, timeUs int64, w Demand) (Decision, bool) {
	return s.recallWith(s.claims.indexOf(user, key), w.quantity(quantity), userChange{}, s.commitTime(timeUs), w)
}

// recallWith is like Recall, for the indexes at of claim and user, a commit with the time timeUs, and
// the changes more of that commit's draft for the user.
func (s *State) recallWith(at claimIndex, quantity int64, more userChange, timeUs int64, w Demand) (Decision, bool) {
	if at.claim != 0 {
		if s.claims.quantity(at.claim-1) != quantity || !s.claims.chosen(at.claim-1, w) {
			return Decision{Kind: KeyReused}, true
		}
		c := s.claims.at(at.claim - 1)
		return Decision{Kind: Replay, Claim: &c}, true
	}
	if no := s.refusal(timeUs); no != Allowed {
		return Decision{Kind: NotNow, Refusal: no}, true
	}
	if s.settings.GetDraw() && at.user != 0 {
		return Decision{Kind: OverLimit}, true // also if it has no units, or lost them: one entry a user
	}
	if s.settings.GetPartial() && !w.chooses() {
		quantity = 1 // the least that a claim gets
	}
	units, unpaid := s.users.sums(at)
	if quantity > s.settings.GetPerUserLimit()-units-more.units {
		return Decision{Kind: OverLimit}, true
	}
	if overUnpaid(s.settings, unpaid+more.unpaid) {
		return Decision{Kind: OverUnpaid}, true
	}
	return Decision{}, false
}

// overUnpaid reports whether a user with so many cancelled or expired claims may claim no more.
func overUnpaid(settings *pb.Settings, unpaid int64) bool {
	most := settings.GetPayment().GetUnpaidPerUser()
	return most != 0 && unpaid >= most
}
