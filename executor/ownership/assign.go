package ownership

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Process is the note of a process of a sale on the lock nodes.
type Process struct {
	ID      string `json:"-"`               // of this start of the process
	Address string `json:"address"`         // where it answers claims
	Admin   string `json:"admin,omitempty"` // where it answers operators
	Version string `json:"version,omitempty"`
	// State is "" for a process that may own shards, or the reason why it owns none.
	State string `json:"state,omitempty"`
	// Linked reports that the process reaches half of the processes that the lock nodes list,
	// itself included: see peers.reaches.
	Linked bool `json:"linked,omitempty"`
}

// assign returns, by shard, the id of the process that should own it, or "" if no member may own
// it. It is rendezvous hashing (Thaler and Ravishankar, 1996) with a ceiling, after the bounded
// loads of Mirrokni, Thorup and Zadimoghaddam (2016). It considers the pairs of shard and member in
// the order of their hash. A shard goes to the first member that has fewer than its share. So no
// member has more than the ceiling, and a member that joins or leaves moves few shards. If shares
// differ by one, the members of the newest version have more.
//
// The result depends on the arguments alone, and not on the order of members.
func assign(run string, shards int, members []Process) []string {
	owners := make([]string, shards)
	able := slices.DeleteFunc(slices.Clone(members), func(m Process) bool { return m.State != "" })
	if len(able) == 0 {
		return owners
	}
	slices.SortFunc(able, func(a, b Process) int {
		return cmp.Or(compareVersions(b.Version, a.Version), cmp.Compare(a.ID, b.ID))
	})
	type pair struct {
		hash          uint64
		shard, member int
	}
	pairs := make([]pair, 0, shards*len(able))
	room := make([]int, len(able))
	for i, m := range able {
		room[i] = shards / len(able)
		if i < shards%len(able) {
			room[i]++
		}
		key := append([]byte(run+"/"+m.ID+"/"), make([]byte, 8)...)
		for s := range shards {
			binary.BigEndian.PutUint64(key[len(key)-8:], uint64(s))
			pairs = append(pairs, pair{xxhash.Sum64(key), s, i})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(b.hash, a.hash), cmp.Compare(a.shard, b.shard), cmp.Compare(a.member, b.member))
	})
	for _, p := range pairs {
		if owners[p.shard] == "" && room[p.member] > 0 {
			owners[p.shard] = able[p.member].ID
			room[p.member]--
		}
	}
	return owners
}

// compareVersions compares versions such as v1.10.2 by their numbers. A version without numbers is
// older than any other.
func compareVersions(a, b string) int {
	return slices.Compare(numbersOf(a), numbersOf(b))
}

func numbersOf(version string) (all []int) {
	n, digits := 0, false
	for _, r := range version + "." {
		switch {
		case r >= '0' && r <= '9':
			n, digits = min(n*10+int(r-'0'), 1<<40), true
		case digits:
			all, n, digits = append(all, n), 0, false
			if r != '.' {
				return all
			}
		}
	}
	return all
}

// assignment is the process that each shard is assigned to, computed from the processes that the
// lock nodes list.
type assignment struct {
	members     []Process // last complete list, including this process
	known       bool      // desired has been computed from members
	desired     []string  // by shard: id of the assigned process; "": none
	fallbacks   []string  // the same without unreachable processes; nil: all are reachable
	fallbacksOf []Process // the members that fallbacks was computed from
}

// set computes the assignment of n shards of a run to members.
func (a *assignment) set(run string, n int, members []Process) {
	slices.SortFunc(members, func(a, b Process) int { return cmp.Compare(a.ID, b.ID) })
	if a.known && slices.EqualFunc(members, a.members, sameRole) {
		return
	}
	a.members, a.known = members, true
	a.desired = assign(run, n, members)
}

// fallBack computes the assignment without the lost members.
func (a *assignment) fallBack(run string, n int, lost func(Process) bool) {
	if !slices.ContainsFunc(a.members, lost) {
		a.fallbacks, a.fallbacksOf = nil, nil
		return
	}
	if up := slices.DeleteFunc(slices.Clone(a.members), lost); !slices.EqualFunc(up, a.fallbacksOf, sameRole) {
		a.fallbacks, a.fallbacksOf = assign(run, n, up), up
	}
}

// sameRole reports whether assign treats two notes of a member alike.
func sameRole(a, b Process) bool {
	return a.ID == b.ID && a.State == b.State && a.Version == b.Version
}

// addressOf returns the address of a member, "" if there is no such member.
func (a *assignment) addressOf(id string) string {
	if i := slices.IndexFunc(a.members, func(m Process) bool { return m.ID == id }); i >= 0 {
		return a.members[i].Address
	}
	return ""
}
