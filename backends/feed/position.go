package feed

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"salectl/backends/ledger"
)

// Position is a place in all logs of a run of a sale. For each log it holds the number of slots
// before the place and a prefix of the hash of the last of them. A Reader checks both against the
// logs. So it never continues in another sale, run or history than the one of the position.
type Position struct {
	UID    string // of the run
	Sale   Place  // in the sale's own log
	Shards []Place
}

// Place is a place in one log.
type Place struct {
	Slots uint64
	Check [checkLen]byte // first bytes of the hash of slot Slots-1; zero if Slots is 0
}

// checkLen is the number of hash bytes in a place: enough to detect a mistake.
const checkLen = 8

// placeOf returns the place that a tail has reached.
func placeOf(t *ledger.Tail) Place {
	p := Place{Slots: t.Next()}
	if root := t.Root(); p.Slots > 0 {
		copy(p.Check[:], root[:])
	}
	return p
}

// fits reports whether hash is that of the last slot before the place.
func (p Place) fits(hash ledger.Hash) bool { return string(hash[:checkLen]) == string(p.Check[:]) }

// Errors of a position.
var (
	// ErrBadPosition reports that a text is not a position: it was truncated or altered.
	ErrBadPosition = errors.New("not a position of a feed")
	// ErrForeign reports that a position does not fit the logs of this sale. It is of another sale
	// or run, or the logs have been replaced since.
	ErrForeign = errors.New("the position is not of this sale's ledger")
)

// Encoding of a position.
const (
	positionVersion = 2
	uidLen          = 8
	placeLen        = 8 + checkLen
)

// String encodes the position in letters, digits, - and _.
func (p Position) String() string {
	b := []byte{positionVersion}
	b, _ = hex.AppendDecode(b, []byte(p.UID)) // a uid is 16 hex digits
	b, _ = binary.Append(b, binary.BigEndian, p.Sale)
	b, _ = binary.Append(b, binary.BigEndian, p.Shards)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParsePosition parses the output of String. It fails with ErrBadPosition.
func ParsePosition(text string) (p Position, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < 1+uidLen+4 {
		return p, fmt.Errorf("%w: %.80q", ErrBadPosition, text)
	}
	b, end := b[:len(b)-4], b[len(b)-4:]
	if crc32.ChecksumIEEE(b) != binary.BigEndian.Uint32(end) {
		return p, fmt.Errorf("%w: it was cut or altered", ErrBadPosition)
	}
	if b[0] != positionVersion {
		return p, fmt.Errorf("%w: it is of version %d, and this program knows version %d", ErrBadPosition, b[0], positionVersion)
	}
	uid, rest := hex.EncodeToString(b[1:1+uidLen]), b[1+uidLen:]
	places := make([]Place, len(rest)/placeLen)
	if _, err := binary.Decode(rest, binary.BigEndian, places); err != nil || len(rest)%placeLen != 0 || len(places) < 2 || places[0].Slots == 0 {
		return p, fmt.Errorf("%w: its places are not those of a run", ErrBadPosition)
	}
	return Position{UID: uid, Sale: places[0], Shards: slices.Clip(places[1:])}, nil
}
