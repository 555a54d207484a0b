package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	pb "salectl/backends/ledger/ledgerpb"
)

// history is a sale of a few shards that is written through drafts. Each shard
// is folded twice: one state applies the commits, its twin folds the stored
// bytes.
type history struct {
	shards, twins []*State
	drafts        []*Draft
	timeUs        int64
	settings      *pb.Settings
	nextUnit      int64
	granted       []map[request]grant // the granted requests, by shard
	had           []map[string]int64  // units of each user, by shard
}

type request struct{ user, key string }

const historyShards = 3

func newHistory() *history {
	h := &history{settings: OpenSettings(4), nextUnit: 1}
	for i := range historyShards {
		log := fmt.Sprintf("%02x/0123456789abcdef/%d", i*85, i)
		h.shards, h.twins = append(h.shards, NewState(log)), append(h.twins, NewState(log))
		h.granted, h.had = append(h.granted, map[request]grant{}), append(h.had, map[string]int64{})
	}
	return h
}

// draft begins a commit for a shard, in memory that was used before where there
// is some.
func (h *history) draft(shard int) *Draft {
	if h.drafts == nil {
		h.drafts = make([]*Draft, historyShards)
	}
	if h.drafts[shard] == nil || !h.shards[shard].IsOwner(h.drafts[shard].commit.Writer) {
		h.drafts[shard] = h.shards[shard].Draft(fmt.Append(nil, "writer", h.shards[shard].Epoch), h.timeUs)
	} else {
		h.drafts[shard].Reset(h.timeUs)
	}
	return h.drafts[shard]
}

// commit stores what was drafted, and checks all that must hold of any commit.
func (h *history) commit(t *rapid.T, shard int, d *Draft) {
	s, twin := h.shards[shard], h.twins[shard]
	e, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	stored := slices.Clone(e.Bytes)
	if err := s.Apply(e.Commit, e.Hash, len(e.Bytes)); err != nil {
		t.Fatalf("what was drafted is refused: %v", err)
	}
	if head := s.Head().Encode(); string(head) != string(e.Head) {
		t.Fatalf("the draft's head is\n%s, its state's\n%s", e.Head, head)
	}
	if size := d.size; len(stored) > size {
		t.Fatalf("the entry has %d bytes, the draft counted %d", len(stored), size)
	}
	if err := twin.Fold(stored); err != nil {
		t.Fatal(err)
	}
}

// claims decides a few requests and compares each decision with what it must be.
func (h *history) claims(t *rapid.T) {
	shard := rapid.IntRange(0, historyShards-1).Draw(t, "shard")
	s, d := h.shards[shard], h.draft(shard)
	if !s.IsOwner(d.commit.Writer) {
		d.Own("here:1")
	}
	here := map[request]bool{}
	for range rapid.IntRange(0, 6).Draw(t, "requests") {
		id := request{
			rapid.StringOfN(rapid.RuneFrom([]rune("uvw")), 1, 2, -1).Draw(t, "user"),
			rapid.StringOfN(rapid.RuneFrom([]rune("kl")), 0, 2, -1).Draw(t, "key"),
		}
		quantity, w := rapid.Int64Range(1, 3).Draw(t, "quantity"), h.demand(t)
		if w.Units != nil {
			quantity = int64(len(w.Units))
		}
		partial := h.settings.GetPartial() && !w.chooses()
		gives, some := quantity, partial && rapid.Bool().Draw(t, "some")
		w.Partial = some
		chosen, has := h.chosen(d, quantity, w)
		if partial {
			gives = max(1, min(quantity, h.settings.GetPerUserLimit()-h.had[shard][id.user]))
		}
		before, granted := h.granted[shard][id]
		want := Granted
		switch {
		case granted && (before.quantity != quantity || !before.mayBe(w)):
			want = KeyReused
		case here[id]:
			want = ReplayHere
		case granted:
			want = Replay
		case h.settings.GetPhase() != pb.Phase_OPEN:
			want = NotNow
		case h.had[shard][id.user]+gives > h.settings.GetPerUserLimit():
			want = OverLimit
		case w.chooses() && !h.settings.GetChoose():
			want = NoChoice
		case !has:
			want = Short
		case some && d.Available() > 0:
			gives = min(gives, d.Available())
		case d.Available() < gives:
			want = Short
		}
		v := d.DecideClaim(Ruling{}, id.user, id.key, quantity, w)
		if v.Kind != want {
			t.Fatalf("decision %d on %+v, want %d", v.Kind, id, want)
		}
		if units := d.after.available.Count(); units != d.Available() {
			t.Fatalf("the draft has %d units and counts %d", units, d.Available())
		}
		if want == Granted {
			h.granted[shard][id], here[id] = grant{quantity, slices.Clone(d.Units(v.Op))}, true
			h.had[shard][id.user] += gives
			if n := int64(len(d.Units(v.Op))); n != gives {
				t.Fatalf("%d units for %+v, want %d", n, id, gives)
			}
			if units := d.Units(v.Op); w.chooses() && !slices.Equal(units, chosen) {
				t.Fatalf("units %v for %+v with the demand %+v, want %v", units, id, w, chosen)
			}
		}
	}
	h.commit(t, shard, d)
}

// grant is the quantity of a granted request, and the units that it was given first.
type grant struct {
	quantity int64
	units    []int64
}

// mayBe reports whether the request may have had a demand.
func (g grant) mayBe(w Demand) bool {
	for i, unit := range g.units {
		if w.Units != nil && unit != w.Units[i] || w.Adjacent && unit != g.units[0]+int64(i) {
			return false
		}
	}
	return !w.chooses() || g.quantity == int64(len(g.units))
}

// demand draws the demand of a claim beyond its quantity.
func (h *history) demand(t *rapid.T) (w Demand) {
	switch rapid.IntRange(0, 3).Draw(t, "chooses") {
	case 0:
		units := rapid.SliceOfNDistinct(rapid.Int64Range(1, h.nextUnit+1), 1, 3, rapid.ID).Draw(t, "units")
		slices.Sort(units)
		w.Units = units
	case 1:
		w.Adjacent = true
	}
	return w
}

// chosen returns the units that a claim gets by its choice, unit by unit, and whether they
// are here.
func (h *history) chosen(d *Draft, n int64, w Demand) (units []int64, ok bool) {
	here := func(unit int64) bool {
		return slices.ContainsFunc(d.after.available, func(r Range) bool { return r.First <= unit && unit < r.First+r.Count })
	}
	switch {
	case w.Units != nil:
		return w.Units, !slices.ContainsFunc(w.Units, func(unit int64) bool { return !here(unit) })
	case !w.Adjacent:
		return nil, true
	}
	row := func(unit int64) int {
		return slices.IndexFunc(h.settings.GetRows(), func(r *pb.Range) bool { return r.First <= unit && unit < r.First+r.Count })
	}
	for first := range h.nextUnit {
		units = nil
		for unit := first; unit < first+n && here(unit) && row(unit) >= 0 && row(unit) == row(first); unit++ {
			units = append(units, unit)
		}
		if int64(len(units)) == n {
			return units, true
		}
	}
	return nil, false
}

// generation brings the next generation to all shards.
func (h *history) generation(t *rapid.T) {
	h.settings = &pb.Settings{
		PerUserLimit: rapid.Int64Range(1, 6).Draw(t, "limit"),
		Phase:        rapid.SampledFrom([]pb.Phase{pb.Phase_OPEN, pb.Phase_OPEN, pb.Phase_PAUSED}).Draw(t, "phase"),
	}
	h.settings.Partial = rapid.Bool().Draw(t, "partial")
	if h.settings.Choose = rapid.Bool().Draw(t, "choose"); h.settings.Choose {
		for next := int64(1); next < h.nextUnit+9; {
			r := &pb.Range{First: next + rapid.Int64Range(0, 2).Draw(t, "aisle"), Count: rapid.Int64Range(1, 8).Draw(t, "row")}
			h.settings.Rows = append(h.settings.Rows, r)
			next = r.First + r.Count
		}
	}
	if rapid.IntRange(0, 2).Draw(t, "payment") > 0 {
		h.settings.Payment = &pb.Payment{
			HoldForUs: rapid.Int64Range(1, 6).Draw(t, "hold"), GraceUs: rapid.Int64Range(0, 2).Draw(t, "grace"),
			ExtendByUs: rapid.Int64Range(0, 3).Draw(t, "extend"),
			Late:       rapid.SampledFrom([]pb.Payment_Late{pb.Payment_REFUSE, pb.Payment_RESELL, pb.Payment_RESELL}).Draw(t, "late"),
		}
	}
	for shard, s := range h.shards {
		op := &pb.Generation{Number: s.Generation + 1, Settings: h.settings, Remove: rapid.Int64Range(0, 5).Draw(t, "remove")}
		for range rapid.IntRange(0, 2).Draw(t, "ranges") {
			n := rapid.Int64Range(1, 12).Draw(t, "units")
			op.Add = append(op.Add, &pb.Range{First: h.nextUnit, Count: n})
			h.nextUnit += n + rapid.Int64Range(0, 1).Draw(t, "gap")
		}
		if h.nextUnit > 1 && rapid.Bool().Draw(t, "drops") {
			first := rapid.Int64Range(1, h.nextUnit).Draw(t, "dropped")
			op.Drop = []*pb.Range{{First: first, Count: rapid.Int64Range(1, 8).Draw(t, "drops")}}
		}
		if h.nextUnit > 1 && rapid.Bool().Draw(t, "restores") {
			first := rapid.Int64Range(1, h.nextUnit).Draw(t, "restored")
			op.Restore = []*pb.Range{{First: first, Count: rapid.Int64Range(1, 8).Draw(t, "restores")}}
		}
		d := h.draft(shard)
		if err := d.Generation(op); err != nil {
			t.Fatal(err)
		}
		if v := d.Claim("somebody", "new", 1); v.Kind == Granted {
			t.Fatal("a claim was granted behind a new generation")
		}
		h.commit(t, shard, d)
	}
}

// transfer takes the transfer between two shards a step further, or begins one;
// now and then it repeats a step.
func (h *history) transfer(t *rapid.T) {
	from := rapid.IntRange(0, historyShards-1).Draw(t, "from")
	to := (from + rapid.IntRange(1, historyShards-1).Draw(t, "to")) % historyShards
	source, dest := h.shards[from], h.shards[to]
	open, ok := source.OpenTo(to)
	switch {
	case !ok:
		d := h.draft(from)
		if !source.IsOwner(d.commit.Writer) {
			d.Own("here:1")
		}
		if sent := d.Out(to, rapid.Int64Range(0, 9).Draw(t, "units")); sent.K != 1+source.transfers[to].outK {
			t.Fatalf("transfer %d follows %d", sent.K, source.transfers[to].outK)
		}
		h.commit(t, from, d)
	case dest.Received(from) < open.K:
		d := h.draft(to)
		for range rapid.IntRange(1, 2).Draw(t, "times") {
			if err := d.In(from, open.K, open.Units); err != nil {
				t.Fatal(err)
			}
		}
		h.commit(t, to, d)
	default:
		d := h.draft(from)
		for range rapid.IntRange(1, 2).Draw(t, "times") {
			d.Ack(to, open.K)
		}
		h.commit(t, from, d)
	}
}

// business settles claims and claims units, as anybody may want it, within one draft.
// It compares the settlements with the claims before, and the state that follows with
// the settlements.
func (h *history) business(t *rapid.T) {
	shard := rapid.IntRange(0, historyShards-1).Draw(t, "shard")
	s, d := h.shards[shard], h.draft(shard)
	if !s.IsOwner(d.commit.Writer) {
		d.Own("here:1")
	}
	settled := make(map[int]Claim)
	for range rapid.IntRange(1, 8).Draw(t, "ops") {
		if s.Claims() == 0 || rapid.IntRange(0, 3).Draw(t, "claim") == 0 {
			h.buy(t, shard, d)
			continue
		}
		i := rapid.IntRange(0, s.Claims()-1).Draw(t, "which")
		was, ok := settled[i]
		if !ok {
			was = s.Claim(i)
		}
		ops, left := d.Ops(), d.Available()
		v := h.requestSettlement(t, d, s.Claim(i), was)
		if left -= d.Available(); (v.Claim.State == StateSold || v.Claim.State == StateHeld) != (was.State == StateSold || was.State == StateHeld) {
			n := int64(len(was.Units))
			if was.State == StateSold || was.State == StateHeld {
				n = -n
			}
			h.had[shard][was.User] += n
			if v.Claim.Retired {
				n = 0
			}
			left -= n
		}
		if left != 0 || d.after.available.Count() != d.Available() || v.Kind != SettleDone && v.Kind != SettleRefundDue && d.Ops() > ops+1 {
			t.Fatalf("settlement %d made %+v of %+v, %d units are astray, %d ops", v.Kind, v.Claim, was, left, d.Ops()-ops)
		}
		settled[i] = v.Claim
	}
	h.commit(t, shard, d)
	for i, want := range settled {
		if got := s.Claim(i); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Fatalf("claim %d is\n%+v, the draft has\n%+v", i, got, want)
		}
	}
}

// requestSettlement drafts one settlement of a claim, and checks the outcome by the state in which
// the claim was.
func (h *history) requestSettlement(t *rapid.T, d *Draft, c, was Claim) (v Settlement) {
	open := was.State == StateHeld && d.TimeUs() < was.ReleaseUs()
	p := h.settings.GetPayment()
	payment := rapid.SampledFrom([]string{"", "p", "q"}).Draw(t, "payment")
	other := payment != "" && payment != was.Payment && (was.Payment != "" || was.HeldUntilUs == 0)
	owed := slices.Contains(was.RefundsDue, payment)
	bought := (was.State == StateSold || was.State == StateRefunded) && !other
	done := map[bool]SettlementKind{true: SettleDone, false: -1}
	var want SettlementKind // -1: nothing is to be done, by a kind that names the state of the claim
	switch rapid.SampledFrom([]string{"confirm", "confirm", "cancel", "expire", "expire", "extend", "refund", "late", "late"}).Draw(t, "how") {
	case "confirm":
		v, want = d.Confirm(c, payment), done[open]
	case "cancel":
		v, want = d.Cancel(c, "w", "r"), done[was.State == StateHeld]
	case "expire":
		v, want = d.Expire(c), done[was.State == StateHeld && !open]
	case "extend":
		if v, want = d.Extend(c), done[open && !was.Extended && p.GetExtendByUs() > 0]; open && !was.Extended && want < 0 {
			want = SettleNoExtension
		}
	case "refund":
		v, want = d.Refund(c, "w", "", rapid.Bool().Draw(t, "retire")), done[was.State == StateSold]
	case "late":
		v, want = d.Late(c, payment), SettleRefundDue
		switch resold := v.Kind == SettleDone; {
		case open, bought && !owed:
			want = -1
		case resold && !owed && p.GetLate() == pb.Payment_RESELL && (was.State == StateExpired || was.State == StateHeld):
			want = SettleDone
		}
	}
	if v.Kind != want && (want >= 0 || v.Kind == SettleDone) || want < 0 && fmt.Sprint(v.Claim) != fmt.Sprint(was) {
		t.Fatalf("at %d, settlement %d of %+v, want %d: %+v", d.TimeUs(), v.Kind, was, want, v.Claim)
	}
	return v
}

// buy claims a unit for a new user or an earlier one.
func (h *history) buy(t *rapid.T, shard int, d *Draft) {
	id := request{rapid.SampledFrom([]string{"u", "v", "w"}).Draw(t, "user"), fmt.Sprint(h.timeUs, " ", h.shards[shard].Claims(), " ", d.Ops())}
	want := Granted
	switch {
	case h.settings.GetPhase() != pb.Phase_OPEN:
		want = NotNow
	case h.had[shard][id.user] >= h.settings.GetPerUserLimit():
		want = OverLimit
	case d.Available() == 0:
		want = Short
	}
	if _, again := h.granted[shard][id]; again {
		return
	}
	v := d.Claim(id.user, id.key, 1)
	if v.Kind != want {
		t.Fatalf("decision %d for %+v, who has %d, want %d", v.Kind, id, h.had[shard][id.user], want)
	}
	if want == Granted {
		h.granted[shard][id] = grant{1, slices.Clone(d.Units(v.Op))}
		h.had[shard][id.user]++
	}
}

// expire ends the holds that are due by a draft, in the order of their release.
func (h *history) expire(t *rapid.T) {
	shard := rapid.IntRange(0, historyShards-1).Draw(t, "shard")
	s, d := h.shards[shard], h.draft(shard)
	var want []Claim
	for _, c := range s.Holds() {
		if c.ReleaseUs() <= d.TimeUs() {
			want = append(want, c)
		}
	}
	slices.SortStableFunc(want, func(a, b Claim) int { return cmp.Compare(a.ReleaseUs(), b.ReleaseUs()) })
	due := s.Due(d.TimeUs(), rapid.IntRange(0, 4).Draw(t, "most"))
	if fmt.Sprint(due) != fmt.Sprint(want[:min(len(due), len(want))]) {
		t.Fatalf("due are %+v, want %+v", due, want)
	}
	for _, c := range due {
		if v := d.Expire(c); v.Kind != SettleDone || v.Claim.State != StateExpired {
			t.Fatalf("settlement %d of %+v", v.Kind, c)
		}
		h.had[shard][c.User] -= int64(len(c.Units))
	}
	h.commit(t, shard, d)
	if next, ok := s.NextDue(); ok != (s.OpenHolds > 0) || ok && len(due) == len(want) && next <= d.TimeUs() {
		t.Fatalf("of %d holds that were due, the next is due at %d, %v", len(due), next, ok)
	}
}

// waste drafts a little of everything and does not store it.
func (h *history) waste(t *rapid.T) {
	shard := rapid.IntRange(0, historyShards-1).Draw(t, "shard")
	peer := (shard + 1) % historyShards
	d := h.draft(shard)
	d.Claim("wasted", "k", 1)
	if open, ok := h.shards[peer].OpenTo(shard); ok && h.shards[shard].Received(peer) < open.K {
		if err := d.In(peer, open.K, open.Units); err != nil {
			t.Fatal(err)
		}
	}
	if open, ok := h.shards[shard].OpenTo(peer); ok {
		d.Ack(peer, open.K)
	} else {
		d.Out(peer, 1)
	}
}

// check holds the whole to its invariants.
func (h *history) check(t *rapid.T) {
	var all Units
	var limit int64
	put := func(units Units) {
		for _, r := range units {
			if err := all.Add(r); err != nil {
				t.Fatalf("in two places: %v", err)
			}
		}
	}
	for i, s := range h.shards {
		if err := recount(s); err != nil {
			t.Fatalf("shard %d: %v", i, err)
		}
		if got, want := Observe(h.twins[i]), Observe(s); got != want {
			t.Fatalf("shard %d, folded from its bytes, is\n%s\nnot\n%s", i, got, want)
		}
		limit += s.Limit
		put(s.available)
		for n := range s.Claims() {
			if c := s.Claim(n); c.State == StateHeld || c.State == StateSold {
				for _, unit := range c.Units {
					put(Units{{unit, 1}})
				}
			}
		}
		for _, open := range s.Open() {
			if h.shards[open.To].Received(i) < open.K {
				put(open.Units)
			}
		}
	}
	if all.Count() != limit {
		t.Fatalf("%d units are somewhere, the limits sum up to %d", all.Count(), limit)
	}
}

// Observe formats the results of all queries of a state.
func Observe(s *State) string {
	text := fmt.Sprintf("%+v %v %d %v %v %v %v\n", s.Head(), s.Settings(), s.Bytes(), s.Sealed(), s.Open(), s.available,
		s.Due(math.MaxInt64, math.MaxInt))
	for i := range s.Claims() {
		c := s.Claim(i)
		found, ok := s.Find(c.User, c.Key)
		text += fmt.Sprintf("%+v %v %v %d\n", c, found, ok, s.UserUnits(c.User))
	}
	for _, shard := range slices.Sorted(maps.Keys(s.transfers)) {
		text += fmt.Sprintf("%d: %d\n", shard, s.Received(shard))
	}
	return text
}

func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory()
		h.generation(t)
		t.Repeat(map[string]func(*rapid.T){
			"claims":     h.claims,
			"transfer":   h.transfer,
			"business":   h.business,
			"expire":     h.expire,
			"waste":      h.waste,
			"generation": h.generation,
			"time":       func(t *rapid.T) { h.timeUs += rapid.Int64Range(-2, 4).Draw(t, "passes") },
			"owner": func(t *rapid.T) {
				shard := rapid.IntRange(0, historyShards-1).Draw(t, "shard")
				d := h.shards[shard].Draft(fmt.Append(nil, "writer", h.shards[shard].Epoch+1), h.timeUs)
				d.Own("there:1")
				h.commit(t, shard, d)
			},
			"": h.check,
		})
		h.end(t)
		h.check(t)
	})
}

// end closes the sale, drives every hold and transfer to its end, and seals.
func (h *history) end(t *rapid.T) {
	h.settings = PhaseSettings(pb.Phase_CLOSED)
	for shard, s := range h.shards {
		d := h.draft(shard)
		if err := d.Generation(&pb.Generation{Number: s.Generation + 1, Settings: h.settings}); err != nil {
			t.Fatal(err)
		}
		h.commit(t, shard, d)
	}
	for from, s := range h.shards {
		for _, open := range s.Open() {
			d := h.draft(open.To)
			if err := d.In(from, open.K, open.Units); err != nil {
				t.Fatal(err)
			}
			h.commit(t, open.To, d)
			d = h.draft(from)
			d.Ack(open.To, open.K)
			h.commit(t, from, d)
		}
		for i := range s.Claims() {
			if c := s.Claim(i); c.State == StateHeld {
				stored, err := FoldCommit(s, By(SettleOp(c.Slot, uint32(c.Index), pb.Settle_CANCEL)).as("planner", s.Epoch))
				if err != nil {
					t.Fatal(err)
				}
				if err := h.twins[from].Fold(stored); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for shard := range h.shards {
		d := h.draft(shard)
		d.Seal()
		h.commit(t, shard, d)
	}
}
