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
	Slots uint64 `json:"slots"`
	// Hash is that of slot Slots-1; without slots, of the log's name. Of a parsed position it has
	// the first checkLen bytes only.
	Hash ledger.Hash `json:"hash"`
}

// checkLen is the number of hash bytes in the text of a position: enough to detect a mistake.
const checkLen = 8

// fits reports whether hash is that of the last slot before the place.
func (p Place) fits(hash ledger.Hash) bool {
	return string(hash[:checkLen]) == string(p.Hash[:checkLen])
}

// Errors of a position.
var (
	// ErrBadPosition reports that a text is not a position: it was truncated or altered.
	ErrBadPosition = errors.New("not a position of a feed")
	// ErrForeign reports that a position does not fit the logs of this sale. It is of another sale
	// or run, or the logs have been replaced since.
	ErrForeign = errors.New("the position is not of this sale's ledger")
)

// Encoding of a position, and its limits.
const (
	positionVersion = 1
	uidLen          = 8
	mostShards      = 1 << 16
)

// String encodes the position in letters, digits, - and _.
func (p Position) String() string {
	b := []byte{positionVersion}
	b, _ = hex.AppendDecode(b, []byte(p.UID)) // a uid is 16 hex digits
	b = binary.AppendUvarint(b, uint64(len(p.Shards)))
	for _, place := range append([]Place{p.Sale}, p.Shards...) {
		if b = binary.AppendUvarint(b, place.Slots); place.Slots > 0 {
			b = append(b, place.Hash[:checkLen]...)
		}
	}
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParsePosition parses the output of String. It fails with ErrBadPosition.
func ParsePosition(text string) (p Position, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < 1+uidLen+1+4 {
		return p, fmt.Errorf("%w: %.80q", ErrBadPosition, text)
	}
	b, end := b[:len(b)-4], b[len(b)-4:]
	if crc32.ChecksumIEEE(b) != binary.BigEndian.Uint32(end) {
		return p, fmt.Errorf("%w: it was cut or altered", ErrBadPosition)
	}
	if b[0] != positionVersion {
		return p, fmt.Errorf("%w: it is of version %d, and this program knows version %d", ErrBadPosition, b[0], positionVersion)
	}
	p.UID = hex.EncodeToString(b[1 : 1+uidLen])
	b = b[1+uidLen:]
	shards, n := binary.Uvarint(b)
	if n <= 0 || shards == 0 || shards > mostShards {
		return Position{}, fmt.Errorf("%w: it names no shards", ErrBadPosition)
	}
	b = b[n:]
	places := make([]Place, 0, shards+1)
	for range shards + 1 {
		var place Place
		if place.Slots, n = binary.Uvarint(b); n <= 0 {
			return Position{}, fmt.Errorf("%w: it is too short", ErrBadPosition)
		}
		if b = b[n:]; place.Slots > 0 {
			if len(b) < checkLen {
				return Position{}, fmt.Errorf("%w: it is too short", ErrBadPosition)
			}
			b = b[copy(place.Hash[:checkLen], b):]
		}
		places = append(places, place)
	}
	if len(b) > 0 || places[0].Slots == 0 {
		return Position{}, fmt.Errorf("%w: its places are not those of a run", ErrBadPosition)
	}
	p.Sale, p.Shards = places[0], slices.Clip(places[1:])
	return p, nil
}
