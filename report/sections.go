package report

import (
	"fmt"
	"maps"
	"slices"

	"salectl/report/threshold"
	"salectl/spec"
)

// course returns the non-empty sections about the course of the sale, in order.
func (p *Page) course() (all []section) {
	for _, part := range []func() (section, bool){
		p.units, p.answers, p.latency, p.fairness, p.drawFairness, p.packetFairness, p.users,
	} {
		if s, ok := part(); ok {
			all = append(all, s)
		}
	}
	return all
}

// users returns the distribution of units over users.
func (p *Page) users() (s section, ok bool) {
	l := p.Ledger
	with := l.users - l.spread[0]
	if with == 0 {
		return s, false
	}
	s = section{ID: "users", Title: "Who has the units"}
	s.Paragraphs = []string{fmt.Sprintf("%s units, and at most %s each may have.", spec.Subject(with, "user", "has", "have"), spec.Count(l.Settings.GetPerUserLimit(), "unit"))}
	if l.spread[0] > 0 {
		s.Paragraphs[0] += fmt.Sprintf(" %s claims and no units, or none any more.", spec.Subject(l.spread[0], "user", "has", "have"))
	}
	many := slices.Sorted(maps.Keys(l.spread))
	if many[0] == 0 {
		many = many[1:]
	}
	if len(many) == 1 {
		s.Paragraphs = append(s.Paragraphs, fmt.Sprintf("Each of them has %s.", spec.Count(many[0], "unit")))
		return s, true
	}
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
	s.Figures = []figure{barChart{
		title: "Users by their units", caption: "Users by the number of their units.", what: "users, by units",
		rows: "units", names: names, all: []series{one},
	}.figure()}
	s.Table = newTable("Users with the most units", "users with the most units", ">units")
	for _, b := range l.buyers {
		s.Table.row(b.user, b.units)
	}
	return s, true
}

// shards returns the distribution of units over shards, with several shards in a bar if there
// are many.
func (p *Page) shards() section {
	l := p.Ledger
	const most = 128
	each := (len(l.shards) + most - 1) / most
	var names []string
	all := []series{{Name: "sold", Class: "c1"}, {Name: "held", Class: "c4"}, {Name: "available", Class: "c3"}}
	t := newTable("Shards", "shard", ">sold", ">held", ">available", ">claims", ">first claim", ">last claim")
	for part := range slices.Chunk(l.shards, each) {
		from, sum := len(names)*each, shardSums{}
		for _, one := range part {
			sum.sold, sum.held, sum.available, sum.claims = sum.sold+one.sold, sum.held+one.held, sum.available+one.available, sum.claims+one.claims
			if one.firstUs != 0 && (sum.firstUs == 0 || one.firstUs < sum.firstUs) {
				sum.firstUs = one.firstUs
			}
			sum.lastUs = max(sum.lastUs, one.lastUs)
		}
		name := fmt.Sprint(from)
		if len(part) > 1 {
			name = fmt.Sprintf("%d–%d", from, from+len(part)-1)
		}
		names = append(names, name)
		for k, units := range []int64{sum.sold, sum.held, sum.available} {
			all[k].values = append(all[k].values, float64(units))
		}
		var first, last any = "–", "–"
		if sum.firstUs != 0 {
			first, last = threshold.Rounded(l.since(sum.firstUs)), threshold.Rounded(l.since(sum.lastUs))
		}
		t.row(name, sum.sold, sum.held, sum.available, sum.claims, first, last)
	}
	all = slices.DeleteFunc(all, func(s series) bool { return slices.Max(s.values) == 0 })
	caption := fmt.Sprintf("Where %s are. Each user claims at one shard, and a shard that runs out gets units from others.", spec.Count(p.Audit.Stock, "unit"))
	if each > 1 {
		caption += fmt.Sprintf(" A bar is %d shards.", each)
	}
	f := barChart{title: "Shards", caption: caption, what: "units, by shard", names: names, all: all}.figure()
	f.Table = t
	s := section{ID: "shards", Title: "Shards", Figures: []figure{f}}
	if n := p.Audit.InFlight; n > 0 {
		s.Notes = []string{fmt.Sprintf("%s in transfer between shards.", spec.Subject(n, "unit", "is", "are"))}
	}
	return s
}
