package feed

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
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

// Encoding of a position.
const (
	positionVersion = 1
	uidLen          = 8
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
func ParsePosition(text string) (Position, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	sum := len(b) - 4
	switch {
	case err != nil || sum < 1+uidLen || crc32.ChecksumIEEE(b[:sum]) != binary.BigEndian.Uint32(b[sum:]):
		return Position{}, fmt.Errorf("%w: it was cut or altered: %.80q", ErrBadPosition, text)
	case b[0] != positionVersion:
		return Position{}, fmt.Errorf("%w: it is of version %d, and this program reads version %d", ErrBadPosition, b[0], positionVersion)
	}
	places, r := []Place(nil), bytes.NewReader(b[1+uidLen:sum])
	shards, err := binary.ReadUvarint(r)
	for i := uint64(0); i <= shards && err == nil; i++ {
		var place Place
		if place.Slots, err = binary.ReadUvarint(r); err == nil && place.Slots > 0 {
			_, err = io.ReadFull(r, place.Hash[:checkLen])
		}
		places = append(places, place)
	}
	if err != nil || shards == 0 || r.Len() > 0 || places[0].Slots == 0 {
		return Position{}, fmt.Errorf("%w: its places are not those of a run", ErrBadPosition)
	}
	return Position{hex.EncodeToString(b[1 : 1+uidLen]), places[0], slices.Clip(places[1:])}, nil
}
