package planner

import (
	"salectl/backends/ledger"
)

// PacketsActual is the current state of a red packet by its ledger.
type PacketsActual struct {
	Err  error // why it is unknown; then the rest is empty
	Ends Ends
}

// HasPackets reports whether the sale is live and its units are packets of money.
func (a *Actual) HasPackets() bool {
	if !a.Sale.Live() {
		return false
	}
	red, err := ledger.RedPacketOf(a.Sale)
	return red != nil || err != nil
}

// packets adds the amounts to the plan of a destroy. The amount of packets that lists have
// given and the ledger lacks is known only from the ledger.
func (p *Plan) packets(actual *Actual, before *Attributes) {
	switch is := actual.Packets; {
	case is == nil:
		return
	case is.Err != nil:
		p.warn("how much of the red packet is left is not known: %s", ShortError(is.Err))
	default:
		ends := is.Ends
		before.Ends = &ends
	}
	ahead := false
	for i, l := range actual.Lists {
		head := actual.Shards[i].Head
		switch {
		case l.Err != nil:
			p.warn("%s cannot be looked at (node %s: %s): the refund will be less by what it has given and the ledger lacks",
				ListAddress(i), l.Node, ShortNodeError(l.Node, l.Err))
		case head == nil || head.Phase != ledger.PhaseOpen || l.State.Entries == 0:
		case actual.listOn(i) && l.State.Units >= head.Available: // the ledger has the last batches, too
		default:
			ahead = true
		}
	}
	if ahead {
		p.warn("lists have given packets that the ledger may lack: the refund will be less by those")
	}
}
