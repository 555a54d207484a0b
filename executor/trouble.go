package executor

import (
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	"salectl/backends/clock"
	"salectl/backends/quorum"
	"salectl/executor/shard"
)

// lookEvery is how often the log is told what has changed for the worse or the
// better. It may take as long until a line is there.
const lookEvery = time.Second

// quietFor is how long after a line about a trouble the next one of its kind may
// follow: what comes and goes all the time would fill the log.
const quietFor = 10 * time.Second

func mayTell(now clock.Now, last time.Duration) bool { return last == 0 || now.Mono >= last+quietFor }

// downAfter is how many answers of a node have to fail until it is told of: one
// that is slow once is nothing to wake somebody for.
const downAfter = 2

// tell writes a line for each node that has gone down, is up again, or has lost
// its memory, or whose clock is wrong, or right again.
func (w nodeWatch) tell(now clock.Now, log *slog.Logger) {
	for i := range w {
		n := &w[i]
		switch {
		case n.Up && n.toldDown:
			n.toldDown = false
			log.Info("a lock node can be used again", "node", n.Name, "away", n.Since.Sub(n.downAt).Round(time.Millisecond))
		case !n.Up && !n.toldDown && n.failures >= downAfter && mayTell(now, n.toldAt):
			n.toldDown, n.toldAt = true, now.Mono
			log.Warn("a lock node cannot be used", "node", n.Name, "since", n.Since.UTC(), "why", n.Error)
		}
		if n.VotesFrom.After(n.toldVotes) {
			n.toldVotes = n.VotesFrom
			log.Warn("a lock node has lost its memory and abstains", "node", n.Name, "until", n.VotesFrom.UTC())
		}
		switch wrong := n.wrong.Abs() > quorum.MaxTTL; {
		case wrong && !n.toldWrong:
			log.Warn("the clock of a lock node is wrong: set it right; hours are judged by this process's clock",
				"node", n.Name, "ahead", n.wrong.Round(time.Millisecond))
		case !wrong && n.toldWrong:
			log.Info("the clock of a lock node is right again", "node", n.Name)
		}
		n.toldWrong = n.wrong.Abs() > quorum.MaxTTL
	}
}

// clockWatch follows whether this host's clock can be believed.
type clockWatch struct{ told bool }

// tell writes a line when the clock is found to be wrong, and when it is right again.
// off is how far it is ahead of the median of the lock nodes', 0 if by no more than it
// may be.
func (w *clockWatch) tell(off time.Duration, log *slog.Logger) {
	switch {
	case off != 0 && !w.told:
		log.Warn("this host's clock is off the lock nodes': no claim is accepted until it is right",
			"ahead", off.Round(time.Millisecond), "remedy", "set it right; 'salectl status' tells what else can be done")
	case off == 0 && w.told:
		log.Info("this host's clock agrees with the lock nodes' again")
	}
	w.told = off != 0
}

// ruleWatch follows whether what rules read can be read.
type ruleWatch struct {
	told   bool
	toldAt time.Duration
}

// tell writes a line when it cannot be read, and when it can again. e is nil where there
// are no rules.
func (w *ruleWatch) tell(now clock.Now, e *eligibility, log *slog.Logger) {
	var why error
	if e != nil {
		if p := e.trouble.Load(); p != nil {
			why = p.Err
		}
	}
	switch {
	case why != nil && !w.told && mayTell(now, w.toldAt):
		w.told, w.toldAt = true, now.Mono
		log.Warn("the rules cannot be checked: claims are answered not_checked", "why", shard.OneLine(why))
	case why == nil && w.told:
		w.told = false
		log.Info("the rules can be checked again")
	}
}

// awayAfter is how long a process that the lock nodes list is not reached until it is told
// of. They list one that was killed for a ttl, and none that has ended.
const awayAfter = 2 * time.Second

// peerWatch follows which processes of the sale are not reached from this one, by id, and
// whether this one is isolated.
type peerWatch struct {
	away     map[string]bool
	isolated bool
}

// tell writes a line for each process that is not reached, or is again, and for this one
// when it leaves the shards to others since it reaches too few of them.
func (w *peerWatch) tell(now clock.Now, o *owner, log *slog.Logger) {
	away := make(map[string]bool)
	for _, id := range o.peers.ids() {
		switch p := o.peers.all[id]; {
		case o.isUp(now, id) && w.away[id]:
			log.Info("another process of the sale is reached again", "peer", p.Address)
		case o.isUp(now, id):
		case w.away[id]:
			away[id] = true
		case p.listed && now.Mono >= max(p.reached, o.metAt)+awayAfter:
			away[id] = true
			log.Warn("another process of the sale is not reached: it has died, or the way to it is cut",
				"peer", p.Address, "remedy", "if it runs, look at its --advertise and --token-file, and at the network")
		}
	}
	w.away = away
	isolated := o.isolated(now)
	switch {
	case isolated && !w.isolated:
		reached, there := o.reaches(now)
		log.Warn("this process reaches fewer than half of the processes of the sale, while others reach each other: "+
			"it takes no shards, and gives up its own after a ttl of that",
			"reaches", fmt.Sprintf("%d of %d others", reached-1, there-1), "ttl", o.ttl,
			"advertises", o.cfg.Address, "remedy", "look at its --advertise and --token-file, and at the network")
	case !isolated && w.isolated:
		log.Info("this process takes shards again: it reaches half of the processes of the sale, or none of them reaches more")
	}
	w.isolated = isolated
}

// stallWatch follows which shards stall. All that stall at a look are told of in
// one line: a store that fails takes many of them with it.
type stallWatch struct {
	told   map[int]Stall
	toldAt time.Duration
}

// tell compares the shards that stall now with those told of.
func (w *stallWatch) tell(now clock.Now, stalled map[int]Stall, log *slog.Logger) {
	if ended := minus(w.told, stalled); len(ended) > 0 {
		w.told = minus(w.told, ended)
		log.Info("shards go on", "shards", names(ended), "after", now.Wall.Sub(oldest(ended).Since).Round(time.Millisecond))
	}
	began := minus(stalled, w.told)
	if len(began) == 0 || !mayTell(now, w.toldAt) {
		return
	}
	w.told, w.toldAt = maps.Clone(stalled), now.Mono
	first := oldest(began)
	log.Warn("shards stall: the store does not answer for them, or not clearly",
		"shards", names(began), "since", first.Since.UTC(), "why", first.Error)
}

// minus returns what is in a and not in b.
func minus(a, b map[int]Stall) map[int]Stall {
	rest := make(map[int]Stall)
	for shard, s := range a {
		if _, both := b[shard]; !both {
			rest[shard] = s
		}
	}
	return rest
}

// oldest returns the stall that began first.
func oldest(all map[int]Stall) (first Stall) {
	for _, s := range all {
		if first.Since.IsZero() || s.Since.Before(first.Since) {
			first = s
		}
	}
	return first
}

// names lists shards as "0-3,7".
func names(shards map[int]Stall) string {
	var all []string
	for first, n := 0, 0; n < len(shards); first++ {
		if _, in := shards[first]; !in {
			continue
		}
		last := first
		for _, in := shards[last+1]; in; _, in = shards[last+1] {
			last++
		}
		if n += last - first + 1; last > first {
			all = append(all, fmt.Sprintf("%d-%d", first, last))
		} else {
			all = append(all, fmt.Sprint(first))
		}
		first = last
	}
	return strings.Join(all, ",")
}
