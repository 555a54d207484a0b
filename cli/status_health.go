package cli

import (
	"fmt"
	"strings"

	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/planner"
)

// saleHealth reports whether a sale does what its phase promises, as far as status can see.
type saleHealth struct {
	State   healthState `json:"state"`
	Reasons []string    `json:"reasons"`
}

type healthState string

const (
	healthOK       healthState = "ok"
	healthDegraded healthState = "degraded" // a fault exists
	healthDown     healthState = "down"     // the sale is open, and no claim can be sold
)

// judge determines the health of a sale and whether it is open, from the ledger, the lock
// nodes and the report of the process that serves it.
func (s *saleStatus) judge() {
	s.Health = saleHealth{State: healthOK, Reasons: []string{}}
	fault := func(format string, args ...any) {
		s.Health.State = healthDegraded
		s.Health.Reasons = append(s.Health.Reasons, fmt.Sprintf(format, args...))
	}
	of := count(int64(len(s.Shards)), "shard")
	unowned, stalled, sells := 0, 0, 0
	for _, shard := range s.Shards {
		owned := shard.LeaseLeftSeconds > 0
		switch {
		case !owned:
			unowned++
		case !shard.Stalled() && (shard.Error == "" || s.unread()):
			sells++
		}
		if shard.Stalled() {
			stalled++
		}
	}
	open := s.open()
	switch {
	case s.unread():
		fault("the ledger cannot be read: %s", s.LedgerError)
	case open && s.Owner == "" && s.Unserved && unowned == len(s.Shards):
		fault("no process serves it")
	case open && unowned > 0:
		fault("%d of %s have no owner that a majority of the lock nodes names", unowned, of)
	}
	if stalled > 0 {
		fault("%d of %s cannot be written", stalled, of)
		if s.Phase == ledger.PhaseOpen && stalled == len(s.Shards) {
			s.Phase = ledger.PhaseStalled
		}
	}
	for _, w := range s.Warnings {
		fault("%s", w)
	}
	if why := s.unreached(); why != "" {
		fault("%s", why)
	}
	for _, problem := range s.problems() {
		fault("%s", problem)
	}
	s.judgeServers(fault)
	if open && (sells == 0 || s.Phase == ledger.PhaseStalled || s.unread() && s.Server != nil && s.Server.Phase == ledger.PhaseStalled) {
		s.Health.State = healthDown
	}
}

// problems returns the problems of the process that serves the sale, without those shown in
// the tables of nodes and shards.
func (s *saleStatus) problems() (all []string) {
	for _, p := range s.Problems {
		if p.Subject == "node" || strings.HasSuffix(p.Kind, "_stalled") {
			continue
		}
		text := p.Message
		if p.Where != "" {
			text += fmt.Sprintf(": %s %s", p.Subject, p.Where)
		}
		if !p.Since.IsZero() {
			text += ", since " + planner.TimeText(p.Since)
		}
		text += because(p.Error)
		if p.Remedy != "" {
			text += "; " + p.Remedy
		}
		all = append(all, text)
	}
	return all
}

// open reports whether claims should be decided, as far as is known.
func (s *saleStatus) open() bool {
	phase := s.Phase
	if s.unread() {
		phase = ledger.PhaseOpen
		if s.Server != nil && s.Server.Phase != "" {
			phase = s.Server.Phase
		}
	}
	return phase == ledger.PhaseOpen || phase == ledger.PhaseStalled
}

// judgeServers reports faulty servers.
func (s *saleStatus) judgeServers(fault func(format string, args ...any)) {
	for _, n := range s.Nodes {
		switch {
		case n.Error != "" && s.unread(): // otherwise a warning reports the missing vote
			fault("lock node %s: %s", n.Name, n.Error)
		case n.Unfit != "":
			fault("%v", quorum.Fault{Node: n.Name, Why: n.Unfit})
		case n.Error == "" && n.Server != nil && !n.Server.Up:
			fault("lock node %s is not reached by the serving process%s", n.Name, because(n.Server.Error))
		}
	}
	if s.Server != nil && s.Server.Error != "" {
		fault("the process at %s %s", s.Server.Address, s.unreported())
	}
	if c := s.PaymentCheck; c != nil && !c.FailingSince.IsZero() {
		fault("the payment service does not answer%s", because(c.Error))
	}
}

// err returns the error for an exit code that reports the health.
func (h *saleHealth) err() error {
	switch h.State {
	case healthDown:
		return shown{errDown}
	case healthDegraded:
		return shown{errDegraded}
	}
	return nil
}
