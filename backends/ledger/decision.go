package ledger

// Decision is what a draft says to a claim.
type Decision struct {
	Kind DecisionKind
	// Op is the claim's place among the commit's ops, for Granted and ReplayHere.
	Op int
	// Claim is the earlier one, for Replay; nil for all else.
	Claim *Claim
	// Refusal says why, for NotNow.
	Refusal Refusal
	// Want is, for Short, how many units the claim may have: what it asks for or, where
	// the settings have partial and it does not choose, what the user's limit leaves of that.
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
	OverUnpaid              // as many of the user's claims were cancelled or have expired as may
	Short                   // the shard has too few units, or not those that the claim chooses; see Want
	Full                    // the commit is as large as it may be: try the next one
	Void                    // a grab that the log contradicts
	OtherRules              // the rules in force are not those that have let the claim in
	NoChoice                // the settings let nobody choose units
)

// Recall answers a request from the state alone, where that decides it: the same
// request has its answer already, or the time or the limit forbids a new claim.
// timeUs is the clock of whoever would write the next commit.
func (s *State) Recall(user, key string, quantity, timeUs int64, w Demand) (Decision, bool) {
	return s.recallWith(s.claims.look(user, key), w.quantity(quantity), userChange{}, s.at(timeUs), w)
}

// recallWith is Recall for a commit of a known time, when the user is about to get
// more units.
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
	if quantity > s.settings.GetPerUserLimit()-s.claims.unitsAt(at)-more.units {
		return Decision{Kind: OverLimit}, true
	}
	if s.overUnpaid(s.claims.unpaidAt(at) + more.unpaid) {
		return Decision{Kind: OverUnpaid}, true
	}
	return Decision{}, false
}

// overUnpaid reports whether a user with so many claims that were cancelled or have expired may claim
// no more.
func (s *State) overUnpaid(unpaid int64) bool {
	most := s.settings.GetPayment().GetUnpaidPerUser()
	return most != 0 && unpaid >= most
}
