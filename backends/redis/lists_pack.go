package redis

import (
	"encoding/binary"
	"strconv"

	"salectl/backends/lists"
)

// packed returns a batch in the form of the scripts and of the stream: its fill, users and keys
// in MessagePack, all as texts. One argument per batch costs the server and go-redis less than
// two per user.
func packed(b lists.Batch) []byte {
	size := 64
	for i, user := range b.Users {
		size += len(user) + len(b.Keys[i]) + 10
	}
	p := packText(make([]byte, 0, size), strconv.FormatUint(b.Fill, 10))
	return packTexts(packTexts(p, b.Users), b.Keys)
}

func packTexts(p []byte, texts []string) []byte {
	p = binary.BigEndian.AppendUint32(append(p, 0xdd), uint32(len(texts)))
	for _, text := range texts {
		p = packText(p, text)
	}
	return p
}

func packText(p []byte, text string) []byte {
	p = binary.BigEndian.AppendUint32(append(p, 0xdb), uint32(len(text)))
	return append(p, text...)
}

// unpacked is the inverse of packed; it returns false for another form. A script packs each
// length in the shortest form.
func unpacked(p string) (fill uint64, users, keys []string, ok bool) {
	u := unpacker{rest: p}
	fill, err := strconv.ParseUint(u.text(), 10, 64)
	users, keys = u.texts(), u.texts()
	return fill, users, keys, err == nil && !u.bad && u.rest == "" && len(users) == len(keys)
}

// unpacker holds the text left to read; bad reports that something unexpected was read.
type unpacker struct {
	rest string
	bad  bool
}

// number reads a big-endian number of some bytes.
func (u *unpacker) number(bytes int) (n int) {
	for _, b := range []byte(u.take(bytes)) {
		n = n<<8 | int(b)
	}
	return n
}

func (u *unpacker) take(n int) (taken string) {
	if n > len(u.rest) {
		u.bad, n = true, 0
	}
	taken, u.rest = u.rest[:n], u.rest[n:]
	return taken
}

// length reads a length after its kind: short has the length in its low bits, and the kinds up to last
// have it in as many bytes as wide says.
func (u *unpacker) length(short, bits, last int, wide ...int) int {
	kind := u.number(1)
	i := kind - last + len(wide) - 1
	switch {
	case kind&^bits == short:
		return kind & bits
	case i >= 0 && i < len(wide):
		return u.number(wide[i])
	}
	u.bad = true
	return 0
}

func (u *unpacker) text() string { return u.take(u.length(0xa0, 0x1f, 0xdb, 1, 2, 4)) }

func (u *unpacker) texts() (texts []string) {
	for count := u.length(0x90, 0x0f, 0xdd, 2, 4); count > 0 && !u.bad; count-- {
		texts = append(texts, u.text())
	}
	return texts
}
