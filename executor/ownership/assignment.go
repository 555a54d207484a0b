package ownership

import (
	"cmp"
	"slices"
)

// assignment is which process each shard is assigned to, by the processes that the lock nodes list.
type assignment struct {
	members     []Process // by the last complete list, with this process
	known       bool      // desired has been computed from members
	desired     []string  // by shard: the id of the process it is assigned to; "": none
	fallbacks   []string  // the same without processes that cannot be reached; nil: all can
	fallbacksOf []Process
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

// fallBack computes the assignment without the members that are lost.
func (a *assignment) fallBack(run string, n int, lost func(Process) bool) {
	if !slices.ContainsFunc(a.members, lost) {
		a.fallbacks, a.fallbacksOf = nil, nil
		return
	}
	if up := slices.DeleteFunc(slices.Clone(a.members), lost); !slices.EqualFunc(up, a.fallbacksOf, sameRole) {
		a.fallbacks, a.fallbacksOf = assign(run, n, up), up
	}
}

// sameRole reports whether two members are assigned the same.
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
