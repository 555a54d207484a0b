package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"salectl/executor/rehearse"
	"salectl/report/threshold"
	"salectl/spec"
)

// fairness returns whether early buyers were served.
func (p *Page) fairness() (s section, ok bool) {
	if p.Rehearsal == nil || p.Rehearsal.Fairness == nil {
		return s, false
	}
	s = section{ID: "fairness", Title: "Fairness: arrival against outcome"}
	f := p.Rehearsal.Fairness
	turnedAway := "No buyer got sold_out while a later request for at least as many units was accepted."
	if n := f.SoldOut.Overtaken; n > 0 {
		turnedAway = fmt.Sprintf("%s got sold_out although a later request for at least as many units was accepted.", spec.Count(n, "request"))
	}
	s.Paragraphs = []string{turnedAway, "A request was overtaken if it was refused for lack of units while a later claim for at least as many units was accepted: such a claim is an inversion. Concurrent requests may be served in either order."}
	t := newTable("Overtaken requests by their answer", "answer", ">overtaken", ">inversions", ">later by at most", ">after the answer")
	row := func(answer string, x rehearse.Inversions) {
		t.row(answer, x.Overtaken, x.Inversions, threshold.Milliseconds(x.LargestMs), x.AfterAnswer)
	}
	row("sold_out, which is final", f.SoldOut)
	if f.NoneNow != nil {
		row("none_now, which may be repeated", *f.NoneNow)
	} else {
		s.Paragraphs = append(s.Paragraphs, "Unpaid units return, and go to the next request. A request that got none_now meanwhile is not overtaken, only one that got sold_out.")
	}
	s.Table = t
	s.Figures = []figure{arrivals(p.Rehearsal.Calls)}
	return s, true
}

// arrivals shows what buyers had in the end, by the order of arrival.
func arrivals(calls []rehearse.Call) figure {
	type arrival struct {
		sent time.Duration
		kind rehearse.Kind
	}
	buyers := map[string]arrival{}
	for i := range calls {
		c := &calls[i]
		kind := c.Kind
		if kind == rehearse.GivenAgain {
			kind = rehearse.Given
		}
		b, known := buyers[c.User]
		if !known {
			b = arrival{c.Sent, kind}
		}
		// Kinds are ordered by their value to a buyer.
		buyers[c.User] = arrival{min(b.sent, c.Sent), min(b.kind, kind)}
	}
	all := slices.SortedFunc(maps.Values(buyers), func(a, b arrival) int {
		return cmp.Or(cmp.Compare(a.sent, b.sent), cmp.Compare(a.kind, b.kind))
	})
	got := slices.Clone(kinds)
	got[0].name = "got units"
	return byTenth("Buyers by arrival", "buyers", fmt.Sprintf("%s in the order in which they sent their first requests, in ten parts, and the best answer of each.",
		spec.Count(len(all), "buyer")), all, got, func(a arrival) rehearse.Kind { return a.kind })
}

// tenths divides a list into ten parts as equal as possible, or into its elements if they are
// fewer, and names the parts.
func tenths[E any](all []E) (parts [][]E, names []string) {
	n := min(len(all), 10)
	for i := range n {
		parts, names = append(parts, all[len(all)*i/n:len(all)*(i+1)/n]), append(names, fmt.Sprintf("part %d of %d", i+1, n))
	}
	return parts, names
}

// byTenth shows the categories of things in each of ten parts of them.
func byTenth[E any, K comparable](title, things, caption string, all []E, of []category[K], key func(E) K) figure {
	each, names := tenths(all)
	kinds, row := seriesOf(all, of, key, len(each))
	for i, part := range each {
		for _, one := range part {
			kinds[row[key(one)]].values[i]++
		}
	}
	return figure{Caption: caption, Legend: kinds, SVG: parts(names, kinds, title+". "+caption), Table: numbers(title, things, names, kinds, true)}
}

// drawFairness shows whether the time of an entry affected who won.
func (p *Page) drawFairness() (s section, ok bool) {
	l := p.Ledger
	if !l.IsDraw() || !slices.ContainsFunc(l.claims, acceptance.awarded) {
		return s, false
	}
	f := byTenth("Winners by the time of their entries", "entries",
		"Entries in the order of their times, in ten parts, and how many of each part were awarded a unit. The time of an entry has no effect in a draw: the numbers differ only by chance.",
		l.claims, []category[bool]{{true, "winners", "c1"}, {false, "others", "c3"}}, acceptance.awarded)
	return section{ID: "winners", Title: "Fairness: time of entry against outcome", Figures: []figure{f}}, true
}

// packetFairness shows whether early claims received more money.
func (p *Page) packetFairness() (s section, ok bool) {
	l := p.Ledger
	if l.red == nil || len(l.claims) == 0 {
		return s, false
	}
	unit := " in " + l.red.Currency
	t := newTable("Amounts by the order of the claims", "claims", ">packets", ">mean"+unit, ">least"+unit, ">most"+unit)
	mean := series{Name: "in the mean", Class: "c1"}
	parts, names := tenths(l.claims)
	for i, part := range parts {
		amount := func(a, b acceptance) int { return cmp.Compare(a.amount, b.amount) }
		least, most := slices.MinFunc(part, amount).amount, slices.MaxFunc(part, amount).amount
		t.row(names[i], len(part), l.red.Format(meanOf(part)), l.red.Format(least), l.red.Format(most))
		mean.values = append(mean.values, float64(meanOf(part)))
	}
	all := meanOf(l.claims)
	in := amounts(&l.red.RedPacket)
	f := barChart{
		title: "Amounts by the order of the claims", what: "mean amount of a packet in " + l.red.Currency + ", by tenth of the claims", in: &in,
		caption: fmt.Sprintf("%s in the order in which they were claimed, in ten parts, and the mean amount of a packet of each part. The mean of all is %s %s. The amounts are fixed before the sale, so early buyers are sure of a packet, but not of a larger one: the parts differ only by chance.",
			spec.Count(len(l.claims), "packet"), l.red.Format(all), l.red.Currency),
		limit: level{float64(all), "dashed: the mean of all, " + l.red.Format(all)}, names: names, all: []series{mean},
	}.figure()
	f.Table = t
	return section{ID: "amounts", Title: "Fairness: time of the claim against amount", Figures: []figure{f}}, true
}

// meanOf returns the rounded mean amount of a packet of some claims. Each claim has one
// packet.
func meanOf(claims []acceptance) int64 {
	sum := int64(0)
	for _, c := range claims {
		sum += c.amount
	}
	n := int64(len(claims))
	return (sum + n/2) / n
}
