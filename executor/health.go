package executor

import (
	"strings"
	"time"

	"salectl/executor/ownership"
	"salectl/executor/shard"
	"salectl/executor/status"
)

// health is the state of this process when it last acted.
type health struct{ ownership.Status }

// holds reports whether a process that can be reached owns a shard.
func (h *health) holds(i int) bool { return i < len(h.Held) && h.Held[i] }

// withoutRights returns the problem because of which a process that serves may not append now. leased: it
// has the lease.
func (h *health) withoutRights(leased bool) status.Problem {
	switch {
	case h.ClockOff != 0:
		return h.wrongClock()
	case leased && h.Unread == nil:
		return status.Problem{Kind: status.LedgerUnread, Why: "the last read is too long ago"}
	case leased:
		return h.unread()
	}
	return h.noMajority()
}

func (h *health) wrongClock() status.Problem {
	return status.Problem{Kind: status.Clock, Why: "it is ahead by " + h.ClockOff.Round(time.Millisecond).String()}
}

func (h *health) unread() status.Problem {
	return status.Problem{Kind: status.LedgerUnread, Since: h.Logged.ReadAt, Why: shard.OneLine(h.Unread)}
}

// noMajority names the nodes that do not vote.
func (h *health) noMajority() status.Problem {
	var all []string
	for _, n := range h.Nodes {
		if s := n.String(); s != "" {
			all = append(all, s)
		}
	}
	return status.Problem{Kind: status.Quorum, Why: strings.Join(all, "; ")}
}
