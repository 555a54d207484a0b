package ledger

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
	Void                   // a grab that the log contradicts
)

// Recall answers a request from the state alone, where that decides it: the same
// request has its answer already, or the time or the limit forbids a new claim.
// timeUs is the clock of whoever would write the next commit.
func (s *State) Recall(user, key string, quantity, timeUs int64) (Verdict, bool) {
	return s.ask(s.claims.look(user, key), quantity, 0, s.at(timeUs))
}

// ask is Recall for a commit of a known time, when the user is about to get
// more units.
func (s *State) ask(at spot, quantity, more, timeUs int64) (Verdict, bool) {
	if at.claim != 0 {
		if int64(s.claims.records.at(at.claim-1).count) != quantity {
			return Verdict{Kind: OtherAsk}, true
		}
		return Verdict{Kind: SameBefore, Claim: s.claims.at(at.claim - 1)}, true
	}
	if no := s.refusal(timeUs); no != Allowed {
		return Verdict{Kind: NotNow, Refusal: no}, true
	}
	if quantity > s.settings.GetPerUserLimit()-s.claims.unitsAt(at)-more {
		return Verdict{Kind: OverLimit}, true
	}
	return Verdict{}, false
}
