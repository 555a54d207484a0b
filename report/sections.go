package report

import (
	"fmt"
	"maps"
	"slices"

	"salectl/backends/ledger"
	"salectl/spec"
)

// sections returns the non-empty sections of the page, in order.
func (p *Page) sections() (all []section) {
	for _, part := range []func() (section, bool){
		p.thresholds, p.units, p.answers, p.latency, p.fairness, p.drawFairness, p.packetFairness,
		p.users, p.holds, p.draw, p.packets, p.rules, p.shards, p.checks,
	} {
		if s, ok := part(); ok {
			all = append(all, s)
		}
	}
	return all
}

// thresholds returns the results of thresholds.
func (p *Page) thresholds() (s section, ok bool) {
	if len(p.Thresholds) == 0 {
		return s, false
	}
	t := newTable("Thresholds", "threshold", ">measured", "result")
	for _, r := range p.Thresholds {
		t.row(r.Threshold, r.Value(), r.OK)
	}
	return section{ID: "thresholds", Title: "Thresholds", Table: t}, true
}

// users returns the distribution of units over users.
func (p *Page) users() (s section, ok bool) {
	l := p.Ledger
	with := l.users - l.spread[0]
	if with == 0 {
		return s, false
	}
	s = section{ID: "users", Title: "Who has the units"}
	s.Says = []string{fmt.Sprintf("%s, and at most %s each may have.", count(with, "user has units", "users have units"), spec.Count(l.Settings.GetPerUserLimit(), "unit"))}
	if l.spread[0] > 0 {
		s.Says[0] += fmt.Sprintf(" %s and no units, or none any more.", count(l.spread[0], "user has claims", "users have claims"))
	}
	many := slices.Sorted(maps.Keys(l.spread))
	if many[0] == 0 {
		many = many[1:]
	}
	if len(many) == 1 {
		s.Says = append(s.Says, fmt.Sprintf("Each of them has %s.", spec.Count(many[0], "unit")))
		return s, true
	}
	f := figure{Says: "Users by how many units they have.", Table: newTable("Users by their units", "units", ">users")}
	const most = 40 // number of bars
	one := series{Name: "users", Class: "c1"}
	var names []string
	if len(many) <= most {
		for _, n := range many {
			names, one.values = append(names, spec.Grouped(n)), append(one.values, float64(l.spread[n]))
		}
	} else {
		wide := (many[len(many)-1] + most - 1) / most
		for from := int64(1); from <= many[len(many)-1]; from += wide {
			n := int64(0)
			for units := from; units < from+wide; units++ {
				n += l.spread[units]
			}
			names, one.values = append(names, fmt.Sprintf("%d–%d", from, from+wide-1)), append(one.values, float64(n))
		}
	}
	f.SVG = columns(names, []series{one}, "users, by units", f.Says)
	for i, name := range names {
		f.Table.row(name, int64(one.values[i]))
	}
	s.Figures = []figure{f}
	s.Table = newTable("Users with the most units", "users with the most units", ">units")
	for _, b := range l.buyers {
		s.Table.row(b.user, b.units)
	}
	return s, true
}

// holds returns the outcomes of held claims.
func (p *Page) holds() (s section, ok bool) {
	a := p.Audit
	if a.Outcomes == (ledger.Outcomes{}) && a.HoldTimes == nil {
		return s, false
	}
	s = section{ID: "holds", Title: "Holds and payments"}
	t := newTable("What became of claims", "claims", ">number")
	for _, row := range []struct {
		name string
		n    int64
	}{
		{"held now", a.OpenHolds}, {"paid", a.Confirmed}, {"expired", a.Expired}, {"cancelled", a.Cancelled}, {"refunded", a.Refunded},
		{"sold after they had expired", a.Resold}, {"payments that bought nothing, to be paid back", a.RefundsDue},
	} {
		t.row(row.name, row.n)
	}
	s.Table = t
	if h := a.HoldTimes; h != nil {
		s.Facts = append(s.Facts, fact{"Units lay in holds", fmt.Sprintf("half of them up to %s, 90%% up to %s, 99%% up to %s, the longest %s; %s that ended",
			seconds(h.P50), seconds(h.P90), seconds(h.P99), seconds(h.Max), spec.Count(h.Holds, "hold"))})
	}
	if r := p.Rehearsal; r != nil && r.Payment != nil {
		y := r.Payment
		s.Facts = append(s.Facts,
			fact{"Terms", y.Terms.String() + map[bool]string{true: ", shortened for the rehearsal", false: ""}[y.Declared != nil]},
			fact{"Buyers", fmt.Sprintf("%s paid in time, %s abandoned, %s cancelled, %s paid late; of the late, %s sold after all and %s owed back",
				spec.Grouped(y.Paid), spec.Grouped(y.Abandoned), spec.Grouped(y.Cancelled), spec.Grouped(y.PaidLate), spec.Grouped(y.LateSold), spec.Grouped(y.LateRefundDue))},
			fact{"Came back", fmt.Sprintf("%s, %s of them given to somebody else", spec.Count(y.Released, "unit"), spec.Grouped(y.SoldAgain))})
	}
	return s, true
}

// draw returns the course of a draw.
func (p *Page) draw() (s section, ok bool) {
	d := p.Audit.Draw
	if d == nil {
		return s, false
	}
	s = section{ID: "draw", Title: "The draw", Problems: d.Problems}
	add := func(name, value string) { s.Facts = append(s.Facts, fact{name, value}) }
	add("Entries", spec.Grouped(d.Entries))
	if !d.Revealed {
		s.Says = []string{"The draw has not been revealed."}
		return s, true
	}
	add("Winners", spec.Grouped(d.Winners))
	add("Awarded", fmt.Sprintf("%s; %s came to nothing, %s still to be made", spec.Count(d.Awarded, "unit"), spec.Count(d.Lapsed, "award"), spec.Grouped(d.Waiting)))
	add("Commitment", fmt.Sprint(d.Commitment))
	if b := d.Beacon; b != nil {
		add("Beacon", fmt.Sprintf("%s, round %s", b.Name, b.Round))
	}
	if r := p.Rehearsal; r != nil && r.Draw != nil {
		y := r.Draw
		add("Entering", fmt.Sprintf("took %.2f s; %s refused for a second entry, %s sent again and told the same", y.EnterSeconds, spec.Grouped(y.SecondEntries), spec.Grouped(y.SameAnswer)))
		add("Reveal", fmt.Sprintf("took %.2f s", y.RevealSeconds))
		add("Told", fmt.Sprintf("the last winner %.2f s after the reveal; %s followed", y.WinnersToldSeconds, spec.Count(y.Substitutes, "substitute")))
	}
	s.Notes = d.Notes
	return s, true
}

// packets returns the result of a red packet.
func (p *Page) packets() (s section, ok bool) {
	r := p.Audit.Packets
	if r == nil {
		return s, false
	}
	return section{ID: "packets", Title: "The red packet", Facts: []fact{
		{"Declared", fmt.Sprintf("%s %s in %s", r.Total, r.Currency, spec.Count(r.Packets, "packet"))},
		{"Granted", fmt.Sprintf("%s %s in %s", r.Granted, r.Currency, spec.Count(r.Taken, "packet"))},
		{"Left", fmt.Sprintf("%s %s", r.Left, r.Currency)},
	}}, true
}

// rules returns the refusals by rules, which only a rehearsal sees.
func (p *Page) rules() (s section, ok bool) {
	if p.Rehearsal == nil || p.Rehearsal.Rules == nil {
		return s, false
	}
	r := p.Rehearsal.Rules
	s = section{ID: "rules", Title: "Rules"}
	if r.Skipped != "" || len(r.Refused) == 0 {
		s.Says = []string{sentence(r.String())}
		return s, true
	}
	s.Table = newTable("Refusals by rule", "rule", ">requests refused")
	for _, rule := range slices.Sorted(maps.Keys(r.Refused)) {
		s.Table.row(rule, r.Refused[rule])
	}
	return s, true
}

// shards returns the distribution of units over shards, with several shards in a bar if there
// are many.
func (p *Page) shards() (s section, ok bool) {
	l := p.Ledger
	const most = 128
	each := (len(l.shards) + most - 1) / most
	sums, names := []shardSums{}, []string{}
	for part := range slices.Chunk(l.shards, each) {
		from := len(sums) * each
		sum := shardSums{}
		for _, one := range part {
			sum.shards, sum.sold, sum.held, sum.available, sum.claims = sum.shards+1, sum.sold+one.sold, sum.held+one.held, sum.available+one.available, sum.claims+one.claims
			if one.firstUs != 0 && (sum.firstUs == 0 || one.firstUs < sum.firstUs) {
				sum.firstUs = one.firstUs
			}
			sum.lastUs = max(sum.lastUs, one.lastUs)
		}
		name := fmt.Sprint(from)
		if len(part) > 1 {
			name = fmt.Sprintf("%d–%d", from, from+len(part)-1)
		}
		sums, names = append(sums, sum), append(names, name)
	}
	sold, held, available := series{Name: "sold", Class: "c1"}, series{Name: "held", Class: "c4"}, series{Name: "available", Class: "c3"}
	t := newTable("Shards", "shard", ">sold", ">held", ">available", ">claims", ">first claim", ">last claim")
	for i, sum := range sums {
		sold.values, held.values, available.values = append(sold.values, float64(sum.sold)), append(held.values, float64(sum.held)), append(available.values, float64(sum.available))
		first, last := "–", "–"
		if sum.firstUs != 0 {
			first, last = lasting(l.since(sum.firstUs)), lasting(l.since(sum.lastUs))
		}
		t.row(names[i], sum.sold, sum.held, sum.available, sum.claims, first, last)
	}
	all := slices.DeleteFunc([]series{sold, held, available}, func(s series) bool { return slices.Max(s.values) == 0 })
	f := figure{Says: fmt.Sprintf("Where %s are. Each user claims at one shard, and a shard that runs out is given units by others.", spec.Count(p.Audit.Stock, "unit")), Legend: all, Table: t}
	if each > 1 {
		f.Says += fmt.Sprintf(" A bar is %d shards.", each)
	}
	f.SVG = columns(names, all, "units, by shard", f.Says)
	s = section{ID: "shards", Title: "Shards", Figures: []figure{f}}
	if n := p.Audit.InFlight; n > 0 {
		s.Notes = []string{fmt.Sprintf("%s on the way between shards.", are(n))}
	}
	return s, true
}

// checks returns the checks and their results.
func (p *Page) checks() (s section, ok bool) {
	a := p.Audit
	s = section{ID: "checks", Title: "Checks"}
	t := newTable("Checks", "check", "found", "result")
	if r := p.Rehearsal; r != nil {
		t.row("What buyers were told keeps what they were promised", spec.Count(len(r.Violations), "broken promise"), len(r.Violations) == 0)
		s.Problems = append(s.Problems, r.Violations...)
	}
	t.row("No unit is in two places", spec.Count(a.Oversold, "unit"), a.Oversold == 0)
	t.row("Nobody had more than the limit", spec.Count(a.OverLimit, "user"), a.OverLimit == 0)
	t.row("Each unit is somewhere", fmt.Sprintf("%s sold, %s held, %s available, %s on the way, of %s",
		spec.Grouped(a.Sold), spec.Grouped(a.Held), spec.Grouped(a.Available), spec.Grouped(a.InFlight), spec.Grouped(a.Stock)),
		a.Sold+a.Held+a.Available+a.InFlight == a.Stock)
	if d := a.Draw; d != nil {
		t.row("The draw works out again from what was published", spec.Count(len(d.Problems), "problem"), d.OK)
	}
	t.row("The whole ledger adds up, its chains of hashes are whole", fmt.Sprintf("%s in %s read, %s", spec.Count(a.Slots, "slot"), spec.Count(a.Shards, "shard"), spec.Count(len(a.Problems), "problem")), a.OK)
	s.Table = t
	s.Problems = append(s.Problems, a.Problems...)
	s.Notes = append(s.Notes, a.Warnings...)
	if p.Rehearsal == nil {
		s.Notes = append(s.Notes, "The ledger has what was accepted. Who was refused, and how long anybody waited for an answer, stands in no ledger: a rehearsal's report has it, and for a sale the metrics of serve.")
	}
	return s, true
}
