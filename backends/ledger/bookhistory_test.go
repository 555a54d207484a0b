package ledger

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	pb "salectl/backends/ledger/ledgerpb"
)

// historiesWorld is a sale in which claims of shard 1 have come to every end: claim 0 is sold,
// 1 held and extended, 2 cancelled, 3 expired, 4 refunded, 5 resold with other units, 6
// retired; of 3 and 0 a payment is owed back. All have one unit.
func historiesWorld(t testing.TB) *world {
	w := worldOf(t, held())
	d := w.draft(1)
	for range 7 {
		d.Claim(w.buyer(1), "key", 1)
	}
	w.commit(1, d)
	claim := w.shards[1].Claim
	d = w.draft(1)
	for _, i := range []int{0, 4, 6} {
		d.Confirm(claim(i), fmt.Sprint("payment ", i))
	}
	d.Extend(claim(1))
	d.Cancel(claim(2), "the buyer", "too dear")
	w.commit(1, d)
	w.timeUs += 1_001_000
	d = w.draft(1)
	d.Expire(claim(3))
	d.Expire(claim(5))
	for range 3 {
		d.Claim(w.buyer(1), "key", 1) // also the unit of claim 5
	}
	d.Refund(claim(4), "ada", "broken", false)
	d.Refund(claim(6), "ada", "stolen", true)
	d.Late(claim(5), "payment 5")
	d.Late(claim(0), "payment 7")
	w.commit(1, d)
	w.plan(0, 0, paying(1, &pb.Payment{HoldForUs: 1_000_000, GraceUs: 1000, Late: pb.Payment_REFUSE}))
	d = w.draft(1)
	d.Late(claim(3), "payment 3")
	w.commit(1, d)
	return w
}

func TestAuditOfHistories(t *testing.T) {
	w := historiesWorld(t)
	a := mustAudit(t, w.logs)
	want := Outcomes{OpenHolds: 4, Confirmed: 3, Expired: 2, Cancelled: 1, Refunded: 2, Resold: 1, RefundsDue: 2}
	if !a.OK || a.Outcomes != want || a.Stock != 29 || a.Sold != 2 || a.Held != 4 || a.Available != 23 {
		t.Errorf("%+v", a)
	}
}

// TestAuditOfLiveDeals audits a sale in which all that may become of claims goes on.
func TestAuditOfLiveHistories(t *testing.T) {
	for seed := range uint64(20) {
		w := worldOf(t, held())
		w.plan(500, 0, held())
		random := rand.New(rand.NewPCG(seed, 3))
		for range 40 {
			w.someHistories(random)
		}
		if a := mustAudit(t, w.logs); !a.OK || a.Sold+a.Held+a.Available != a.Stock || a.Confirmed == 0 {
			t.Fatalf("seed %d: %+v", seed, a)
		}
	}
}

// someHistories lets a few things happen to claims of a shard, in one commit.
func (w *world) someHistories(random *rand.Rand) {
	shard := random.IntN(worldShards)
	s := w.shards[shard]
	w.timeUs += random.Int64N(400_000)
	d := w.draft(shard)
	for range 1 + random.IntN(8) {
		if s.Claims() == 0 || random.IntN(3) == 0 {
			d.Claim(w.buyer(shard), "key", 1+random.Int64N(3))
			continue
		}
		c := s.Claim(random.IntN(s.Claims()))
		payment := fmt.Sprint(c.ID(shard), "/", random.IntN(3))
		switch random.IntN(7) {
		case 0, 1:
			d.Confirm(c, payment)
		case 2:
			d.Cancel(c, "w", "r")
		case 3:
			d.Extend(c)
		case 4:
			d.Refund(c, "ada", "", random.IntN(2) == 0)
		case 5:
			d.Late(c, payment)
		}
	}
	for _, c := range s.Due(d.TimeUs(), 3) {
		d.Expire(c)
	}
	w.commit(shard, d)
}

// A claim of a plain sale is refunded as well.
func TestAuditOfARefundedSale(t *testing.T) {
	w := newWorld(t)
	w.sell(2, 1)
	for _, retire := range []bool{false, true} {
		d := w.draft(1)
		c := w.shards[1].Claim(map[bool]int{false: 0, true: 1}[retire])
		if v := d.Refund(c, "ada", "broken", retire); v.Kind != SettleDone {
			t.Errorf("settlement %d", v.Kind)
		}
		w.commit(1, d)
	}
	if a := mustAudit(t, w.logs); !a.OK || a.Sold != 0 || a.Stock != 28 || a.Available != 28 || a.Refunded != 2 {
		t.Errorf("%+v", a)
	}
	if c := w.shards[1].Claim(1); c.State != StateRefunded || !c.Retired || c.HeldUntilUs != 0 || w.shards[1].UserUnits(c.User) != 0 {
		t.Errorf("the claim is %+v", c)
	}
}

// What an audit must say of a settlement that was never to be.
func TestAuditFindsFalseHistories(t *testing.T) {
	of := func(claim int, how pb.Settle_How, change func(*pb.Settle)) func(*world) *pb.Op {
		return func(w *world) *pb.Op {
			c := w.shards[1].Claim(claim)
			op := settle(c.Slot, uint32(c.Index), how)
			if change != nil {
				change(op.GetSettle())
			}
			return op
		}
	}
	resold := func(units ...int64) func(*pb.Settle) {
		return func(op *pb.Settle) { op.Payment, op.Units = "late", units }
	}
	claims := func(change func(*world, *pb.Claim)) func(*world) *pb.Op {
		return func(w *world) *pb.Op {
			op := hold(w.buyer(1), "key", w.timeUs+1_000_000, 20)
			op.GetClaim().GraceUs = 1000
			change(w, op.GetClaim())
			return op
		}
	}
	for name, test := range map[string]struct {
		later int64 // us
		op    func(*world) *pb.Op
		want  string
	}{
		"a payment after the release":    {600_000, of(1, pb.Settle_CONFIRM, nil), "us of grace is paid at "},
		"an expiry before the release":   {0, of(1, pb.Settle_EXPIRE, nil), "us of grace expires at "},
		"an extension after the release": {600_000, of(1, pb.Settle_EXTEND, func(op *pb.Settle) { op.HeldUntilUs = 9e15 }), "is extended to 9000000000000000"},
		"an extension without settings":  {0, of(7, pb.Settle_EXTEND, func(op *pb.Settle) { op.HeldUntilUs = 9e15 }), "is extended to 9000000000000000"},
		"a refund of a hold":             {0, of(1, pb.Settle_REFUND, nil), "a claim that is held is refunded"},
		"a resale of what was cancelled": {0, of(2, pb.Settle_RESELL, resold(20)), "a claim that is cancelled is resold"},
		"a resale that is refused":       {0, of(3, pb.Settle_RESELL, resold(20)), "a claim that is expired is resold, late payments: REFUSE"},
		"a resale of more":               {0, of(3, pb.Settle_RESELL, resold(19, 20)), "a claim of 1 units is resold with 2"},
		"a resale past the limit":        {0, of(3, pb.Settle_RESELL, resold(19, 20)), "who has 2 units then, more than the limit of 1"},
		"a resale of another's unit":     {0, of(3, pb.Settle_RESELL, resold(11)), "units [11] are in two places"},
		"a refund due for a hold":        {0, of(1, pb.Settle_REFUND_DUE, nil), "a payment is owed back for a claim that is held"},
		"a refund due after the refund":  {0, of(4, pb.Settle_REFUND_DUE, nil), "a payment is owed back for a claim that is refunded"},
		"a settle of nothing":            {0, func(*world) *pb.Op { return settle(2, 9, pb.Settle_CONFIRM) }, "a settle of slot 2, op 9, where no claim is"},
		"a settle of a slot to come":     {0, func(*world) *pb.Op { return settle(99, 0, pb.Settle_CONFIRM) }, "a settle of slot 99, op 0, where no claim is"},
		"a claim that is sold at once":   {0, claims(func(_ *world, c *pb.Claim) { c.HeldUntilUs = 0 }), "a claim held until 0 in a sale whose payment is "},
		"a claim held for longer":        {0, claims(func(_ *world, c *pb.Claim) { c.HeldUntilUs++ }), "a claim held for 1000001 us and 1000 of grace, not for 1000000 and 1000"},
		"a claim held with more grace":   {0, claims(func(_ *world, c *pb.Claim) { c.GraceUs++ }), "and 1001 of grace, not for"},
		"a claim of nothing":             {0, claims(func(_ *world, c *pb.Claim) { c.Units = nil }), "a claim of nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			w := historiesWorld(t)
			w.timeUs += test.later
			op := test.op(w)
			w.plant(1, op)
			a := mustAudit(t, w.logs)
			problems := strings.Join(a.Problems, "\n")
			if a.OK || !strings.Contains(problems, test.want) || !strings.Contains(problems, "the ledger is damaged") {
				t.Errorf("want %q:\n%s", test.want, problems)
			}
		})
	}
}

// What the reducer keeps of deals otherwise than the book is told.
func TestAuditFindsTheReducersHistories(t *testing.T) {
	w := historiesWorld(t)
	for name, test := range map[string]struct {
		counts func(*Outcomes)
		claim  func(*Claim)
		want   string
	}{
		"a count":    {func(o *Outcomes) { o.Expired++ }, nil, "shard 1 folds to {OpenHolds:4 "},
		"a state":    {nil, func(c *Claim) { c.State = StateExpired }, "claim 1-2-1 folds to expired"},
		"a deadline": {nil, func(c *Claim) { c.HeldUntilUs++ }, "claim 1-2-1 folds to held"},
		"a payment":  {nil, func(c *Claim) { c.Payment += "x" }, "claim 1-2-1 folds to held"},
		"a due":      {nil, func(c *Claim) { c.RefundsDue = append(c.RefundsDue, "x") }, "claim 1-2-1 folds to held"},
	} {
		r, _, err := readRecount(t.Context(), w.logs, w.sale, 0)
		if err != nil {
			t.Fatal(err)
		}
		b := r.books[1]
		b.reducer = miscount{b.reducer, test.counts, test.claim}
		for _, b := range r.books {
			r.compare(b)
		}
		if len(r.Problems) != 1 || !strings.HasPrefix(r.Problems[0], test.want) {
			t.Errorf("%s: problems %q", name, r.Problems)
		}
	}
}

// miscount is a reducer that counts outcomes or keeps claim 1 otherwise than its commits say.
type miscount struct {
	Reducer
	counts func(*Outcomes)
	claim  func(*Claim)
}

func (m miscount) Head() Head {
	h := m.Reducer.Head()
	if m.counts != nil {
		m.counts(&h.Outcomes)
	}
	return h
}

func (m miscount) Claim(i int) Claim {
	c := m.Reducer.Claim(i)
	if m.claim != nil && i == 1 {
		m.claim(&c)
	}
	return c
}

func TestExportFormOfHistories(t *testing.T) {
	w := historiesWorld(t)
	file := mustExport(t, w)
	lines := strings.Split(string(file), "\n")
	for i, want := range []string{
		`"sold","at":"1970-01-01T00:00:01.000007Z","key":"key","heldUntil":"1970-01-01T00:00:02.000007Z","settledAt":"1970-01-01T00:00:01.000008Z","payment":"payment 0","refundDue":["payment 7"]}`,
		`"held","at":"1970-01-01T00:00:01.000007Z","key":"key","heldUntil":"1970-01-01T00:00:02.500007Z"}`,
		`"cancelled","at":"1970-01-01T00:00:01.000007Z","key":"key","heldUntil":"1970-01-01T00:00:02.000007Z","settledAt":"1970-01-01T00:00:01.000008Z","who":"the buyer","why":"too dear"}`,
		`"expired","at":"1970-01-01T00:00:01.000007Z","key":"key","heldUntil":"1970-01-01T00:00:02.000007Z","settledAt":"1970-01-01T00:00:02.001009Z","refundDue":["payment 3"]}`,
		`"refunded","at":"1970-01-01T00:00:01.000007Z","key":"key","heldUntil":"1970-01-01T00:00:02.000007Z","settledAt":"1970-01-01T00:00:02.001009Z","who":"ada","why":"broken","payment":"payment 4"}`,
		`"sold","at":"1970-01-01T00:00:01.000007Z","key":"key","heldUntil":"1970-01-01T00:00:02.000007Z","settledAt":"1970-01-01T00:00:02.001009Z","payment":"payment 5"}`,
		`"refunded","at":"1970-01-01T00:00:01.000007Z","key":"key","heldUntil":"1970-01-01T00:00:02.000007Z","settledAt":"1970-01-01T00:00:02.001009Z","who":"ada","why":"stolen","payment":"payment 6","retired":true}`,
	} {
		if !strings.HasSuffix(lines[i+1], `"state":`+want) {
			t.Errorf("claim %d is\n%s, want\n%s", i, lines[i+1], want)
		}
	}
	if want := `"openHolds":4,"confirmed":3,"expired":2,"cancelled":1,"refunded":2,"resold":1,"refundsDue":2},`; !strings.Contains(lines[0], want) {
		t.Errorf("the header is %s", lines[0])
	}
	if _, _, err := readExport(file); err != nil {
		t.Error(err)
	}
	for i, line := range exportLines(file)[:8] {
		for _, field := range []string{`"heldUntil":"1970`, `"settledAt":"1970`, `"who":"`, `"why":"`, `"payment":"p`, `"refundDue":["p`, `"retired":t`, `"resold":`} {
			if at := strings.Index(line, field); at >= 0 {
				altered := exportLines(file)
				altered[i] = line[:at+len(field)-1] + "x" + line[at+len(field)-1:]
				wantNoticed(t, w, "is altered", i, altered)
			}
		}
	}
}

// A plain sale's head and claims name nothing of payment.
func TestPlainSalesAreAsTheyWere(t *testing.T) {
	s, _ := mustOpenShard(t, 10, 5)
	d := s.Draft(testOwner, 20)
	d.Claim("u", "k", 2)
	e := mustCommit(t, s, d)
	want := fmt.Sprintf(`{"slot":2,"hash":"%v","timeUs":20,"generation":1,"epoch":1,"owner":"127.0.0.1:7080","phase":"open","limit":10,"available":8,"held":0,"sold":2,"inFlight":0}`, s.Root())
	if string(e.Head) != want {
		t.Errorf("the head is\n%s, want\n%s", e.Head, want)
	}
	if s.claims.holdRecords.Len() != 0 || s.claims.byClaim.words != nil || s.claims.queue != nil {
		t.Error("a plain sale keeps records of deals")
	}
}

// TestHoldTimes weighs each hold by its units, and counts none that is open.
func TestHoldTimes(t *testing.T) {
	w := historiesWorld(t)
	got := mustAudit(t, w.logs).HoldTimes
	// Three paid and one cancelled in the commit after that of their claims, two expired at
	// the release.
	want := HoldTimes{Holds: 6, UnitSeconds: 2.002008, P50: 0.000001, P90: 1.001002, P99: 1.001002, Max: 1.001002}
	if got == nil || *got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for name, c := range map[string]struct {
		all  []endedHold
		want *HoldTimes
	}{
		"none": {nil, nil},
		"by units": {[]endedHold{{9_000_000, 1}, {2_000_000, 98}, {1_000_000, 1}},
			&HoldTimes{Holds: 3, UnitSeconds: 206, P50: 2, P90: 2, P99: 2, Max: 9}},
		"of three": {[]endedHold{{1_000_000, 1}, {2_000_000, 1}, {3_000_000, 1}},
			&HoldTimes{Holds: 3, UnitSeconds: 6, P50: 2, P90: 3, P99: 3, Max: 3}},
	} {
		if got := newHoldTimes(c.all); (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if got := mustAudit(t, busyWorld(t).logs).HoldTimes; got != nil && got.Holds == 0 {
		t.Errorf("a sale in which no hold has ended: %+v", got)
	}
}
