package ledger

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	pb "salectl/backends/ledger/ledgerpb"
)

// TestDraftFills grants claims until the commit is full: it must stay below
// MaxEntry, with a transfer that is as scattered as it may be on top.
func TestDraftFills(t *testing.T) {
	const scattered = 3 * MaxRanges
	s, _ := MustOpenShard(t, 10_000_000, math.MaxInt64)
	var units Units
	for i := range int64(scattered) {
		units = append(units, Range{math.MaxInt64/2 + 2*i, 1}) // the widest numbers
	}
	d := s.Draft(TestOwner, 30)
	if err := d.In(1, 1, units[:MaxRanges]); err != nil {
		t.Fatal(err)
	}
	full := 0
	for i := 0; full == 0; i++ {
		if v := d.Claim(fmt.Sprintf("%0255d", i), strings.Repeat("k", 255), 1000); v.Kind == Full {
			full = i
		}
	}
	d.Out(2, scattered)
	e := MustCommit(t, s, d)
	if len(e.Bytes) > MaxEntry || len(e.Bytes) > d.size {
		t.Errorf("the entry has %d bytes, %d were counted", len(e.Bytes), d.size)
	}
	if v := s.Draft(TestOwner, 31).Claim("next", "k", 1); full == 0 || v.Kind != Granted {
		t.Errorf("the next commit decides %v for a claim after %d", v.Kind, full)
	}
}

func TestDraftOutIsBounded(t *testing.T) {
	s, _ := MustOpenShard(t, 1, 1)
	for i := range int64(MaxRanges + 10) {
		if err := s.available.Add(Range{10 + 2*i, 1}); err != nil {
			t.Fatal(err)
		}
		s.Available, s.Limit = s.Available+1, s.Limit+1
	}
	d := s.Draft(TestOwner, 30)
	if sent := d.Out(1, math.MaxInt64); len(sent.Units) != MaxRanges || d.Available() != 11 {
		t.Errorf("%d ranges were sent, %d units are left", len(sent.Units), d.Available())
	}
	MustCommit(t, s, d)
}

// TestDraftReset checks that what a claim was granted outlives the draft's next
// commits, while nothing else of the old commit comes back.
func TestDraftReset(t *testing.T) {
	s, _ := MustOpenShard(t, 1000, 3)
	d := s.Draft(TestOwner, 30)
	var granted [][]int64
	for commit := range 20 {
		d.Reset(int64(30 + commit))
		for i := range 7 {
			v := d.Claim(fmt.Sprint("u", commit, "-", i), "k", 3)
			granted = append(granted, d.Units(v.Op))
		}
		if commit%3 == 2 {
			continue // the store refused it
		}
		e := MustCommit(t, s, d)
		if n := len(e.Commit.GetOps()); n != 7 {
			t.Fatalf("commit %d has %d ops", commit, n)
		}
	}
	for i := range s.Claims() {
		c := s.Claim(i)
		var commit, n int
		if _, err := fmt.Sscanf(c.User, "u%d-%d", &commit, &n); err != nil {
			t.Fatal(err)
		}
		if got := granted[7*commit+n]; !slices.Equal(got, c.Units) {
			t.Errorf("%s was granted %v and has %v", c.User, got, c.Units)
		}
	}
	_ = append(granted[0], -1) // must not reach the units of the next claim
	if granted[1][0] < 0 {
		t.Error("the units of two claims share memory")
	}
}

func TestDraftVerdicts(t *testing.T) {
	for name, test := range map[string]struct {
		settings *pb.Settings
		quantity int64
		want     DecisionKind
		why      Refusal
	}{
		"granted":        {OpenSettings(5), 4, Granted, Allowed},
		"over the limit": {OpenSettings(5), 5, OverLimit, Allowed},
		"beyond int64":   {OpenSettings(5), math.MaxInt64, OverLimit, Allowed},
		"all that is":    {OpenSettings(math.MaxInt64), math.MaxInt64 - 1, Short, Allowed},
		"beyond all":     {OpenSettings(math.MaxInt64), math.MaxInt64, OverLimit, Allowed},
		"short":          {OpenSettings(50), 11, Short, Allowed},
		"paused":         {PhaseSettings(pb.Phase_PAUSED), 1, NotNow, RefusedPaused},
		"closed":         {PhaseSettings(pb.Phase_CLOSED), 1, NotNow, RefusedClosed},
		"not open yet":   {&pb.Settings{PerUserLimit: 1, Phase: pb.Phase_OPEN, OpensAtUs: 31}, 1, NotNow, RefusedNotYet},
		"over":           {&pb.Settings{PerUserLimit: 1, Phase: pb.Phase_OPEN, ClosesAtUs: 30}, 1, NotNow, RefusedClosed},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := MustOpenShard(t, 10, 5)
			d := s.Draft(TestOwner, 20)
			d.Claim("u", "first", 1)
			if err := d.Generation(&pb.Generation{Number: 2, Settings: test.settings}); err != nil {
				t.Fatal(err)
			}
			MustCommit(t, s, d)
			v := s.Draft(TestOwner, 30).Claim("u", "k", test.quantity)
			if v.Kind != test.want || v.Refusal != test.why {
				t.Errorf("decision %d, %q, want %d, %q", v.Kind, v.Refusal, test.want, test.why)
			}
			recalled, known := s.Recall("u", "k", test.quantity, 30, Demand{})
			if want := test.want != Granted && test.want != Short; known != want || known && recalled.Kind != v.Kind {
				t.Errorf("recalled %d (%v), the draft has %d", recalled.Kind, known, v.Kind)
			}
			if s.refusal(s.commitTime(30)) != test.why {
				t.Errorf("the refusal is %q", s.refusal(s.commitTime(30)))
			}
		})
	}
}

// A request that has its claim in the log gets that again, also when no more is sold, and
// its key is good for nothing else.
func TestRequestsThatTheLogHas(t *testing.T) {
	for name, test := range map[string]struct {
		settings *pb.Settings
		user     string
		quantity int64
		want     DecisionKind
	}{
		"again":                    {OpenSettings(2), "u", 2, Replay},
		"again, after the end":     {PhaseSettings(pb.Phase_CLOSED), "u", 2, Replay},
		"for more":                 {OpenSettings(5), "u", 3, KeyReused},
		"for less":                 {OpenSettings(5), "u", 1, KeyReused},
		"for more, past the limit": {OpenSettings(2), "u", 3, KeyReused},
		"for more, after the end":  {PhaseSettings(pb.Phase_CLOSED), "u", 3, KeyReused},
		"of another user":          {OpenSettings(5), "v", 3, Granted},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := MustOpenShard(t, 10, 5)
			d := s.Draft(TestOwner, 20)
			d.Claim("u", "k", 2)
			if err := d.Generation(&pb.Generation{Number: 2, Settings: test.settings}); err != nil {
				t.Fatal(err)
			}
			MustCommit(t, s, d)
			recalled, known := s.Recall(test.user, "k", test.quantity, 30, Demand{})
			drafted := s.Draft(TestOwner, 30).Claim(test.user, "k", test.quantity)
			if known != (test.want != Granted) || recalled.Kind != test.want || drafted.Kind != test.want {
				t.Errorf("recalled %d (%v), drafted %d, want %d", recalled.Kind, known, drafted.Kind, test.want)
			}
			if first := s.Claim(0); test.want == Replay && !(slices.Equal(recalled.Claim.Units, first.Units) && slices.Equal(drafted.Claim.Units, first.Units)) {
				t.Errorf("recalled %v, drafted %v, the claim was given %v", recalled.Claim.Units, drafted.Claim.Units, first.Units)
			}
		})
	}
}

// A claim whose texts do not fit into the commit any more is for the next one.
func TestDraftThatIsFull(t *testing.T) {
	for name, test := range map[string]struct {
		user, key int
		want      DecisionKind
	}{
		"of a user that fills it": {entryBudget - 64, 1, Full},
		"of a key that fills it":  {1, entryBudget - 64, Full},
		"of texts that just fit":  {entryBudget/2 - 100, entryBudget/2 - 100, Granted},
	} {
		s, _ := MustOpenShard(t, 10, 5)
		if v := s.Draft(TestOwner, 30).Claim(strings.Repeat("u", test.user), strings.Repeat("k", test.key), 1); v.Kind != test.want {
			t.Errorf("%s: decision %d, want %d", name, v.Kind, test.want)
		}
	}
}

// TestClockBehindTheLog drafts with a clock that is behind the last commit: the next
// commit's time is that of the log.
func TestClockBehindTheLog(t *testing.T) {
	s := NewState(testLog)
	hours := &pb.Settings{PerUserLimit: 1, Phase: pb.Phase_OPEN, OpensAtUs: 50, ClosesAtUs: 60}
	MustFold(t, s,
		By(GenerationOp(1, 0, hours, Range{1, 10})).as("planner", 0),
		By(own()).as(string(TestOwner), 1).at(55))
	if v, known := s.Recall("u", "k", 1, 40, Demand{}); known || s.refusal(s.commitTime(40)) != Allowed {
		t.Errorf("recalled %+v", v)
	}
	d := s.Draft(TestOwner, 40)
	if v := d.Claim("u", "k", 1); v.Kind != Granted || d.TimeUs() != 55 {
		t.Errorf("decision %d at %d", v.Kind, d.TimeUs())
	}
	MustCommit(t, s, d)
}

// TestDraftLeavesState drafts one op of each kind while readers read the
// state. The race detector watches.
func TestDraftLeavesState(t *testing.T) {
	s, _ := MustOpenShard(t, 100, 5)
	before := Observe(s)
	done := make(chan string)
	go func() {
		text := ""
		for range 100 {
			text = Observe(s)
		}
		done <- text
	}()
	d := s.Draft(TestOwner, 30)
	d.Claim("u", "k", 2)
	d.Out(4, 3)
	d.Ack(5, 1)
	if err := d.In(6, 1, Units{{500, 2}}); err != nil {
		t.Fatal(err)
	}
	if err := d.Generation(&pb.Generation{Number: 2, Remove: 5, Settings: OpenSettings(1)}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Encode(); err != nil {
		t.Fatal(err)
	}
	if during := <-done; during != before || Observe(s) != before {
		t.Errorf("the state was\n%s\nand is\n%s", before, Observe(s))
	}
}

// TestDraftAfterRemoval sends units in the commit that removes others: those
// that are gone must not be sent.
func TestDraftAfterRemoval(t *testing.T) {
	s, _ := MustOpenShard(t, 10, 5)
	d := s.Draft(TestOwner, 30)
	if err := d.Generation(&pb.Generation{Number: 2, Remove: 4, Settings: OpenSettings(5)}); err != nil {
		t.Fatal(err)
	}
	if sent := d.Out(1, 3); !slices.Equal(sent.Units, Units{{4, 3}}) {
		t.Errorf("sent %v", sent.Units)
	}
	MustCommit(t, s, d)
}

// Of the units that a generation takes out by name those go that are available. The others
// stay whose they are, and fall short. What was dropped comes back if it is named again.
func TestDraftOfNamedRemoval(t *testing.T) {
	s, _ := MustOpenShard(t, 10, 5)
	d := s.Draft(TestOwner, 30)
	d.Claim("u", "k", 2) // units 1 and 2
	MustCommit(t, s, d)
	d = s.Draft(TestOwner, 31)
	op := &pb.Generation{
		Number: 2, Settings: OpenSettings(5), Remove: 1, Add: []*pb.Range{{First: 30, Count: 2}},
		Drop: []*pb.Range{{First: 2, Count: 2}, {First: 7, Count: 1}, {First: 99, Count: 1}, {First: 30, Count: 1}},
	}
	if err := d.Generation(op); err != nil {
		t.Fatal(err)
	}
	MustCommit(t, s, d)
	if got, want := s.AvailableUnits(), (Units{{4, 3}, {8, 3}}); !slices.Equal(got, want) {
		t.Errorf("units %v are available, not %v", got, want)
	}
	if got, want := s.DroppedUnits(), (Units{{3, 1}, {7, 1}, {30, 1}}); !slices.Equal(got, want) {
		t.Errorf("units %v were dropped, not %v", got, want)
	}
	if s.Limit != 8 || s.Available != 6 {
		t.Errorf("the limit is %d, and %d are available", s.Limit, s.Available)
	}
	d = s.Draft(TestOwner, 32)
	if err := d.Generation(&pb.Generation{
		Number: 3, Settings: OpenSettings(5), Restore: []*pb.Range{{First: 2, Count: 2}, {First: 6, Count: 2}}, Drop: []*pb.Range{{First: 7, Count: 1}},
	}); err != nil {
		t.Fatal(err)
	}
	MustCommit(t, s, d)
	if got, want := s.AvailableUnits(), (Units{{3, 4}, {8, 3}}); !slices.Equal(got, want) || s.Limit != 9 {
		t.Errorf("units %v are available, not %v; the limit is %d", got, want, s.Limit)
	}
	if got, want := s.DroppedUnits(), (Units{{7, 1}, {30, 1}}); !slices.Equal(got, want) {
		t.Errorf("units %v were dropped, not %v", got, want)
	}
}

// A payload that its buyer has received is not secret any more: no other buyer gets it.
func TestDraftRefundOfASecret(t *testing.T) {
	s, _ := MustOpenShard(t, 10, 5)
	settings := OpenSettings(5)
	settings.Secret = true
	d := s.Draft(TestOwner, 30)
	if err := d.Generation(&pb.Generation{Number: 2, Settings: settings}); err != nil {
		t.Fatal(err)
	}
	MustCommit(t, s, d)
	d = s.Draft(TestOwner, 31)
	d.Claim("u", "k", 2)
	MustCommit(t, s, d)
	d = s.Draft(TestOwner, 32)
	if v := d.Refund(s.Claim(0), "ops", "broken", false); v.Kind != SettleDone || !v.Claim.Retired {
		t.Errorf("the refund is %v, of %+v", v.Kind, v.Claim)
	}
	MustCommit(t, s, d)
	if s.Available != 8 || s.Limit != 8 {
		t.Errorf("%d units are available of %d", s.Available, s.Limit)
	}
	if err := s.settled(&pb.Commit{}, 0, &pb.Settle{How: pb.Settle_REFUND}); err == nil {
		t.Error("the reducer makes a unit available whose payload was disclosed")
	}
}

func TestDraftGenerationThatDoesNotFit(t *testing.T) {
	for name, op := range map[string]*pb.Generation{
		"a gap":                {Number: 3},
		"units it has":         {Number: 2, Add: []*pb.Range{{First: 10, Count: 1}}},
		"units twice":          {Number: 2, Add: []*pb.Range{{First: 11, Count: 2}, {First: 12, Count: 1}}},
		"negative removal":     {Number: 2, Remove: -1},
		"a unit to drop twice": {Number: 2, Drop: []*pb.Range{{First: 1, Count: 2}, {First: 2, Count: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := MustOpenShard(t, 10, 5)
			if err := s.Draft(TestOwner, 30).Generation(op); err == nil {
				t.Error("it was drafted")
			}
		})
	}
	t.Run("one it has", func(t *testing.T) {
		s, _ := MustOpenShard(t, 10, 5)
		d := s.Draft(TestOwner, 30)
		if err := d.Generation(&pb.Generation{Number: 1, Add: []*pb.Range{{First: 1, Count: 10}}}); err != nil || d.Ops() != 0 {
			t.Errorf("%d ops: %v", d.Ops(), err)
		}
	})
}

// A request that comes twice within a commit is one request, by user and key.
func TestDraftTwice(t *testing.T) {
	for _, mask := range []uint64{math.MaxUint64, 0} { // hashes may be alike
		testDraftTwice(t, mask)
	}
}

func testDraftTwice(t *testing.T, mask uint64) {
	s, _ := MustOpenShard(t, 10, 2)
	s.text.mask = mask
	d := s.Draft(TestOwner, 20)
	d.Claim("other", "k", 1)
	first := d.Claim("u", "k", 1)
	for name, test := range map[string]struct {
		user, key string
		quantity  int64
		want      DecisionKind
	}{
		"again":              {"u", "k", 1, ReplayHere},
		"another quantity":   {"u", "k", 2, KeyReused},
		"past the limit":     {"u", "l", 2, OverLimit},
		"another user's key": {"v", "k", 3, OverLimit},
	} {
		v := d.Claim(test.user, test.key, test.quantity)
		if v.Kind != test.want || v.Kind == ReplayHere && v.Op != first.Op {
			t.Errorf("%s: got %d of op %d, want %d", name, v.Kind, v.Op, test.want)
		}
	}
	if v := d.Claim("u", "l", 1); v.Kind != Granted {
		t.Errorf("another request gets %d", v.Kind)
	}
	if v := d.Claim("v", "k", 1); v.Kind != Granted {
		t.Errorf("another user gets %d", v.Kind)
	}
	if v := d.Claim("u", "m", 1); v.Kind != OverLimit {
		t.Errorf("a third unit gets %d", v.Kind)
	}
	MustCommit(t, s, d)
}

// A commit that cannot be stored is not.
func TestDraftOfNoText(t *testing.T) {
	s, _ := MustOpenShard(t, 10, 2)
	d := s.Draft(TestOwner, 20)
	d.Claim("\xff", "k", 1)
	if e, err := d.Encode(); err == nil {
		t.Errorf("encoded as %q", e.Bytes)
	}
	d.Reset(20)
	d.Own("\xff")
	if e, err := d.Encode(); err == nil {
		t.Errorf("encoded as %q", e.Bytes)
	}
}

// A transfer that is acknowledged twice is acknowledged once.
func TestDraftAcksOnce(t *testing.T) {
	s, _ := MustOpenShard(t, 10, 2)
	d := s.Draft(TestOwner, 20)
	d.Out(3, 4)
	MustCommit(t, s, d)
	d = s.Draft(TestOwner, 20)
	d.Ack(3, 1)
	d.Ack(3, 1)
	if d.Ops() != 1 || d.after.InFlight != 0 {
		t.Errorf("%d ops, %d in flight", d.Ops(), d.after.InFlight)
	}
	MustCommit(t, s, d)
	d = s.Draft(TestOwner, 20)
	if d.Ack(3, 1); d.Ops() != 0 {
		t.Errorf("%d ops", d.Ops())
	}
}

// A draft that is used for ever keeps no more than one commit needs.
func TestDraftForgets(t *testing.T) {
	s, _ := MustOpenShard(t, 10, 2)
	d := s.Draft(TestOwner, 20)
	for range 1000 {
		d.Reset(20)
		d.Claim("u", "k", 1)
	}
	if len(d.changes.users) != 1 || len(d.memory.ops) > 64 || len(d.changes.later) != 0 {
		t.Errorf("%d users, %d ops, %d later claims", len(d.changes.users), len(d.memory.ops), len(d.changes.later))
	}
}

func TestDraftInThatDoesNotFit(t *testing.T) {
	s, _ := MustOpenShard(t, 10, 2)
	d := s.Draft(TestOwner, 20)
	for range 2 { // once
		if err := d.In(3, 1, Units{{30, 1}}); err != nil || d.Ops() != 1 || d.Available() != 11 {
			t.Errorf("%d ops, %d units, %v", d.Ops(), d.Available(), err)
		}
	}
	if err := s.Draft(TestOwner, 20).In(3, 1, Units{{20, 1}, {10, 1}}); err == nil || !strings.Contains(err.Error(), "transfer 1 from shard 3: units 10") {
		t.Errorf("got %v", err)
	}
}
