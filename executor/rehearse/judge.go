package rehearse

import (
	"fmt"
	"time"
)

// judge holds all answers of a rehearsal against what every buyer was promised.
// It knows only what buyers know: where an answer stayed unknown, it gives the
// server the benefit of the doubt.
type judge struct {
	c          Config
	violations []string

	// unresolved says that some claim may have been accepted unseen.
	unresolved bool

	owners  map[int64]*record   // who was sold a unit, first
	claims  map[string]*record  // who was given a claim, first
	keys    map[string]*accepts // by key, which names its user too
	units   map[string]int64    // by user, of distinct claims
	soldOut *record             // one who was told so
	money   int64               // that buyers were told of, in minor units

	// Of a draw.
	entered  map[string]*record // the first entry, by user
	entrants []*entrant         // by key

	// Of claims that were held.
	plays  []*play
	byID   map[string]*play
	payAt  []time.Time // when somebody first began to pay for each unit, in order; nil: not known yet
	free   []int64     // units that came back and that nobody has
	reused int64       // how often a unit that came back was given to somebody else
}

// accepts are the accepted answers of one key.
type accepts struct {
	first *record // by the time of its arrival
	new   int     // how many of them were 201
}

func (j *judge) violated(format string, args ...any) {
	j.violations = append(j.violations, fmt.Sprintf(format, args...))
}
