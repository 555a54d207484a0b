package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	pb "salectl/backends/ledger/ledgerpb"
)

// sells has claims held for 89 us and 11 of grace, extended by 100; a late payment buys
// what there is.
var sells = By(GenerationOp(2, 0, paying(3, &pb.Payment{HoldForUs: 89, GraceUs: 11, ExtendByUs: 100, Late: pb.Payment_RESELL})))

// heldFor is a claim on the terms of sells, at 10.
func heldFor(user, key string, units ...int64) *pb.Op {
	op := HoldOp(user, key, 99, units...)
	op.GetClaim().GraceUs = 11
	return op
}

// heldLater is a claim on the terms of sells, at 110.
func heldLater(user, key string, units ...int64) *pb.Op {
	op := heldFor(user, key, units...)
	op.GetClaim().HeldUntilUs = 199
	return op
}

// settleOf settles the claim of slot 3, which is op 0.
func settleOf(how pb.Settle_How, change func(*pb.Settle)) *pb.Op {
	op := SettleOp(3, 0, how)
	if change != nil {
		change(op.GetSettle())
	}
	return op
}

func paid(payment string) func(*pb.Settle) { return func(op *pb.Settle) { op.Payment = payment } }

func resold(payment string, units ...int64) *pb.Op {
	return settleOf(pb.Settle_RESELL, func(op *pb.Settle) { op.Payment, op.Units = payment, units })
}

func extended(untilUs int64) *pb.Op {
	return settleOf(pb.Settle_EXTEND, func(op *pb.Settle) { op.HeldUntilUs = untilUs })
}

func owed(payment string) *pb.Op { return settleOf(pb.Settle_REFUND_DUE, paid(payment)) }

func returned(payment, reason string) *pb.Op {
	return settleOf(pb.Settle_RETURNED, func(op *pb.Settle) { op.Payment, op.Who, op.Reason = payment, "eve", reason })
}

var (
	expired  = By(settleOf(pb.Settle_EXPIRE, nil)).at(110)
	refunded = settleOf(pb.Settle_REFUND, func(op *pb.Settle) { op.Payment, op.Who, op.Reason = "p", "ada", "broken" })
	retired  = settleOf(pb.Settle_REFUND, func(op *pb.Settle) { op.Retire = true })
)

// settles is what each op does to a claim of units 1 and 2 that is held at 10 until 99, and 11 of
// grace.
var settles = map[string]struct {
	commits []commit
	want    string
	claim   Claim
	counts  Outcomes
}{
	"a hold": {nil, "limit 10: 8 available, 2 held, 0 sold, 0 in flight",
		Claim{State: StateHeld, HeldUntilUs: 99}, Outcomes{OpenHolds: 1}},
	"a payment in the grace": {[]commit{By(settleOf(pb.Settle_CONFIRM, paid("p"))).at(109)}, "limit 10: 8 available, 0 held, 2 sold, 0 in flight",
		Claim{State: StateSold, HeldUntilUs: 99, SettledUs: 109, Payment: "p"}, Outcomes{Confirmed: 1}},
	"an expiry after the grace": {[]commit{expired}, "limit 10: 10 available, 0 held, 0 sold, 0 in flight",
		Claim{State: StateExpired, HeldUntilUs: 99, SettledUs: 110}, Outcomes{Expired: 1}},
	"a cancellation": {[]commit{By(settleOf(pb.Settle_CANCEL, func(op *pb.Settle) { op.Who, op.Reason = "u", "dear" })).at(20)},
		"limit 10: 10 available, 0 held, 0 sold, 0 in flight",
		Claim{State: StateCancelled, HeldUntilUs: 99, SettledUs: 20, Who: "u", Reason: "dear"}, Outcomes{Cancelled: 1}},
	"an extension, once": {[]commit{By(extended(199)).at(109), By(extended(299)).at(150)}, "limit 10: 8 available, 2 held, 0 sold, 0 in flight",
		Claim{State: StateHeld, HeldUntilUs: 199, Extended: true}, Outcomes{OpenHolds: 1}},
	"a payment after an extension": {[]commit{By(extended(199)).at(109), By(settleOf(pb.Settle_CONFIRM, paid("p"))).at(209)},
		"limit 10: 8 available, 0 held, 2 sold, 0 in flight",
		Claim{State: StateSold, HeldUntilUs: 199, Extended: true, SettledUs: 209, Payment: "p"}, Outcomes{Confirmed: 1}},
	"an extension of what has expired": {[]commit{expired, By(extended(199)).at(111)}, "limit 10: 10 available, 0 held, 0 sold, 0 in flight",
		Claim{State: StateExpired, HeldUntilUs: 99, SettledUs: 110}, Outcomes{Expired: 1}},
	"a refund, twice": {[]commit{By(settleOf(pb.Settle_CONFIRM, paid("p"))), By(refunded, retired).at(30)},
		"limit 10: 10 available, 0 held, 0 sold, 0 in flight",
		Claim{State: StateRefunded, HeldUntilUs: 99, SettledUs: 30, Payment: "p", Who: "ada", Reason: "broken", RefundsDue: []string{"p"}}, Outcomes{Confirmed: 1, Refunded: 1, RefundsDue: 1}},
	"a return of a refunded payment, twice": {[]commit{By(settleOf(pb.Settle_CONFIRM, paid("p"))), By(refunded).at(30), By(returned("p", "bank")).at(31), By(returned("p", "cash")).at(32)},
		"limit 10: 10 available, 0 held, 0 sold, 0 in flight",
		Claim{State: StateRefunded, HeldUntilUs: 99, SettledUs: 30, Payment: "p", Who: "ada", Reason: "broken", RefundsDue: []string{"p"}, Returned: []Returned{{"p", 31, "eve", "bank"}}},
		Outcomes{Confirmed: 1, Refunded: 1, RefundsDue: 1, Returned: 1}},
	"returns of payments that bought nothing": {[]commit{expired, By(owed("p"), owed("q"), owed("")).at(111), By(returned("", "cash"), returned("p", "bank"), owed("p")).at(112)},
		"limit 10: 10 available, 0 held, 0 sold, 0 in flight",
		Claim{State: StateExpired, HeldUntilUs: 99, SettledUs: 110, RefundsDue: []string{"p", "q", ""}, Returned: []Returned{{"p", 112, "eve", "bank"}, {"", 112, "eve", "cash"}}},
		Outcomes{Expired: 1, RefundsDue: 3, Returned: 2}},
	"a refund that retires": {[]commit{By(settleOf(pb.Settle_CONFIRM, nil), retired)}, "limit 8: 8 available, 0 held, 0 sold, 0 in flight",
		Claim{State: StateRefunded, HeldUntilUs: 99, SettledUs: 10, Retired: true}, Outcomes{Confirmed: 1, Refunded: 1}},
	"a resale of its own units, twice": {[]commit{expired, By(resold("p", 1, 2)).at(111), By(resold("p", 1, 2)).at(112)},
		"limit 10: 8 available, 0 held, 2 sold, 0 in flight",
		Claim{State: StateSold, HeldUntilUs: 99, SettledUs: 111, Payment: "p"}, Outcomes{Expired: 1, Resold: 1}},
	"a resale of others": {[]commit{expired, By(heldLater("v", "k", 2)).at(110), By(resold("p", 7, 5)).at(111)},
		"limit 10: 7 available, 1 held, 2 sold, 0 in flight",
		Claim{Units: []int64{7, 5}, State: StateSold, HeldUntilUs: 99, SettledUs: 111, Payment: "p"}, Outcomes{OpenHolds: 1, Expired: 1, Resold: 1}},
	"a resale of a run of others": {[]commit{expired, By(heldLater("v", "k", 2)).at(110), By(resold("p", 7, 5)).at(111), By(refunded).at(111), By(owed("q")).at(112)},
		"limit 10: 9 available, 1 held, 0 sold, 0 in flight",
		Claim{Units: []int64{7, 5}, State: StateRefunded, HeldUntilUs: 99, SettledUs: 111, Payment: "p", Who: "ada", Reason: "broken", RefundsDue: []string{"p", "q"}},
		Outcomes{OpenHolds: 1, Expired: 1, Resold: 1, Refunded: 1, RefundsDue: 2}},
	"payments owed back, each once": {[]commit{expired, By(owed("p"), owed("")).at(111), By(owed("p"), owed("q"), owed("q")).at(112)},
		"limit 10: 10 available, 0 held, 0 sold, 0 in flight",
		Claim{State: StateExpired, HeldUntilUs: 99, SettledUs: 110, RefundsDue: []string{"p", "", "q"}}, Outcomes{Expired: 1, RefundsDue: 3}},
	"a second payment, owed back": {[]commit{By(settleOf(pb.Settle_CONFIRM, paid("p"))), By(owed("q"), owed("p"), owed(""))},
		"limit 10: 8 available, 0 held, 2 sold, 0 in flight",
		Claim{State: StateSold, HeldUntilUs: 99, SettledUs: 10, Payment: "p", RefundsDue: []string{"q"}}, Outcomes{Confirmed: 1, RefundsDue: 1}},
	"a payment of what was paid by no name": {[]commit{By(settleOf(pb.Settle_CONFIRM, nil), owed("q"), resold("q", 1, 2))},
		"limit 10: 8 available, 0 held, 2 sold, 0 in flight",
		Claim{State: StateSold, HeldUntilUs: 99, SettledUs: 10}, Outcomes{Confirmed: 1}},
	"the longest payment": {[]commit{By(settleOf(pb.Settle_CONFIRM, paid(strings.Repeat("p", MaxPayment))))},
		"limit 10: 8 available, 0 held, 2 sold, 0 in flight",
		Claim{State: StateSold, HeldUntilUs: 99, SettledUs: 10, Payment: strings.Repeat("p", MaxPayment)}, Outcomes{Confirmed: 1}},
	"the longest name and reason": {[]commit{By(settleOf(pb.Settle_CANCEL, func(op *pb.Settle) {
		op.Who, op.Reason = strings.Repeat("w", MaxWho), strings.Repeat("r", MaxReason)
	}))}, "limit 10: 10 available, 0 held, 0 sold, 0 in flight",
		Claim{State: StateCancelled, HeldUntilUs: 99, SettledUs: 10, Who: strings.Repeat("w", MaxWho), Reason: strings.Repeat("r", MaxReason)}, Outcomes{Cancelled: 1}},
	"a resale, and the payment owed back before": {[]commit{expired, By(owed("p")).at(110), By(resold("q", 1, 2)).at(110)},
		"limit 10: 8 available, 0 held, 2 sold, 0 in flight",
		Claim{State: StateSold, HeldUntilUs: 99, SettledUs: 110, Payment: "q", RefundsDue: []string{"p"}}, Outcomes{Expired: 1, Resold: 1, RefundsDue: 1}},
	"a resale when closed": {[]commit{expired, By(GenerationOp(3, 0, &pb.Settings{
		PerUserLimit: 3, Phase: pb.Phase_CLOSED, Payment: &pb.Payment{HoldForUs: 1, Late: pb.Payment_RESELL},
	})).at(110), By(resold("p", 1, 2)).at(110)}, "limit 10: 8 available, 0 held, 2 sold, 0 in flight",
		Claim{State: StateSold, HeldUntilUs: 99, SettledUs: 110, Payment: "p"}, Outcomes{Expired: 1, Resold: 1}},
	"its own terms after a generation": {[]commit{By(GenerationOp(3, 0, PhaseSettings(pb.Phase_OPEN))), By(settleOf(pb.Settle_CONFIRM, nil)).at(109)},
		"limit 10: 8 available, 0 held, 2 sold, 0 in flight",
		Claim{State: StateSold, HeldUntilUs: 99, SettledUs: 109}, Outcomes{Confirmed: 1}},
}

func TestStateSettles(t *testing.T) {
	for name, test := range settles {
		t.Run(name, func(t *testing.T) {
			commits := append([]commit{sells, By(heldFor("u", "k", 1, 2))}, test.commits...)
			s := BegunState(t)
			MustFold(t, s, commits...)
			if got := figures(s); got != test.want || s.Outcomes != test.counts {
				t.Errorf("%s, %+v\nwant %s, %+v", got, s.Outcomes, test.want, test.counts)
			}
			want := test.claim
			want.Slot, want.User, want.Key, want.TimeUs, want.GraceUs, want.RefundsDueTotal = 3, "u", "k", 10, 11, len(want.RefundsDue)
			if want.Units == nil {
				want.Units = []int64{1, 2}
			}
			found, _ := s.Find("u", "k")
			if at, ok := s.ClaimAt(3, 0); !ok || fmt.Sprintf("%+v", at) != fmt.Sprintf("%+v", want) || fmt.Sprint(found) != fmt.Sprint(at) {
				t.Errorf("the claim is\n%+v, want\n%+v", at, want)
			}
			if err := recount(s); err != nil {
				t.Error(err)
			}
		})
	}
}

// refusedSettle is a commit that is refused behind others.
type refusedSettle struct {
	before []commit
	commit commit
	want   string
}

func refusedSettles() map[string]refusedSettle {
	confirmed := By(settleOf(pb.Settle_CONFIRM, paid("p")))
	cancelled := By(settleOf(pb.Settle_CANCEL, nil))
	refuses := By(GenerationOp(3, 0, paying(3, &pb.Payment{HoldForUs: 1, Late: pb.Payment_REFUSE}))).at(110)
	long := strings.Repeat("x", MaxReason+1)
	texts := "a payment, name or reason of more than 255, 255 or 1023 bytes"
	return map[string]refusedSettle{
		"a payment at the release":       {nil, By(settleOf(pb.Settle_CONFIRM, nil)).at(110), "CONFIRM of a claim that is held, at 110, to be released at 110"},
		"an expiry in the grace":         {nil, By(settleOf(pb.Settle_EXPIRE, nil)).at(109), "EXPIRE of a claim that is held, at 109, to be released at 110"},
		"an extension at the release":    {nil, By(extended(199)).at(110), "EXTEND of a claim that is held, at 110"},
		"an extension by too much":       {nil, By(extended(200)), "a hold is extended to 200, by the settings it is to 199"},
		"an extension that is not":       {[]commit{By(GenerationOp(3, 0, PhaseSettings(pb.Phase_OPEN)))}, By(extended(99)), "EXTEND of a claim that is held"},
		"a refund of a hold":             {nil, By(refunded), "REFUND of a claim that is held"},
		"a refund of what has expired":   {[]commit{expired}, By(refunded).at(110), "REFUND of a claim that is expired."},
		"a refund of what was cancelled": {[]commit{cancelled}, By(refunded), "REFUND of a claim that is cancelled."},
		"a resale of a hold":             {nil, By(resold("p", 1, 2)), "RESELL of a claim that is held"},
		"a resale of a hold to expire":   {nil, By(resold("p", 1, 2)).at(110), "RESELL of a claim that is held"},
		"a resale of what was cancelled": {[]commit{cancelled}, By(resold("p", 1, 2)), "RESELL of a claim that is cancelled"},
		"a resale by another payment":    {[]commit{confirmed}, By(resold("q", 1, 2)), "RESELL of a claim that is sold"},
		"a resale by one owed back":      {[]commit{expired, By(owed("p")).at(110)}, By(resold("p", 1, 2)).at(110), "by a payment whose refund is due"},
		"a resale that is refused":       {[]commit{expired, refuses}, By(resold("p", 1, 2)).at(110), "which the settings refuse"},
		"a resale in a plain sale":       {[]commit{expired, By(GenerationOp(3, 0, PhaseSettings(pb.Phase_OPEN))).at(110)}, By(resold("p", 1, 2)).at(110), "which the settings refuse"},
		"a resale by a stranger":         {[]commit{expired}, By(resold("p", 1, 2)).as("planner", 1).at(110), "resold by a writer that is not the owner"},
		"a resale of fewer":              {[]commit{expired}, By(resold("p", 1)).at(110), "a claim of 2 units is resold with 1"},
		"a resale of others for nothing": {[]commit{expired}, By(resold("p", 3, 4)).at(110), "other units than its own, which are available"},
		"a resale of what others have":   {[]commit{expired, By(heldLater("v", "k", 2)).at(110)}, By(resold("p", 1, 2)).at(110), "units 1-2 are not here"},
		"a resale past the limit":        {[]commit{expired, By(heldLater("u", "l", 5, 6)).at(110)}, By(resold("p", 1, 2)).at(110), "to a user who has 2 units and may not have 2 more"},
		"a payment owed back for a hold": {nil, By(owed("p")), "REFUND_DUE of a claim that is held"},
		"owed back, to be released":      {nil, By(owed("p")).at(110), "REFUND_DUE of a claim that is held"},
		"a refund of another payment":    {[]commit{confirmed}, By(settleOf(pb.Settle_REFUND, paid("q"))), `a refund of payment "q" of a claim that payment "p" has bought`},
		"a return of what bought it":     {[]commit{confirmed}, By(returned("p", "")), "RETURNED of a claim that is sold, of a payment that is not owed back"},
		"a return for a hold":            {nil, By(returned("", "")), "RETURNED of a claim that is held"},
		"a resale by what was returned":  {[]commit{expired, By(owed("p"), returned("p", "")).at(110)}, By(resold("p", 1, 2)).at(111), "by a payment whose refund is due"},
		"owed back after its refund":     {[]commit{confirmed, By(refunded)}, By(owed("p")), "REFUND_DUE of a claim that is refunded"},
		"a payment of many bytes":        {nil, By(settleOf(pb.Settle_CONFIRM, paid(long[:MaxPayment+1]))), texts},
		"a name of many bytes":           {nil, By(settleOf(pb.Settle_CANCEL, func(op *pb.Settle) { op.Who = long[:MaxWho+1] })), texts},
		"a reason of many bytes":         {nil, By(settleOf(pb.Settle_CANCEL, func(op *pb.Settle) { op.Reason = long })), texts},
		"a way of the future":            {nil, By(settleOf(99, nil)), "settled in a way that is not known: 99"},
		"a claim sold at once":           {nil, By(ClaimOp("v", "k", 5)), "a claim that is held until 0 and 0 us of grace, by the settings it is until 99 and 11"},
		"a hold for longer":              {nil, By(HoldOp("v", "k", 100, 5)), "a claim that is held until 100"},
		"a hold of no grace":             {nil, By(HoldOp("v", "k", 99, 5)), "held until 99 and 0 us of grace"},
		"a hold without grace":           {[]commit{By(GenerationOp(3, 0, PhaseSettings(pb.Phase_OPEN)))}, By(HoldOp("v", "k", 99, 5)), "by the settings it is until 0 and 0"},
		"a grace without a hold": {[]commit{By(GenerationOp(3, 0, PhaseSettings(pb.Phase_OPEN)))}, By(&pb.Op{Op: &pb.Op_Claim{Claim: &pb.Claim{
			User: "v", Key: []byte("k"), Units: []int64{5}, GraceUs: 1,
		}}}), "held until 0 and 1 us of grace"},
		"a claim after an unpaid one": {[]commit{expired, few}, By(HoldOp("u", "l", 199, 1)).at(110), `user "u" has 1 claim that were cancelled or have expired, and may claim no more`},
		"a hold in a plain sale":      {[]commit{By(GenerationOp(3, 0, PhaseSettings(pb.Phase_OPEN)))}, By(heldFor("v", "k", 5)), "by the settings it is until 0 and 0"},
	}
}

func TestStateRefusesToSettle(t *testing.T) {
	for name, test := range refusedSettles() {
		t.Run(name, func(t *testing.T) {
			s := BegunState(t)
			MustFold(t, s, append([]commit{sells, By(heldFor("u", "k", 1, 2))}, test.before...)...)
			_, err := FoldCommit(s, test.commit)
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error()+".", test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// SettledCommits are the commits of TestStateSettles, from slot 2 on, for tests of other packages.
func SettledCommits() map[string][]*pb.Commit {
	all := make(map[string][]*pb.Commit)
	for name, test := range settles {
		all[name] = protos(test.commits)
	}
	return all
}

// RefusedCommits are those of TestStateRefusesToSettle, of which the last is refused.
func RefusedCommits() map[string][]*pb.Commit {
	all := make(map[string][]*pb.Commit)
	for name, test := range refusedSettles() {
		all[name] = protos(append(slices.Clip(test.before), test.commit))
	}
	return all
}

func protos(commits []commit) (all []*pb.Commit) {
	for _, c := range append([]commit{By(GenerationOp(1, 0, PhaseSettings(pb.Phase_OPEN), Range{1, 10})).as("planner", 0).at(0), By(own()).at(5), sells, By(heldFor("u", "k", 1, 2))}, commits...) {
		all = append(all, c.proto())
	}
	return all
}

// A claim whose units lay apart has those that it is resold with, and no other.
func TestResoldWithARun(t *testing.T) {
	s := BegunState(t)
	MustFold(t, s, sells, By(heldFor("u", "k", 1, 3)), expired, By(heldLater("v", "k", 1)).at(110), By(resold("p", 7, 8)).at(110))
	if c := s.Claim(0); !slices.Equal(c.Units, []int64{7, 8}) {
		t.Errorf("units %v", c.Units)
	}
	if err := recount(s); err != nil {
		t.Error(err)
	}
}

// A payment's terms are checked before a generation is drafted, and when it is folded.
func TestPaymentsThatAreNone(t *testing.T) {
	for name, p := range map[string]*pb.Payment{
		"no time to hold":     {Late: pb.Payment_REFUSE},
		"a negative grace":    {HoldForUs: 1, GraceUs: -1, Late: pb.Payment_REFUSE},
		"a negative exension": {HoldForUs: 1, ExtendByUs: -1, Late: pb.Payment_REFUSE},
		"for ever":            {HoldForUs: maxTerm + 1, Late: pb.Payment_REFUSE},
		"no way when late":    {HoldForUs: 1},
	} {
		op := GenerationOp(2, 0, paying(1, p))
		if _, err := FoldCommit(BegunState(t), By(op)); err == nil || !strings.Contains(err.Error(), "a payment ") {
			t.Errorf("%s: %v", name, err)
		}
		if err := BegunState(t).Draft(TestOwner, 0).Generation(op.GetGeneration()); err == nil {
			t.Errorf("%s: drafted", name)
		}
	}
}

// A grab from a list is not settled, nor taken in where claims are held.
func TestGrabsAreNotSettled(t *testing.T) {
	s := BegunState(t)
	MustFold(t, s, By(RebuildOp(1)), By(GrabbedOp("u", "k", 1, 10, 5)))
	d := s.Draft([]byte("a"), 20)
	if v := d.Refund(s.Claim(0), "ada", "", false); v.Kind != SettleInvalid || d.Ops() != 0 {
		t.Errorf("settlement %d", v.Kind)
	}
	MustFold(t, s, By(SettleOp(3, 0, pb.Settle_CONFIRM))) // it is sold: nothing is left to do
	if _, err := FoldCommit(s, By(SettleOp(3, 0, pb.Settle_REFUND))); err == nil || !strings.Contains(err.Error(), "is sold, from a list") {
		t.Errorf("got %v", err)
	}
	s = BegunState(t)
	MustFold(t, s, By(RebuildOp(1)), sells)
	if v := s.Draft([]byte("a"), 20).Grab(Grab{User: "u", Key: "k", Unit: 5, GrantedUs: 10}); v.Kind != Void {
		t.Errorf("decision %d", v.Kind)
	}
	if _, err := FoldCommit(s, By(GrabbedOp("u", "k", 1, 10, 5))); err == nil {
		t.Error("a grab is taken in where claims are held")
	}
}

// drafted returns a shard with a hold of user u, units 1 and 2 until 99 and 11 of grace, and
// a draft at a time.
func drafted(t *testing.T, timeUs int64) (*State, *Draft) {
	t.Helper()
	s := BegunState(t)
	MustFold(t, s, sells, By(heldFor("u", "k", 1, 2)))
	return s, s.Draft([]byte("a"), timeUs)
}

// Of the settlements in one draft, the first counts.
func TestSettlementsOfOneDraft(t *testing.T) {
	type step struct {
		do   func(*Draft, Claim) SettlementKind
		want SettlementKind
	}
	confirm := func(d *Draft, c Claim) SettlementKind { return d.Confirm(c, "p").Kind }
	confirmQ := func(d *Draft, c Claim) SettlementKind { return d.Confirm(c, "q").Kind }
	confirmNone := func(d *Draft, c Claim) SettlementKind { return d.Confirm(c, "").Kind }
	cancel := func(d *Draft, c Claim) SettlementKind { return d.Cancel(c, "u", "").Kind }
	expire := func(d *Draft, c Claim) SettlementKind { return d.Expire(c).Kind }
	extend := func(d *Draft, c Claim) SettlementKind { return d.Extend(c).Kind }
	refund := func(d *Draft, c Claim) SettlementKind { return d.Refund(c, "ada", "", false).Kind }
	late := func(d *Draft, c Claim) SettlementKind { return d.Late(c, "p").Kind }
	lateQ := func(d *Draft, c Claim) SettlementKind { return d.Late(c, "q").Kind }
	grabAll := func(d *Draft, _ Claim) SettlementKind {
		for i := 0; d.Available() > 0; i++ {
			d.Claim(fmt.Sprint("v", i), "k", min(3, d.Available()))
		}
		return SettleDone
	}
	for name, test := range map[string]struct {
		timeUs int64
		steps  []step
		ops    int
	}{
		"a confirm and an expiry in time":   {109, []step{{confirm, SettleDone}, {expire, SettleSold}, {confirm, SettleAlready}, {confirmNone, SettleAlready}, {confirmQ, SettleSold}}, 1},
		"an expiry and a confirm":           {110, []step{{confirm, SettleExpired}, {expire, SettleDone}, {confirm, SettleExpired}, {expire, SettleAlready}}, 1},
		"an extension and a confirm":        {109, []step{{extend, SettleDone}, {extend, SettleAlready}, {expire, SettleHeld}, {confirm, SettleDone}, {extend, SettleSold}}, 2},
		"an extension too late":             {110, []step{{extend, SettleExpired}}, 0},
		"a cancellation":                    {109, []step{{cancel, SettleDone}, {cancel, SettleAlready}, {confirm, SettleCancelled}, {expire, SettleCancelled}, {refund, SettleCancelled}}, 1},
		"a cancellation when it is due":     {110, []step{{cancel, SettleDone}, {expire, SettleCancelled}}, 1},
		"a refund of a hold":                {109, []step{{refund, SettleHeld}, {confirm, SettleDone}, {cancel, SettleSold}, {refund, SettleDone}, {refund, SettleAlready}, {confirm, SettleRefunded}, {late, SettleRefunded}}, 2},
		"a late payment in time":            {109, []step{{late, SettleHeld}}, 0},
		"a late payment":                    {110, []step{{late, SettleDone}, {late, SettleAlready}, {confirm, SettleAlready}, {refund, SettleDone}}, 3},
		"two late payments":                 {110, []step{{late, SettleDone}, {lateQ, SettleRefundDue}, {lateQ, SettleRefundDue}, {confirmQ, SettleSold}}, 3},
		"a late payment for what is gone":   {110, []step{{expire, SettleDone}, {grabAll, SettleDone}, {late, SettleRefundDue}, {late, SettleRefundDue}}, 6},
		"a late payment after cancellation": {109, []step{{cancel, SettleDone}, {late, SettleRefundDue}, {late, SettleRefundDue}}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s, d := drafted(t, test.timeUs)
			for i, step := range test.steps {
				if got := step.do(d, s.Claim(0)); got != step.want {
					t.Fatalf("step %d: settlement %d, want %d", i, got, step.want)
				}
			}
			if d.Ops() != test.ops {
				t.Errorf("%d ops, want %d", d.Ops(), test.ops)
			}
			if e := MustCommit(t, s, d); string(e.Head) != string(s.Head().Encode()) {
				t.Errorf("the head is %s, the state's %s", e.Head, s.Head().Encode())
			}
			if err := recount(s); err != nil {
				t.Error(err)
			}
			d.Reset(test.timeUs)
			last := test.steps[len(test.steps)-1]
			if got := last.do(d, s.Claim(0)); d.Ops() != 0 {
				t.Errorf("repeated, it is settlement %d, of %d ops", got, d.Ops())
			}
		})
	}
}

// TestManyRefundsDue pays for one claim by ever other payments: each is recorded once, and costs
// the same however many there are.
func TestManyRefundsDue(t *testing.T) {
	s, d := drafted(t, 110)
	c := s.Claim(0)
	if v := d.Cancel(c, "", ""); v.Kind != SettleDone {
		t.Fatalf("settlement %d", v.Kind)
	}
	MustCommit(t, s, d)
	pay := func(d *Draft, i int) {
		if v := d.Late(c, fmt.Sprint("p", i)); v.Kind != SettleRefundDue || v.Claim.RefundsDueTotal < i+1 {
			t.Fatalf("payment %d: settlement %d, %d are owed back", i, v.Kind, v.Claim.RefundsDueTotal)
		}
	}
	const n = 5000
	allocated := make(map[int]float64) // by one payment, when so many are owed back
	var want []string
	for i := range n {
		d := s.Draft([]byte("a"), 120)
		pay(d, i)
		pay(d, i) // in one commit
		if d.Ops() != 1 {
			t.Fatalf("payment %d: %d ops", i, d.Ops())
		}
		MustCommit(t, s, d)
		want = append(want, fmt.Sprint("p", i))
		if i+1 == 50 || i+1 == n {
			d := s.Draft([]byte("a"), 130)
			allocated[i+1] = testing.AllocsPerRun(1, func() { pay(d, 0); pay(d, i) })
			if d.Ops() != 0 {
				t.Errorf("after %d payments two of them add %d ops", i+1, d.Ops())
			}
		}
	}
	if allocated[n] > allocated[50]+5 { // texts of other lengths
		t.Errorf("allocations by a payment, by how many are owed back: %v", allocated)
	}
	if all := s.Claim(0); !slices.Equal(all.RefundsDue, want) || all.RefundsDueTotal != n {
		t.Errorf("%d of %d payments are owed back", len(all.RefundsDue), all.RefundsDueTotal)
	}
	for _, c := range []func() (Claim, bool){func() (Claim, bool) { return s.ClaimAt(c.Slot, c.Index) }, func() (Claim, bool) { all, n := s.Newest("u", 9); return all[0], n == 1 }} {
		if c, ok := c(); !ok || !slices.Equal(c.RefundsDue, want[n-mostDue:]) || c.RefundsDueTotal != n {
			t.Errorf("the newest of %d are %q", c.RefundsDueTotal, c.RefundsDue)
		}
	}
	// Pages cost the same wherever they are, and are the same while payments are added.
	var due []string
	var costs []float64
	for before, more := "", true; more; {
		var page []string
		costs = append(costs, testing.AllocsPerRun(1, func() { page, _, more, _ = s.RefundsDue(c.Slot, c.Index, before, 100) }))
		due, before = append(slices.Clone(page), due...), page[0]
	}
	if !slices.Equal(due, want) || len(costs) != n/100 || costs[n/100-1] > costs[0] {
		t.Errorf("%d pages have %d of %d payments, with allocations %v", len(costs), len(due), n, costs)
	}
	for name, payment := range map[string]string{"another payment": "q", "the first": "p0"} {
		if page, _, more, ok := s.RefundsDue(c.Slot, c.Index, payment, 100); ok != (payment == "p0") || len(page) > 0 || more {
			t.Errorf("before %s: %v %v %v", name, page, more, ok)
		}
	}
	if err := recount(s); err != nil {
		t.Error(err)
	}
}

// few allows a user one claim that is cancelled or expires.
var few = By(GenerationOp(3, 0, paying(3, &pb.Payment{HoldForUs: 89, Late: pb.Payment_RESELL, UnpaidPerUser: 1}))).at(110)

// TestUnpaidPerUser counts the claims of a user that were cancelled or have expired, in the state and
// in the draft, up to the bound of the settings.
func TestUnpaidPerUser(t *testing.T) {
	for _, most := range []int64{0, 1, 2, 3} { // 0 is no bound
		s, d := drafted(t, 110)
		d.Expire(s.Claim(0))
		MustCommit(t, s, d) // one
		MustFold(t, s, By(GenerationOp(3, 0, paying(3, &pb.Payment{HoldForUs: 89, Late: pb.Payment_RESELL, UnpaidPerUser: most}))).at(110))
		claims := func(key string, unpaid int64) {
			t.Helper()
			want := Granted
			if most > 0 && unpaid >= most {
				want = OverUnpaid
			}
			if v := d.Claim("u", key, 1); v.Kind != want {
				t.Errorf("decision %d with %d of %d unpaid claims, want %d", v.Kind, unpaid, most, want)
			}
		}
		d.Reset(110)
		claims("l", 1)
		if v := d.Claim("v", "k", 1); v.Kind != Granted {
			t.Errorf("decision %d for another user", v.Kind)
		}
		MustCommit(t, s, d)
		if most == 1 {
			// What is paid late does not count, in the same commit and later.
			d.Reset(110)
			if v := d.Late(s.Claim(0), "p"); v.Kind != SettleDone {
				t.Errorf("settlement %d", v.Kind)
			}
			claims("m", 0)
			MustCommit(t, s, d)
			d.Reset(110)
			d.Cancel(s.Claim(2), "", "")
			claims("n", 1)
			MustCommit(t, s, d)
			continue
		}
		d.Reset(110)
		d.Cancel(s.Claim(1), "", "") // two, in this commit
		claims("m", 2)
		MustCommit(t, s, d)
		if v, decided := s.Recall("u", "n", 1, 110, Demand{}); decided != (most == 2) || decided && v.Kind != OverUnpaid {
			t.Errorf("a recall with 2 of %d unpaid claims: %d, %v", most, v.Kind, decided)
		}
	}
}

// What a settlement frees is there for the claims behind it, for its user too.
func TestClaimsBehindSettlements(t *testing.T) {
	s, d := drafted(t, 110)
	if v := d.Claim("u", "l", 2); v.Kind != OverLimit {
		t.Errorf("decision %d before the expiry", v.Kind)
	}
	d.Expire(s.Claim(0))
	v := d.Claim("u", "l", 3)
	if v.Kind != Granted || !slices.Equal(d.Units(v.Op), []int64{1, 2, 3}) || d.commit.Ops[v.Op].GetClaim().GetHeldUntilUs() != 199 {
		t.Errorf("decision %d", v.Kind)
	}
	if v := d.Late(s.Claim(0), "p"); v.Kind != SettleRefundDue {
		t.Errorf("settlement %d for a user who has all that may be had", v.Kind)
	}
	if v := d.Claim("u", "m", 1); v.Kind != OverLimit {
		t.Errorf("decision %d", v.Kind)
	}
	MustCommit(t, s, d)
	if err := recount(s); err != nil {
		t.Error(err)
	}
	// What is retired is free for nobody, and its user may have others.
	s, d = drafted(t, 20)
	d.Confirm(s.Claim(0), "p")
	d.Refund(s.Claim(0), "ada", "", true)
	if v := d.Claim("u", "l", 3); v.Kind != Granted || !slices.Equal(d.Units(v.Op), []int64{3, 4, 5}) {
		t.Errorf("decision %d", v.Kind)
	}
	MustCommit(t, s, d)
	// A late payment takes other units where somebody has its own.
	s, d = drafted(t, 110)
	d.Expire(s.Claim(0))
	d.Claim("v", "k", 1)
	if v := d.Late(s.Claim(0), "p"); v.Kind != SettleDone || !slices.Equal(v.Claim.Units, []int64{2, 3}) {
		t.Errorf("settlement %d, units %v", v.Kind, v.Claim.Units)
	}
	MustCommit(t, s, d)
}

// What cannot be written is not.
func TestSettlementsThatAreNotWritten(t *testing.T) {
	s, d := drafted(t, 20)
	for name, v := range map[string]Settlement{
		"no claim":        d.Confirm(Claim{Slot: 3, Index: 1}, ""),
		"a slot to come":  d.Extend(Claim{Slot: 30}),
		"late, no claim":  d.Late(Claim{Slot: 30}, "p"),
		"a long payment":  d.Confirm(s.Claim(0), strings.Repeat("p", MaxPayment+1)),
		"no payment":      d.Confirm(s.Claim(0), "\xff"),
		"no text":         d.Cancel(s.Claim(0), "\xff", ""),
		"a long reason":   d.Cancel(s.Claim(0), "", strings.Repeat("r", MaxReason+1)),
		"no text as well": d.Refund(s.Claim(0), "", "\xff", true),
	} {
		if v.Kind != SettleInvalid || d.Ops() != 0 {
			t.Errorf("%s: settlement %d, %d ops", name, v.Kind, d.Ops())
		}
	}
	if err := d.Generation(GenerationOp(3, 0, PhaseSettings(pb.Phase_OPEN)).GetGeneration()); err != nil {
		t.Fatal(err)
	}
	if v := d.Expire(s.Claim(0)); v.Kind != SettleFull {
		t.Errorf("settlement %d behind a new generation", v.Kind)
	}
	MustFold(t, s, By(GenerationOp(3, 0, paying(3, &pb.Payment{HoldForUs: 1, Late: pb.Payment_REFUSE}))))
	d.Reset(20)
	if v := d.Extend(s.Claim(0)); v.Kind != SettleNoExtension {
		t.Errorf("settlement %d where nothing is extended", v.Kind)
	}
	d.Reset(110)
	if v := d.Late(s.Claim(0), "p"); v.Kind != SettleRefundDue || d.Ops() != 2 {
		t.Errorf("settlement %d where late payments are refused, %d ops", v.Kind, d.Ops())
	}
	_ = s.available.Add(Range{1, 1}) // as after a damage
	d.Reset(110)
	if v := d.Expire(s.Claim(0)); v.Kind != SettleInvalid || d.Ops() != 0 || d.after.Totals != s.Totals {
		t.Errorf("settlement %d of units in two places, totals %+v after %+v", v.Kind, d.after.Totals, s.Totals)
	}
}

// A late payment buys what there is to the last unit, and up to the limit.
func TestLateToTheLimit(t *testing.T) {
	s, d := drafted(t, 110)
	d.Expire(s.Claim(0))
	d.Claim("u", "l", 1)
	for i := 0; d.Available() > 2; i++ {
		d.Claim(fmt.Sprint("v", i), "k", 1)
	}
	if v := d.Late(s.Claim(0), "p"); v.Kind != SettleDone || d.Available() != 0 {
		t.Errorf("settlement %d, %d available", v.Kind, d.Available())
	}
	MustCommit(t, s, d)
	s, d = drafted(t, 110)
	d.size = entryBudget
	if v := d.Late(s.Claim(0), "p"); v.Kind != SettleFull || d.Ops() != 0 {
		t.Errorf("settlement %d of a full draft", v.Kind)
	}
}

// The size of a settlement is counted with all that it names.
func TestSettlementsAreCounted(t *testing.T) {
	const n = 3000
	s := NewState(testLog)
	mustGeneration(t, s, 2*n, n)
	mustOwn(t, s)
	d := s.Draft(TestOwner, 1)
	if err := d.Generation(&pb.Generation{Number: 2, Settings: paying(n, &pb.Payment{HoldForUs: 1, Late: pb.Payment_RESELL})}); err != nil {
		t.Fatal(err)
	}
	MustCommit(t, s, d)
	d.Reset(1)
	d.Claim("u", "k", n)
	MustCommit(t, s, d)
	d.Reset(2)
	if v := d.Late(s.Claim(0), strings.Repeat("p", MaxPayment)); v.Kind != SettleDone {
		t.Errorf("settlement %d", v.Kind)
	}
	if e := MustCommit(t, s, d); len(e.Bytes) > d.size {
		t.Errorf("the entry has %d bytes, %d were counted", len(e.Bytes), d.size)
	}
	d.Reset(2)
	for i := range n / 10 {
		d.Late(s.Claim(0), fmt.Sprintf("%0255d", i))
	}
	if e := MustCommit(t, s, d); len(e.Bytes) > d.size || d.Ops() != n/10 {
		t.Errorf("the entry of %d ops has %d bytes, %d were counted", d.Ops(), len(e.Bytes), d.size)
	}
}

// TestSettlementsFill cancels until the commit is full.
func TestSettlementsFill(t *testing.T) {
	const n = 2000
	s := NewState(testLog)
	mustGeneration(t, s, n, n)
	mustOwn(t, s)
	d := s.Draft(TestOwner, 1)
	if err := d.Generation(&pb.Generation{Number: 2, Settings: paying(n, &pb.Payment{HoldForUs: maxTerm, Late: pb.Payment_REFUSE})}); err != nil {
		t.Fatal(err)
	}
	MustCommit(t, s, d)
	d.Reset(1)
	for i := range n {
		d.Claim("u", fmt.Sprint(i), 1)
	}
	MustCommit(t, s, d)
	d.Reset(1)
	done := 0
	for ; d.Cancel(s.Claim(done), strings.Repeat("w", MaxWho), strings.Repeat("r", MaxReason)).Kind == SettleDone; done++ {
	}
	if v := d.Cancel(s.Claim(done), "", strings.Repeat("r", MaxReason)); v.Kind != SettleFull {
		t.Errorf("settlement %d after %d", v.Kind, done)
	}
	if v := d.Cancel(s.Claim(0), "", strings.Repeat("r", MaxReason)); v.Kind != SettleAlready {
		t.Errorf("settlement %d of what is in the full commit", v.Kind)
	}
	if e := MustCommit(t, s, d); len(e.Bytes) > d.size || d.size > entryBudget || len(e.Bytes) < entryBudget*9/10 {
		t.Errorf("the entry has %d bytes, %d were counted", len(e.Bytes), d.size)
	}
}

// The queue returns the earliest release first, whatever ended in between.
func TestDueInOrder(t *testing.T) {
	s := BegunState(t)
	if _, ok := s.NextDue(); ok || len(s.Due(1<<60, 9)) > 0 {
		t.Error("something is due")
	}
	MustFold(t, s, sells, By(heldFor("a", "k", 1), heldFor("b", "k", 2), heldFor("c", "k", 3)),
		By(GenerationOp(3, 0, paying(3, &pb.Payment{HoldForUs: 50, Late: pb.Payment_REFUSE}))).at(20),
		By(HoldOp("d", "k", 70, 4), HoldOp("e", "k", 70, 5)).at(20),
		By(GenerationOp(4, 0, paying(3, &pb.Payment{HoldForUs: 50, ExtendByUs: 100, Late: pb.Payment_REFUSE}))).at(20))
	users := func(timeUs int64, n int) (all string) {
		for _, c := range s.Due(timeUs, n) {
			all += c.User
		}
		return all
	}
	for _, test := range []struct {
		timeUs int64
		n      int
		want   string
	}{{69, 9, ""}, {70, 9, "de"}, {70, 1, "d"}, {109, 9, "de"}, {110, 9, "deabc"}, {110, 4, "deab"}, {110, 0, ""}} {
		if got := users(test.timeUs, test.n); got != test.want {
			t.Errorf("due at %d, of %d: %q, want %q", test.timeUs, test.n, got, test.want)
		}
	}
	d := s.Draft([]byte("a"), 20)
	d.Extend(s.Claim(3))
	d.Cancel(s.Claim(0), "", "")
	MustCommit(t, s, d)
	if next, _ := s.NextDue(); next != 70 || users(1000, 9) != "ebcd" {
		t.Errorf("next is %d, all are %q", next, users(1000, 9))
	}
}
