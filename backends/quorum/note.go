package quorum

import (
	"strconv"
	"strings"
	"time"
)

// Note is the public information that a holder stores beside its token: its address, a decimal
// number that grows with each ballot, and the ttl in milliseconds, separated by spaces. A
// reader that sees an unchanged number for long, by its own clock, sees a holder that does not
// renew.
type Note struct {
	Address string // without spaces
	Beats   uint64
	TTL     time.Duration // whole milliseconds
}

func (n Note) String() string {
	return n.Address + " " + strconv.FormatUint(n.Beats, 10) + " " + strconv.FormatInt(n.TTL.Milliseconds(), 10)
}

// ParseNote parses a note; it returns false if it has another form.
func ParseNote(s string) (Note, bool) {
	parts := strings.Split(s, " ")
	if len(parts) != 3 {
		return Note{}, false
	}
	beats, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return Note{}, false
	}
	ttl, err := strconv.ParseInt(parts[2], 10, 32)
	if err != nil || ttl < 0 {
		return Note{}, false
	}
	return Note{Address: parts[0], Beats: beats, TTL: time.Duration(ttl) * time.Millisecond}, true
}
