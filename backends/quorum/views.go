package quorum

import (
	"slices"
	"time"
)

// seen is the state of a node, from its answers.
type seen struct {
	err          error     // of its last answer; nil: none
	errSinceVote error     // last error since it voted: a release of nothing needs no disk, so it proves little
	votesFrom    time.Time // while it abstains

	// clock is the node's time halfway between call and answer, at is that instant by the local
	// monotonic clock, and aged is the time base when the answer arrived.
	clock time.Time
	at    time.Duration
	aged  time.Duration
}

// NodeView is a group's view of a node, for status and metrics.
type NodeView struct {
	Err       error     // error of the last failed call; nil if there was none, or it has voted since
	VotesFrom time.Time // set while it abstains: time of its next vote, by its own clock
}

// median returns the median of clock offsets.
func median(off []time.Duration) time.Duration {
	slices.Sort(off)
	low, high := off[(len(off)-1)/2], off[len(off)/2]
	return low + (high-low)/2
}

// record records the answer to a call, or its error, with the monotonic times of call and answer, and the time
// base at the answer.
func (s *seen) record(b BallotReply, err error, vote bool, sent, answered, aged time.Duration) {
	s.err = err
	if err != nil {
		s.errSinceVote = err
		return
	}
	if !vote {
		return
	}
	s.errSinceVote, s.votesFrom = nil, time.Time{}
	if b.Abstained {
		s.votesFrom = b.VotesFrom
	}
	s.clock, s.at, s.aged = b.Time, (sent+answered)/2, aged
}

// Stats counts the events of a group since its creation.
type Stats struct {
	Tries    uint64 // attempts to acquire a key
	Won      uint64 // tries that acquired it
	Refused  uint64 // tries that did not
	Renewals uint64 // rounds in which a majority renewed a key
	Lost     uint64 // losses of held keys
	Forced   uint64 // faulty holders that nodes were requested to remove
	Repaired uint64 // keys without an expiry, or with one too far ahead, for which nodes set a new one

	// Votes: nodes' answers about single keys, by kind.
	Yes, No, Abstained, Failed uint64

	Acquiring time.Duration // total time from Acquire until the keys were held
	Waited    time.Duration // part of it before the ballots of the tries that won
}

// Plus returns the sum of the counts of two groups.
func (s Stats) Plus(t Stats) Stats {
	return Stats{
		Tries: s.Tries + t.Tries, Won: s.Won + t.Won, Refused: s.Refused + t.Refused,
		Renewals: s.Renewals + t.Renewals, Lost: s.Lost + t.Lost, Forced: s.Forced + t.Forced, Repaired: s.Repaired + t.Repaired,
		Yes: s.Yes + t.Yes, No: s.No + t.No, Abstained: s.Abstained + t.Abstained, Failed: s.Failed + t.Failed,
		Acquiring: s.Acquiring + t.Acquiring, Waited: s.Waited + t.Waited,
	}
}
