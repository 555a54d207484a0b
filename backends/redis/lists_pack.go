package redis

import (
	"encoding/binary"
	"strconv"

	"salectl/backends/lists"
)

// packed is a batch as the scripts take it, and as the stream keeps it: its fill,
// users and keys in MessagePack, texts all of them. One argument a batch costs the
// server and go-redis less than two a user.
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

// unpacked is packed backwards; false for what is no batch. A script that packs
// writes each length in the shortest form.
func unpacked(p string) (fill uint64, users, keys []string, ok bool) {
	u := unpacker{rest: p}
	fill, err := strconv.ParseUint(u.text(), 10, 64)
	users, keys = u.texts(), u.texts()
	return fill, users, keys, err == nil && !u.bad && u.rest == "" && len(users) == len(keys)
}

// unpacker is what is left to read, and whether it was not what it had to be.
type unpacker struct {
	rest string
	bad  bool
}

// number takes the bytes of a number, the highest first.
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
