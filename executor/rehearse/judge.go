package rehearse

import (
	"fmt"
	"time"
)

// judge compares all answers of a rehearsal with the promises to buyers. It has a buyer's knowledge
// only: if an answer is missing, it assumes in favor of the server.
type judge struct {
	c          Config
	violations []string

	// unresolved reports that a claim may have been accepted without an answer.
	unresolved bool

	owners  map[int64]*record   // first claim that was sold a unit, by unit
	claims  map[string]*record  // first answer with a claim, by its name
	keys    map[string]*accepts // by key, which implies its user
	units   map[string]int64    // by user, of distinct claims
	soldOut *record             // a request answered sold_out
	money   int64               // amount reported to buyers, in minor units

	// Of a draw.
	entered  map[string]*record // first entry, by user
	entrants []*entrant         // ordered by key

	// Of held claims.
	plays  []*play
	byID   map[string]*play
	payAt  []time.Time // times of the first payment for each unit, in order; nil: not computed yet
	free   []int64     // returned units without owner
	reused int64       // number of times that a returned unit was given to another buyer
}

// accepts are the accepted answers of one key.
type accepts struct {
	first *record // by time of arrival
	new   int     // number of answers with status 201
}

func (j *judge) violated(format string, args ...any) {
	j.violations = append(j.violations, fmt.Sprintf(format, args...))
}
