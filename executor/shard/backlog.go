package shard

import (
	"time"

	"salectl/backends/clock"
)

// This file counts the grabs of a shard's list that the ledger lacks, by user, so that they are never
// more than the shard's allotment. Grabs from before this process had the shard do not count: the list
// gives under a new fill only, and is filled when the ledger has all that survived.

// backlog is how far the ledger is behind a shard's list, in users. The node's lock
// guards it, as it does the users.
type backlog struct {
	limit    int64 // that the ledger may lack
	unlogged int64 // who were given something that it lacks
	unsure   int64 // who may have been
	reserved int64 // whom a call under way may give something, and who are none of these
}

// lacks returns how many grabs the ledger lacks, or may lack.
func (b *backlog) size() int64 { return b.unlogged + b.unsure }

// room returns how many more users may be sent to the node.
func (b *backlog) room() int64 { return max(b.limit-b.size()-b.reserved, 0) }

// full reports whether the ledger is as far behind as it may be, large whether it is more than half as
// far.
func (b *backlog) full() bool      { return b.size() >= b.limit }
func (b *backlog) aboveHalf() bool { return b.size() > b.limit/2 }

// count counts a user in a state n times.
func (b *backlog) count(s grantState, n int64) {
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

// grantState is what is known of a user's grab in the present fill of a list. A user without one has
// nothing, or the ledger has the grab.
type grantState uint8

const (
	inFlight     grantState = 1 << iota // a call under way asks for a unit
	unloggedGrab                        // the list gave one, which the ledger lacks
	unsure                              // perhaps it did: a call that asked was not answered
	superseded                          // the ledger has what the call under way gave
)

// may reports whether a call for the user may give a unit that is not counted yet.
func (s grantState) uncounted() bool { return s&(unloggedGrab|unsure) == 0 }

// set changes a user's state, and the counts.
func (gs *shardQueue) set(user string, to grantState) {
	was := gs.users[user]
	gs.inFlight += int(to&inFlight) - int(was&inFlight)
	gs.backlog.count(was, -1)
	gs.backlog.count(to, 1)
	if to == 0 {
		delete(gs.users, user)
	} else {
		gs.users[user] = to
	}
}

// mayHaveLocked is mayHave for whoever holds the node's lock.
func (gs *shardQueue) mayHaveLocked(user string) bool { return !gs.users[user].uncounted() }

// gave takes in that the list has given a user a unit, now or by an earlier call.
func (gs *shardQueue) setGiven(user string, now bool) {
	switch s := gs.users[user]; {
	case s&superseded != 0:
		gs.set(user, 0)
	case now, s&unsure != 0:
		gs.set(user, unloggedGrab)
	default: // the ledger has it, if that is not known to lack it
		gs.set(user, s&^inFlight)
	}
}

// gaveNothing takes in that a call gave a user nothing. One before that was not
// answered may have given something, or may do so yet.
func (gs *shardQueue) setNothingGiven(user string) {
	gs.set(user, gs.users[user]&^(inFlight|superseded))
}

// mayHaveGiven takes in that a call that asked for a user was not answered.
func (gs *shardQueue) setUnsure(user string) {
	switch s := gs.users[user]; {
	case s&superseded != 0:
		gs.set(user, 0)
	case s.uncounted():
		gs.set(user, unsure)
	default:
		gs.set(user, s&^inFlight)
	}
}

// hasIn takes in that the ledger has what a user was given.
func (gs *shardQueue) setLogged(user string) {
	if s := gs.users[user]; s&inFlight != 0 {
		gs.set(user, inFlight|superseded) // the answer may tell of it yet
	} else {
		gs.set(user, 0)
	}
}

// anew begins to count: the list was filled from the ledger, which has all that was
// given before and is not lost. Users stay for whom a call is under way.
func (gs *shardQueue) resetCounts() {
	for user, s := range gs.users {
		gs.set(user, s&inFlight)
	}
}

// freeStuck has the lists filled anew whose users may have been given what nobody
// asks for any more, if the ledger is as far behind them as it may be: they would be
// counted for ever, and nobody new is asked for, so that a node which did not answer
// would never be known to answer again. It returns when to look again, 0 if there are no such users.
func (g *NodeBatcher) rebuildStuck(now clock.Now) time.Duration {
	wake := time.Duration(0)
	for _, gs := range g.shards {
		if gs.backlog.unsure == 0 || gs.fill == 0 {
			continue
		}
		wake = now.Mono + StuckCheckEvery
		answers := gs.failed.err == nil || now.Mono >= gs.retryAt+StuckCheckEvery
		if gs.backlog.full() && gs.inFlight == 0 && answers && !gs.hasRepeats() {
			gs.shard.Post(FillLost{Fill: gs.fill})
		}
	}
	return wake
}

const StuckCheckEvery = time.Second

// asksAgain reports whether somebody is asked for again who may have been given
// something.
func (gs *shardQueue) hasRepeats() bool {
	for _, t := range gs.queue {
		if t.sentToList {
			return true
		}
	}
	return false
}
