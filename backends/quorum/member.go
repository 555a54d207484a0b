package quorum

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Member is a process that is there, as a node knows it: it told the node so, and its
// ttl has not passed since.
type Member struct {
	ID   string        // chosen by the process when it starts; without spaces
	Note string        // what it says of itself; a node does not read it
	Left time.Duration // until the node forgets it
}

// The bounds of a room: how many members a node takes in, and how much they say.
const (
	MaxMembers = 1000
	MaxID      = 128     // bytes
	MaxNote    = 1 << 10 // bytes
)

// ErrRoomFull is what Meet says to who would be one too many.
var ErrRoomFull = errors.New("the room has its 1,000 members already; those that are gone leave it by themselves within their ttl")

// Check says what is wrong with a member that wants to be there for a ttl.
func (m Member) Check(ttl time.Duration) error {
	switch {
	case m.ID == "" || strings.Contains(m.ID, " ") || len(m.ID) > MaxID:
		return fmt.Errorf("%q is no member's id: it is empty, has a space in it or is longer than %d bytes", m.ID, MaxID)
	case len(m.Note) > MaxNote:
		return fmt.Errorf("the note of member %s has %d bytes; it may have %d", m.ID, len(m.Note), MaxNote)
	case ttl < 0 || ttl > MaxTTL:
		return fmt.Errorf("member %s wants to be there for %v; it may be nothing, which takes it away, or up to %v", m.ID, ttl, MaxTTL)
	}
	return nil
}
