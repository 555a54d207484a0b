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

func (u *unpacker) text() string {
	switch kind := u.number(1); {
	case kind&0xe0 == 0xa0:
		return u.take(kind & 0x1f)
	case kind == 0xd9:
		return u.take(u.number(1))
	case kind == 0xda:
		return u.take(u.number(2))
	case kind == 0xdb:
		return u.take(u.number(4))
	}
	u.bad = true
	return ""
}

func (u *unpacker) texts() (texts []string) {
	count := 0
	switch kind := u.number(1); {
	case kind&0xf0 == 0x90:
		count = kind & 0x0f
	case kind == 0xdc:
		count = u.number(2)
	case kind == 0xdd:
		count = u.number(4)
	default:
		u.bad = true
	}
	for range count {
		if u.bad {
			return nil
		}
		texts = append(texts, u.text())
	}
	return texts
}
