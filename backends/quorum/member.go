package quorum

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Member is a process that is present in a room on a node: it has registered there, and its ttl
// has not passed since.
type Member struct {
	ID   string        // chosen by the process when it starts; without spaces
	Note string        // information about the process, opaque to the node
	Left time.Duration // until the node forgets it
}

// Limits of a room: its number of members, and the size of their fields.
const (
	MaxMembers = 1000
	MaxID      = 128     // bytes
	MaxNote    = 1 << 10 // bytes
)

// ErrRoomFull is returned by Meet for a member beyond MaxMembers.
var ErrRoomFull = errors.New("the room has its 1,000 members already; those that are gone leave it by themselves within their ttl")

// Check returns an error if the node must not accept the member for a ttl.
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
