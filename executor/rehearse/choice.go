package rehearse

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"salectl/api"
	"salectl/spec"
)

// If buyers may choose units, most name them, the first ones of the sale most often, and name the
// next ones when these are taken. Others request two adjacent units, or accept any.
const (
	namesUnits   = 600 // buyers of 1,000
	requestsPair = 200 // buyers of 1,000

	maxNamed  = 100 // units of a claim that names them
	maxClaims = 3   // claims of a buyer whose named units are taken
	pair      = 2   // units of a claim for adjacent ones
)

// choice is what a claim requires beyond a quantity.
type choice struct {
	first    int64 // number of the first of the consecutive units that it names; 0: it names none
	adjacent bool
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

// next replaces taken units by those after them, and reports whether there are such units.
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

// Choice reports requests by their choice of units.
type Choice struct {
	Named    Chosen `json:"named"`
	Adjacent Chosen `json:"adjacent"`
}

// Chosen counts requests.
type Chosen struct {
	Requests int `json:"requests"`
	Got      int `json:"got"`     // accepted
	Refused  int `json:"refused"` // units_taken or not_adjacent
}

// chosen checks the units of a new claim with a choice.
func (j *judge) chosen(r *record) {
	first := cmp.Or(r.first, r.Units[0])
	right := r.first != 0 || j.pairs[first]
	for i, unit := range r.Units {
		right = right && unit == first+int64(i)
	}
	if !right {
		j.violated("%s chose %s (first: %d, adjacent: %v) and received %v", r.key, spec.Count(r.quantity, "unit"), r.first, r.adjacent, r.Units)
	}
}

// choices counts the requests of buyers who chose. It checks a refusal if the sale has one shard: with
// more, units may be in transfer, or adjacent ones on two shards.
func (j *judge) choices(records []record) *Choice {
	free := slices.Repeat([]time.Duration{math.MaxInt64}, len(j.c.Places)+1) // by unit: until when no buyer can have had it
	for i := range records {
		r := &records[i]
		if !r.accepted() {
			continue
		}
		units := r.Units
		if v := j.byID[r.ID]; v != nil {
			units = slices.Concat(units, v.units) // others, if it was paid late
		}
		for _, unit := range units {
			if unit > 0 && unit < int64(len(free)) {
				free[unit] = min(free[unit], r.sent)
			}
		}
	}
	pairFree := time.Duration(math.MinInt64)
	for first := range j.pairs {
		pairFree = max(pairFree, slices.Min(free[first:first+pair]))
	}
	all := new(Choice)
	for i := range records {
		r := &records[i]
		c, until := &all.Adjacent, pairFree
		if r.first != 0 {
			c, until = &all.Named, slices.Min(free[r.first:r.first+r.quantity])
		} else if !r.adjacent {
			continue
		}
		c.Requests++
		switch {
		case r.accepted():
			c.Got++
		case r.Outcome == api.UnitsTaken || r.Outcome == api.NotAdjacent:
			if c.Refused++; j.c.LockCount == 1 && !j.unresolved && r.ended.Mono <= until {
				j.violated("%s received %s, but no claim can have had such units by then", r.key, r.Outcome)
			}
		}
	}
	return all
}
