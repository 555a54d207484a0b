package listengine

import (
	"slices"
	"time"

	"salectl/backends/clock"
	"salectl/executor/request"
	"salectl/executor/shard"
)

// This file counts the grabs of a shard's list that the ledger lacks, by user, so that they are never
// more than the shard's allotment. Grabs from before this process had the shard do not count: the list
// grants under a new fill only, and is filled when the ledger has all that survived.

// backlog counts the users whose grabs the ledger lacks. The node's lock guards it, and the map of users.
type backlog struct {
	limit    int64 // that the ledger may lack
	unlogged int64 // users with a grab that the ledger lacks
	unsure   int64 // users who may have such a grab
	reserved int64 // users in a call under way who are counted in neither
}

// size returns how many grabs the ledger lacks, or may lack.
func (b *backlog) size() int64 { return b.unlogged + b.unsure }

// room returns how many more users may be sent to the node.
func (b *backlog) room() int64 { return max(b.limit-b.size()-b.reserved, 0) }

// full reports whether the ledger may lack no more grabs, and aboveHalf whether it lacks more than half
// as many.
func (b *backlog) full() bool      { return b.size() >= b.limit }
func (b *backlog) aboveHalf() bool { return b.size() > b.limit/2 }

// count adds n users in a state to the counts; n may be negative.
func (b *backlog) count(s grabState, n int64) {
	if s&unloggedGrab != 0 {
		b.unlogged += n
	}
	if s&unsure != 0 {
		b.unsure += n
	}
	if s == inFlight {
		b.reserved += n
	}
}

// grabState is what is known of a user's grab in the present fill of a list. A user with no state has
// no grab, or the ledger has it.
type grabState uint8

const (
	inFlight     grabState = 1 << iota // a call under way requests a unit
	unloggedGrab                       // the list granted a unit, and the ledger lacks it
	unsure                             // the list may have granted a unit: a call got no reply
	superseded                         // the ledger has the grab of the call under way
	givenBefore                        // only for endCall: an earlier call granted the unit
)

// uncounted reports whether a call for the user may get a unit that is not counted yet.
func (s grabState) uncounted() bool { return s&(unloggedGrab|unsure) == 0 }

// setState changes a user's state from was, which it is, and the counts.
func (q *queue) setState(user string, was, to grabState) {
	q.inFlight += int(to&inFlight) - int(was&inFlight)
	q.backlog.count(was, -1)
	q.backlog.count(to, 1)
	if to == 0 {
		delete(q.users, user)
	} else {
		q.users[user] = to
	}
}

// mayHaveLocked is MayHave with the node's lock held.
func (q *queue) mayHaveLocked(user string) bool { return !q.users[user].uncounted() }

// endCall records the end of a call for a user: that it granted the user a unit (unloggedGrab), that an earlier
// call had granted one (givenBefore), that it got no reply (unsure), or that it granted nothing (0). In the last
// case an earlier call without a reply may have granted a unit, or may do so yet.
func (q *queue) endCall(user string, got grabState) {
	was := q.users[user]
	s := was &^ inFlight
	switch {
	case s == superseded:
		s = 0
	case got == unloggedGrab, got == unsure && s == 0:
		s = got
	case got == givenBefore && s == unsure: // else the ledger has the unit, unless it is known to lack it
		s = unloggedGrab
	}
	q.setState(user, was, s)
}

// setLogged records that the ledger has the unit that a user was given.
func (q *queue) setLogged(user string) {
	if s := q.users[user]; s&inFlight != 0 {
		q.setState(user, s, inFlight|superseded) // the reply may still report the unit
	} else {
		q.setState(user, s, 0)
	}
}

// resetCounts begins the counts of a new fill. The list was filled from the ledger, which has every grab
// that is not lost. Only users with a call under way keep a state.
func (q *queue) resetCounts() {
	for user, s := range q.users {
		q.setState(user, s, s&inFlight)
	}
}

// rebuildStuck reports a fill as lost, so that its list is rebuilt, if the backlog is full, may contain
// grabs of users for whom no request waits, and no call is under way. Without that the users would count
// for ever and no new user would be sent to the node, so that a node which did not reply would never be
// found to reply again. It returns the monotonic time of the next check; 0: there are no such users.
func (g *Batcher) rebuildStuck(now clock.Now) time.Duration {
	wake := time.Duration(0)
	for _, q := range g.queues {
		if q.backlog.unsure == 0 || q.fill == 0 {
			continue
		}
		wake = now.Mono + StuckCheckEvery
		answers := q.failed.err == nil || now.Mono >= q.retryAt+StuckCheckEvery
		if q.backlog.full() && q.inFlight == 0 && answers && !q.hasRepeats() {
			q.post(shard.FillLost{Fill: q.fill})
		}
	}
	return wake
}

// StuckCheckEvery is the interval between the checks of rebuildStuck.
const StuckCheckEvery = time.Second

// hasRepeats reports whether a request waits whose user may have a grab from an earlier call.
func (q *queue) hasRepeats() bool {
	return slices.ContainsFunc(q.tickets, func(t *request.Ticket) bool { return t.SentToList })
}
