package ledger

import (
	"time"

	pb "salectl/backends/ledger/ledgerpb"
)

// Phases of a sale, as the ledger has them.
const (
	PhasePlanned   = "planned" // accepted, not yet on every shard
	PhaseOpen      = "open"
	PhasePaused    = "paused"
	PhaseClosed    = "closed"
	PhaseSealed    = "sealed"
	PhaseDestroyed = "destroyed"
)

// What a sale may be besides to those who look at it.
const (
	PhaseScheduled = "scheduled" // it opens later
	PhaseUnknown   = "unknown"   // the ledger cannot be read
	PhaseStalled   = "stalled"   // nobody can be sold anything at the moment
	PhaseEnded     = "ended"     // its hours are over; a paused one ends with them, too
)

// PhaseName returns the word for a phase that a declaration set.
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

// Over reports whether a phase is that of a run that has ended for good.
func Over(phase string) bool { return phase == PhaseSealed || phase == PhaseDestroyed }

// PhaseAt returns the word for a sale at a time, by its phase in the ledger and its hours; a
// zero time: it has none.
func PhaseAt(phase string, opensAt, closesAt, now time.Time) string {
	switch opened := phase == PhaseOpen; {
	case (opened || phase == PhasePaused) && !closesAt.IsZero() && !now.Before(closesAt):
		return PhaseEnded
	case opened && now.Before(opensAt):
		return PhaseScheduled
	}
	return phase
}
