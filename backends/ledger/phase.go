package ledger

import (
	"time"

	pb "salectl/backends/ledger/ledgerpb"
)

// Phases of a sale, as recorded in the ledger.
const (
	PhasePlanned   = "planned" // accepted, not yet on every shard
	PhaseOpen      = "open"
	PhasePaused    = "paused"
	PhaseClosed    = "closed"
	PhaseSealed    = "sealed"
	PhaseDestroyed = "destroyed"
)

// Further phases of a sale, for display.
const (
	PhaseScheduled = "scheduled" // it opens later
	PhaseUnknown   = "unknown"   // the ledger cannot be read
	PhaseStalled   = "stalled"   // nobody can be sold anything now
	PhaseEnded     = "ended"     // its hours are over, also those of a paused sale
)

// PhaseName returns the name of a declared phase.
func PhaseName(p pb.Phase) string {
	switch p {
	case pb.Phase_OPEN:
		return PhaseOpen
	case pb.Phase_PAUSED:
		return PhasePaused
	case pb.Phase_CLOSED:
		return PhaseClosed
	}
	return PhasePlanned
}

// Over reports whether a phase is final: sealed or destroyed.
func Over(phase string) bool { return phase == PhaseSealed || phase == PhaseDestroyed }

// PhaseAt returns the phase of a sale at now, given its phase in the ledger and its hours. A
// zero opensAt or closesAt means none.
func PhaseAt(phase string, opensAt, closesAt, now time.Time) string {
	switch opened := phase == PhaseOpen; {
	case (opened || phase == PhasePaused) && !closesAt.IsZero() && !now.Before(closesAt):
		return PhaseEnded
	case opened && now.Before(opensAt):
		return PhaseScheduled
	}
	return phase
}
