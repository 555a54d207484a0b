package quorum

import (
	"strconv"
	"strings"
)

// Note is what a holder writes beside its token, for others to read: the
// address where it answers, a space, and a decimal number that grows with each
// ballot. A reader that sees the same number again and again by its own clock
// sees a holder that does not renew.
type Note struct {
	Address string
	Beats   uint64
}

func (n Note) String() string { return n.Address + " " + strconv.FormatUint(n.Beats, 10) }

// ParseNote reads a note; false if it has another form.
func ParseNote(s string) (Note, bool) {
	address, beats, found := strings.Cut(s, " ")
	n, err := strconv.ParseUint(beats, 10, 64)
	if !found || err != nil {
		return Note{}, false
	}
	return Note{Address: address, Beats: n}, true
}
