package executor

import (
	"fmt"
	"strings"
	"time"

	"salectl/executor/ownership"
	"salectl/executor/shard"
)

// health is the state of this process when it last acted.
type health struct{ ownership.Status }

// holds reports whether a process that can be reached owns a shard.
func (h *health) holds(i int) bool { return i < len(h.Held) && h.Held[i] }

// The parts of a sale that may fail, as operators are told.
const (
	partLedger = "ledger"
	partNodes  = "lock nodes"
	partClock  = "clock"
)

// withoutRights says why a process that serves may not append now: which part fails, and how.
func (h *health) withoutRights(leased bool) (part, why string) {
	switch {
	case h.ClockOff != 0:
		return partClock, h.wrongClock()
	case leased && h.Unread != nil:
		return partLedger, h.cannotRead()
	case leased:
		return partLedger, "the sale's log has not been read for too long"
	}
	return partNodes, "no majority of the lock nodes votes" + h.troubles()
}

func (h *health) cannotRead() string {
	return "the sale's log cannot be read: " + shard.OneLine(h.Unread)
}

func (h *health) wrongClock() string {
	return fmt.Sprintf("this host's clock is %v off the median of the lock nodes' clocks", h.ClockOff.Round(time.Millisecond))
}

// troubles names the nodes that do not vote, behind a colon.
func (h *health) troubles() string {
	var all []string
	for _, n := range h.Nodes {
		if s := n.String(); s != "" {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return ": " + strings.Join(all, "; ")
}
