package audit

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"salectl/backends/ledger"
)

// payment has the ids of the claims, on all shards, that name one payment reference.
type payment struct{ bought, owed []string }

// payments reports references that occur with more than one claim. A payment buys one claim, but
// no shard knows the payments of the others, so it cannot refuse such a confirmation. Several
// claims bought by one payment are a problem until all but one are refunded. Claims for which the
// payment is also owed back are a warning: paying it back for each of them would be too much.
func (a *Report) payments(books []*Book) {
	once, again := make(map[name]struct{}), make(map[string]*payment)
	eachPayment(books, func(_ *Book, _ uint32, reference string, _ bool) {
		n := nameOf(reference)
		if _, known := once[n]; known {
			again[reference] = new(payment)
		}
		once[n] = struct{}{}
	})
	if len(again) == 0 {
		return
	}
	eachPayment(books, func(b *Book, claim uint32, reference string, owed bool) {
		switch p := again[reference]; {
		case p == nil:
		case owed:
			p.owed = append(p.owed, b.id(b.shard, claim))
		default:
			p.bought = append(p.bought, b.id(b.shard, claim))
		}
	})
	for _, reference := range slices.Sorted(maps.Keys(again)) {
		p := again[reference]
		if len(p.bought) > 1 {
			a.Problem("payment %q has bought %s, but a payment buys one claim: refund the others", reference, someClaims(p.bought))
		}
		if len(p.owed) > 0 && len(a.Warnings) < enough {
			a.Warnings = append(a.Warnings, fmt.Sprintf("payment %q is owed back for %s and has bought %s: pay back, once, only the part that bought nothing",
				reference, someClaims(p.owed), someClaims(p.bought)))
		}
	}
}

// eachPayment calls f for each payment whose claim is still sold, and for each that is owed back.
func eachPayment(books []*Book, f func(b *Book, claim uint32, reference string, owed bool)) {
	for _, b := range books {
		for n, history := range b.claimHistories {
			if history.state == "sold" && history.paid != "" {
				f(b, n, history.paid, false)
			}
			for _, reference := range history.owed {
				if reference != "" {
					f(b, n, reference, true)
				}
			}
		}
	}
}

// id returns the id of a claim on a shard.
func (r *claimRecords) id(shard int, n uint32) string {
	slot := sort.Search(len(r.slots), func(i int) bool { return r.slots[i] > n }) - 1
	return ledger.Claim{Slot: uint64(slot), Index: int(r.claims.At(n).index)}.ID(shard)
}

// someClaims names the first of several claims, and their number.
func someClaims(ids []string) string {
	const shown = 10
	slices.Sort(ids)
	switch n := len(ids); {
	case n == 0:
		return "no claim"
	case n == 1:
		return "claim " + ids[0]
	case n > shown:
		return fmt.Sprintf("%d claims (%s, …)", n, strings.Join(ids[:shown], ", "))
	default:
		return fmt.Sprintf("%d claims (%s)", n, strings.Join(ids, ", "))
	}
}
