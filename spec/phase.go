package spec

// Phase is whether a sale accepts claims, as far as that is declared.
type Phase string

// The phases that can be declared.
const (
	PhaseOpen   Phase = "open" // within OpensAt and ClosesAt
	PhasePaused Phase = "paused"
	PhaseClosed Phase = "closed" // for good
)

var phases = []Phase{PhaseOpen, PhasePaused, PhaseClosed}
