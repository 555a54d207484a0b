package quorum

import (
	"time"

	"salectl/backends/clock"
)

// groupNode is the state of one node of a group.
type groupNode struct {
	call *groupCall // under way; nil: free
	last due        // kind of the last call: releases and ballots alternate
	seen seen       // shared by all machines
}

// groupCall is one call that combines the calls of several machines.
type groupCall struct {
	seq   uint64
	sent  time.Duration // monotonic
	vote  bool
	asks  int
	parts []part
}

// part is one machine's share of a groupCall.
type part struct {
	k    *member
	seq  uint64
	asks int
}

// serve gives a free node its next call: one kind of request, from all machines that have one.
// It returns the time at which the node's next release falls due. That is never for a busy
// node, whose reply is followed by all pending requests.
func (g *Group) serve(i int) time.Duration {
	n := &g.nodes[i]
	if n.call != nil {
		return never
	}
	next := never
	var any [dueBallot + 1]bool
	for _, k := range g.members {
		if k.m.nodes[i].owedNext() <= g.aged {
			k.m.observe(g.time()) // nothing but this was due for the machine
		}
		any[k.m.due(i)] = true
		next = min(next, k.m.nodes[i].owedNext())
	}
	switch {
	case any[dueRelease] && !(any[dueBallot] && n.last == dueRelease):
		g.send(i, dueRelease)
	case any[dueBallot]:
		g.send(i, dueBallot)
	default:
		return next
	}
	return never
}

// send combines all machines' requests of one kind into one call to a node.
func (g *Group) send(i int, kind due) {
	g.seq++
	c := &groupCall{seq: g.seq, sent: g.last.Mono, vote: kind == dueBallot}
	out := Call{Node: i, Seq: g.seq, Timeout: CallTimeout(g.cfg.TTL)}
	asks := make([]Ask, 0, len(g.members))
	c.parts = make([]part, 0, len(g.members))
	for _, k := range g.members {
		if k.m.due(i) == kind {
			own := k.m.ask(i)
			asks = append(asks, own.asks...)
			c.parts = append(c.parts, part{k, own.seq, len(own.asks)})
		}
	}
	c.asks = len(asks)
	if c.vote {
		out.Vote = &Ballot{Marker: g.cfg.Marker, TTL: g.cfg.TTL, Asks: asks}
	} else {
		out.Release = asks
	}
	g.nodes[i].call, g.nodes[i].last = c, kind
	g.out.Calls = append(g.out.Calls, out)
}

// Reply handles the reply to a call. A duplicate reply is ignored.
func (g *Group) Reply(now clock.Now, r Reply) Effects {
	g.observe(now) // as Machine.Reply does
	n := &g.nodes[r.Node]
	c := n.call
	if c == nil || c.seq != r.Seq {
		return g.effects()
	}
	n.call = nil
	if r.Err == nil && c.vote {
		r.Err = r.Ballot.validate(c.asks)
	}
	n.seen.learn(r.Ballot, r.Err, c.vote, c.sent, g.last.Mono, g.aged)
	at := 0
	for _, p := range c.parts {
		own := Reply{Node: r.Node, Seq: p.seq, Err: r.Err}
		if c.vote && r.Err == nil {
			own.Ballot = r.Ballot.part(at, at+p.asks)
		}
		at += p.asks
		g.step(p.k, p.k.m.Reply(g.time(), own))
	}
	for _, k := range g.members {
		k.m.nodes[r.Node].seen = n.seen
		if r.Err != nil && len(k.m.wanted) > 0 {
			// A try that has not queried the node yet no longer waits for it.
			k.m.observe(g.time())
			k.m.decide()
			g.step(k, k.m.take())
		}
	}
	return g.effects()
}

// part returns the part of a reply for the asks [from, to).
func (b BallotReply) part(from, to int) BallotReply {
	if from > 0 {
		b.Repaired = 0 // counted with the first part
	}
	b.Yes, b.Holders = b.Yes[from:to], b.Holders[from:to]
	return b
}
