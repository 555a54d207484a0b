package units

import (
	"encoding/binary"
	"errors"
)

// packed is the first byte of packed units: the version of their format, which must never
// change, since ledgers contain packed units.
const packed = 1

// ErrDamaged reports that bytes are not packed units.
var ErrDamaged = errors.New("these are no packed units: they are damaged, or a newer program has packed them")

// Pack appends units as the bytes of one chunk: the version, the number of units, and for each
// unit its number of attributes, its name and its attributes. Numbers are varints, and a text
// is preceded by its length.
func Pack(dst []byte, us []Unit) []byte {
	dst = append(dst, packed)
	dst = binary.AppendUvarint(dst, uint64(len(us)))
	for _, u := range us {
		dst = binary.AppendUvarint(dst, uint64(len(u.Attributes)))
		dst = u.appendFields(dst)
	}
	return dst
}

// Unpack reverses Pack. It returns ErrDamaged for bytes that Pack has not made.
func Unpack(b []byte) ([]Unit, error) {
	if len(b) == 0 || b[0] != packed {
		return nil, ErrDamaged
	}
	r := unpacker{rest: string(b[1:])}
	var us []Unit
	for count := r.number(2); count > 0 && !r.damaged; count-- {
		us = append(us, r.unit())
	}
	if r.damaged || r.rest != "" {
		return nil, ErrDamaged
	}
	return us, nil
}

// unpacker reads the rest of packed units.
type unpacker struct {
	rest    string // a string, so that texts share its memory
	damaged bool
}

func (r *unpacker) unit() Unit {
	attributes := r.number(1)
	u := Unit{Name: r.text()}
	if attributes > 0 && !r.damaged {
		u.Attributes = make([]string, attributes)
	}
	for i := range u.Attributes {
		u.Attributes[i] = r.text()
	}
	return u
}

func (r *unpacker) text() string {
	n := r.number(1)
	if r.damaged {
		return ""
	}
	text := r.rest[:n]
	r.rest = r.rest[n:]
	return text
}

// number reads the number of items that follow, each of which takes at least size bytes. If too
// few bytes are left, it sets damaged and returns 0. One number has one form only.
func (r *unpacker) number(size int) int {
	n, length := binary.Uvarint([]byte(r.rest[:min(len(r.rest), binary.MaxVarintLen64)]))
	if length <= 0 || length > 1 && r.rest[length-1] == 0 || n > uint64((len(r.rest)-length)/size) {
		r.damaged = true
		return 0
	}
	r.rest = r.rest[length:]
	return int(n)
}
