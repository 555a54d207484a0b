package shard

import (
	"sync"
	"sync/atomic"
	"time"

	"salectl/backends/clock"
)

// What the ledger lacks of what nodes have given: by user, and counted over all
// nodes of a sale, so that it is never more than the sale's backlog.

// Backlog is how far the ledger is behind, for all nodes of a sale.
type Backlog struct {
	most int64 // that the ledger may lack

	mu     sync.Mutex   // of what adds to either
	behind atomic.Int64 // grabs that the ledger lacks, or may lack
	asked  int64        // requests in calls under way, each of which may be one more

	// before counts the shards of which the ledger may lack what was given before
	// this tenure: nobody here knows how much that is.
	before int
}

// NewBacklog returns that of a sale whose ledger may lack so many grabs.
func NewBacklog(most int64) *Backlog { return &Backlog{most: most} }

// reserve returns how many requests more a node may be asked, of n, and counts them.
func (b *Backlog) reserve(n int64) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.before > 0 {
		return 0
	}
	n = max(min(n, b.most-b.behind.Load()-b.asked), 0)
	b.asked += n
	return n
}

// answered says what came of requests that were reserved: how many grabs more the
// ledger lacks, or may lack.
func (b *Backlog) answered(requests, more int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked -= requests
	b.behind.Add(more)
}

// known says that the ledger has what a shard's list gave before this tenure, or
// that this is not waited for.
func (b *Backlog) known() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.before--
}

// waits says whether what was given before this tenure is waited for.
func (b *Backlog) waits() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.before > 0
}

// full says whether the ledger is as far behind as it may be, large whether it must
// not fall back much further.
func (b *Backlog) full() bool  { return b.behind.Load() >= b.most }
func (b *Backlog) large() bool { return b.behind.Load() > b.most/2 }

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
	gs.behind += int64(to&lacking)/int64(lacking) - int64(was&lacking)/int64(lacking)
	gs.unsure += int64(to&unsure)/int64(unsure) - int64(was&unsure)/int64(unsure)
	if to == 0 {
		delete(gs.users, user)
	} else {
		gs.users[user] = to
	}
}

// mayHaveLocked is mayHave for whoever holds the node's lock.
func (gs *shardQueue) mayHaveLocked(user string) bool { return !gs.users[user].may() }

// lacks is how many grabs the ledger lacks, or may lack.
func (gs *shardQueue) lacks() int64 { return gs.behind + gs.unsure }

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
// asks for any more, if the ledger is as far behind as it may be: they would be
// counted for ever, and nobody new is asked for, so that a node which did not answer
// would never be known to answer again. It returns when to look again, 0 if there are no such users.
func (g *NodeBatcher) freeStuck(now clock.Now) time.Duration {
	wake := time.Duration(0)
	for _, gs := range g.shards {
		if gs.unsure == 0 || gs.fill == 0 {
			continue
		}
		wake = now.Mono + LookForStuck
		answers := gs.failed.err == nil || now.Mono >= gs.restsTo+LookForStuck
		if g.backlog.full() && gs.asking == 0 && answers && !gs.asksAgain() {
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
		if t.asked {
			return true
		}
	}
	return false
}
