package cli

import (
	"fmt"
	"math"
	"time"

	"salectl/backends/ledger"
	"salectl/cli/terminal"
	"salectl/planner/current"
)

func (p *program) statusText(s *saleStatus, all bool) {
	c := p.colours(p.out)
	var known []string // what is known of any run
	s.About.Each(func(key, text string) { known = append(known, key+": "+text) })
	if s.Refund != nil {
		known = append(known, refunded(s.Refund))
	}
	if s.Packets != nil {
		known = append(known, committed(s.Packets))
	}
	faults := p.completed(s.Warnings, s.Sale)
	if why := s.unreached(); why != "" {
		faults = append(faults, why)
	}
	p.view("status", struct {
		*saleStatus
		Word, Served         string
		Known, Drawn, Faults []string
		All                  bool
	}{s, phaseWord(c, s), served(s), known, p.drawn(s.Sale, s.Draw), append(faults, s.problems()...), all})
	if s.Phase == ledger.PhaseDestroyed {
		return
	}
	p.processesText(s, c)
	if len(s.Shards) > 0 {
		fold := len(s.Shards) > terminal.FoldBeyond && !all
		p.shardsText(s, c, fold)
		p.listsText(s.Status, fold)
		if fold {
			terminal.ListsAll(p.out, c)
		}
		fmt.Fprintln(p.out)
	}
	p.nodesText(s.Status, c)
}

func (p *program) nodesText(s *current.Status, c terminal.Palette) {
	nodes := terminal.NewTable("lock node", ">leases", ">clock off", "state")
	for _, n := range s.Nodes {
		if !n.Up {
			nodes.Row(n.Name, "-", "-", nodeState(n))
			continue
		}
		nodes.Row(n.Name, n.Leases, clockOff(n.ClockOffSeconds), nodeState(n))
	}
	nodes.Write(p.out, "  ", c.Dim)
}

// nodeState describes a lock node, as seen by this process and by the one that serves the
// sale.
func nodeState(n current.NodeStatus) string {
	switch seen := n.Server; {
	case !n.Up && seen == nil:
		return "down now" + because(n.Error)
	case !n.Up && seen.Up:
		return "down from here" + because(n.Error) + "; the server reaches it"
	case !n.Up:
		return "down" + since(seen.Since) + because(n.Error)
	case n.Unfit != "":
		return "up, but misconfigured" + because(n.Unfit)
	case !n.VotesFrom.IsZero():
		return "abstains until " + clockText(n.VotesFrom) + ": it was restarted or lost its memory"
	case seen != nil && !seen.Up:
		return "up from here; the server does not reach it" + since(seen.Since) + because(seen.Error)
	case n.Unmarked:
		return "up, but without the sale's marker: it will abstain before it votes"
	}
	return "up"
}

func since(at time.Time) string {
	if at.IsZero() {
		return " now"
	}
	return " since " + clockText(at)
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// clockText formats a time to the second.
func clockText(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// served describes which processes serve the sale. If too few lock nodes answer, a warning
// reports it.
func served(s *saleStatus) string {
	if all := len(s.Processes); all > 1 {
		reached := s.reached()
		switch {
		case s.Server == nil:
		case s.Server.Error != "":
			return fmt.Sprintf("%s, which reaches %d of %d processes, %s", s.Server.Address, len(reached), all, s.unreported())
		case s.Owner == "" && !s.Unserved && !s.unread():
			return fmt.Sprintf("no majority of the lock nodes names a server; %s answers, and reaches %d of %d processes", s.Server.Address, len(reached), all)
		}
		by := fmt.Sprintf("served by %d processes", len(reached))
		if len(reached) == 1 {
			by = "served at " + reached[0]
		}
		if s.unread() && s.Server != nil {
			by += fmt.Sprintf("; %s reports the phase %s", s.Server.Address, s.Server.Phase)
		}
		return by
	}
	answers := s.Server != nil && s.Server.Error == ""
	switch {
	case s.unread() && s.UID == "" && s.Server != nil:
		return fmt.Sprintf("no process reports the state of the sale; %s: %s", s.Server.Address, s.Server.Error)
	case s.unread() && s.UID == "":
		return "no serving process answers"
	case s.unread() && s.Server != nil:
		return fmt.Sprintf("served at %s, which reports the phase %s", s.Server.Address, s.Server.Phase)
	case s.Owner != "" && s.Server != nil && !answers:
		return fmt.Sprintf("served at %s; %s %s", s.Owner, s.Server.Address, s.unreported())
	case s.Owner != "":
		return "served at " + s.Owner
	case answers:
		return fmt.Sprintf("no majority of the lock nodes names a server; %s answers", s.Server.Address)
	case s.Unserved:
		return "no process serves it"
	}
	return ""
}

// soldText describes where the units of a sale are.
func soldText(s *current.Status) string {
	return fmt.Sprintf("%s of %s sold", grouped(s.Sold), count(s.Stock, "unit")) +
		some(s.Available, "available") + some(s.Held, "held") + some(s.InFlight, "in transfer between shards")
}

// some returns ", 12 held"; "" for no units.
func some(units int64, where string) string {
	if units <= 0 {
		return ""
	}
	return fmt.Sprintf(", %s %s", grouped(units), where)
}

// clockOff returns "-" for an offset within the duration of a query.
func clockOff(seconds float64) string {
	if math.Abs(seconds) < 0.01 {
		return "-"
	}
	return fmt.Sprintf("%+.2f s", seconds)
}

// phaseWord describes the phase of a sale, in green only if it sells.
func phaseWord(c terminal.Palette, s *saleStatus) string {
	switch s.Phase {
	case ledger.PhaseOpen:
		if s.Health.State != healthDown {
			return c.Green(s.word())
		}
		return c.Yellow(s.word())
	case ledger.PhaseStalled, ledger.PhaseUnknown:
		return c.Red(s.word())
	case ledger.PhasePaused, ledger.PhasePlanned, ledger.PhaseScheduled:
		return c.Yellow(s.word())
	}
	return s.word()
}
