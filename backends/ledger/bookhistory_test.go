package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	pb "salectl/backends/ledger/ledgerpb"
)

func TestAuditOfHistories(t *testing.T) {
	w := ledger.HistoriesWorld(t)
	a := mustAudit(t, w.Logs)
	want := ledger.Outcomes{OpenHolds: 4, Confirmed: 3, Expired: 2, Cancelled: 1, Refunded: 2, Resold: 1, RefundsDue: 4, Returned: 1}
	if !a.OK || a.Outcomes != want || a.Stock != 29 || a.Sold != 2 || a.Held != 4 || a.Available != 23 {
		t.Errorf("%+v", a)
	}
}

// TestAuditOfLiveHistories audits a sale in which all that may become of claims goes on.
func TestAuditOfLiveHistories(t *testing.T) {
	for seed := range uint64(20) {
		w := ledger.WorldOf(t, ledger.HeldSettings())
		w.Plan(500, 0, ledger.HeldSettings())
		random := rand.New(rand.NewPCG(seed, 3))
		for range 40 {
			w.SomeHistories(random)
		}
		if a := mustAudit(t, w.Logs); !a.OK || a.Sold+a.Held+a.Available != a.Stock || a.Confirmed == 0 {
			t.Fatalf("seed %d: %+v", seed, a)
		}
	}
}

// A claim of a plain sale is refunded as well.
func TestAuditOfARefundedSale(t *testing.T) {
	w := ledger.NewWorld(t)
	w.Sell(2, 1)
	for _, retire := range []bool{false, true} {
		d := w.Draft(1)
		c := w.Shards[1].Claim(map[bool]int{false: 0, true: 1}[retire])
		if v := d.Refund(c, "ada", "broken", retire); v.Kind != ledger.SettleDone {
			t.Errorf("settlement %d", v.Kind)
		}
		w.Commit(1, d)
	}
	if a := mustAudit(t, w.Logs); !a.OK || a.Sold != 0 || a.Stock != 28 || a.Available != 28 || a.Refunded != 2 {
		t.Errorf("%+v", a)
	}
	if c := w.Shards[1].Claim(1); c.State != ledger.StateRefunded || !c.Retired || c.HeldUntilUs != 0 || w.Shards[1].UserUnits(c.User) != 0 {
		t.Errorf("the claim is %+v", c)
	}
}

// The problems that an audit must report of an impermissible settlement.
func TestAuditFindsFalseHistories(t *testing.T) {
	of := func(claim int, how pb.Settle_How, change func(*pb.Settle)) func(*ledger.World) *pb.Op {
		return func(w *ledger.World) *pb.Op {
			c := w.Shards[1].Claim(claim)
			op := ledger.SettleOp(c.Slot, uint32(c.Index), how)
			if change != nil {
				change(op.GetSettle())
			}
			return op
		}
	}
	resold := func(units ...int64) func(*pb.Settle) {
		return func(op *pb.Settle) { op.Payment, op.Units = "late", units }
	}
	claims := func(change func(*ledger.World, *pb.Claim)) func(*ledger.World) *pb.Op {
		return func(w *ledger.World) *pb.Op {
			op := ledger.HoldOp(w.Buyer(1), "key", w.TimeUs+1_000_000, 20)
			op.GetClaim().GraceUs = 1000
			change(w, op.GetClaim())
			return op
		}
	}
	for name, test := range map[string]struct {
		later int64 // us
		op    func(*ledger.World) *pb.Op
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
		"a refund of another payment":    {0, of(5, pb.Settle_REFUND, func(op *pb.Settle) { op.Payment = "other" }), `a refund of payment "other" of a claim that payment "payment 5" has bought`},
		"a return of what is not owed":   {0, of(5, pb.Settle_RETURNED, func(op *pb.Settle) { op.Payment = "payment 5" }), `payment "payment 5" is paid back, which is not owed for a claim that is sold`},
		"a settle of nothing":            {0, func(*ledger.World) *pb.Op { return ledger.SettleOp(2, 9, pb.Settle_CONFIRM) }, "a settle of slot 2, op 9, where no claim is"},
		"a settle of a slot to come":     {0, func(*ledger.World) *pb.Op { return ledger.SettleOp(99, 0, pb.Settle_CONFIRM) }, "a settle of slot 99, op 0, where no claim is"},
		"a claim that is sold at once":   {0, claims(func(_ *ledger.World, c *pb.Claim) { c.HeldUntilUs = 0 }), "a claim held until 0, for -"},
		"a claim held for longer":        {0, claims(func(_ *ledger.World, c *pb.Claim) { c.HeldUntilUs++ }), ", for 1000001 us and 1000 of grace, in a sale whose payment is "},
		"a claim held with more grace":   {0, claims(func(_ *ledger.World, c *pb.Claim) { c.GraceUs++ }), "and 1001 of grace, in a sale"},
		"a claim of nothing":             {0, claims(func(_ *ledger.World, c *pb.Claim) { c.Units = nil }), "a claim of nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			w := ledger.HistoriesWorld(t)
			w.TimeUs += test.later
			op := test.op(w)
			w.Plant(1, op)
			a := mustAudit(t, w.Logs)
			problems := strings.Join(a.Problems, "\n")
			if a.OK || !strings.Contains(problems, test.want) || !strings.Contains(problems, "the ledger is damaged") {
				t.Errorf("want %q:\n%s", test.want, problems)
			}
		})
	}
}

// An audit reports claims of the reducer that differ from the book.
func TestAuditFindsTheReducersHistories(t *testing.T) {
	w := ledger.HistoriesWorld(t)
	for name, test := range map[string]struct {
		counts func(*ledger.Totals)
		claim  func(*ledger.Claim)
		want   string
	}{
		"a count":    {func(o *ledger.Totals) { o.Expired++ }, nil, "shard 1 folds to {OpenHolds:4 "},
		"a state":    {nil, func(c *ledger.Claim) { c.State = ledger.StateExpired }, "claim 1-2-1 folds to expired"},
		"a deadline": {nil, func(c *ledger.Claim) { c.HeldUntilUs++ }, "claim 1-2-1 folds to held"},
		"a payment":  {nil, func(c *ledger.Claim) { c.Payment += "x" }, "claim 1-2-1 folds to held"},
		"a return":   {nil, func(c *ledger.Claim) { c.Returned = append(c.Returned, ledger.Returned{Payment: "x"}) }, "claim 1-2-1 folds to held"},
		"a due":      {nil, func(c *ledger.Claim) { c.RefundsDue = append(c.RefundsDue, "x") }, "claim 1-2-1 folds to held"},
	} {
		r, err := audit.Run(t.Context(), w.Logs, "test", func(log string) audit.Reducer {
			if log != w.Shards[1].Log() {
				return ledger.NewState(log)
			}
			return miscount{ledger.NewState(log), test.counts, test.claim}
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(r.Problems, func(p string) bool { return strings.HasPrefix(p, test.want) }) {
			t.Errorf("%s: problems %q", name, r.Problems)
		}
	}
}

// miscount is a reducer that counts outcomes or stores claim 1 with a difference from its commits.
type miscount struct {
	audit.Reducer
	counts func(*ledger.Totals)
	claim  func(*ledger.Claim)
}

func (m miscount) Head() ledger.Head {
	h := m.Reducer.Head()
	if m.counts != nil {
		m.counts(&h.Totals)
	}
	return h
}

func (m miscount) Claim(i int) ledger.Claim {
	c := m.Reducer.Claim(i)
	if m.claim != nil && i == 1 {
		m.claim(&c)
	}
	return c
}

func TestExportFormOfHistories(t *testing.T) {
	w := ledger.HistoriesWorld(t)
	file := mustExport(t, w)
	lines := strings.Split(string(file), "\n")
	for i, want := range []string{
		`"sold","at":"1970-01-01T00:00:01.000007Z","key":"key","heldUntil":"1970-01-01T00:00:02.000007Z","settledAt":"1970-01-01T00:00:01.000008Z","payment":"payment 0","refundDue":["payment 7"]}`,
		`"held","at":"1970-01-01T00:00:01.000007Z","key":"key","heldUntil":"1970-01-01T00:00:02.500007Z"}`,
		`"cancelled","at":"1970-01-01T00:00:01.000007Z","key":"key","heldUntil":"1970-01-01T00:00:02.000007Z","settledAt":"1970-01-01T00:00:01.000008Z","who":"the buyer","why":"too dear"}`,
		`"expired","at":"1970-01-01T00:00:01.000007Z","key":"key","heldUntil":"1970-01-01T00:00:02.000007Z","settledAt":"1970-01-01T00:00:02.001009Z","refundDue":["payment 3"]}`,
		`"refunded","at":"1970-01-01T00:00:01.000007Z","key":"key","heldUntil":"1970-01-01T00:00:02.000007Z","settledAt":"1970-01-01T00:00:02.001009Z","who":"ada","why":"broken","payment":"payment 4","refundDue":["payment 4"]}`,
		`"sold","at":"1970-01-01T00:00:01.000007Z","key":"key","heldUntil":"1970-01-01T00:00:02.000007Z","settledAt":"1970-01-01T00:00:02.001009Z","payment":"payment 5"}`,
		`"refunded","at":"1970-01-01T00:00:01.000007Z","key":"key","heldUntil":"1970-01-01T00:00:02.000007Z","settledAt":"1970-01-01T00:00:02.001009Z","who":"ada","why":"stolen","payment":"payment 6","retired":true,"refundDue":["payment 6"],"returned":[{"payment":"payment 6","at":"1970-01-01T00:00:02.001013Z","who":"eve","why":"by bank"}]}`,
	} {
		if !strings.HasSuffix(lines[i+1], `"state":`+want) {
			t.Errorf("claim %d is\n%s, want\n%s", i, lines[i+1], want)
		}
	}
	if want := `"openHolds":4,"confirmed":3,"expired":2,"cancelled":1,"refunded":2,"resold":1,"refundsDue":4,"returned":1},`; !strings.Contains(lines[0], want) {
		t.Errorf("the header is %s", lines[0])
	}
	if _, _, err := readExport(file); err != nil {
		t.Error(err)
	}
	for i, line := range exportLines(file)[:8] {
		for _, field := range []string{`"heldUntil":"1970`, `"settledAt":"1970`, `"who":"`, `"why":"`, `"payment":"p`, `"refundDue":["p`, `"returned":[{"p`, `"retired":t`, `"resold":`} {
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
	s, _ := ledger.MustOpenShard(t, 10, 5)
	d := s.Draft(ledger.TestOwner, 20)
	d.Claim("u", "k", 2)
	e := ledger.MustCommit(t, s, d)
	want := fmt.Sprintf(`{"slot":2,"hash":"%v","timeUs":20,"generation":1,"epoch":1,"owner":"127.0.0.1:7080","phase":"open","limit":10,"available":8,"held":0,"sold":2,"inFlight":0}`, s.Root())
	if string(e.Head) != want {
		t.Errorf("the head is\n%s, want\n%s", e.Head, want)
	}
	if s.HasHoldMemory() {
		t.Error("a plain sale keeps records of deals")
	}
}

// TestHoldTimes weighs each hold by its units, and counts none that is open.
func TestHoldTimes(t *testing.T) {
	w := ledger.HistoriesWorld(t)
	got := mustAudit(t, w.Logs).HoldTimes
	// Three paid and one cancelled in the commit after that of their claims, two expired at
	// the release.
	want := audit.HoldTimes{Holds: 6, UnitSeconds: 2.002008, P50: 0.000001, P90: 1.001002, P99: 1.001002, Max: 1.001002}
	if got == nil || *got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := mustAudit(t, ledger.BusyWorld(t).Logs).HoldTimes; got != nil && got.Holds == 0 {
		t.Errorf("a sale in which no hold has ended: %+v", got)
	}
}
