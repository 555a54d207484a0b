package cli

import (
	"fmt"
	"slices"

	"salectl/backends/ledger"
	"salectl/planner"
)

// saleHealth is whether a sale does what its phase promises, as far as status can see.
type saleHealth struct {
	State   healthState `json:"state"`
	Reasons []string    `json:"reasons"`
}

type healthState string

const (
	healthOK       healthState = "ok"
	healthDegraded healthState = "degraded" // claims are answered, and something is amiss
	healthDown     healthState = "down"     // it is to sell, and nobody can be sold anything
)

// judge works out the health of a sale and whether it is open, by what the ledger, the lock
// nodes and the process that serves it have told.
func (s *saleStatus) judge() {
	s.Health = saleHealth{State: healthOK, Reasons: []string{}}
	amiss := func(state healthState, format string, args ...any) {
		if s.Health.State != healthDown {
			s.Health.State = state
		}
		s.Health.Reasons = append(s.Health.Reasons, fmt.Sprintf(format, args...))
	}
	stalls := func(shard planner.ShardStatus) bool { return shard.Stalled != nil }
	stalled := len(s.Shards) - len(slices.DeleteFunc(slices.Clone(s.Shards), stalls))
	if s.Phase == ledger.PhaseOpen && stalled == len(s.Shards) {
		s.Phase = ledger.PhaseStalled
	}
	if s.unread() {
		amiss(healthDown, "the ledger cannot be read: %s", s.LedgerError)
	}
	switch unowned := s.unowned(); {
	case s.Phase == ledger.PhaseStalled:
		s.Health.State = healthDown // for the reasons below
	case s.Phase == ledger.PhaseOpen && unowned == len(s.Shards):
		amiss(healthDown, "no process serves it")
	case s.Phase == ledger.PhaseOpen && unowned > 0:
		amiss(healthDegraded, "%d of %s are served by no process", unowned, count(int64(len(s.Shards)), "shard"))
	}
	if stalled > 0 {
		amiss(healthDegraded, "%d of %s cannot be written", stalled, count(int64(len(s.Shards)), "shard"))
	}
	for _, w := range s.Warnings {
		amiss(healthDegraded, "%s", w)
	}
	for _, n := range s.Nodes {
		if n.Error != "" && (s.unread() || s.Voting == len(s.Nodes)) { // else its vote is missed among the warnings
			amiss(healthDegraded, "lock node %s: %s", n.Name, n.Error)
		}
	}
}

// unowned is how many shards no majority of the lock nodes knows an owner of.
func (s *saleStatus) unowned() (n int) {
	for _, shard := range s.Shards {
		if shard.LeaseLeftSeconds <= 0 {
			n++
		}
	}
	return n
}

// err is what status ends with where its exit code tells the health.
func (h *saleHealth) err() error {
	switch h.State {
	case healthDown:
		return shown{errDown}
	case healthDegraded:
		return shown{errDegraded}
	}
	return nil
}
