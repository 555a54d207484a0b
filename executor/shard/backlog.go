package shard

import (
	"time"

	"salectl/backends/clock"
)

// What the ledger lacks of what a shard's list has given: by user, and counted, so that
// it is never more than the shard's allotment. What the list gave before this process had
// the shard does not count: the list gives under a new fill only, and is filled when the
// ledger has all that survived.

// backlog is how far the ledger is behind a shard's list, in users. The node's lock
// guards it, as it does the users.
type backlog struct {
	most   int64 // that the ledger may lack
	behind int64 // who were given something that it lacks
	unsure int64 // who may have been
	fresh  int64 // whom a call under way may give something, and who are none of these
}

// lacks is how many grabs the ledger lacks, or may lack.
func (b *backlog) lacks() int64 { return b.behind + b.unsure }

// room is how many users more the node may be asked for.
func (b *backlog) room() int64 { return max(b.most-b.lacks()-b.fresh, 0) }

// full says whether the ledger is as far behind as it may be, large whether it must
// not fall back much further.
func (b *backlog) full() bool  { return b.lacks() >= b.most }
func (b *backlog) large() bool { return b.lacks() > b.most/2 }

// count counts a user of a standing, n times.
func (b *backlog) count(s standing, n int64) {
	if s&lacking != 0 {
		b.behind += n
	}
	if s&unsure != 0 {
		b.unsure += n
	}
	if s == asking {
		b.fresh += n
	}
}

// standing is what is known of a user, in the present fill of a list. A user
// without one has nothing, or the ledger has it.
type standing uint8

const (
	asking    standing = 1 << iota // a call under way asks for a unit
	lacking                        // the list gave one, which the ledger lacks
	unsure                         // perhaps it did: a call that asked was not answered
	overtaken                      // the ledger has what the call under way gave
)

// may says whether to ask for a user may give a unit that is not counted yet.
func (s standing) may() bool { return s&(lacking|unsure) == 0 }

// set changes a user's standing, and the counts.
func (gs *shardQueue) set(user string, to standing) {
	was := gs.users[user]
	gs.asking += int(to&asking) - int(was&asking)
	gs.backlog.count(was, -1)
	gs.backlog.count(to, 1)
	if to == 0 {
		delete(gs.users, user)
	} else {
		gs.users[user] = to
	}
}

// mayHaveLocked is mayHave for whoever holds the node's lock.
func (gs *shardQueue) mayHaveLocked(user string) bool { return !gs.users[user].may() }

// gave takes in that the list has given a user a unit, now or by an earlier call.
func (gs *shardQueue) gave(user string, now bool) {
	switch s := gs.users[user]; {
	case s&overtaken != 0:
		gs.set(user, 0)
	case now, s&unsure != 0:
		gs.set(user, lacking)
	default: // the ledger has it, if that is not known to lack it
		gs.set(user, s&^asking)
	}
}

// gaveNothing takes in that a call gave a user nothing. One before that was not
// answered may have given something, or may do so yet.
func (gs *shardQueue) gaveNothing(user string) { gs.set(user, gs.users[user]&^(asking|overtaken)) }

// mayHaveGiven takes in that a call that asked for a user was not answered.
func (gs *shardQueue) mayHaveGiven(user string) {
	switch s := gs.users[user]; {
	case s&overtaken != 0:
		gs.set(user, 0)
	case s.may():
		gs.set(user, unsure)
	default:
		gs.set(user, s&^asking)
	}
}

// hasIn takes in that the ledger has what a user was given.
func (gs *shardQueue) hasIn(user string) {
	if s := gs.users[user]; s&asking != 0 {
		gs.set(user, asking|overtaken) // the answer may tell of it yet
	} else {
		gs.set(user, 0)
	}
}

// anew begins to count: the list was filled from the ledger, which has all that was
// given before and is not lost. Users stay for whom a call is under way.
func (gs *shardQueue) anew() {
	for user, s := range gs.users {
		gs.set(user, s&asking)
	}
}

// freeStuck has the lists filled anew whose users may have been given what nobody
// asks for any more, if the ledger is as far behind them as it may be: they would be
// counted for ever, and nobody new is asked for, so that a node which did not answer
// would never be known to answer again. It returns when to look again, 0 if there are no such users.
func (g *NodeBatcher) freeStuck(now clock.Now) time.Duration {
	wake := time.Duration(0)
	for _, gs := range g.shards {
		if gs.backlog.unsure == 0 || gs.fill == 0 {
			continue
		}
		wake = now.Mono + LookForStuck
		answers := gs.failed.err == nil || now.Mono >= gs.restsTo+LookForStuck
		if gs.backlog.full() && gs.asking == 0 && answers && !gs.asksAgain() {
			gs.shard.Post(FillLost{Fill: gs.fill})
		}
	}
	return wake
}

const LookForStuck = time.Second

// asksAgain says whether somebody is asked for again who may have been given
// something.
func (gs *shardQueue) asksAgain() bool {
	for _, t := range gs.queue {
		if t.sentToList {
			return true
		}
	}
	return false
}
