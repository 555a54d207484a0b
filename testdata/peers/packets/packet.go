package main

import (
	"fmt"
	"math/rand/v2"
)

// packet is a red packet, in the form in which the lists have it.
type packet struct {
	ID    int64  `json:"id"`    // 0 for the first, then one more each
	Money int64  `json:"money"` // the smallest coins
	User  string `json:"user,omitempty"`
}

// newPackets returns packets that nobody has.
func newPackets(n int) []packet {
	all := make([]packet, n)
	for i := range all {
		all[i] = packet{ID: int64(i), Money: 1 + rand.Int64N(200)}
	}
	return all
}

// check fails unless the callers' grabs are exactly what was taken: each packet at
// most once, with its own money, by a user who has no other. With as many grabs as
// packets, each then went out once, and the money of all adds up.
func check(all, taken []packet, grabs int) error {
	if len(taken) != grabs {
		return fmt.Errorf("%w: callers were given %d packets and %d are taken", errWrong, grabs, len(taken))
	}
	given := make(map[int64]bool, grabs)
	users := make(map[string]bool, grabs)
	for _, p := range taken {
		switch {
		case p.ID < 0 || p.ID >= int64(len(all)):
			return fmt.Errorf("%w: %+v was never made", errWrong, p)
		case p.Money != all[p.ID].Money:
			return fmt.Errorf("%w: %+v was made with %d", errWrong, p, all[p.ID].Money)
		case given[p.ID]:
			return fmt.Errorf("%w: %+v was given twice", errWrong, p)
		case p.User == "":
			return fmt.Errorf("%w: %+v was given to nobody", errWrong, p)
		case users[p.User]:
			return fmt.Errorf("%w: %+v is the user's second", errWrong, p)
		}
		given[p.ID], users[p.User] = true, true
	}
	return nil
}
