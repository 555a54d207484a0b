package planner

import (
	"fmt"
	"strings"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// Remedies at the end of warnings. Displays complete their commands with the flags of the sale.
const (
	TrustRemedy  = "Set it right; if it is right now and was wrong before, run 'salectl apply --trust-clock'."
	DrawRemedy   = "First run 'salectl draw reveal', after closesAt, and 'salectl serve', which awards the units."
	ExportRemedy = "Store the export that destroy writes, or run 'salectl export' before it."
)

// warnings adds matters that change nothing. It must precede the completion of the plan.
// settings are those of the plan, in which a destroy closes the sale.
func (p *planning) warnings(settings *pb.Settings) {
	for i, s := range p.actual.Shards {
		if s.Err != nil {
			p.warn("%s cannot be read: %s", ShardAddress(i), ShortError(s.Err))
		}
	}
	p.shareWarning()
	if ahead := p.actual.Ahead(); ahead != "" {
		p.warn("%s", ahead)
	}
	if lost := p.actual.Lost(); lost != "" {
		p.warn("%s. If it was deleted, restore it: a new run would sell all units again", lost)
	}
	p.nodeWarnings()
	switch at := settings.GetClosesAtUs(); {
	case settings.GetPhase() == pb.Phase_CLOSED: // before closesAt, or after it
		p.drawEnds()
	case hasPassed(at, p.actual.At):
		p.warn("closesAt %s has passed: no claim is accepted", ledger.FormatTime(at))
	}
}

// drawEnds warns of entries that get no unit once the sale is closed for good. A destroy of a revealed
// draw also leaves only the export as proof of the winners.
func (p *planning) drawEnds() {
	sale := p.actual.Sale
	t, _ := p.actual.Totals()
	waiting := min(t.Available+t.InFlight, int64(len(sale.Ranks()))-t.Sold-t.Held-t.Lapsed())
	if sale.Newest().GetSettings().GetPhase() != pb.Phase_CLOSED && (waiting > 0 || t.Entries > 0 && !sale.Ranked()) {
		p.warn("the draw is not done: once the sale is closed for good, no entry gets a unit any more. %s", DrawRemedy)
	}
	if p.Kind == KindDestroy && sale.Live() && sale.Drawn() != nil {
		p.warn("the draw is revealed: after destroy, only an export proves who won. %s", ExportRemedy)
	}
}

// harm warns of changes to an open sale, considering the hours, that disadvantage its buyers.
func (p *planning) harm(before, after *pb.Settings, now time.Time) {
	if after.GetPhase() == pb.Phase_CLOSED && before.GetPhase() != pb.Phase_CLOSED {
		p.warn("the sale is closed for good: no claim is accepted any more, and it cannot be opened again")
		return
	}
	if before.GetPhase() != pb.Phase_OPEN || before.GetOpensAtUs() > now.UnixMicro() || hasPassed(before.GetClosesAtUs(), now) {
		return
	}
	if after.GetOpensAtUs() > now.UnixMicro() {
		p.warn("the sale is open, but opensAt %s is in the future: until then every claim is refused", ledger.FormatTime(after.GetOpensAtUs()))
	}
	ends, ended := after.GetClosesAtUs(), before.GetClosesAtUs()
	if ends != 0 && !hasPassed(ends, now) && (ended == 0 || ends < ended) {
		p.warn("the sale closes at %s, earlier than before", ledger.FormatTime(ends))
	}
	if after.GetPerUserLimit() < before.GetPerUserLimit() {
		p.warn("perUserLimit falls from %d to %d: users who have more keep their units, and get no more", before.GetPerUserLimit(), after.GetPerUserLimit())
	}
}

func hasPassed(us int64, now time.Time) bool { return us != 0 && us <= now.UnixMicro() }

// Ahead lists the logs whose time is ahead of this host's clock, "" if none is.
func (a *Actual) Ahead() string {
	var logs []string
	most := time.Duration(0)
	note := func(name string, head ledger.Head) {
		if by, wrong := head.Ahead(a.At); wrong {
			logs, most = append(logs, name), max(most, by)
		}
	}
	if a.Sale.Generation() > 0 {
		note("the sale's log", a.Sale.Head())
	}
	for i, s := range a.Shards {
		if s.Head != nil {
			note(ShardAddress(i), *s.Head)
		}
	}
	if len(logs) == 0 {
		return ""
	}
	const enough = 3
	if more := len(logs) - enough; more > 0 {
		logs = append(logs[:enough], fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("by up to %v this host's clock is behind the last append to %s: either this clock is wrong, or that of the writer was",
		most.Round(time.Second), strings.Join(logs, ", "))
}

// limitsPerShard is the recommended number of units of a shard, as a multiple of perUserLimit.
// A claim that finds too few at home makes a transfer of three commits for each shard whose
// units it needs. Selling out costs 0.9 slots a claim with many units a shard, 1.2 with 4
// times the limit, 2 with the limit, and 3.9 with a quarter of it. With 5 units on each of
// 1,024 shards, a claim for 20 units costs 8 slots. Up to fewShards shards this does not
// matter: there are few units to request, and few shards to request them from.
const (
	limitsPerShard = 4
	fewShards      = 16
)

// spreadWarning warns of a stock that is spread over too many shards.
func (p *planning) spreadWarning(desired spec.Sale) {
	enough := limitsPerShard * desired.PerUserLimit
	if lockCount := int64(desired.LockCount); lockCount > fewShards && desired.Stock < enough*lockCount {
		p.warn("lockCount %d leaves %s per shard, and a user may have %d: many claims will wait for units of other shards; a lockCount of at most %d avoids that",
			lockCount, spec.Count(desired.Stock/lockCount, "unit"), desired.PerUserLimit, max(desired.Stock/enough, fewShards))
	}
}

// nodeWarnings adds the nodes that do not vote, and the remaining majority. A new sale has no
// votes yet, but needs answers.
func (p *planning) nodeWarnings() {
	answering := 0
	faults := make(map[string]bool)
	for _, f := range p.actual.Faults() {
		faults[f.Node] = true
		if !f.Clock || p.Kind != KindDestroy {
			p.warn("%v", f)
		}
	}
	for _, n := range p.actual.Nodes {
		if n.Err == nil {
			answering++
		}
		switch stands := n.MarkerState(); {
		case stands == MarkerUnknown && faults[n.Name]: // the fault explains it
		case stands == MarkerUnknown:
			p.warn("lock node %s cannot be used: %s", n.Name, ShortNodeError(n.Err))
		case n.Info.Carried:
			p.warn("%s: no claim is accepted. %s", ClockWasSet(n.Off), TrustRemedy)
		case p.Kind == KindDestroy:
		case stands == MarkerAbstaining:
			p.warn("lock node %s abstains until %s: it was restarted, or lost its memory", n.Name, n.Marker.VotesFrom.UTC().Format(time.RFC3339))
		}
	}
	votes := p.actual.Votes()
	switch begun := p.actual.Sale.Live() && p.actual.Sale.Applied() > 0; {
	case p.Kind == KindDestroy:
	case begun && votes.Voting < votes.Nodes:
		p.warn("%s", votes)
	case !begun && answering < votes.Majority():
		p.warn("%d of %d lock nodes can be used, and a new sale needs %d", answering, votes.Nodes, votes.Majority())
	case !begun && answering < votes.Nodes && len(p.actual.ListNodes) > 0:
		p.warn("each shard's list is on one node: apply ends with an error while one of them cannot be used")
	case !begun && answering < votes.Nodes:
		p.warn("the sale can be sold without these lock nodes; run apply again when they answer, to complete it")
	}
}

// sharesPerProcess is the least average number of shards per process, and sharesAdvised the
// recommended one: with one or two each, some process has twice the work of another.
const (
	sharesPerProcess = 2
	sharesAdvised    = 4
)

// shareWarning warns of a live sale shared by too many processes for its shards. It counts
// processes that have leases.
func (p *planning) shareWarning() {
	if p.Kind != KindApply || !p.actual.Sale.Live() {
		return
	}
	processes := make(map[string]bool)
	for i := range p.actual.Shards {
		if l, ok := p.actual.LeaseOf(i); ok {
			processes[l.Address] = true
		}
	}
	if n := len(processes); n > 1 && len(p.actual.Shards) < sharesPerProcess*n {
		p.warn("%d processes share %s, so some have twice the work of others; declare a lockCount of %d or more in the next run",
			n, spec.Count(int64(len(p.actual.Shards)), "shard"), sharesAdvised*n)
	}
}
