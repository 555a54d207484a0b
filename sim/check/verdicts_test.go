package check

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
)

const process = "executor-0, run 1"

// asked has a process take in a claim, and returns what to call with its answer.
func (w *world) asked(user, key string, quantity int64) func(Answer) {
	op := w.invoke(user, key, quantity)
	ended := w.h.RequestReceived(w.pass(), op, process)
	return func(a Answer) {
		ended(a.Outcome)
		w.answer(op, a)
	}
}

// refused has a process answer a claim at once.
func (w *world) refused(user, key string, quantity int64, outcome api.Outcome) {
	w.asked(user, key, quantity)(Answer{Outcome: outcome})
}

// served is a sale whose owner has sold a unit of each shard: 2 are left on each.
func served(t testing.TB) *world {
	w := newWorld(t)
	w.buy(w.user(0), "k", 1)
	w.buy(w.user(1), "k", 1)
	w.at += replyLasts
	return w
}

// emptied is served without the units of shard 0.
func emptied(t testing.TB) *world {
	w := served(t)
	w.buy(w.user(0), "k", 2)
	w.at += replyLasts
	return w
}

// apart is emptied, where another process has owned shard 1 for long.
func apart(t testing.TB) *world {
	w := emptied(t)
	w.succeed(1)
	w.buy(w.user(1), "k", 1)
	w.at += time.Hour
	return w
}

// freed is a sale where a hold of a unit of shard 1 has just been released, and 2 units of shard 0
// and 3 of shard 1 are available.
func freed(t testing.TB) *world {
	w := paid(t)
	w.reserve(w.user(0), "k", 1)
	user := w.user(1)
	op := w.invoke(user, "k", 1)
	w.append(1, func(d *ledger.Draft) { d.Claim(user, "k", 1) })
	w.answer(op, Answer{Outcome: api.Held, Claim: w.claims(user)[0]})
	w.released()
	c, _ := w.shards[1].Find(user, "k")
	w.append(1, func(d *ledger.Draft) { d.Expire(c) })
	return w
}

// forgotten has a process take a request in, and the node of shard 0 give its user a unit and lose
// it. Once the request is refused and something has happened to the shard, the user asks again.
func (w *world) forgotten(user, first string, happens func(shard int)) {
	ended := w.received(user, first)
	w.give(user, "k", 1)
	w.h.Lost(w.pass(), 0, 0)
	w.at += grace
	happens(0)
	ended(api.Standby)
	w.refused(user, "k", 1, api.Unknown)
}

func TestToleratedVerdicts(t *testing.T) {
	unknown := Answer{Outcome: api.Unknown}
	for name, test := range map[string]struct {
		from func(testing.TB) *world
		do   func(w *world)
	}{
		"unknown, as a reply was lost": {newWorld, func(w *world) {
			answer := w.asked(w.user(0), "k", 1)
			w.h.Broke(w.pass(), "executor-0")
			answer(unknown)
		}},
		"unknown, as its owner lost a reply": {newWorld, func(w *world) {
			op := w.invoke(w.user(0), "k", 1)
			ended := w.h.RequestReceived(w.pass(), op, "executor-7, run 1")
			w.h.Broke(w.pass(), "executor-0")
			ended(api.Unknown)
			w.answer(op, unknown)
		}},
		"unknown, as it is with another process": {newWorld, func(w *world) {
			user := w.user(0)
			answer := w.asked(user, "k", 1)
			w.h.Forwarded(w.pass(), "executor-1", user, "k")
			answer(unknown)
		}},
		"unknown, as another of its key waits": {newWorld, func(w *world) {
			user := w.user(0)
			first := w.asked(user, "k", 1)
			w.refused(user, "k", 1, api.Unknown)
			first(Answer{Outcome: api.Standby})
		}},
		"unknown to who went away": {newWorld, func(w *world) {
			user := w.user(0)
			op := w.invoke(user, "k", 1)
			ended := w.h.RequestReceived(w.pass(), op, process)
			w.h.Withdrew(op)
			ended(api.Unknown)
			w.answer(op, unknown)
			w.refused(user, "k", 1, api.Unknown)
		}},
		"unknown, as the log lacks what a list gave": {withAckRedis, func(w *world) {
			user := w.user(0)
			g := w.early(user, "k", 1)
			w.refused(user, "k", 1, api.Unknown)
			w.drain(g)
		}},
		"unknown of what a list gave, in a session that may have ended": {withAckRedis, func(w *world) {
			user := w.user(0)
			w.received(user, process)(api.Sold)
			w.drain(w.early(user, "k", 1))
			w.drain(w.early(w.user(0), "k", 2))
			w.at += grace
			w.refused(user, "k", 1, api.Unknown)
		}},
		"unknown, as a list may have given to a call without a reply": {withAckRedis, func(w *world) {
			user := w.user(0)
			ended := w.received(user, process)
			w.h.Broke(w.pass(), "executor-0")
			ended(api.SoldOut)
			w.refused(user, "k", 1, api.Unknown)
		}},
		"unknown, as its node lost what it gave, and its process the shard": {withAckLedger, func(w *world) { w.forgotten(w.user(0), process, w.succeed) }},
		"unknown, as a reply was lost while an earlier request of its key waited": {newWorld, func(w *world) {
			user := w.user(0)
			ended := w.received(user, process)
			w.h.Broke(w.pass(), "executor-0")
			ended(api.Standby)
			w.refused(user, "k", 1, api.Unknown)
		}},
		"unknown, as its hold may have been released": {paid, func(w *world) {
			user := w.user(0)
			w.reserve(user, "k", 1)
			w.refused(user, "k", 1, api.Unknown)
		}},
		"unknown soon after the faults stopped": {newWorld, func(w *world) {
			user := w.user(0)
			first := w.asked(user, "k", 1)
			w.h.Stopped = w.pass()
			w.at += mostUndecided - time.Second
			w.refused(user, "k", 1, api.Unknown)
			first(Answer{Outcome: api.Standby})
		}},
		"none now for more than there are": {served, func(w *world) {
			w.buy(w.user(1), "k", 1)
			w.refused(w.user(0), "k", 4, api.NoneNow)
		}},
		"none now while another asks for what there is": {emptied, func(w *world) {
			other := w.asked(w.user(1), "k", 2)
			w.refused(w.user(0), "k", 1, api.NoneNow)
			other(Answer{Outcome: api.Standby})
		}},
		"none now after a long wait": {emptied, func(w *world) {
			answer := w.asked(w.user(0), "k", 1)
			w.at += silence
			answer(Answer{Outcome: api.NoneNow})
		}},
		"none now just as units of the other shard are released": {freed, func(w *world) {
			w.at += replyLasts - 10*time.Millisecond
			w.refused(w.user(0), "k", 5, api.NoneNow)
		}},
		"none now again, behind a command": {open, func(w *world) {
			w.h.Stopped = w.pass()
			w.at += time.Minute
			w.refused(w.user(0), "k", 1, api.NoneNow)
			w.command("resume", func() {})
			w.at += time.Second
			w.refused(w.user(0), "k", 1, api.NoneNow)
		}},
		"none now while the owner waits for a reply that is lost": {emptied, func(w *world) {
			w.refused(w.user(0), "k", 1, api.NoneNow)
			w.h.Broke(w.pass(), "executor-0")
		}},
		"none now while the other shard is taken over": {emptied, func(w *world) {
			answer := w.asked(w.user(0), "k", 1)
			w.append(1, func(d *ledger.Draft) { d.Own("executor-0") })
			answer(Answer{Outcome: api.NoneNow})
		}},
		"none now while the process of the other shard reaches no other": {apart, func(w *world) {
			w.h.Isolated(w.at, time.Second, "executor-1, run 1")
			w.refused(w.user(0), "k", 1, api.NoneNow)
		}},
		"none now while the process of the other shard is dead": {apart, func(w *world) {
			w.h.Killed(w.pass(), "executor-1")
			w.refused(w.user(0), "k", 1, api.NoneNow)
		}},
		"none now as the process of the other shard dies": {apart, func(w *world) {
			answer := w.asked(w.user(0), "k", 1)
			w.h.Killed(w.pass(), "executor-1")
			answer(Answer{Outcome: api.NoneNow})
		}},
		"none now at first, when all is sold": {open, func(w *world) {
			w.h.Stopped = w.pass()
			w.at += time.Minute
			w.refused(w.user(0), "k", 1, api.NoneNow)
			w.at += 100 * time.Millisecond
			w.refused(w.user(0), "k", 1, api.NoneNow)
			w.at += time.Minute
			w.refused(w.user(0), "k", 1, api.NoneNow)
		}},
		"none now when all is sold, and the faults go on": {open, func(w *world) {
			w.at += time.Minute
			w.refused(w.user(0), "k", 1, api.NoneNow)
			w.at += time.Second
			w.refused(w.user(0), "k", 1, api.NoneNow)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := test.from(t)
			test.do(w)
			for _, p := range Check(w.h) {
				t.Error(p)
			}
		})
	}
}

// verdictFaults are answers of unknown and none_now that nothing excuses.
var verdictFaults = map[string]planted{
	"unknown for nothing": {newWorld, func(w *world) { w.refused(w.user(0), "k", 1, api.Unknown) }, "undecided"},
	"unknown before and after a reply was lost": {newWorld, func(w *world) {
		w.h.Broke(w.pass(), "executor-0")
		w.refused(w.user(0), "k", 1, api.Unknown)
		w.h.Broke(w.pass(), "executor-0")
	}, "undecided"},
	"unknown as a process lost a reply that has nothing to do with it": {newWorld, func(w *world) {
		answer := w.asked(w.user(0), "k", 1)
		w.h.Broke(w.pass(), "executor-1")
		answer(Answer{Outcome: api.Unknown})
	}, "undecided"},
	"unknown after another process has answered": {newWorld, func(w *world) {
		user := w.user(0)
		w.h.Forwarded(w.pass(), "executor-1", user, "k")()
		w.refused(user, "k", 1, api.Unknown)
	}, "undecided"},
	"unknown as something else is with another process": {newWorld, func(w *world) {
		user := w.user(0)
		w.h.Forwarded(w.pass(), "executor-1", user, "l")
		w.h.Forwarded(w.pass(), "executor-1", w.user(0), "k")
		w.refused(user, "k", 1, api.Unknown)
		w.h.Forwarded(w.pass(), "executor-1", user, "k")
	}, "undecided"},
	"unknown after another of its key was refused": {newWorld, func(w *world) {
		user := w.user(0)
		w.refused(user, "k", 1, api.Standby)
		w.refused(user, "k", 1, api.Unknown)
		w.asked(user, "k", 1)
		w.h.Final.Vanished = map[int]bool{2: true}
	}, "undecided"},
	"unknown of a list whose call without a reply was another process's": {withAckRedis, func(w *world) {
		user := w.user(0)
		ended := w.received(user, process)
		w.h.Broke(w.pass(), "executor-1")
		ended(api.SoldOut)
		w.refused(user, "k", 1, api.Unknown)
	}, "undecided"},
	"unknown of a list whose call had its reply": {withAckRedis, func(w *world) {
		user := w.user(0)
		w.h.Broke(w.pass(), "executor-0")
		w.received(user, process)(api.SoldOut)
		w.refused(user, "k", 1, api.Unknown)
	}, "undecided"},
	"unknown of what a node gave and lost, by the owner of the shard": {withAckLedger, func(w *world) {
		w.forgotten(w.user(0), process, func(shard int) { w.append(shard, func(d *ledger.Draft) { d.Own("executor-0") }) })
	}, "undecided"},
	"unknown of what a node gave and lost, by a process that did not ask it": {withAckLedger, func(w *world) {
		w.forgotten(w.user(0), "executor-7, run 1", w.succeed)
	}, "undecided"},
	"unknown of what a node gave another user and lost": {withAckLedger, func(w *world) {
		user := w.user(0)
		ended := w.received(user, process)
		w.forgotten(w.user(0), process, w.succeed)
		ended(api.Standby)
		w.refused(user, "k", 1, api.Unknown)
	}, "undecided"},
	"unknown of what a node gave and lost after the request was refused": {withAckLedger, func(w *world) {
		user := w.user(0)
		w.received(user, process)(api.Standby)
		w.forgotten(user, "executor-7, run 1", w.succeed)
	}, "undecided"},
	"unknown of what a node gave and lost before the request came": {withAckLedger, func(w *world) {
		user := w.user(0)
		w.give(user, "k", 1)
		w.h.Lost(w.pass(), 0, 0)
		w.refused(user, "k", 1, api.Standby)
		w.at += grace
		w.succeed(0)
		w.refused(user, "k", 1, api.Unknown)
	}, "undecided"},
	"unknown of what a node gave and lost when the log had it": {withAckLedger, func(w *world) {
		user := w.user(0)
		ended := w.received(user, process)
		w.drain(w.give(user, "k", 1))
		w.h.Lost(w.pass(), 0, 0)
		w.at += grace
		w.succeed(0)
		ended(api.Standby)
		w.refused(user, "k", 1, api.Unknown)
	}, "undecided"},
	"unknown of a key of which no request waited when a reply was lost": {newWorld, func(w *world) {
		user := w.user(0)
		w.h.Broke(w.pass(), "executor-0")
		w.received(user, process)(api.Standby)
		w.refused(user, "k", 1, api.Unknown)
	}, "undecided"},
	"unknown after it was sold": {newWorld, func(w *world) {
		user := w.user(0)
		w.buy(user, "k", 1)
		w.refused(user, "k", 1, api.Unknown)
	}, "undecided"},
	"unknown as one of another key is held": {paid, func(w *world) {
		user := w.user(0)
		w.reserve(user, "k", 1)
		w.refused(user, "l", 1, api.Unknown)
	}, "undecided"},
	"unknown as one of another key waits": {newWorld, func(w *world) {
		user := w.user(0)
		w.asked(user, "l", 1)
		w.refused(user, "k", 1, api.Unknown)
	}, "undecided"},
	"unknown without a key, as another waits": {newWorld, func(w *world) {
		user := w.user(0)
		w.asked(user, "", 1)
		w.refused(user, "", 1, api.Unknown)
	}, "undecided"},
	"unknown long after the faults stopped": {newWorld, func(w *world) {
		user := w.user(0)
		w.asked(user, "k", 1)
		w.h.Forwarded(w.pass(), "executor-1", user, "k")
		w.h.Stopped = w.pass()
		w.at += mostUndecided + time.Second
		w.refused(user, "k", 1, api.Unknown)
	}, "undecided"},
	"unknown of what a list gave, long after the faults stopped": {withAckRedis, func(w *world) {
		user := w.user(0)
		w.received(user, process)(api.Sold)
		w.drain(w.early(user, "k", 1))
		w.drain(w.early(w.user(0), "k", 2))
		w.h.Stopped = w.pass()
		w.at += mostUndecided + time.Second
		w.refused(user, "k", 1, api.Unknown)
	}, "undecided"},
	"unknown long after the log has what a list gave": {withAckRedis, func(w *world) {
		user := w.user(0)
		w.drain(w.early(user, "k", 1))
		w.drain(w.early(w.user(0), "k", 2))
		w.at += grace
		w.refused(user, "k", 1, api.Unknown)
	}, "undecided"},
	"none now while another shard has units": {emptied, func(w *world) { w.refused(w.user(0), "k", 1, api.NoneNow) }, "refusals"},
	"none now after the owner waited for a reply that was lost": {emptied, func(w *world) {
		w.h.Broke(w.pass(), "executor-0")
		w.refused(w.user(0), "k", 1, api.NoneNow)
	}, "refusals"},
	"none now long before a reply is lost": {emptied, func(w *world) {
		w.refused(w.user(0), "k", 1, api.NoneNow)
		w.at += grace
		w.h.Broke(w.pass(), "executor-0")
	}, "refusals"},
	"none now while the shard of another process has units": {apart, func(w *world) { w.refused(w.user(0), "k", 1, api.NoneNow) }, "refusals"},
	"none now after the process of the other shard reached no other": {apart, func(w *world) {
		w.h.Isolated(w.at, time.Second, "executor-1, run 1")(w.pass())
		w.refused(w.user(0), "k", 1, api.NoneNow)
	}, "refusals"},
	"none now before the process of the other shard dies": {apart, func(w *world) {
		w.refused(w.user(0), "k", 1, api.NoneNow)
		w.h.Killed(w.pass(), "executor-1")
	}, "refusals"},
	"none now after the process of the other shard died before it took that over": {emptied, func(w *world) {
		w.h.Killed(w.pass(), "executor-1")
		w.succeed(1)
		w.buy(w.user(1), "k", 1)
		w.at += time.Hour
		w.refused(w.user(0), "k", 1, api.NoneNow)
	}, "refusals"},
	"none now while a third process is dead": {apart, func(w *world) {
		w.h.Killed(w.pass(), "executor-2")
		w.refused(w.user(0), "k", 1, api.NoneNow)
	}, "refusals"},
	"none now while two shards have as many as it asks for": {served, func(w *world) { w.refused(w.user(0), "k", 4, api.NoneNow) }, "refusals"},
	"none now after units of the other shard were released": {freed, func(w *world) {
		w.at += replyLasts
		w.refused(w.user(0), "k", 5, api.NoneNow)
	}, "refusals"},
	"none now behind another that waited for long": {emptied, func(w *world) {
		other := w.asked(w.user(0), "l", 1)
		w.at += silence
		w.refused(w.user(0), "k", 1, api.NoneNow)
		other(Answer{Outcome: api.NoneNow})
	}, "refusals"},
	"none now after another that waited for long": {emptied, func(w *world) {
		other := w.asked(w.user(0), "l", 1)
		w.at += silence
		other(Answer{Outcome: api.NoneNow})
		w.refused(w.user(0), "k", 1, api.NoneNow)
	}, "refusals"},
	"none now though another who asks leaves some": {emptied, func(w *world) {
		w.asked(w.user(1), "k", 1)
		w.refused(w.user(0), "k", 1, api.NoneNow)
	}, "refusals"},
	"none now by another process, while a shard of the owner has units": {emptied, func(w *world) {
		user := w.user(0)
		op := w.invoke(user, "k", 1)
		ended := w.h.RequestReceived(w.pass(), op, "executor-1, run 1")
		w.h.Forwarded(w.pass(), "executor-0", user, "k")()
		ended(api.NoneNow)
		w.answer(op, Answer{Outcome: api.NoneNow})
	}, "refusals"},
	"none now again, long after all was sold": {open, func(w *world) {
		w.h.Stopped = w.pass()
		w.at += time.Minute
		w.refused(w.user(0), "k", 1, api.NoneNow)
		w.at += time.Second
		w.refused(w.user(0), "k", 1, api.NoneNow)
	}, "refusals"},
	"none now again, long after a command": {open, func(w *world) {
		w.h.Stopped = w.pass()
		w.command("resume", func() {})
		w.at += time.Minute
		w.refused(w.user(0), "k", 1, api.NoneNow)
		w.at += time.Second
		w.refused(w.user(0), "k", 1, api.NoneNow)
	}, "refusals"},
	"none now again, long after all was sold and planned work has ended": {open, func(w *world) {
		w.h.Stopped = w.pass()
		w.h.Steady(w.at)
		w.holds(process, testUID, 0, 100)
		w.h.Holds(0, process, testUID, 1, aToken, 100*time.Second)
		w.at += time.Minute
		w.h.Unsteady(w.at)
		w.at += time.Minute
		w.refused(w.user(0), "k", 1, api.NoneNow)
		w.at += time.Second
		w.refused(w.user(0), "k", 1, api.NoneNow)
	}, "refusals"},
}

// ranked is a sale that orders by priority, which has an owner for a while: 3 units on each
// shard, 2 a user. The level of a user is what level says, in its claims too.
func ranked(t testing.TB) *world {
	w := emptyWorld(t)
	w.h.Users = &Users{Known: func(user string, _ Sources, _, _ int) (int64, int64, string) {
		level := levels[user]
		return level, 0, strings.Repeat(string(rune('0'+level)), ledger.AttributesLen)
	}}
	clear(levels)
	w.said, w.rules = `{"perUserLimit":2,"rules":[{"require":"user.level >= 0"}],"queue":{"order":"priority"}}`, goldRules
	w.serve()
	w.at += time.Hour
	return w
}

// levels are those of the users of the world that is made.
var levels = make(map[string]int64)

// longOwned is a sale of whose shards the owner took over long ago.
func longOwned(t testing.TB) *world {
	w := newWorld(t)
	w.at += time.Hour
	return w
}

// gives stores a claim of shard 0, in a commit of its own or with others.
func (w *world) gives(users ...string) (claims []Claim) {
	w.t.Helper()
	w.append(0, func(d *ledger.Draft) {
		for _, user := range users {
			var by ledger.Ruling
			if w.rules != "" {
				by.Rules = w.rules
				_, _, digest := w.h.Users.Known(user, Sources{}, 0, 0)
				copy(by.Attributes[:], digest)
			}
			if v := d.DecideClaim(by, user, "k", 1, ledger.Demand{}); v.Kind != ledger.Granted {
				w.t.Fatalf("verdict %d on %s", v.Kind, user)
			}
		}
	})
	for _, user := range users {
		all := w.claims(user)
		claims = append(claims, all[len(all)-1])
	}
	return claims
}

// inOrder has two users of shard 0 ask for a unit, of levels, and two commits be stored; then both
// are given one in some order, together or one after the other, or the second is refused.
func (w *world) inOrder(first, second int64, together, swap, refused bool) {
	a, b := w.user(0), w.user(0)
	levels[a], levels[b] = first, second
	answers := map[string]func(Answer){a: w.asked(a, "k", 1), b: w.asked(b, "k", 1)}
	w.move(0, 1, 1)
	order := []string{a, b}
	if swap {
		slices.Reverse(order)
	}
	give := func(users ...string) {
		for i, c := range w.gives(users...) {
			answers[users[i]](Answer{Outcome: api.Sold, Claim: c})
		}
	}
	if together {
		give(order...)
		return
	}
	give(order[0])
	if !refused {
		give(order[1])
		return
	}
	answers[order[1]](Answer{Outcome: api.SoldOut})
}

func TestToleratedOrder(t *testing.T) {
	for name, test := range map[string]struct {
		from func(testing.TB) *world
		do   func(w *world)
	}{
		"as they came":                       {longOwned, func(w *world) { w.inOrder(0, 0, false, false, false) }},
		"as they came, in one commit":        {longOwned, func(w *world) { w.inOrder(0, 0, true, false, false) }},
		"by priority":                        {ranked, func(w *world) { w.inOrder(0, 1, false, true, false) }},
		"by priority, in one commit":         {ranked, func(w *world) { w.inOrder(0, 1, true, true, false) }},
		"of one priority, as they came":      {ranked, func(w *world) { w.inOrder(1, 1, true, false, false) }},
		"in any order just after a takeover": {newWorld, func(w *world) { w.inOrder(0, 0, false, true, false) }},
		"of whom the first came when the commit was made": {longOwned, func(w *world) {
			a, b := w.user(0), w.user(0)
			w.append(0, func(d *ledger.Draft) { d.Out(1, 1) })
			first := w.asked(a, "k", 1)
			second := w.asked(b, "k", 1)
			second(Answer{Outcome: api.Sold, Claim: w.gives(b)[0]})
			first(Answer{Outcome: api.Sold, Claim: w.gives(a)[0]})
		}},
		"of whom the first was queued without a ruling": {longOwned, func(w *world) {
			a, b := w.user(0), w.user(0)
			first, second := w.asked(a, "k", 1), w.asked(b, "k", 1)
			w.append(0, func(d *ledger.Draft) { d.Out(1, 1) })
			second(Answer{Outcome: api.Sold, Claim: w.gives(b)[0]})
			first(Answer{Outcome: api.Sold, Claim: w.gives(a)[0]})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := test.from(t)
			test.do(w)
			for _, p := range Check(w.h) {
				t.Error(p)
			}
		})
	}
}

// orderFaults are requests that were given units before others that came first. So many are
// given one after the other that a shard is short while others wait.
var orderFaults = map[string]planted{
	"who came later is given units first":                   {longOwned, func(w *world) { w.inOrder(0, 0, false, true, false) }, "order"},
	"who came later is given units first, in one commit":    {longOwned, func(w *world) { w.inOrder(0, 0, true, true, false) }, "order"},
	"a lower priority is given units first":                 {ranked, func(w *world) { w.inOrder(0, 1, false, false, false) }, "order"},
	"a lower priority is given units first, in one commit":  {ranked, func(w *world) { w.inOrder(0, 1, true, false, false) }, "order"},
	"of one priority the later is given units first":        {ranked, func(w *world) { w.inOrder(1, 1, false, true, false) }, "order"},
	"a lower priority is given units, a higher one is none": {ranked, func(w *world) { w.inOrder(0, 1, false, false, true) }, "refusals order"},
}

// reports returns what a process reports of the sale as it stands, which is so.
func (w *world) reports() Report {
	r := Report{Process: process, Writer: string(w.writer), UID: w.uid, Metrics: map[string]float64{"salectl_sale_sold_units": 0, "salectl_appends_total committed": 0}}
	for i, s := range w.shards {
		t := s.Totals
		r.Shards = append(r.Shards, ShardReport{
			Shard: i, Slot: s.Next() - 1, Epoch: t.Epoch, Generation: t.Generation, Limit: t.Limit, Available: t.Available, Held: t.Held,
			Sold: t.Sold, InFlight: t.InFlight, OpenHolds: t.Outcomes.OpenHolds, Confirmed: t.Outcomes.Confirmed,
			Expired: t.Outcomes.Expired, Cancelled: t.Outcomes.Cancelled,
		})
		r.Metrics["salectl_sale_sold_units"] += float64(t.Sold)
		for _, e := range w.h.Logs[w.log(i)] {
			c := new(pb.Commit)
			if err := proto.Unmarshal(e.Bytes, c); err != nil {
				w.t.Fatal(err)
			}
			if string(c.GetWriter()) == r.Writer {
				r.Metrics["salectl_appends_total committed"]++
			}
		}
	}
	return r
}

// misreports has a process report something else.
func misreports(change func(w *world, r *Report)) func(w *world) {
	return func(w *world) {
		r := w.reports()
		change(w, &r)
		w.h.Reported(w.pass(), r)
	}
}

// says has it report a metric that is not so.
func says(name string, value float64) func(w *world) {
	return misreports(func(_ *world, r *Report) { r.Metrics[name] = value })
}

func TestToleratedReports(t *testing.T) {
	for name, do := range map[string]func(w *world){
		"as it is": misreports(func(*world, *Report) {}),
		"of a while ago": func(w *world) {
			r := w.reports()
			w.buy(w.user(1), "k", 1)
			w.h.Reported(w.pass(), r)
		},
		"of no sale": func(w *world) { w.h.Reported(w.pass(), Report{Process: process}) },
		"all figures": misreports(func(_ *world, r *Report) {
			for name, value := range map[string]float64{
				"salectl_sale_available_units": 2, "salectl_sale_sold_out": 0, "salectl_owned_shards": 2,
				"salectl_appends_total committed": 5, "salectl_queue_depth": 4,
			} {
				r.Metrics[name] = value
			}
		}),
		"appends of which it did not hear": says("salectl_appends_total committed", 5),
	} {
		t.Run(name, func(t *testing.T) {
			w := emptied(t)
			do(w)
			for _, p := range Check(w.h) {
				t.Error(p)
			}
		})
	}
}

// figureFaults are reports that do not fit what was stored. Three claims and two takeovers are.
var figureFaults = map[string]planted{
	"a status of other units": {emptied, misreports(func(_ *world, r *Report) {
		r.Shards[1].Available, r.Shards[1].Held = r.Shards[1].Available-1, 1
	}), "status"},
	"a status of an earlier slot":        {emptied, misreports(func(_ *world, r *Report) { r.Shards[0].Slot-- }), "status"},
	"a status of a slot that is to come": {emptied, misreports(func(_ *world, r *Report) { r.Shards[0].Slot++ }), "status"},
	"a status of a slot stored later": {emptied, func(w *world) {
		user := w.user(1)
		w.h.Reported(0, Report{})
		at := len(w.h.Reports) - 1
		w.buy(user, "k", 1)
		seq := w.h.Reports[at].Seq
		w.h.Reports[at] = w.reports()
		w.h.Reports[at].Seq, w.h.Reports[at].Metrics["salectl_appends_total committed"] = seq, 7
	}, "status"},
	"a status of a shard too many": {emptied, misreports(func(_ *world, r *Report) {
		r.Shards = append(r.Shards, r.Shards[1])
		r.Shards[2].Shard = 2
	}), "status"},
	"a status of a run that is not":             {emptied, misreports(func(_ *world, r *Report) { r.UID = "fedcba9876543210" }), "status"},
	"more units sold than the shards have":      {emptied, says("salectl_sale_sold_units", 5), "metrics"},
	"sold out while there are units":            {emptied, says("salectl_sale_sold_out", 1), "metrics"},
	"not sold out":                              {open, says("salectl_sale_sold_out", 0), "metrics"},
	"entries where there are none":              {emptied, says("salectl_sale_entries", 1), "metrics"},
	"more shards owned than there are":          {emptied, says("salectl_owned_shards", 3), "metrics"},
	"shards owned that are another's":           {emptied, func(w *world) { w.succeed(0); w.writer = writer; says("salectl_owned_shards", 2)(w) }, "metrics"},
	"grabs to be drained that nobody was given": {withAckRedis, says("salectl_undrained_grabs", 1), "metrics"},
	"more appends than were stored":             {emptied, says("salectl_appends_total committed", 20), "metrics"},
	"fewer appends than it must have counted":   {emptied, says("salectl_appends_total committed", 4), "metrics"},
	"more fills than were begun":                {withAckRedis, says("salectl_list_fills_total", 3), "metrics"},
	"requests that wait when nobody does": {emptied, misreports(func(_ *world, r *Report) {
		r.Idle, r.Metrics["salectl_queue_depth"] = true, 1
	}), "metrics"},
}
