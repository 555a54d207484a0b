package api

import (
	"strconv"
	"strings"

	"salectl/api/streampb"
)

// ClaimID identifies a claim by its place in the ledger or, for a grab from a list, by its
// unit.
type ClaimID struct {
	Shard int
	Slot  uint64
	Index int   // among the ops of the commit
	Unit  int64 // 0, or the unit of a grab; then Slot and Index are not set
}

// String returns the id as in responses and exports: <shard>-<slot>-<index>, or
// <shard>-u<unit> for a grab.
func (id ClaimID) String() string {
	var room [48]byte
	return string(id.Append(room[:0]))
}

// Append appends the text of String to b.
func (id ClaimID) Append(b []byte) []byte {
	b = strconv.AppendInt(b, int64(id.Shard), 10)
	if id.Unit != 0 {
		return strconv.AppendInt(append(b, "-u"...), id.Unit, 10)
	}
	b = strconv.AppendUint(append(b, '-'), id.Slot, 10)
	return strconv.AppendInt(append(b, '-'), int64(id.Index), 10)
}

// ParseClaimID parses an id; false: the text is no id of a claim.
func ParseClaimID(text string) (ClaimID, bool) {
	shard, rest, _ := strings.Cut(text, "-")
	var id ClaimID
	n, err := strconv.ParseInt(shard, 10, 32)
	if err != nil {
		return ClaimID{}, false
	}
	id.Shard = int(n)
	if unit, grabbed := strings.CutPrefix(rest, "u"); grabbed {
		id.Unit, err = strconv.ParseInt(unit, 10, 64)
	} else {
		slot, index, _ := strings.Cut(rest, "-")
		if id.Slot, err = strconv.ParseUint(slot, 10, 64); err == nil {
			n, err = strconv.ParseInt(index, 10, 32)
			id.Index = int(n)
		}
	}
	if err != nil || id.Shard < 0 || id.Index < 0 || id.Unit < 0 || id.String() != text {
		return ClaimID{}, false
	}
	return id, true
}

// ClaimIDOf returns the id in a message.
func ClaimIDOf(m *streampb.ClaimID) ClaimID {
	return ClaimID{Shard: int(m.GetShard()), Slot: m.GetSlot(), Index: int(m.GetIndex()), Unit: m.GetUnit()}
}

// Put stores the id in a message.
func (id ClaimID) Put(m *streampb.ClaimID) {
	m.Shard, m.Slot, m.Index, m.Unit = uint32(id.Shard), id.Slot, uint32(id.Index), id.Unit
}

// ToStream returns a new message with the id.
func (id ClaimID) ToStream() *streampb.ClaimID {
	m := new(streampb.ClaimID)
	id.Put(m)
	return m
}
