package rehearse

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"salectl/api"
)

// If buyers may choose units, some name them, the first ones of the sale most often, and name the
// next ones when these are taken. Others request two adjacent units.

// Mix of buyers who may choose, in thousandths. The remaining buyers accept any units.
const (
	namesUnits   = 600
	requestsPair = 200
)

const (
	maxNamed  = 100 // units named by one claim
	maxClaims = 3   // claims of a buyer whose named units are taken
	pair      = 2   // quantity of a claim for adjacent units
)

// choice is what a claim requires beyond a quantity.
type choice struct {
	first    int64 // number of the first of the consecutive units that it names; 0: it names none
	adjacent bool  // it requests a pair
}

// choose draws the choice of a claim.
func (k *click) choose(c Config, random *rand.Rand) {
	if len(c.Places) == 0 {
		return
	}
	switch kind := random.IntN(1000); {
	case kind < namesUnits:
		k.quantity = min(k.quantity, maxNamed)
		k.first = 1 + random.Int64N(1+random.Int64N(int64(len(c.Places))-k.quantity+1))
	case kind < namesUnits+requestsPair && c.PerUserLimit >= pair && slices.ContainsFunc(c.Rows, func(n int64) bool { return n >= pair }):
		k.quantity, k.adjacent = pair, true
	}
}

// next changes a claim of taken units into one of the units after them. It reports whether the sale has
// these.
func (k *click) next(c Config) bool {
	named := k.first != 0
	k.first, k.key = k.first+k.quantity, k.key+"-next"
	return named && k.first+k.quantity-1 <= int64(len(c.Places))
}

// names returns the names of the named units.
func (k *click) names(c Config) []string {
	if k.first == 0 {
		return nil
	}
	return c.Places[k.first-1 : k.first-1+k.quantity]
}

// run returns n consecutive units.
func run(first, n int64) (units []int64) {
	for unit := first; unit < first+n; unit++ {
		units = append(units, unit)
	}
	return units
}

// pairs returns the first unit of each pair of adjacent units, in order.
func (c *Config) pairs() (firsts []int64) {
	first := int64(1)
	for _, n := range c.Rows {
		firsts = append(firsts, run(first, n-pair+1)...)
		first += n
	}
	return firsts
}

// Choice reports the requests of buyers who chose units.
type Choice struct {
	Named    Chosen `json:"named"`    // requests that named units; others were refused as taken
	Adjacent Chosen `json:"adjacent"` // requests for two adjacent units; others were refused as not adjacent
}

// Chosen counts requests of one kind. Other refusals, such as sold_out, are in none of its counts but
// Requests.
type Chosen struct {
	Requests int `json:"requests"`
	Got      int `json:"got"`     // accepted, or repeated requests of accepted claims
	Refused  int `json:"refused"` // units_taken or not_adjacent
	// Free counts those of Refused whose units certainly belonged to no buyer: every claim that
	// has them was sent after the answer. Units in transfer between shards, or adjacent ones on
	// two shards, cause such a refusal. With one shard it is a violation.
	Free int `json:"free"`
}

// chosen checks that a new claim has the units that its buyer chose.
func (j *judge) chosen(r *record) {
	if r.choice == (choice{}) {
		return
	}
	if r.first != 0 && !slices.Equal(r.Units, run(r.first, r.quantity)) {
		j.violated("%s named the units %v and received %v", r.key, run(r.first, r.quantity), r.Units)
	}
	if _, is := slices.BinarySearch(j.pairs, r.Units[0]); r.adjacent && (!is || !slices.Equal(r.Units, run(r.Units[0], pair))) {
		j.violated("%s requested adjacent units and received %v", r.key, r.Units)
	}
}

// choices counts the requests of buyers who chose, and checks the refusals.
func (j *judge) choices(records []record) *Choice {
	since := j.since(records)
	free := func(first, n int64) time.Duration { // until when nobody can have had any of the units
		until := time.Duration(math.MaxInt64)
		for _, unit := range run(first, n) {
			if at, is := since[unit]; is {
				until = min(until, at)
			}
		}
		return until
	}
	pairFree := time.Duration(math.MinInt64)
	for _, first := range j.pairs {
		pairFree = max(pairFree, free(first, pair))
	}
	all := new(Choice)
	for i := range records {
		r := &records[i]
		c, until := &all.Adjacent, pairFree
		switch {
		case r.first != 0:
			c, until = &all.Named, free(r.first, r.quantity)
		case !r.adjacent:
			continue
		}
		c.Requests++
		switch {
		case r.accepted():
			c.Got++
		case r.Outcome == api.UnitsTaken || r.Outcome == api.NotAdjacent:
			if c.Refused++; j.unresolved || r.ended.Mono > until {
				continue
			}
			if c.Free++; j.c.LockCount == 1 {
				j.violated("%s received %s, but nobody can have had such units by then", r.key, r.Outcome)
			}
		}
	}
	return all
}

// since returns for each unit the time of the first request of a claim that has or had it.
func (j *judge) since(records []record) map[int64]time.Duration {
	sent, since := map[string]time.Duration{}, map[int64]time.Duration{}
	for i := range records {
		r := &records[i]
		if at, is := sent[r.key]; !is || r.sent < at {
			sent[r.key] = r.sent
		}
	}
	add := func(units []int64, at time.Duration) {
		for _, unit := range units {
			if before, is := since[unit]; !is || at < before {
				since[unit] = at
			}
		}
	}
	for key, a := range j.keys {
		add(a.first.Units, sent[key])
		if v := j.byID[a.first.ID]; v != nil {
			add(v.units, sent[key]) // others, if it was paid late
		}
	}
	return since
}
