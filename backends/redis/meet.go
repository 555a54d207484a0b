package redis

import (
	"context"
	"fmt"
	"time"

	"salectl/backends/quorum"
)

// Meet implements quorum.Node.
func (n *Node) Meet(ctx context.Context, room string, m quorum.Member, ttl time.Duration) ([]quorum.Member, error) {
	if err := m.Check(ttl); err != nil {
		return nil, fmt.Errorf("lock node %s: %w", n.address, err)
	}
	args := []any{m.ID, m.Note, milliseconds(ttl), milliseconds(quorum.MaxTTL), quorum.MaxMembers}
	return told(ctx, n, meetScript, []string{room}, args, func(a *answer) (there []quorum.Member, err error) {
		if len(a.items) == 0 && ttl > 0 {
			return nil, quorum.ErrRoomFull
		}
		for len(a.items) > 0 {
			member := answer{items: next[[]any](a)}
			there = append(there, quorum.Member{
				ID: member.text(), Note: member.text(), Left: time.Duration(next[int64](&member)) * time.Microsecond,
			})
			a.bad = a.bad || member.end() != nil
		}
		return there, nil
	})
}
