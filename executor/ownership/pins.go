package ownership

import (
	"cmp"
	"slices"

	"salectl/backends/clock"
)

// Pins are how an operator moves a shard: the process that is to own it says so in its
// member note, and assign heeds that. What is pinned to two processes is the one's that was
// told last: a pin has a number, higher than those of all pins of the shard that its process
// knew of and than the epoch of the shard's log, which grows with each takeover. So no clock
// is asked, and a process that could not be reached meanwhile does not win with an old pin.
// A pin ends with its process.

// pin is a shard that an operator has moved to a process, or, with Any, to none of them.
type pin struct {
	Shard  int    `json:"shard"`
	Number uint64 `json:"number"`
	Any    bool   `json:"any,omitempty"`
}

// newestPin returns the pin of a shard that counts, and whose it is; "": there is none.
func newestPin(members []Process, shard int) (newest pin, of string) {
	for _, m := range members {
		for _, p := range m.Pins {
			if p.Shard == shard && (of == "" || cmp.Or(cmp.Compare(p.Number, newest.Number), cmp.Compare(m.ID, of)) > 0) {
				newest, of = p, m.ID
			}
		}
	}
	return newest, of
}

// pinned returns which shards are pinned, and to whom: to processes that own
// shards.
func pinned(members []Process, shards int) map[int]string {
	to := make(map[int]string)
	for _, m := range members {
		for _, p := range m.Pins {
			if p.Shard < 0 || p.Shard >= shards || p.Any || m.State != "" {
				continue
			}
			if newest, of := newestPin(members, p.Shard); of == m.ID && newest == p {
				to[p.Shard] = m.ID
			}
		}
	}
	return to
}

// pin has a shard moved here, or with anyone wherever it would be without pins.
func (o *Machine) pin(now clock.Now, shard int, anyone bool) {
	// A takeover outdoes many pins of before it, also such as this process has yet to hear of.
	p := pin{Shard: shard, Number: o.epochOf(shard) << 10, Any: anyone}
	if newest, of := newestPin(o.members, shard); of != "" {
		p.Number = max(p.Number, newest.Number)
	}
	p.Number++
	o.pins = append(slices.DeleteFunc(slices.Clone(o.pins), func(x pin) bool { return x.Shard == shard }), p)
	o.present(now)
}

// outdated drops the pins of this process that a newer one of another has ended.
func (o *Machine) outdated(members []Process) {
	o.pins = slices.DeleteFunc(slices.Clone(o.pins), func(p pin) bool {
		newest, of := newestPin(members, p.Shard)
		return of != "" && of != o.me && newest.Number >= p.Number
	})
}

// epochOf is the newest epoch of a shard's log that is known.
func (o *Machine) epochOf(shard int) uint64 {
	epoch := o.totals.Shards()[shard].Totals.Epoch
	for _, p := range o.peers.all {
		epoch = max(epoch, p.owns[shard])
	}
	return epoch
}

// present tells all what this process is from here on.
func (o *Machine) present(now clock.Now) {
	members := slices.Clone(o.members)
	for i := range members {
		if members[i].ID == o.me {
			members[i] = o.myself()
		}
	}
	o.assign(members)
	_ = o.announce(now) // there is a roster already
}
