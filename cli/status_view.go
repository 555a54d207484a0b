package cli

import (
	"fmt"
	"math"
	"strings"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/cli/terminal"
	"salectl/planner"
	"salectl/planner/current"
)

func (p *program) statusText(s *saleStatus, all bool) {
	c := p.colours(p.out)
	p.gap()
	switch {
	case !s.unread():
		fmt.Fprintf(p.out, "%s: %s, generation %d, run %s\n", c.Bold(s.Sale), phaseWord(c, s), s.Generation, s.UID)
		fmt.Fprintf(p.out, "  %s of %s sold%s\n", grouped(s.Sold), count(s.Stock, "unit"), elsewhere(s.Status))
	default:
		fmt.Fprintf(p.out, "%s: %s\n", c.Bold(s.Sale), phaseWord(c, s))
		fmt.Fprintf(p.out, "  the ledger cannot be read: %s\n", s.LedgerError)
		if s.Generation > 0 {
			fmt.Fprintf(p.out, "  %s of %s sold%s, as far as the process that serves it knows\n", grouped(s.Sold), count(s.Stock, "unit"), elsewhere(s.Status))
		}
	}
	s.About.Each(func(key, text string) { fmt.Fprintf(p.out, "  %s: %s\n", key, text) })
	if s.Refund != nil {
		fmt.Fprintf(p.out, "  %s\n", refunded(s.Refund))
	}
	if line := committed(s.Packets); line != "" {
		fmt.Fprintf(p.out, "  %s\n", line)
	}
	if s.Phase == ledger.PhaseDestroyed {
		return
	}
	for _, line := range []string{times(s.Status), payment(s.Status), holds(s.Holds), checked(s.PaymentCheck), eligible(s.Status), served(s), votes(s.Status)} {
		if line != "" {
			fmt.Fprintf(p.out, "  %s\n", line)
		}
	}
	for _, line := range p.drawn(s.Sale, s.Draw) {
		fmt.Fprintf(p.out, "  %s\n", line)
	}
	if s.Applied < s.Generation && !s.unread() {
		fmt.Fprintf(p.out, "  generation %d is not on every shard yet\n", s.Generation)
	}
	warnings := p.completed(s.Warnings, s.Sale)
	if why := s.unreached(); why != "" {
		warnings = append(warnings, why)
	}
	terminal.WriteWarnings(p.out, c, append(warnings, s.problems()...), all)
	fmt.Fprintln(p.out)
	p.processesText(s, c)
	if len(s.Shards) > 0 {
		fold := len(s.Shards) > terminal.FoldBeyond && !all
		p.shardsText(s, c, fold)
		p.listsText(s.Status, fold)
		if fold {
			terminal.ListsAll(p.out, c, "shard")
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
		return "down" + since(seen) + because(n.Error)
	case n.Unfit != "":
		return "up, and not set up as it must be" + because(n.Unfit)
	case n.Abstaining:
		return "abstains until " + clockText(n.VotesFrom) + ": it was restarted or lost its memory"
	case seen != nil && !seen.Up:
		return "up from here; the server does not reach it" + since(seen) + because(seen.Error)
	case n.Unmarked:
		return "up, and does not know the sale: it will abstain before it votes"
	}
	return "up"
}

func since(seen *current.Seen) string {
	if seen.Since == "" {
		return " now"
	}
	return " since " + clockText(seen.Since)
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// clockText formats a time to the second.
func clockText(rfc3339 string) string {
	t, err := time.Parse(time.RFC3339, rfc3339)
	if err != nil {
		return rfc3339
	}
	return t.UTC().Format(time.RFC3339)
}

// times describes when the sale opens and closes by itself.
func times(s *current.Status) string {
	var words []string
	if s.OpensAt != "" {
		words = append(words, "opens at "+s.OpensAt)
	}
	if s.ClosesAt != "" {
		words = append(words, "closes at "+s.ClosesAt)
	}
	return strings.Join(words, ", ")
}

// payment describes the payment of claims, unless they are sold at once.
func payment(s *current.Status) string {
	if s.Payment == nil {
		return ""
	}
	return "claims are held for payment: " + planner.PaymentText(s.Payment)
}

// eligible describes the rules of the sale.
func eligible(s *current.Status) string {
	if s.Rules == nil {
		return ""
	}
	return fmt.Sprintf("rules: %v", s.Rules)
}

// holds counts the holds by state.
func holds(h *api.Holds) string {
	if h == nil {
		return ""
	}
	next := ""
	if !h.NextRelease.IsZero() {
		next = ", the next is released at " + timeText(h.NextRelease)
	}
	owed := ""
	if h.RefundsDue > 0 {
		owed = fmt.Sprintf("; %s must be paid back", count(h.RefundsDue, "payment"))
	}
	return fmt.Sprintf("%s open%s; %s paid, %s expired, %s cancelled, %s refunded, %s paid late and sold%s", count(h.Open, "hold"), next,
		grouped(h.Confirmed), grouped(h.Expired), grouped(h.Cancelled), grouped(h.Refunded), grouped(h.Resold), owed)
}

// checked describes the queries to the payment service.
func checked(c *api.PaymentCheck) string {
	if c == nil {
		return ""
	}
	text := "the payment service is asked about " + count(c.Watched, "claim")
	if !c.FailingSince.IsZero() {
		text += fmt.Sprintf("; since %s no payment could be checked%s", timeText(c.FailingSince), because(c.Error))
	}
	return text
}

// served describes which processes serve the sale. If too few lock nodes answer, a warning
// reports it.
func served(s *saleStatus) string {
	if all := len(s.Processes); all > 1 {
		reached := s.reached()
		switch {
		case s.Server == nil:
		case s.Server.Error != "":
			return fmt.Sprintf("%s, which reaches %d of %d processes, %s", s.Server.Address, len(reached), all, s.untold())
		case s.Owner == "" && !s.Unserved && !s.unread():
			return fmt.Sprintf("no majority of the lock nodes names a server; %s answers, and reaches %d of %d processes", s.Server.Address, len(reached), all)
		}
		by := fmt.Sprintf("served by %d processes", len(reached))
		if len(reached) == 1 {
			by = "served at " + reached[0]
		}
		if s.unread() && s.Server != nil {
			by += fmt.Sprintf("; %s says that it is %s", s.Server.Address, s.Server.Phase)
		}
		return by
	}
	up := 0
	for _, n := range s.Nodes {
		if n.Up {
			up++
		}
	}
	switch {
	case s.unread() && s.UID == "" && s.Server != nil:
		return fmt.Sprintf("no process tells how it goes; %s: %s", s.Server.Address, s.Server.Error)
	case s.unread() && s.UID == "":
		return "no process answers that serves it"
	case s.unread() && s.Server != nil:
		return fmt.Sprintf("served at %s, which says that it is %s", s.Server.Address, s.Server.Phase)
	}
	answers := s.Server != nil && s.Server.Error == ""
	switch {
	case s.Owner != "" && s.Server != nil && !answers && s.Server.Address != s.Owner:
		return fmt.Sprintf("served at %s; %s does not tell how it goes: %s", s.Owner, s.Server.Address, s.Server.Error)
	case s.Owner != "" && s.Server != nil && !answers:
		return fmt.Sprintf("served at %s, which does not tell how it goes: %s", s.Owner, s.Server.Error)
	case s.Owner != "":
		return "served at " + s.Owner
	case answers:
		return fmt.Sprintf("no majority of the lock nodes names a server; %s answers", s.Server.Address)
	case 2*up < len(s.Nodes):
		return ""
	}
	return "nobody serves it"
}

// votes returns "" for a single node that votes, and if some nodes do not vote, which a
// warning reports.
func votes(s *current.Status) string {
	if s.Majority == 0 || s.Voting < len(s.Nodes) || len(s.Nodes) == 1 {
		return ""
	}
	return s.Votes().String()
}

// elsewhere describes where unsold units are.
func elsewhere(s *current.Status) string {
	return some(s.Available, "available") + some(s.Held, "held") + some(s.InFlight, "on the way between shards")
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
