package embedded

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"salectl/backends/quorum"
)

// membersTable holds the members of all rooms. Times are as in locksTables.
const membersTable = `
CREATE TABLE members (
	room    TEXT    NOT NULL,
	id      TEXT    NOT NULL,
	note    TEXT    NOT NULL,
	expires INTEGER NOT NULL,
	PRIMARY KEY (room, id)
) WITHOUT ROWID`

// Meet implements quorum.Node.
func (n *Node) Meet(ctx context.Context, room string, m quorum.Member, ttl time.Duration) ([]quorum.Member, error) {
	if err := m.Check(ttl); err != nil {
		return nil, fmt.Errorf("lock node %s: %w", n.Name(), err)
	}
	return write(ctx, n, ttl > 0, func(conn *sqlite.Conn, now int64) (there []quorum.Member, full, failed error) {
		return meet(conn, room, m, ttl, now)
	})
}

// meet adds or removes a member at a time of the node. full is ErrRoomFull if the room has no
// space for the member.
func meet(conn *sqlite.Conn, room string, m quorum.Member, ttl time.Duration, now int64) (there []quorum.Member, full, failed error) {
	// An expiry beyond the longest ttl is from before the wall clock was set back.
	if err := execute(conn, "DELETE FROM members WHERE expires <= ?", now); err != nil {
		return nil, nil, err
	}
	if err := execute(conn, "UPDATE members SET expires = ?1 WHERE expires > ?1", now+quorum.MaxTTL.Microseconds()); err != nil {
		return nil, nil, err
	}
	if ttl == 0 {
		failed = execute(conn, "DELETE FROM members WHERE room = ? AND id = ?", room, m.ID)
	} else {
		failed = execute(conn, "REPLACE INTO members (room, id, note, expires) VALUES (?, ?, ?, ?)", room, m.ID, m.Note, now+ttl.Microseconds())
	}
	if failed == nil {
		there, failed = members(conn, room, now)
	}
	if failed == nil && len(there) > quorum.MaxMembers {
		return nil, quorum.ErrRoomFull, execute(conn, "DELETE FROM members WHERE room = ? AND id = ?", room, m.ID)
	}
	return there, nil, failed
}

// members returns the members of a room at a time of the node.
func members(conn *sqlite.Conn, room string, now int64) (there []quorum.Member, err error) {
	err = query(conn, func(row *sqlite.Stmt) (more bool) {
		there = append(there, quorum.Member{
			ID: row.ColumnText(0), Note: row.ColumnText(1), Left: time.Duration(row.ColumnInt64(2)-now) * time.Microsecond,
		})
		return true
	}, "SELECT id, note, expires FROM members WHERE room = ?", room)
	return there, err
}
