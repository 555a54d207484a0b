package rehearse

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"salectl/api"
	"salectl/spec"
)

// hall is a small sale whose buyers may choose seats, in rows of five. It keeps every promise, except
// those that a test makes it break.
type hall struct {
	limit int64
	// lie, if set, may replace the answer to a new claim. It reports whether it did.
	lie func(h *hall, q api.Request, a *api.Claim) bool

	mu    sync.Mutex
	taken [51]bool // by unit
	units map[string]int64
	kept  map[string]api.Claim // accepted, by key
	lied  bool                 // lie has replaced an answer
}

func (h *hall) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		fmt.Fprint(w, `{"sale":"movie"}`)
		return
	}
	var q api.Request
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	q.Key = r.Header.Get(api.KeyHeader)
	h.mu.Lock()
	defer h.mu.Unlock()
	a, status := h.kept[q.Key], http.StatusOK
	if a.ID == "" {
		a = h.sell(q)
		if h.lie != nil && !h.lied {
			h.lied = h.lie(h, q, &a)
		}
		if status = http.StatusConflict; a.Outcome == api.Sold {
			status = http.StatusCreated
			a.ID, a.Sale, a.User = fmt.Sprintf("0-1-%d", len(h.kept)), "movie", q.User
			h.take(a.Units, true)
			h.units[q.User] += int64(len(a.Units))
			h.kept[q.Key] = a
		}
	}
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(a)
}

func (h *hall) take(units []int64, taken bool) {
	for _, unit := range units {
		h.taken[unit] = taken
	}
}

func (h *hall) sell(q api.Request) api.Claim {
	free := h.free()
	sold := func(units []int64) api.Claim { return api.Claim{Outcome: api.Sold, Units: units} }
	switch {
	case len(free) == 0:
		return api.Claim{Outcome: api.SoldOut}
	case h.units[q.User]+q.Quantity > h.limit:
		return api.Claim{Outcome: api.LimitReached}
	case int64(len(free)) < q.Quantity:
		return api.Claim{Outcome: api.NoneNow}
	case q.Units != nil:
		units := numbers(q.Units)
		if slices.ContainsFunc(units, func(unit int64) bool { return h.taken[unit] }) {
			return api.Claim{Outcome: api.UnitsTaken}
		}
		return sold(units)
	case q.Adjacent:
		for _, unit := range free {
			if unit%5 != 0 && !h.taken[unit+1] {
				return sold([]int64{unit, unit + 1})
			}
		}
		return api.Claim{Outcome: api.NotAdjacent}
	}
	return sold(free[int64(len(free))-q.Quantity:])
}

func (h *hall) free() (units []int64) {
	for unit := int64(1); unit <= 50; unit++ {
		if !h.taken[unit] {
			units = append(units, unit)
		}
	}
	return units
}

func numbers(names []string) (units []int64) {
	for _, name := range names {
		var unit int64
		fmt.Sscanf(name, "seat %d", &unit)
		units = append(units, unit)
	}
	return units
}

// seats are the options of buyers who choose among so many seats.
func seats(c Config) Config {
	for unit := range c.Stock {
		c.Places = append(c.Places, fmt.Sprintf("seat %d", unit+1))
		if unit%5 == 0 {
			c.Rows = append(c.Rows, min(5, c.Stock-unit))
		}
	}
	return c
}

func (h *hall) open(t *testing.T, shards int) Config {
	t.Helper()
	h.limit, h.units, h.kept = 3, map[string]int64{}, map[string]api.Claim{}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return seats(Config{
		URL: server.URL, Users: 400, Concurrency: 8, Seed: 7,
		Sale:  spec.Sale{Name: "movie", PerUserLimit: 3, Stock: 50, LockCount: shards},
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
}

// The crowd chooses, and a buyer whose seats are taken names the next ones.
func TestHonestHall(t *testing.T) {
	h := &hall{}
	next := 0
	h.lie = func(_ *hall, q api.Request, _ *api.Claim) bool {
		if strings.HasSuffix(q.Key, "-next") {
			next++
		}
		if strings.Count(q.Key, "-next") >= maxClaims {
			t.Errorf("key %s of a buyer with %d claims at most", q.Key, maxClaims)
		}
		return false
	}
	r := mustDrive(t, h.open(t, 1))
	if err := r.Verdict(); err != nil {
		t.Error(err, r.Violations)
	}
	named, adjacent := r.Choice.Named, r.Choice.Adjacent
	if named.Got == 0 || named.Refused == 0 || named.Requests < named.Got+named.Refused {
		t.Errorf("of those who named seats: %+v", named)
	}
	if adjacent.Got == 0 || adjacent.Requests < adjacent.Got+adjacent.Refused {
		t.Errorf("of those who requested adjacent ones: %+v", adjacent)
	}
	if next == 0 {
		t.Error("nobody named the next seats")
	}
	if r.UnitsSold != 50 {
		t.Errorf("%d units sold", r.UnitsSold)
	}
}

// A hall that breaks a promise once is found out.
func TestBrokenHalls(t *testing.T) {
	refuse := func(outcome api.Outcome, a *api.Claim) bool {
		*a = api.Claim{Outcome: outcome}
		return true
	}
	for name, c := range map[string]struct {
		shards int
		lie    func(h *hall, q api.Request, a *api.Claim) bool
		want   string // a part of the only violation; "": none
	}{
		"gives other seats than named": {1, func(h *hall, q api.Request, a *api.Claim) bool {
			free := h.free()
			if q.Units == nil || a.Outcome != api.Sold || slices.Equal(a.Units, free[:len(a.Units)]) {
				return false
			}
			a.Units = free[:len(a.Units)]
			return true
		}, "and received ["},
		"gives seats that are not adjacent": {1, func(h *hall, q api.Request, a *api.Claim) bool {
			if !q.Adjacent || a.Outcome != api.Sold || h.taken[50] {
				return false
			}
			a.Units[1] = 50
			return true
		}, "chose 2 units (first: 0, adjacent: true) and received ["},
		"gives the ends of two rows": {1, func(h *hall, q api.Request, a *api.Claim) bool {
			if !q.Adjacent || a.Outcome != api.Sold || h.taken[45] || h.taken[46] {
				return false
			}
			a.Units = []int64{45, 46}
			return true
		}, "chose 2 units (first: 0, adjacent: true) and received [45 46]"},
		"refuses free seats": {1, func(_ *hall, q api.Request, a *api.Claim) bool {
			return q.Units != nil && a.Outcome == api.Sold && refuse(api.UnitsTaken, a)
		}, "received units_taken, but no claim can have had such units by then"},
		"refuses adjacent seats": {1, func(_ *hall, q api.Request, a *api.Claim) bool {
			return q.Adjacent && a.Outcome == api.Sold && refuse(api.NotAdjacent, a)
		}, "received not_adjacent, but no claim can have had such units by then"},
		"has seats in transfer": {2, func(_ *hall, q api.Request, a *api.Claim) bool {
			return q.Units != nil && a.Outcome == api.Sold && refuse(api.UnitsTaken, a)
		}, ""},
		"takes what nobody named": {2, func(_ *hall, q api.Request, a *api.Claim) bool {
			return q.Units == nil && a.Outcome == api.Sold && refuse(api.UnitsTaken, a)
		}, "received units_taken, and chose no such units"},
		"has no pair for one": {2, func(_ *hall, q api.Request, a *api.Claim) bool {
			return !q.Adjacent && a.Outcome == api.Sold && refuse(api.NotAdjacent, a)
		}, "received not_adjacent, and chose no such units"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hall{lie: c.lie}
			config := h.open(t, c.shards)
			config.Concurrency = 1 // the first lie is told while most seats are free
			r := mustDrive(t, config)
			switch {
			case !h.lied:
				t.Error("no buyer gave occasion to the lie")
			case c.want == "" && len(r.Violations) > 0:
				t.Errorf("unfair: %q", r.Violations)
			case c.want != "" && (len(r.Violations) != 1 || !strings.Contains(r.Violations[0], c.want)):
				t.Errorf("got %q, want only %q", r.Violations, c.want)
			}
		})
	}
}

// TestJudgeOfChoices has refusals that look wrong and are not, each beside one that is.
func TestJudgeOfChoices(t *testing.T) {
	named := func(first, quantity int64, r record) record {
		r.first, r.quantity = first, quantity
		return r
	}
	adjacent := func(r record) record {
		r.adjacent, r.quantity = true, 2
		return r
	}
	taken := named(1, 2, at(5, 8, "b/1", 409, "units_taken"))
	const wrong = "b/1 received "
	for name, c := range map[string]struct {
		records []record
		want    string // a part of the only violation; "": none
	}{
		"taken before":                      {[]record{at(0, 4, "a/1", 201, "sold", 2), taken}, ""},
		"taken meanwhile":                   {[]record{at(7, 9, "a/1", 201, "sold", 2), taken}, ""},
		"taken later":                       {[]record{at(8, 9, "a/1", 201, "sold", 2), taken}, wrong},
		"others are taken":                  {[]record{at(0, 4, "a/1", 201, "sold", 3), taken}, wrong},
		"taken by an earlier request":       {[]record{at(8, 9, "a/1", 201, "sold", 2), at(7, 10, "a/1", 200, "sold", 2), taken}, ""},
		"by somebody without an answer":     {[]record{at(0, 4, "a/1", 503, "unknown"), taken}, ""},
		"no pair is left":                   {[]record{at(0, 1, "a/1", 201, "sold", 2), at(0, 1, "c/1", 201, "sold", 4), adjacent(at(5, 8, "b/1", 409, "not_adjacent"))}, ""},
		"a pair is taken meanwhile":         {[]record{at(0, 1, "a/1", 201, "sold", 2), at(7, 9, "c/1", 201, "sold", 4), adjacent(at(5, 8, "b/1", 409, "not_adjacent"))}, ""},
		"a pair is taken later":             {[]record{at(0, 1, "a/1", 201, "sold", 2), at(8, 9, "c/1", 201, "sold", 4), adjacent(at(5, 8, "b/1", 409, "not_adjacent"))}, wrong},
		"got what it named":                 {[]record{named(1, 2, at(5, 8, "b/1", 201, "sold", 1, 2))}, ""},
		"got a part":                        {[]record{named(1, 2, wanting(2, 2, at(5, 8, "b/1", 201, "sold", 1)))}, "b/1 requested 2 units and received 201 sold"},
		"beyond the limit with all":         {[]record{at(0, 1, "b/1", 201, "sold", 4), named(1, 2, at(5, 8, "b/2", 409, "limit_reached"))}, ""},
		"got others":                        {[]record{named(1, 2, at(5, 8, "b/1", 201, "sold", 2, 3))}, "b/1 chose 2 units (first: 1, adjacent: false) and received [2 3]"},
		"got adjacent ones":                 {[]record{adjacent(at(5, 8, "b/1", 201, "sold", 4, 5))}, ""},
		"got the ends of two rows":          {[]record{adjacent(at(5, 8, "b/1", 201, "sold", 3, 4))}, "b/1 chose 2 units (first: 0, adjacent: true) and received [3 4]"},
		"got adjacent ones, and named none": {[]record{wanting(2, 0, at(5, 8, "b/1", 201, "sold", 3, 4))}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := seats(Config{Sale: spec.Sale{Name: "movie", PerUserLimit: 2, Stock: 5, LockCount: 1, Partial: true}})
			config.Rows = []int64{3, 2}
			violations := judged(config, c.records, nil, nil).violations
			switch {
			case c.want == "" && len(violations) > 0:
				t.Errorf("unfair: %q", violations)
			case c.want != "" && (len(violations) != 1 || !strings.Contains(violations[0], c.want)):
				t.Errorf("got %q, want only %q", violations, c.want)
			}
		})
	}
}

// Who chooses, and what, is the seed's. The first seats are named most often.
func TestPlanOfChoices(t *testing.T) {
	c := seats(Config{Sale: spec.Sale{PerUserLimit: 3, Stock: 40}, Users: 10_000, Seed: 3})
	plan := planned(c)
	if !reflect.DeepEqual(plan, planned(c)) {
		t.Error("one seed has two plans")
	}
	var named, pairs, all float64
	by := map[int64]int{}
	for _, v := range plan {
		for _, k := range v {
			all++
			names := k.names(c)
			switch {
			case k.first != 0 && (k.adjacent || int64(len(names)) != k.quantity || k.quantity > 3):
				t.Fatalf("%+v names %q", k, names)
			case k.adjacent && k.quantity != 2:
				t.Fatalf("%+v is for no pair", k)
			case k.first != 0:
				named++
				by[k.first]++
			case k.adjacent:
				pairs++
			}
		}
	}
	if named/all < .55 || named/all > .6 || pairs/all < .18 || pairs/all > .2 {
		t.Errorf("%.3f of the claims name units, %.3f are for pairs", named/all, pairs/all)
	}
	if by[1] < 2*by[10] || by[10] < 2*by[37] || by[37] == 0 {
		t.Errorf("claims by the first unit named: %v", by)
	}

	for name, change := range map[string]func(*Config){
		"one for each user": func(c *Config) { c.PerUserLimit = 1 },
		"rows of one":       func(c *Config) { c.Rows = []int64{1, 1, 1} },
		"no rows":           func(c *Config) { c.Rows = nil },
	} {
		one := c
		change(&one)
		for _, v := range planned(one) {
			if v[0].adjacent {
				t.Errorf("%s: %+v", name, v[0])
				break
			}
		}
	}
}

// The next seats are those after the taken ones, under another key, as far as there are some.
func TestNextSeats(t *testing.T) {
	c := seats(Config{Sale: spec.Sale{Stock: 5}})
	k := click{key: "a", quantity: 2, choice: choice{first: 2}}
	if !k.next(c) || k.first != 4 || k.key != "a-next" || !slices.Equal(k.names(c), c.Places[3:]) {
		t.Errorf("the next is %+v", k)
	}
	if k.next(c) {
		t.Errorf("there is a next: %+v", k)
	}
	if k = (click{quantity: 2, choice: choice{first: 2}}); !k.next(c) || k.next(c) {
		t.Errorf("seats 4 and 5 are the last, and the next is %+v", k)
	}
	if k = (click{quantity: 2, choice: choice{first: 3}}); k.next(c) {
		t.Errorf("seat 5 is the last, and the next is %+v", k)
	}
	if k = (click{quantity: 1}); k.names(c) != nil || k.next(c) {
		t.Error("who names nothing has a next")
	}
}

// A refused choice is final, also where buyers repeat what may change: the buyer chooses others.
func TestRefusedChoiceIsFinal(t *testing.T) {
	w := &worker{drive: &drive{Config: Config{}.withDefaults()}}
	for outcome, want := range map[api.Outcome]bool{api.UnitsTaken: false, api.NotAdjacent: false, api.NoneNow: true} {
		answer := new(api.Answer)
		answer.Outcome = outcome
		if got := w.attempted(api.Attempt{Number: 1, Answer: answer, Again: true}); got != want {
			t.Errorf("%s is repeated: %v, want %v", outcome, got, want)
		}
	}
}

// A claim that was paid late may have other units since, and nobody knows since when.
func TestUnitsPaidLateWereNotFree(t *testing.T) {
	claim := holding("a/1", is(1200, 1210, api.Confirm, "p", api.Sold, 2))
	accepted := record{
		click: click{user: "a", key: "a/1", quantity: 1}, reply: reply{status: 201, Claim: claim.claim}, began: moment(0), ended: moment(1),
	}
	refused := record{
		click: click{user: "b", key: "b/1", quantity: 1, choice: choice{first: 2}}, reply: reply{status: 409},
		sent: time.Second, began: moment(1000), ended: moment(1300),
	}
	refused.Outcome = api.UnitsTaken
	c := seats(Config{Sale: spec.Sale{Name: "movie", PerUserLimit: 2, Stock: 5, LockCount: 1, Payment: &spec.Payment{
		HoldFor: spec.Duration(time.Second), Grace: spec.Duration(100 * time.Millisecond), Late: spec.LateResell,
	}}})
	for unit, want := range map[int64]int{1: 0, 2: 0, 3: 1} {
		refused.first = unit
		if got := judged(c, []record{accepted, refused}, []*play{claim}, nil).violations; len(got) != want {
			t.Errorf("who named unit %d: %q", unit, got)
		}
	}
}
