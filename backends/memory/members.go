package memory

import (
	"context"
	"maps"
	"slices"
	"time"

	"salectl/backends/quorum"
)

// present is a member as the node stores it.
type present struct {
	note    string
	expires time.Time
}

// Announce implements quorum.Node.
func (n *Node) Announce(ctx context.Context, registry string, m quorum.Member, ttl time.Duration) ([]quorum.Member, error) {
	if err := m.Check(ttl); err != nil {
		return nil, err
	}
	return serve(ctx, n, OpAnnounce, func() ([]quorum.Member, error) { return n.announce(registry, m, ttl) })
}

// announce must be called with mu held.
func (n *Node) announce(registry string, m quorum.Member, ttl time.Duration) (all []quorum.Member, err error) {
	members := n.members[registry]
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
		return nil, quorum.ErrRegistryFull
	default:
		members[m.ID] = present{m.Note, n.now.Add(ttl)}
	}
	if n.members == nil {
		n.members = make(map[string]map[string]present)
	}
	if n.members[registry] = members; len(members) == 0 {
		delete(n.members, registry)
	}
	for _, id := range slices.Sorted(maps.Keys(members)) {
		all = append(all, quorum.Member{ID: id, Note: members[id].note, Left: members[id].expires.Sub(n.now)})
	}
	return all, nil
}
