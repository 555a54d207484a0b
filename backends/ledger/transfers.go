package ledger

import (
	"maps"
	"slices"
)

// transfers are the exchanges of a shard with each other shard.
type transfers map[int]*peer

// peer is the exchange of transfers with one other shard.
type peer struct {
	outK, ackK uint64 // transfers sent, and acknowledged
	inK        uint64 // transfers received
	out        Units  // units of transfer outK, until it is acknowledged
}

// Transfer is one transfer that has not been acknowledged.
type Transfer struct {
	To    int
	K     uint64
	Units Units
}

// peer returns the exchange with another shard.
func (t transfers) peer(shard int) *peer {
	p := t[shard]
	if p == nil {
		p = new(peer)
		t[shard] = p
	}
	return p
}

// knows reports whether the transfers include all that a peer has seen of them.
func (t transfers) knows(other int, seen *peer) bool {
	mine := t[other]
	if mine == nil {
		mine = new(peer)
	}
	return seen.inK <= mine.outK && seen.ackK <= mine.inK
}

// Open returns the transfers sent and not yet acknowledged, in the order of the shards.
func (t transfers) Open() []Transfer {
	var open []Transfer
	for _, to := range slices.Sorted(maps.Keys(t)) {
		if p := t[to]; p.outK != p.ackK {
			open = append(open, Transfer{To: to, K: p.outK, Units: p.out})
		}
	}
	return open
}

// OpenTo returns the transfer to a shard that is not yet acknowledged, if there is
// one.
func (t transfers) OpenTo(to int) (Transfer, bool) {
	if p := t[to]; p != nil && p.outK != p.ackK {
		return Transfer{To: to, K: p.outK, Units: p.out}, true
	}
	return Transfer{}, false
}

// Received returns the number of the last transfer received from a shard.
func (t transfers) Received(from int) uint64 {
	if p := t[from]; p != nil {
		return p.inK
	}
	return 0
}
