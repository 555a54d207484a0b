package ownership

import (
	"cmp"
	"slices"
)

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
	for _, m := range a.members {
		if m.ID == id {
			return m.Address
		}
	}
	return ""
}
