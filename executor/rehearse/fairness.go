package rehearse

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"time"

	"salectl/api"
)

// Fairness is whether claims were served in the order in which they came. A request was
// overtaken if it was refused for want of units, and another one that was sent later and
// asked for no less was given its units: that claim is an inversion. Requests that are under
// way side by side may be served in either order; how much later the other one was sent says
// how much of that there is. Of a claim that was sent again the last request counts, which
// got the final answer.
//
// The two answers that say so are apart, since they do not weigh the same: whoever was told
// sold_out is turned away for good, and whoever was told none_now may ask again.
type Fairness struct {
	SoldOut Inversions `json:"soldOut"`

	// NoneNow is nil where claims are paid: there units come back, and whoever is told
	// meanwhile that there are none now is not overtaken by those who ask later.
	NoneNow *Inversions `json:"noneNow,omitempty"`
}

// Inversions are those that overtook requests with one and the same answer.
type Inversions struct {
	// Inversions counts the claims that were given units although a request that was sent
	// earlier was overtaken; Overtaken counts those requests.
	Inversions int `json:"inversions"`
	Overtaken  int `json:"overtaken"`
	// LargestMs is by how many milliseconds at most one of the former was sent later than
	// one of the latter.
	LargestMs float64 `json:"largestMs"`
	// AfterAnswer counts those of the Inversions that were sent when the overtaken one had
	// its answer already, so that they were not even under way side by side.
	AfterAnswer int `json:"afterAnswer"`
}

// served is a request as far as its order matters: one that was given units, or was refused
// for want of them.
type served struct {
	sent, ended time.Duration
	quantity    int64
}

// fairness compares the requests that were given units with those that were refused for want
// of them. With partial, whoever was refused would have taken a single unit.
func fairness(c Config, records []record) (f Fairness) {
	var given []served
	refused := map[api.Outcome][]served{}
	first := map[string]time.Duration{} // of requests that were sent twice, by key
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
			one := served{r.began.Mono, r.ended.Mono, r.quantity}
			if c.Partial {
				one.quantity = 1
			}
			refused[r.Outcome] = append(refused[r.Outcome], one)
		}
	}
	bySent := func(a, b served) int { return cmp.Compare(a.sent, b.sent) }
	slices.SortFunc(given, bySent)
	for _, those := range refused {
		slices.SortFunc(those, bySent)
	}
	f.SoldOut = inversions(given, refused[api.SoldOut])
	if c.Payment == nil {
		noneNow := inversions(given, refused[api.NoneNow])
		f.NoneNow = &noneNow
	}
	return f
}

// inversions counts which of the given requests overtook which of the refused ones. Both are
// in the order in which they were sent.
func inversions(given, refused []served) (f Inversions) {
	// Of those that were refused: who was sent first, and answered first, among those that
	// wanted no more than a quantity. Few quantities differ.
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

	// A refused claim was overtaken if the last one given for as many units or more came later.
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
