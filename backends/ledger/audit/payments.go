package audit

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"salectl/backends/ledger"
)

// payments reports references that occur with more than one claim. A payment buys one claim, but
// no shard has the payments of the others, so it cannot refuse such a confirmation. Several
// claims bought by one payment are a problem until all but one are refunded. Claims for which the
// payment is also owed back are a warning: paying it back for each of them would be too much.
func (a *Report) payments(books []*Book) {
	type payment struct { // there are millions
		reference string
		claim     uint32
		shard     uint16
		owed      bool // back; else it has bought the claim, which is still sold
	}
	n := 0
	for _, b := range books {
		n += len(b.claimHistories)
	}
	all := make([]payment, 0, n)
	for _, b := range books {
		for n, history := range b.claimHistories {
			if history.state == "sold" && history.paid != "" {
				all = append(all, payment{history.paid, n, uint16(b.shard), false})
			}
			for _, reference := range history.owed {
				if reference != "" && !slices.Contains(history.returned, reference) {
					all = append(all, payment{reference, n, uint16(b.shard), true})
				}
			}
		}
	}
	slices.SortFunc(all, func(x, y payment) int { return strings.Compare(x.reference, y.reference) })
	for from, to := 0, 0; from < len(all); from = to {
		reference := all[from].reference
		for to = from + 1; to < len(all) && all[to].reference == reference; to++ {
		}
		if to == from+1 {
			continue
		}
		var bought, owed []string // ids of claims
		for _, p := range all[from:to] {
			if id := books[p.shard].id(int(p.shard), p.claim); p.owed {
				owed = append(owed, id)
			} else {
				bought = append(bought, id)
			}
		}
		if len(bought) > 1 {
			a.Problem("payment %q has bought %s, but a payment buys one claim: refund the others", reference, someClaims(bought))
		}
		if len(owed) > 0 && len(a.Warnings) < enough {
			a.Warnings = append(a.Warnings, fmt.Sprintf("payment %q is owed back for %s and has bought %s: pay back, once, only the part that bought nothing",
				reference, someClaims(owed), someClaims(bought)))
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
