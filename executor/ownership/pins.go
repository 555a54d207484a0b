package ownership

import "cmp"

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
