package shard

import (
	"fmt"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/executor/request"
)

// newSeats has a sale whose buyers choose among rows of five units.
func newSeats(t testing.TB, shares ...int64) *world {
	s := &pb.Settings{PerUserLimit: 100, Phase: pb.Phase_OPEN, Choose: true}
	stock := int64(0)
	for _, n := range shares {
		stock += n
	}
	for first := int64(1); first <= stock; first += 5 {
		s.Rows = append(s.Rows, &pb.Range{First: first, Count: 5})
	}
	return newWorldAs(t, s, shares...)
}

// wants is a request of a buyer of a shard: for particular units or, if there are none, for
// so many adjacent ones; below 0 for so many of any.
type wants struct {
	shard, buyer int
	n            int64
	units        []int64
}

func (h *host) choose(x wants) *asked {
	r := request.Request{User: h.w.buyer(x.shard, x.buyer), Key: "key", Quantity: x.n, Units: x.units, Adjacent: x.units == nil}
	switch {
	case x.units != nil:
		r.Quantity = int64(len(x.units))
	case x.n < 0:
		r.Quantity, r.Adjacent = -x.n, false
	}
	return h.request(r)
}

// What buyers choose they get, wherever it is, and no time passes.
func TestChoose(t *testing.T) {
	for name, c := range map[string]struct {
		shares []int64
		asks   []wants // at once
		want   []string
	}{
		"here":                      {[]int64{10}, []wants{{units: []int64{3, 7}}}, []string{"sold [3 7]"}},
		"elsewhere":                 {[]int64{5, 10}, []wants{{units: []int64{9}}}, []string{"sold [9]"}},
		"all that is elsewhere":     {[]int64{0, 3}, []wants{{units: []int64{1, 2, 3}}}, []string{"sold [1 2 3]"}},
		"here and elsewhere":        {[]int64{5, 5, 5, 5}, []wants{{1, 0, 0, []int64{3, 8, 12, 18}}}, []string{"sold [3 8 12 18]"}},
		"not in the sale":           {[]int64{5, 5}, []wants{{units: []int64{3, 11}}}, []string{"units_taken"}},
		"more than there is":        {[]int64{1, 1}, []wants{{units: []int64{1, 2, 3}}}, []string{"none_now"}},
		"what somebody has":         {[]int64{5, 5}, []wants{{1, 0, 0, []int64{7}}, {0, 0, 0, []int64{2, 7}}}, []string{"sold [7]", "units_taken"}},
		"when all is sold":          {[]int64{1, 1}, []wants{{0, 0, -1, nil}, {1, 0, -1, nil}, {0, 1, 0, []int64{2}}}, []string{"sold [1]", "sold [2]", "sold_out"}},
		"the same unit of a third":  {[]int64{5, 5, 5}, []wants{{0, 0, 0, []int64{12}}, {1, 0, 0, []int64{12}}}, []string{"sold [12]", "units_taken"}},
		"each other's units":        {[]int64{5, 5}, []wants{{1, 0, 0, []int64{1, 6}}, {0, 0, 0, []int64{1, 6}}}, []string{"units_taken", "sold [1 6]"}},
		"three want each other's":   {[]int64{5, 5, 5}, []wants{{0, 0, 0, []int64{1, 6}}, {1, 0, 0, []int64{6, 11}}, {2, 0, 0, []int64{1, 11}}}, []string{"sold [1 6]", "units_taken", "units_taken"}},
		"other units of a shard":    {[]int64{5, 5}, []wants{{0, 0, 0, []int64{1, 6}}, {1, 0, 0, []int64{2, 7}}}, []string{"sold [1 6]", "sold [2 7]"}},
		"of a shard short of any":   {[]int64{2, 5}, []wants{{0, 0, -6, nil}, {1, 0, 0, []int64{1}}}, []string{"sold [2 3 4 5 6 7]", "sold [1]"}},
		"many":                      {[]int64{5, 5}, []wants{{0, 0, 0, []int64{6}}, {0, 1, 0, []int64{7}}, {0, 2, 0, []int64{8}}, {0, 3, 0, []int64{9}}}, []string{"sold [6]", "sold [7]", "sold [8]", "sold [9]"}},
		"adjacent ones here":        {[]int64{5, 5}, []wants{{1, 0, 3, nil}}, []string{"sold [6 7 8]"}},
		"adjacent ones elsewhere":   {[]int64{2, 1, 7}, []wants{{0, 0, 3, nil}}, []string{"sold [6 7 8]"}},
		"not in the first asked":    {[]int64{0, 5, 10, 4}, []wants{{2, 0, 0, []int64{8, 13}}, {0, 0, 5, nil}}, []string{"sold [8 13]", "sold [1 2 3 4 5]"}},
		"adjacent ones of two":      {[]int64{3, 2}, []wants{{0, 0, 5, nil}}, []string{"not_adjacent"}},
		"more than a row has":       {[]int64{10, 10}, []wants{{0, 0, 6, nil}}, []string{"not_adjacent"}},
		"adjacent of what is left":  {[]int64{5, 5}, []wants{{0, 0, 0, []int64{1, 3, 5}}, {1, 0, 3, nil}, {0, 1, 2, nil}, {0, 2, 1, nil}}, []string{"sold [1 3 5]", "sold [6 7 8]", "sold [9 10]", "sold [2]"}},
		"several runs of one":       {[]int64{0, 20}, []wants{{0, 0, 4, nil}, {0, 1, 3, nil}, {0, 2, 4, nil}, {0, 3, 5, nil}}, []string{"sold [1 2 3 4]", "sold [6 7 8]", "sold [11 12 13 14]", "sold [16 17 18 19 20]"}},
		"any beside chosen ones":    {[]int64{0, 10}, []wants{{0, 0, 0, []int64{10}}, {0, 1, 2, nil}, {0, 2, -3, nil}}, []string{"sold [10]", "sold [1 2]", "sold [6 7 8]"}},
		"any of a shard that waits": {[]int64{4, 1, 5}, []wants{{0, 0, 0, []int64{1, 7}}, {1, 0, -3, nil}}, []string{"sold [1 7]", "sold [5 9 10]"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSeats(t, c.shares...)
			h := w.serving("first")
			var all []*asked
			for _, x := range c.asks {
				all = append(all, h.choose(x))
			}
			w.settle()
			for i, x := range all {
				got := string(x.answer.Outcome)
				if x.answer.Accepted() {
					got += fmt.Sprint(" ", x.answer.Claim.Units)
				}
				if got != c.want[i] {
					t.Errorf("request %d: %s, want %s", i, got, c.want[i])
				}
			}
			h.wantRest()
		})
	}
}

// Where the settings let nobody choose, whoever does is told so.
func TestNoChoice(t *testing.T) {
	w := newWorld(t, 9, 5, 5)
	h := w.serving("first")
	named, adjacent := h.choose(wants{units: []int64{1}}), h.choose(wants{buyer: 1, n: 2})
	w.settle()
	named.want(t, "bad_request")
	adjacent.want(t, "bad_request")
}

// In a sale with partial whoever chooses gets all or nothing.
func TestChooseWithPartial(t *testing.T) {
	w := newWorldAs(t, &pb.Settings{
		PerUserLimit: 3, Phase: pb.Phase_OPEN, Choose: true, Partial: true, Rows: []*pb.Range{{First: 1, Count: 2}},
	}, 2, 2)
	h := w.serving("first")
	some := h.choose(wants{units: []int64{1, 3, 9}})
	w.settle()
	adjacent, part := h.choose(wants{n: 3}), h.choose(wants{buyer: 1, n: -9})
	w.settle()
	some.want(t, "units_taken")
	adjacent.want(t, "not_adjacent")
	if got := part.given(); got != "sold 3 of 9" {
		t.Errorf("who does not choose gets %s", got)
	}
}

// Units that came for a claim which is refused stay where they are.
func TestUnitsStay(t *testing.T) {
	w := newSeats(t, 5, 5)
	h := w.serving("first")
	x := h.choose(wants{units: []int64{7, 11}})
	w.settle()
	x.want(t, "units_taken")
	h.wantRest()
	if got := fmt.Sprint(h.actors[0].q.state.AvailableUnits()); got != "[1-5 7]" {
		t.Errorf("on the shard are %s", got)
	}
}

// A shard that is silent is waited for once; what comes from it late is not lost.
func TestChooseOfASilentShard(t *testing.T) {
	for name, c := range map[string]wants{"named": {units: []int64{8}}, "adjacent": {n: 5}} {
		t.Run(name, func(t *testing.T) {
			w := newSeats(t, 1, 4, 6)
			h := w.serving("first")
			w.mail = func(m Message) int {
				if m.To == 2 {
					return 0
				}
				return 1
			}
			x := h.choose(c)
			w.pass(ReplyTimeout - time.Millisecond)
			x.want(t, "")
			w.pass(2 * time.Millisecond)
			x.want(t, map[string]string{"named": "units_taken", "adjacent": "not_adjacent"}[name])
			w.mail = nil
			w.pass(time.Second)
			again := h.choose(c)
			w.settle()
			again.want(t, "sold")
			h.wantRest()
		})
	}
}

// An answer to an earlier request is none to a later one, whose units the shard may have.
func TestLateAnswers(t *testing.T) {
	for name, first := range map[string][]int64{"none": {11}, "sent": {6, 11}} {
		t.Run(name, func(t *testing.T) {
			w := newSeats(t, 5, 5)
			h := w.serving("first")
			var late Message
			w.mail = func(m Message) int {
				if m.To == 0 {
					late = m
					return 0
				}
				return 1
			}
			x := h.choose(wants{units: first})
			w.pass(ReplyTimeout - time.Millisecond)
			if late.From != 1 || late.Request != 1 {
				t.Fatalf("the other shard has said %+v", late)
			}
			w.mail = func(Message) int { return 0 }
			w.pass(2 * time.Millisecond)
			x.want(t, "units_taken")
			x = h.choose(wants{buyer: 1, units: []int64{7}})
			w.settle()
			h.say(late)
			w.settle()
			x.want(t, "") // the request for its unit is on its way
			w.mail = nil
			h.say(Message{Kind: Want, From: 0, To: 1, Request: 2, Units: ledger.Units{{First: 7, Count: 1}}})
			w.pass(ReplyTimeout - time.Millisecond)
			x.want(t, "sold")
		})
	}
}

// A transfer that is sent again does not say which request it answers: those of claims that
// choose since then go on being searched for.
func TestSearchBeyondATransferSentAgain(t *testing.T) {
	for name, c := range map[string]struct {
		then wants
		sold string
	}{
		"adjacent": {wants{buyer: 2, n: 3}, "[11 12 13]"},
		"named":    {wants{buyer: 2, units: []int64{10, 12}}, "[10 12]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSeats(t, 5, 5, 3)
			h := w.serving("first")
			here := h.choose(wants{units: []int64{3}})
			w.settle()
			here.want(t, "sold")
			var lost Message
			w.mail = func(m Message) int {
				if m.From == 1 && m.To == 0 {
					lost = m
					return 0
				}
				return 1
			}
			first := h.choose(wants{buyer: 1, units: []int64{8}})
			w.pass(ReplyTimeout + time.Millisecond)
			first.want(t, "units_taken")
			then := h.choose(c.then)
			w.settle()
			then.want(t, "") // shard 1 is to answer it, once its transfer was received
			if lost.Kind != Sent || lost.Request != 0 {
				t.Fatalf("shard 1 has said %+v again", lost)
			}
			w.mail = nil
			h.say(lost)
			w.settle()
			then.want(t, "sold")
			if got := fmt.Sprint(then.answer.Claim.Units); got != c.sold {
				t.Errorf("it gets %s, want %s", got, c.sold)
			}
			h.wantRest()
		})
	}
}

// A claim is refused though the shard has others to decide all the while, and though other
// shards are asked for what those choose.
func TestChooseAmongMany(t *testing.T) {
	w := newSeats(t, 500, 5)
	h := w.serving("first")
	nobody, nowhere := h.choose(wants{units: []int64{600}}), h.choose(wants{buyer: 1, n: 6})
	user := w.buyer(0, 2)
	for i := 0; !nobody.answered || !nowhere.answered; i++ {
		if i == 100 {
			t.Fatalf("after 100 commits they are told %v and %v", nobody.answer, nowhere.answer)
		}
		h.request(request.Request{User: user, Key: fmt.Sprint(i), Quantity: 1, Units: []int64{400}})
		h.request(request.Request{User: w.buyer(0, 3), Key: fmt.Sprint(i), Quantity: 1})
		for range 4 {
			h.actors[0].turn()
		}
		for range 3 {
			h.actors[1].turn()
		}
	}
	nobody.want(t, "units_taken")
	nowhere.want(t, "not_adjacent")
	w.settle()
}

// Where claims name more units than a shard may be asked for at a time, the last ones wait
// for their turn.
func TestChooseMoreThanMayBeAskedFor(t *testing.T) {
	w := newSeats(t, 5, 2500)
	h := w.serving("first")
	most := 0
	w.mail = func(m Message) int {
		if m.Kind == Want {
			most = max(most, int(m.Units.Count()))
		}
		return 1
	}
	var all []*asked
	for i := range 25 {
		x := wants{buyer: i}
		for unit := range int64(100) {
			x.units = append(x.units, 6+int64(i)+25*unit)
		}
		all = append(all, h.choose(x))
	}
	w.settle()
	if n := count(all, api.Sold); n != len(all) {
		t.Errorf("%d of %d got their units", n, len(all))
	}
	if most > maxNamedUnits {
		t.Errorf("a shard was asked for %d units at once", most)
	}
}

// Whoever takes a shard over begins to search anew.
func TestSearchAnew(t *testing.T) {
	x := &request.Ticket{Decision: request.Decision{Search: new(request.Search), FirstRequest: 7}}
	new(requests).add([]*request.Ticket{x})
	if x.Search != nil {
		t.Error("what an owner before has asked counts")
	}
}

// What a shard gives to others of the units that claims here wait for.
func TestOut(t *testing.T) {
	named := ledger.Units{{First: 2, Count: 2}, {First: 9, Count: 1}}
	for name, c := range map[string]struct {
		waits []request.Request // on shard 1, which has the units 2 to 11
		want  Message
		gives string
	}{
		"some":                      {nil, Message{From: 2, Lacks: 3}, "[7-11]"},
		"named":                     {nil, Message{From: 2, Units: named}, "[2-3 9]"},
		"none of those named":       {nil, Message{From: 2, Units: ledger.Units{{First: 1, Count: 1}}}, "[]"},
		"a run":                     {nil, Message{From: 2, Run: 4}, "[2-5]"},
		"no run":                    {nil, Message{From: 2, Run: 6}, "[]"},
		"all kinds":                 {nil, Message{From: 2, Units: named, Run: 3, Lacks: 1}, "[2-3 6-11]"},
		"named that are waited for": {[]request.Request{{Units: []int64{1, 3}}}, Message{From: 2, Units: named}, "[2 9]"},
		"to a lower shard":          {[]request.Request{{Units: []int64{1, 3}}}, Message{From: 0, Units: named}, "[2-3 9]"},
		"a run beside them":         {[]request.Request{{Units: []int64{1, 3}}}, Message{From: 2, Run: 4}, "[6-9]"},
		"a run for a lower shard":   {[]request.Request{{Units: []int64{1, 3}}}, Message{From: 0, Run: 4}, "[2-5]"},
		"some beside them":          {[]request.Request{{Units: []int64{1, 10}}}, Message{From: 2, Lacks: 2}, "[6-9 11]"},
		"some where adjacent ones are waited for": {[]request.Request{{Adjacent: true}}, Message{From: 2, Lacks: 2}, "[7-11]"},
		"some where any are waited for":           {[]request.Request{{}}, Message{From: 2, Lacks: 2}, "[]"},
		"a run where any are waited for":          {[]request.Request{{}}, Message{From: 2, Run: 2}, "[]"},
		"named where any are waited for":          {[]request.Request{{}}, Message{From: 2, Units: named, Lacks: 5, Run: 2}, "[2-3 9]"},
		"some for a lower shard":                  {[]request.Request{{}}, Message{From: 0, Lacks: 2}, "[7-11]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSeats(t, 1, 10, 1)
			q := w.serving("first").actors[1].q
			for _, r := range c.waits {
				q.requests.waiting = append(q.requests.waiting, &request.Ticket{Request: r})
			}
			d := q.state.Draft(q.me, 0)
			got, err := q.transfers.draftOut(d, c.want)
			if err != nil || fmt.Sprint(got.Units) != c.gives || d.Available() != 10-got.Units.Count() || d.Ops() != min(1, len(got.Units)) {
				t.Errorf("it gives %v, %v; want %s", got.Units, err, c.gives)
			}
			q.requests.waiting = nil
		})
	}
}

// A key that was used for other units is refused, from memory and by a decision.
func TestChooseWithAKeyOfOthers(t *testing.T) {
	for name, c := range map[string]struct{ first, other wants }{
		"units":    {wants{units: []int64{1, 6}}, wants{units: []int64{1, 7}}},
		"adjacent": {wants{units: []int64{1, 6}}, wants{n: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSeats(t, 5, 5)
			h := w.serving("first")
			first := h.choose(c.first)
			w.settle()
			first.want(t, "sold")
			other := h.choose(c.other)
			w.settle()
			other.want(t, "key_reused")
			a := &Shard{ledgerView: ledgerView{seq: h.actors[0].q}}
			for x, want := range map[*wants]string{&c.first: "sold", &c.other: "key_reused"} {
				r := request.Request{User: w.buyer(0, 0), Key: "key", Quantity: 2, Units: x.units, Adjacent: x.units == nil}
				if got, ok := a.Recall(w.now, r); !ok || string(got.Outcome) != want {
					t.Errorf("recalled %+v, %v; want %s", got, ok, want)
				}
			}
		})
	}
}
