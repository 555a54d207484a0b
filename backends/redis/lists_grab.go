package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"salectl/backends/lists"
	"salectl/backends/quorum"
)

// MaxUsers is the maximum number of users in one call of Grab, over all batches: the server
// handles a call in one step and serves no other client meanwhile.
const MaxUsers = 1000

// Grab implements lists.Node. It rejects more than MaxUsers users, and a batch that has no
// time, no users, a user twice, or not one key per user.
func (l *Lists) Grab(ctx context.Context, batches []lists.Batch) ([]lists.Given, error) {
	if err := checkBatches(batches); err != nil {
		return nil, &quorum.NodeError{Node: l.Name(), Err: err}
	}
	var keys []string
	var args []any
	var users []int // by batch; the caller may reuse its batches once ctx ends
	for _, b := range batches {
		keys = appendKeys(keys, b.List)
		args = append(args, b.At, packed(b))
		users = append(users, len(b.Users))
	}
	return runAndRead(ctx, l.node, grabScript, keys, args, func(a *answer) (given []lists.Given, err error) {
		given = make([]lists.Given, len(users))
		for i := range given {
			if given[i], err = readGrants(answer{items: next[[]any](a)}, users[i]); err != nil {
				return nil, err
			}
		}
		return given, nil
	})
}

func checkBatches(batches []lists.Batch) error {
	users := 0
	for _, b := range batches {
		users += len(b.Users)
		if len(b.Users) == 0 || len(b.Users) != len(b.Keys) {
			return fmt.Errorf("a batch of %d users and %d keys; name at least one user, and a key for each", len(b.Users), len(b.Keys))
		}
		if b.At <= 0 {
			return fmt.Errorf("a batch for shard %d of %s at %d us; name the time at which it is given", b.List.Shard, b.List.UID, b.At)
		}
		named := make(map[string]struct{}, len(b.Users))
		for _, user := range b.Users {
			named[user] = struct{}{}
		}
		if len(named) != len(b.Users) {
			return fmt.Errorf("a batch for shard %d of %s names a user twice", b.List.Shard, b.List.UID)
		}
	}
	if users > MaxUsers {
		return fmt.Errorf("%d users in one call; name at most %d", users, MaxUsers)
	}
	return nil
}

// readGrants reads the result of a batch with a number of users.
func readGrants(a answer, users int) (lists.Given, error) {
	given := lists.Given{Why: refusal(next[int64](&a)), Entry: uint64(next[int64](&a))}
	units := ""
	switch given.Why {
	case nil, lists.ErrClosed:
		units = a.text()
	case lists.ErrNotOpen:
		given.OpensAt = next[int64](&a)
	case errAnswer:
		return given, errAnswer
	default:
		return given, a.end()
	}
	given.Units = make([]lists.Unit, users)
	for len(a.items) > 0 {
		number, text := next[int64](&a), a.text()
		if a.bad || number < 1 || number > int64(users) {
			return given, errAnswer
		}
		u, ok := &given.Units[number-1], false
		if u.Number, u.At, u.Key, ok = parseGrant(text); !ok {
			return given, fmt.Errorf("%w: %q is not what a user was given", ErrForeign, text)
		}
		u.Before = true
	}
	if a.bad || !assignUnits(given.Units, units) {
		return given, errAnswer
	}
	return given, nil
}

// assignUnits assigns units, which are separated by spaces, to those without an earlier grant. It
// returns false if there are too many, or one is not a number.
func assignUnits(to []lists.Unit, units string) bool {
	for units != "" {
		var unit string
		unit, units, _ = strings.Cut(units, " ")
		number, err := strconv.ParseInt(unit, 10, 64)
		for len(to) > 0 && to[0].Before {
			to = to[1:]
		}
		if err != nil || len(to) == 0 {
			return false
		}
		to[0].Number, to = number, to[1:]
	}
	return true
}

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
// have it in as many bytes as wide specifies.
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
