package rehearse

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"time"

	"salectl/api"
)

// Fairness reports whether claims were served in the order of arrival. A request was overtaken if
// it was refused for lack of units, and a request sent later for no fewer units was accepted: the
// latter is an inversion. Concurrent requests may be served in either order; the difference of
// their sending times shows the extent of an inversion. Of a repeated claim the last request
// counts, which got the final answer.
//
// The two refusals are counted separately, since they differ in weight: sold_out is final, and
// after none_now the buyer may repeat the request.
type Fairness struct {
	SoldOut Inversions `json:"soldOut"`

	// NoneNow is nil if claims are paid. Then units return, and a later request does not overtake
	// one answered none_now before.
	NoneNow *Inversions `json:"noneNow,omitempty"`
}

// Inversions counts the inversions of one kind of refusal.
type Inversions struct {
	// Inversions is the number of claims with units that overtook an earlier request. Overtaken is
	// the number of those requests.
	Inversions int `json:"inversions"`
	Overtaken  int `json:"overtaken"`
	// LargestMs is the largest difference of sending times of an inversion and an overtaken
	// request, in milliseconds.
	LargestMs float64 `json:"largestMs"`
	// AfterAnswer is the number of Inversions sent after the answer to an overtaken request, so
	// that the two were not concurrent.
	AfterAnswer int `json:"afterAnswer"`
}

// served is a request that was given units, or was refused for lack of units.
type served struct {
	sent, ended time.Duration
	quantity    int64
}

// fairness compares requests with units with those refused for lack of units. With Partial, a
// refused claim would have accepted a single unit, unless it chose.
func fairness(c Config, records []record) (f Fairness) {
	var given []served
	refused := map[api.Outcome][]served{}
	first := map[string]time.Duration{} // of repeated requests, by key
	for i := range records {
		r := &records[i]
		if sent, twice := first[r.key]; !twice || r.began.Mono < sent {
			first[r.key] = r.began.Mono
		}
	}
	for i := range records {
		r := &records[i]
		switch {
		case r.status == http.StatusCreated:
			given = append(given, served{first[r.key], r.ended.Mono, int64(len(r.Units))})
		case r.Outcome == api.SoldOut, r.Outcome == api.NoneNow:
			refused[r.Outcome] = append(refused[r.Outcome], served{r.began.Mono, r.ended.Mono, c.least(r)})
		}
	}
	bySent := func(a, b served) int { return cmp.Compare(a.sent, b.sent) }
	slices.SortFunc(given, bySent)
	for _, those := range refused {
		slices.SortFunc(those, bySent)
	}
	f.SoldOut = inversions(given, refused[api.SoldOut])
	if c.Payment == nil {
		f.NoneNow = new(inversions(given, refused[api.NoneNow]))
	}
	return f
}

// inversions counts the inversions between given and refused requests. Both are in the order of sending.
func inversions(given, refused []served) (f Inversions) {
	// Per quantity: the earliest sending and the earliest answer of the refused requests for it.
	// There are few different quantities.
	type earliest struct{ sent, ended time.Duration }
	least := map[int64]earliest{}
	next := 0
	for _, g := range given {
		for ; next < len(refused) && refused[next].sent < g.sent; next++ {
			r := refused[next]
			e, known := least[r.quantity]
			if !known {
				e = earliest{r.sent, r.ended}
			}
			least[r.quantity] = earliest{min(e.sent, r.sent), min(e.ended, r.ended)}
		}
		overtook, after := time.Duration(math.MaxInt64), false
		for quantity, e := range least {
			if quantity <= g.quantity {
				overtook, after = min(overtook, e.sent), after || e.ended < g.sent
			}
		}
		if overtook < g.sent {
			f.Inversions++
			f.LargestMs = max(f.LargestMs, round((g.sent-overtook).Seconds()*1000))
		}
		if after {
			f.AfterAnswer++
		}
	}

	// A refused claim was overtaken if the last claim given as many units or more was sent later.
	last := map[int64]time.Duration{}
	for _, g := range given {
		last[g.quantity] = g.sent
	}
	for _, r := range refused {
		for quantity, sent := range last {
			if quantity >= r.quantity && sent > r.sent {
				f.Overtaken++
				break
			}
		}
	}
	return f
}
