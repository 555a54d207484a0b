package memory

import (
	"context"
	"maps"
	"slices"
	"time"

	"salectl/backends/quorum"
)

// present is what the node knows of a member.
type present struct {
	note    string
	expires time.Time
}

// Meet is quorum.Node's.
func (n *Node) Meet(ctx context.Context, room string, m quorum.Member, ttl time.Duration) ([]quorum.Member, error) {
	if err := m.Check(ttl); err != nil {
		return nil, err
	}
	return serve(ctx, n, OpMeet, func() ([]quorum.Member, error) { return n.meet(room, m, ttl) })
}

// meet must be called with mu held.
func (n *Node) meet(room string, m quorum.Member, ttl time.Duration) (there []quorum.Member, err error) {
	members := n.members[room]
	if members == nil {
		members = make(map[string]present)
	}
	latest := n.now.Add(quorum.MaxTTL)
	for id, p := range members {
		switch {
		case !n.now.Before(p.expires):
			delete(members, id)
		case p.expires.After(latest): // the clock was set back since
			members[id] = present{p.note, latest}
		}
	}
	_, known := members[m.ID]
	switch {
	case ttl == 0:
		delete(members, m.ID)
	case !known && len(members) == quorum.MaxMembers:
		return nil, quorum.ErrRoomFull
	default:
		members[m.ID] = present{m.Note, n.now.Add(ttl)}
	}
	if n.members == nil {
		n.members = make(map[string]map[string]present)
	}
	if n.members[room] = members; len(members) == 0 {
		delete(n.members, room)
	}
	for _, id := range slices.Sorted(maps.Keys(members)) {
		there = append(there, quorum.Member{ID: id, Note: members[id].note, Left: members[id].expires.Sub(n.now)})
	}
	return there, nil
}
