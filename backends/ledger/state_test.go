package ledger

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	pb "salectl/backends/ledger/ledgerpb"
)

// begun returns a shard of units 1 to 10, at most 3 a user, that "a" owns: its
// slots 0 and 1.
func BegunState(t testing.TB) *State {
	t.Helper()
	s := NewState(testLog)
	MustFold(t, s,
		By(GenerationOp(1, 0, PhaseSettings(pb.Phase_OPEN), Range{1, 10})).as("planner", 0).at(0),
		By(own()).at(5))
	return s
}

// pays has claims held for 89 us from here on: what is claimed at 10 has until 99.
var pays = By(GenerationOp(2, 0, paying(3, &pb.Payment{HoldForUs: 89, Late: pb.Payment_REFUSE})))

// figures are a shard's numbers in one line.
func figures(s *State) string {
	return fmt.Sprintf("limit %d: %d available, %d held, %d sold, %d in flight", s.Limit, s.Available, s.Held, s.Sold, s.InFlight)
}

func TestStateTakes(t *testing.T) {
	closed := By(GenerationOp(2, 0, PhaseSettings(pb.Phase_CLOSED))).as("planner", 1)
	closedLater := By(GenerationOp(3, 0, PhaseSettings(pb.Phase_CLOSED))).as("planner", 1)
	for name, test := range map[string]struct {
		commits []commit
		want    string
		check   func(*State) bool
	}{
		"a claim":                 {[]commit{By(ClaimOp("u", "k", 1, 2))}, "limit 10: 8 available, 0 held, 2 sold, 0 in flight", nil},
		"a claim, the last first": {[]commit{By(ClaimOp("u", "k", 3, 2)), By(ClaimOp("v", "l", 4))}, "limit 10: 7 available, 0 held, 3 sold, 0 in flight", nil},
		"the longest user and key": {[]commit{By(ClaimOp(strings.Repeat("u", maxText), strings.Repeat("k", maxText), 1))}, "limit 10: 9 available, 0 held, 1 sold, 0 in flight", func(s *State) bool {
			_, ok := s.Find(strings.Repeat("u", maxText), strings.Repeat("k", maxText))
			return ok
		}},
		"a claim of any units":      {[]commit{By(ClaimOp("u", "k", 9, 2, 5))}, "limit 10: 7 available, 0 held, 3 sold, 0 in flight", nil},
		"claims up to the limit":    {[]commit{By(ClaimOp("u", "k", 1), ClaimOp("u", "l", 2)), By(ClaimOp("u", "m", 3))}, "limit 10: 7 available, 0 held, 3 sold, 0 in flight", nil},
		"the last unit":             {[]commit{By(ClaimOp("u", "k", 1, 2, 3), ClaimOp("v", "k", 4, 5, 6), ClaimOp("w", "k", 7, 8, 9), ClaimOp("x", "k", 10))}, "limit 10: 0 available, 0 held, 10 sold, 0 in flight", nil},
		"one key of two users":      {[]commit{By(ClaimOp("u", "k", 1), ClaimOp("v", "k", 2))}, "limit 10: 8 available, 0 held, 2 sold, 0 in flight", nil},
		"the same request again":    {[]commit{By(ClaimOp("u", "k", 1)), By(ClaimOp("u", "k", 2))}, "limit 10: 9 available, 0 held, 1 sold, 0 in flight", nil},
		"the same in one commit":    {[]commit{By(ClaimOp("u", "k", 1), ClaimOp("u", "k", 1))}, "limit 10: 9 available, 0 held, 1 sold, 0 in flight", nil},
		"the same when closed":      {[]commit{By(ClaimOp("u", "k", 1)), closed, By(ClaimOp("u", "k", 2))}, "limit 10: 9 available, 0 held, 1 sold, 0 in flight", nil},
		"a new owner":               {[]commit{By(own()).as("b", 2), By(ClaimOp("u", "k", 1)).as("b", 2)}, "limit 10: 9 available, 0 held, 1 sold, 0 in flight", func(s *State) bool { return s.Epoch == 2 && s.IsOwner([]byte("b")) && !s.IsOwner([]byte("a")) }},
		"an owner and its claim":    {[]commit{By(own(), ClaimOp("u", "k", 1)).as("b", 2)}, "limit 10: 9 available, 0 held, 1 sold, 0 in flight", nil},
		"a hold":                    {[]commit{pays, By(HoldOp("u", "k", 99, 1, 2))}, "limit 10: 8 available, 2 held, 0 sold, 0 in flight", func(s *State) bool { return s.UserUnits("u") == 2 }},
		"a hold paid":               {[]commit{pays, By(HoldOp("u", "k", 99, 1)), By(SettleOp(3, 0, pb.Settle_CONFIRM)).at(98)}, "limit 10: 9 available, 0 held, 1 sold, 0 in flight", func(s *State) bool { return s.Claim(0).State == StateSold && s.Claim(0).HeldUntilUs == 99 }},
		"a hold cancelled":          {[]commit{pays, By(HoldOp("u", "k", 99, 1, 3)), By(SettleOp(3, 0, pb.Settle_CANCEL))}, "limit 10: 10 available, 0 held, 0 sold, 0 in flight", func(s *State) bool { return s.Claim(0).State == StateCancelled && s.UserUnits("u") == 0 }},
		"a hold expired":            {[]commit{pays, By(HoldOp("u", "k", 99, 1)), By(SettleOp(3, 0, pb.Settle_EXPIRE)).at(99)}, "limit 10: 10 available, 0 held, 0 sold, 0 in flight", func(s *State) bool { return s.Claim(0).State == StateExpired }},
		"only the first settle":     {[]commit{pays, By(HoldOp("u", "k", 99, 1)), By(SettleOp(3, 0, pb.Settle_CONFIRM)), By(SettleOp(3, 0, pb.Settle_CANCEL)), By(SettleOp(3, 0, pb.Settle_EXPIRE)).at(100)}, "limit 10: 9 available, 0 held, 1 sold, 0 in flight", nil},
		"no settle of a sale":       {[]commit{By(ClaimOp("u", "k", 1)), By(SettleOp(2, 0, pb.Settle_CANCEL))}, "limit 10: 9 available, 0 held, 1 sold, 0 in flight", nil},
		"a unit after its hold":     {[]commit{pays, By(HoldOp("u", "k", 99, 1)), By(SettleOp(3, 0, pb.Settle_CANCEL), HoldOp("v", "k", 99, 1))}, "limit 10: 9 available, 1 held, 0 sold, 0 in flight", func(s *State) bool { return s.Claim(0).Units[0] == 1 && s.Claim(1).Units[0] == 1 }},
		"a settle when closed":      {[]commit{pays, By(HoldOp("u", "k", 99, 1)), closedLater, By(SettleOp(3, 0, pb.Settle_CONFIRM)).as("planner", 1)}, "limit 10: 9 available, 0 held, 1 sold, 0 in flight", nil},
		"a transfer out":            {[]commit{By(OutOp(3, 1, Range{8, 3}))}, "limit 10: 7 available, 0 held, 0 sold, 3 in flight", func(s *State) bool { o, ok := s.OpenTo(3); return ok && o.K == 1 && len(s.Open()) == 1 }},
		"a transfer and its ack":    {[]commit{By(OutOp(3, 1, Range{8, 3})), By(AckOp(3, 1)), By(AckOp(3, 1))}, "limit 10: 7 available, 0 held, 0 sold, 0 in flight", func(s *State) bool { _, open := s.OpenTo(3); return !open && len(s.Open()) == 0 }},
		"the next transfer":         {[]commit{By(OutOp(3, 1, Range{10, 1})), By(AckOp(3, 1), OutOp(3, 2, Range{9, 1}))}, "limit 10: 8 available, 0 held, 0 sold, 1 in flight", nil},
		"an old ack again":          {[]commit{By(OutOp(3, 1, Range{10, 1})), By(AckOp(3, 1), OutOp(3, 2, Range{9, 1})), By(AckOp(3, 1))}, "limit 10: 8 available, 0 held, 0 sold, 1 in flight", nil},
		"transfers to two":          {[]commit{By(OutOp(3, 1, Range{10, 1}), OutOp(4, 1, Range{9, 1}))}, "limit 10: 8 available, 0 held, 0 sold, 2 in flight", nil},
		"a transfer in":             {[]commit{By(InOp(3, 1, Range{50, 2}))}, "limit 10: 12 available, 0 held, 0 sold, 0 in flight", func(s *State) bool { return s.Received(3) == 1 && s.Received(4) == 0 }},
		"a transfer in, twice":      {[]commit{By(InOp(3, 1, Range{50, 2})), By(ClaimOp("u", "k", 50)), By(InOp(3, 1, Range{50, 2}))}, "limit 10: 11 available, 0 held, 1 sold, 0 in flight", nil},
		"a transfer in, claimed":    {[]commit{By(InOp(3, 1, Range{50, 2}), ClaimOp("u", "k", 50))}, "limit 10: 11 available, 0 held, 1 sold, 0 in flight", nil},
		"in and ack when closed":    {[]commit{By(OutOp(3, 1, Range{10, 1})), closed, By(InOp(3, 1, Range{50, 1}), AckOp(3, 1)).as("planner", 1)}, "limit 10: 10 available, 0 held, 0 sold, 0 in flight", nil},
		"a generation":              {[]commit{By(GenerationOp(2, 0, PhaseSettings(pb.Phase_OPEN), Range{11, 5})).as("planner", 1)}, "limit 15: 15 available, 0 held, 0 sold, 0 in flight", func(s *State) bool { return s.Generation == 2 }},
		"a generation again":        {[]commit{By(GenerationOp(2, 0, PhaseSettings(pb.Phase_OPEN), Range{11, 5})), By(GenerationOp(2, 0, PhaseSettings(pb.Phase_OPEN), Range{11, 5})), By(GenerationOp(1, 0, PhaseSettings(pb.Phase_OPEN), Range{1, 10}))}, "limit 15: 15 available, 0 held, 0 sold, 0 in flight", nil},
		"a removal":                 {[]commit{By(GenerationOp(2, 4, PhaseSettings(pb.Phase_OPEN))), By(ClaimOp("u", "k", 6))}, "limit 6: 5 available, 0 held, 1 sold, 0 in flight", nil},
		"a removal of too many":     {[]commit{By(ClaimOp("u", "k", 1, 2, 3)), By(GenerationOp(2, 8, PhaseSettings(pb.Phase_OPEN)))}, "limit 3: 0 available, 0 held, 3 sold, 0 in flight", nil},
		"a removal of the new":      {[]commit{By(GenerationOp(2, 1, PhaseSettings(pb.Phase_OPEN), Range{11, 1}))}, "limit 10: 10 available, 0 held, 0 sold, 0 in flight", func(s *State) bool { return s.available[0].End() == 11 }},
		"a shortfall forgotten":     {[]commit{By(GenerationOp(2, 99, PhaseSettings(pb.Phase_OPEN))), By(GenerationOp(3, 0, PhaseSettings(pb.Phase_OPEN), Range{11, 1}))}, "limit 1: 1 available, 0 held, 0 sold, 0 in flight", nil},
		"a seal":                    {[]commit{By(ClaimOp("u", "k", 1)), closed, By(seal()).as("planner", 1)}, "limit 10: 9 available, 0 held, 1 sold, 0 in flight", func(s *State) bool { return s.Sealed() && s.Phase == PhaseSealed }},
		"commits of one time":       {[]commit{By(ClaimOp("u", "k", 1)).at(20), By(ClaimOp("v", "k", 2)).at(20)}, "limit 10: 8 available, 0 held, 2 sold, 0 in flight", nil},
		"a claim as it opens":       {[]commit{By(GenerationOp(2, 0, &pb.Settings{PerUserLimit: 1, Phase: pb.Phase_OPEN, OpensAtUs: 50, ClosesAtUs: 60})), By(ClaimOp("u", "k", 1)).at(50), By(ClaimOp("v", "k", 2)).at(59)}, "limit 10: 8 available, 0 held, 2 sold, 0 in flight", nil},
		"a claim after a pause":     {[]commit{By(GenerationOp(2, 0, PhaseSettings(pb.Phase_PAUSED))), By(GenerationOp(3, 0, PhaseSettings(pb.Phase_OPEN))), By(ClaimOp("u", "k", 1))}, "limit 10: 9 available, 0 held, 1 sold, 0 in flight", nil},
		"a transfer during pause":   {[]commit{By(GenerationOp(2, 0, PhaseSettings(pb.Phase_PAUSED))), By(OutOp(3, 1, Range{10, 1}))}, "limit 10: 9 available, 0 held, 0 sold, 1 in flight", nil},
		"a limit below what is had": {[]commit{By(ClaimOp("u", "k", 1, 2, 3)), By(GenerationOp(2, 0, OpenSettings(1)))}, "limit 10: 7 available, 0 held, 3 sold, 0 in flight", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := BegunState(t)
			MustFold(t, s, test.commits...)
			if got := figures(s); got != test.want {
				t.Errorf("%s\nwant %s", got, test.want)
			}
			if test.check != nil && !test.check(s) {
				t.Errorf("the state is %+v", s)
			}
			if err := recount(s); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStateRefuses(t *testing.T) {
	closed := By(GenerationOp(2, 0, PhaseSettings(pb.Phase_CLOSED)))
	closedLater := By(GenerationOp(3, 0, PhaseSettings(pb.Phase_CLOSED)))
	hours := By(GenerationOp(2, 0, &pb.Settings{PerUserLimit: 1, Phase: pb.Phase_OPEN, OpensAtUs: 50, ClosesAtUs: 60}))
	for name, test := range map[string]struct {
		before []commit
		commit commit
		want   string
	}{
		"a unit twice":                   {[]commit{By(ClaimOp("u", "k", 1))}, By(ClaimOp("v", "k", 1)), "units 1 are not here"},
		"a unit twice in one commit":     {nil, By(ClaimOp("u", "k", 1), ClaimOp("v", "k", 1)), "units 1 are not here"},
		"a unit twice in one claim":      {nil, By(ClaimOp("u", "k", 1, 1)), "units 1 are not here"},
		"a unit never dealt":             {nil, By(ClaimOp("u", "k", 11)), "units 11 are not here"},
		"a unit that was removed":        {[]commit{By(GenerationOp(2, 1, PhaseSettings(pb.Phase_OPEN)))}, By(ClaimOp("u", "k", 10)), "units 10 are not here"},
		"a unit that is held":            {[]commit{pays, By(HoldOp("u", "k", 99, 1))}, By(HoldOp("v", "k", 99, 1)), "units 1 are not here"},
		"a unit that was sent":           {[]commit{By(OutOp(3, 1, Range{10, 1}))}, By(ClaimOp("u", "k", 10)), "units 10 are not here"},
		"a unit that came when sent":     {nil, By(InOp(3, 1, Range{10, 1})), "units 10 are here already"},
		"a generation's unit again":      {nil, By(GenerationOp(2, 0, PhaseSettings(pb.Phase_OPEN), Range{10, 2})), "units 10-11 are here already"},
		"a claim for nothing":            {nil, By(ClaimOp("u", "k")), "a claim for nothing"},
		"the limit in one claim":         {nil, By(ClaimOp("u", "k", 1, 2, 3, 4)), `user "u" has 0 units and may not have 4 more`},
		"the limit in one commit":        {nil, By(ClaimOp("u", "k", 1, 2), ClaimOp("u", "l", 3, 4)), `user "u" has 2 units and may not have 2 more`},
		"the limit later":                {[]commit{By(ClaimOp("u", "k", 1, 2, 3))}, By(ClaimOp("u", "l", 4)), `user "u" has 3 units and may not have 1 more`},
		"the limit with a hold":          {[]commit{pays, By(HoldOp("u", "k", 99, 1, 2, 3))}, By(ClaimOp("u", "l", 4)), `user "u" has 3 units and may not have 1 more`},
		"a limit that was lowered":       {[]commit{By(ClaimOp("u", "k", 1, 2)), By(GenerationOp(2, 0, OpenSettings(1)))}, By(ClaimOp("u", "l", 4)), `user "u" has 2 units and may not have 1 more`},
		"a user beyond measure":          {nil, By(ClaimOp(strings.Repeat("u", maxText+1), "k", 1)), "more than 65535 bytes"},
		"a claim by a stranger":          {nil, By(ClaimOp("u", "k", 1)).as("b", 1), "not the owner"},
		"a claim by the last owner":      {[]commit{By(own()).as("b", 2)}, By(ClaimOp("u", "k", 1)), "written under epoch 1, the shard is at 2"},
		"a false claim of ownership":     {[]commit{By(own()).as("b", 2)}, By(ClaimOp("u", "k", 1)).as("a", 2), "not the owner"},
		"a claim before its owner":       {nil, By(ClaimOp("u", "k", 1), own()).as("b", 2), "written under epoch 2, the shard is at 1"},
		"an owner of the same epoch":     {nil, By(own()).as("b", 1), "an owner takes epoch 2, not 1"},
		"an owner of a later epoch":      {nil, By(own()).as("b", 3), "an owner takes epoch 2, not 3"},
		"a planner of an old epoch":      {[]commit{By(own()).as("b", 2)}, By(GenerationOp(2, 0, PhaseSettings(pb.Phase_OPEN))).as("planner", 1), "written under epoch 1"},
		"a claim when paused":            {[]commit{By(GenerationOp(2, 0, PhaseSettings(pb.Phase_PAUSED)))}, By(ClaimOp("u", "k", 1)), "the sale is paused"},
		"a claim when closed":            {[]commit{closed}, By(ClaimOp("u", "k", 1)), "the sale is closed"},
		"a claim behind its close":       {nil, By(GenerationOp(2, 0, PhaseSettings(pb.Phase_CLOSED)), ClaimOp("u", "k", 1)), "the sale is closed"},
		"a claim before it opens":        {[]commit{hours}, By(ClaimOp("u", "k", 1)).at(49), "the sale is not open yet"},
		"a claim as it closes":           {[]commit{hours}, By(ClaimOp("u", "k", 1)).at(60), "the sale is closed"},
		"a generation skipped":           {nil, By(GenerationOp(3, 0, PhaseSettings(pb.Phase_OPEN))), "generation 3 after 1"},
		"a negative removal":             {nil, By(GenerationOp(2, -1, PhaseSettings(pb.Phase_OPEN))), "cannot remove -1 units"},
		"a generation's unit twice":      {nil, By(GenerationOp(2, 0, PhaseSettings(pb.Phase_OPEN), Range{11, 2}, Range{12, 1})), "units 12 are here already"},
		"a transfer by a stranger":       {nil, By(OutOp(3, 1, Range{10, 1})).as("b", 1), "not the owner"},
		"a transfer when closed":         {[]commit{closed}, By(OutOp(3, 1, Range{10, 1})), "a transfer out of a closed shard"},
		"a transfer beside another":      {[]commit{By(OutOp(3, 1, Range{10, 1}))}, By(OutOp(3, 2, Range{9, 1})), "transfer 2 to shard 3 while 0 of 1 are acknowledged"},
		"a transfer again":               {[]commit{By(OutOp(3, 1, Range{10, 1})), By(AckOp(3, 1))}, By(OutOp(3, 1, Range{9, 1})), "transfer 1 to shard 3 while 1 of 1"},
		"a transfer skipped":             {nil, By(OutOp(3, 2, Range{10, 1})), "transfer 2 to shard 3 while 0 of 0"},
		"a transfer of sold units":       {[]commit{By(ClaimOp("u", "k", 9))}, By(OutOp(3, 1, Range{8, 3})), "units 8-10 are not here"},
		"a transfer in, skipped":         {nil, By(InOp(3, 2, Range{50, 1})), "transfer 2 from shard 3 after 0"},
		"a transfer of a unit twice":     {nil, By(OutOp(3, 1, Range{10, 1}, Range{10, 1})), "units 10 are here already"},
		"a transfer in, of a unit twice": {nil, By(InOp(3, 1, Range{50, 1}, Range{50, 1})), "units 50 are here already"},
		"an ack of nothing":              {nil, By(AckOp(3, 1)), "transfer 1 to shard 3 is acknowledged, 0 were sent"},
		"a payment at the deadline":      {[]commit{pays, By(HoldOp("u", "k", 99, 1))}, By(SettleOp(3, 0, pb.Settle_CONFIRM)).at(99), "CONFIRM of a claim that is held, at 99, to be released at 99"},
		"an expiry too early":            {[]commit{pays, By(HoldOp("u", "k", 99, 1))}, By(SettleOp(3, 0, pb.Settle_EXPIRE)).at(98), "EXPIRE of a claim that is held, at 98, to be released at 99"},
		"a settle of no kind":            {[]commit{pays, By(HoldOp("u", "k", 99, 1))}, By(SettleOp(3, 0, 0)), "settled in a way that is not known: 0"},
		"a settle of no claim":           {[]commit{pays, By(HoldOp("u", "k", 99, 1))}, By(SettleOp(3, 1, pb.Settle_CANCEL)), "no claim stands at slot 3, op 1"},
		"a settle of another slot":       {[]commit{pays, By(InOp(3, 1, Range{50, 1})), By(HoldOp("u", "k", 99, 1))}, By(SettleOp(3, 0, pb.Settle_CANCEL)), "no claim stands at slot 3, op 0"},
		"a seal while open":              {nil, By(seal()), "a seal on a shard that is open"},
		"a seal during a transfer":       {[]commit{By(OutOp(3, 1, Range{10, 1})), closed}, By(seal()), "with 1 unit in flight and 0 held"},
		"a seal during a hold":           {[]commit{pays, By(HoldOp("u", "k", 99, 1)), closedLater}, By(seal()), "with 0 units in flight and 1 held"},
		"nothing after the seal":         {[]commit{closed, By(seal())}, By(), "a commit after the seal"},
		"an owner after the seal":        {[]commit{closed, By(seal())}, By(own()).as("b", 2), "a commit after the seal"},
		"a transfer in after a seal":     {[]commit{closed, By(seal())}, By(InOp(3, 1, Range{50, 1})), "a commit after the seal"},
		"an op behind the seal":          {[]commit{closed}, By(seal(), InOp(3, 1, Range{50, 1})), "it comes after the seal"},
		"an op of a sale's log":          {nil, By(&pb.Op{Op: &pb.Op_Applied{Applied: &pb.Applied{}}}), "of a kind that no shard has"},
		"an op from the future":          {nil, By(&pb.Op{}), "of a kind that no shard has"},
	} {
		t.Run(name, func(t *testing.T) {
			s := BegunState(t)
			MustFold(t, s, test.before...)
			_, err := FoldCommit(s, test.commit)
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestStateBegins(t *testing.T) {
	for name, first := range map[string]commit{
		"with an owner":      By(own()),
		"with a seal":        By(seal()).as("a", 0),
		"with a transfer":    By(InOp(3, 1, Range{50, 1})).as("a", 0),
		"with generation 2":  By(GenerationOp(2, 0, PhaseSettings(pb.Phase_OPEN), Range{1, 1})).as("a", 0),
		"in a later epoch":   By(GenerationOp(1, 0, PhaseSettings(pb.Phase_OPEN), Range{1, 1})),
		"with a stray claim": By(GenerationOp(1, 0, PhaseSettings(pb.Phase_OPEN), Range{1, 1}), ClaimOp("u", "k", 1)).as("", 0),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := FoldCommit(NewState(testLog), first); !errors.Is(err, ErrCorrupt) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// recount counts a shard's units one by one, from its claims, transfers and
// what is available, and compares with its totals.
func recount(s *State) error {
	places := make(map[int64]string)
	counts := make(map[string]int64)
	put := func(unit int64, where string) error {
		if was, taken := places[unit]; taken {
			return fmt.Errorf("unit %d is %s and %s", unit, was, where)
		}
		places[unit] = where
		counts[where]++
		return nil
	}
	var errs []error
	users := make(map[string]int64)
	for i := range s.Claims() {
		c := s.Claim(i)
		users[c.User] += 0
		if c.State == StateSold || c.State == StateHeld {
			users[c.User] += int64(len(c.Units))
			for _, unit := range c.Units {
				errs = append(errs, put(unit, c.State.String()))
			}
		}
	}
	for user, units := range users {
		if got := s.UserUnits(user); got != units {
			errs = append(errs, fmt.Errorf("user %q has %d units, counted %d", user, units, got))
		}
	}
	for _, r := range s.available {
		for unit := r.First; unit < r.End(); unit++ {
			errs = append(errs, put(unit, "available"))
		}
	}
	for _, transfer := range s.Open() {
		counts["inFlight"] += transfer.Units.Count()
	}
	got := [...]int64{s.Available, s.Held, s.Sold, s.InFlight}
	if want := [...]int64{counts["available"], counts["held"], counts["sold"], counts["inFlight"]}; got != want {
		errs = append(errs, fmt.Errorf("available, held, sold, in flight are %v, counted %v", got, want))
	}
	return errors.Join(errs...)
}

// A state knows the size of its log, and users who have nothing.
func TestStateMeasures(t *testing.T) {
	s, entries := MustOpenShard(t, 10, 5)
	size := 0
	for _, e := range entries {
		size += len(e.Bytes)
	}
	if s.Bytes() != int64(size) {
		t.Errorf("%d bytes, the entries have %d", s.Bytes(), size)
	}
	MustFold(t, s, By(ClaimOp("u", "k", 1)).as(string(TestOwner), 1))
	if s.UserUnits("u") != 1 || s.UserUnits("v") != 0 {
		t.Errorf("u has %d units, v has %d", s.UserUnits("u"), s.UserUnits("v"))
	}
	if _, ok := s.Find("v", "k"); ok {
		t.Error("found a claim of v")
	}
}

// Holds are returned in the order in which they were accepted, and end when they are
// due, once.
func TestHoldsEnd(t *testing.T) {
	s := BegunState(t)
	if holds := s.Holds(); len(holds) != 0 {
		t.Errorf("holds %+v", holds)
	}
	MustFold(t, s, By(ClaimOp("w", "k", 5)), pays, By(HoldOp("u", "k", 99, 1, 3)), By(HoldOp("v", "k", 100, 4), HoldOp("x", "k", 100, 6)).at(11),
		By(SettleOp(5, 1, pb.Settle_CANCEL)).at(11))
	holds := s.Holds()
	if len(holds) != 2 || holds[0].User != "u" || holds[1].User != "v" {
		t.Fatalf("holds %+v", holds)
	}
	d := s.Draft([]byte("a"), 99)
	left := d.Available()
	sold, _ := s.Find("w", "k")
	cancelled, _ := s.Find("x", "k")
	for i, test := range []struct {
		claim Claim
		want  SettlementKind
	}{{holds[1], SettleHeld}, {sold, SettleSold}, {cancelled, SettleCancelled}, {holds[0], SettleDone}, {holds[0], SettleAlready}} {
		if v := d.Expire(test.claim); v.Kind != test.want {
			t.Errorf("%d: settlement %d, want %d", i, v.Kind, test.want)
		}
	}
	if d.Available() != left+2 || d.Ops() != 1 {
		t.Errorf("%d units are available, were %d, %d ops", d.Available(), left, d.Ops())
	}
	e := MustCommit(t, s, d)
	if head, err := ParseHead(e.Head); err != nil || head != s.Head() {
		t.Errorf("the head is %+v, %v, the state's %+v", head, err, s.Head())
	}
	if holds := s.Holds(); len(holds) != 1 || s.Held != 1 || s.OpenHolds != 1 {
		t.Errorf("holds %+v, %d held", holds, s.Held)
	}
}
