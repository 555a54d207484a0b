package report

import (
	"fmt"
	"time"

	"salectl/backends/ledger"
	"salectl/report/threshold"
	"salectl/spec"
)

// states are the states of claims, in the order of stacking.
var states = []category[ledger.ClaimState]{
	{ledger.StateSold, "sold", "c1"}, {ledger.StateHeld, "held", "c4"}, {ledger.StateEntered, "entered, with no unit", "c3"},
	{ledger.StateExpired, "expired", "c2"}, {ledger.StateCancelled, "cancelled", "c5"}, {ledger.StateRefunded, "refunded", "c6"},
}

// clock formats a time, with milliseconds if it has any.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.999 UTC") }

// units returns the course of the sale by its ledger.
func (p *Page) units() (s section, ok bool) {
	l := p.Ledger
	s = section{ID: "units", Title: "Units and claims over time"}
	if len(l.claims) == 0 {
		s.Paragraphs = []string{"The ledger has no claim."}
		return s, true
	}
	first := "claim"
	if l.IsDraw() {
		first = "entry"
	}
	s.Paragraphs = []string{fmt.Sprintf("By the ledger. Times count from the first %s, at %s.", first, clock(l.Begin()))}
	if len(l.changes) > 0 {
		for _, w := range windows(timesOf(l.changes, func(c change) time.Duration { return l.since(c.us) })) {
			s.Figures = append(s.Figures, l.unitsFigure(w, p.Audit.Stock))
		}
	}
	for _, w := range windows(timesOf(l.claims, func(c acceptance) time.Duration { return l.since(c.us) })) {
		s.Figures = append(s.Figures, l.claimsFigure(w))
	}
	if l.resold > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("%s sold after the hold had expired: the units count as held until then, and as sold from the payment on.", spec.Subject(l.resold, "claim", "was", "were")))
	}
	return s, true
}

// unitsFigure shows the numbers of sold and held units over time.
func (l *Ledger) unitsFigure(w window, stock int64) figure {
	sold := series{Name: "sold", Class: "c1", values: make([]float64, w.n)}
	held := series{Name: "held", Class: "c4", values: make([]float64, w.n)}
	next, hasSold, hasHeld := 0, 0.0, 0.0
	for bin := range w.n {
		for ; next < len(l.changes) && (l.since(l.changes[next].us) < w.from(bin+1) || bin == w.n-1 && w.covers(l.since(l.changes[next].us))); next++ {
			hasSold += float64(l.changes[next].sold)
			hasHeld += float64(l.changes[next].held)
		}
		sold.values[bin], held.values[bin] = hasSold, hasHeld
	}
	all := []series{sold}
	if l.isHeld() {
		all = append(all, held)
	}
	var by []string
	for bin := range w.n {
		by = append(by, "by "+lasting(w.from(bin+1)))
	}
	return barChart{
		title: "Units over time", caption: l.soldCaption(stock) + w.label, what: "units", limit: level{float64(stock), "stock: " + spec.Grouped(stock)},
		over: &w.bins, rows: "time", names: by, all: all,
	}.figure()
}

// soldCaption describes how quickly units were sold.
func (l *Ledger) soldCaption(stock int64) string {
	sold, peak := int64(0), int64(0)
	for _, c := range l.changes {
		sold += int64(c.sold)
		peak = max(peak, sold)
	}
	if peak == 0 {
		return "No unit is sold."
	}
	at := func(n int64) time.Duration {
		has := int64(0)
		for _, c := range l.changes {
			if has += int64(c.sold); has >= n {
				return threshold.Rounded(l.since(c.us))
			}
		}
		return 0
	}
	words := fmt.Sprintf("%s of %s sold, half of these within %v", spec.Grouped(sold), spec.Subject(stock, "unit", "was", "were"), at((peak+1)/2))
	if peak == sold {
		words += fmt.Sprintf(" and the last after %v", at(peak))
	} else {
		words += fmt.Sprintf("; at most %s at a time", spec.Grouped(peak))
	}
	return words + "."
}

// claimsFigure shows the times of accepted claims, by their state.
func (l *Ledger) claimsFigure(w window) figure {
	all, row := seriesOf(l.claims, states, func(c acceptance) ledger.ClaimState { return c.state }, w.n)
	for _, c := range l.claims {
		if at := l.since(c.us); w.covers(at) {
			all[row[c.state]].values[w.of(at)]++
		}
	}
	noun, accepted := "claims", "accepted"
	if l.IsDraw() {
		noun, accepted = "entries", "taken"
	}
	most := 0.0
	for bin := range w.n {
		most = max(most, sum(all, bin))
	}
	caption := fmt.Sprintf("%s %s were %s; at most %s within %s.%s", spec.Grouped(l.Claims), noun, accepted,
		spec.Grouped(int64(most)), lasting(w.width), w.label)
	if len(all) > 1 {
		caption += " The colours are their results."
	}
	return overTime("Claims over time", caption, w.bins, all, noun)
}
