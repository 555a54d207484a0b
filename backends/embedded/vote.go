package embedded

import (
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"salectl/backends/quorum"
)

// vote answers a ballot at a time of the node.
func vote(conn *sqlite.Conn, b quorum.Ballot, now int64) (quorum.BallotReply, error) {
	count := quorum.BallotReply{
		Yes:     make([]bool, len(b.Requests)),
		Holders: make([]quorum.Holding, len(b.Requests)),
		Time:    time.UnixMicro(now),
	}
	if err := tidy(conn, now); err != nil {
		return quorum.BallotReply{}, err
	}
	from, err := votesFrom(conn, b.Marker, now)
	if err != nil {
		return quorum.BallotReply{}, err
	}
	if now < from {
		count.Abstained, count.VotesFrom = true, time.UnixMicro(from)
	}
	for i, request := range b.Requests {
		holder, held, err := holderOf(conn, request.Key, now)
		if err != nil {
			return quorum.BallotReply{}, err
		}
		mine := held && (holder.Token == request.Token || keptFor(holder, request))
		if count.Abstained || held && !mine || !held && request.Renew {
			count.Holders[i] = holder
			continue
		}
		err = execute(conn, "REPLACE INTO leases (key, token, note, expires) VALUES (?, ?, ?, ?)",
			request.Key, request.Token, request.Note, now+b.TTL.Microseconds())
		if err != nil {
			return quorum.BallotReply{}, err
		}
		count.Yes[i] = true
	}
	return count, nil
}

// tidy removes expired leases. A lease or marker beyond the longest ttl was written before the
// wall clock was set back, and would block its key for as long as that step. tidy limits it to
// the longest ttl from now.
func tidy(conn *sqlite.Conn, now int64) error {
	if err := execute(conn, "DELETE FROM leases WHERE expires <= ?", now); err != nil {
		return err
	}
	latest := now + quorum.MaxTTL.Microseconds()
	if err := execute(conn, "UPDATE leases SET expires = ?1 WHERE expires > ?1", latest); err != nil {
		return err
	}
	return execute(conn, "UPDATE markers SET votes_from = ?1 WHERE votes_from > ?1", latest)
}

// holderOf returns the holder of a key at a time of the node.
func holderOf(conn *sqlite.Conn, key string, now int64) (h quorum.Holding, held bool, err error) {
	held, err = first(conn, func(row *sqlite.Stmt) { h = holding(row, now) },
		"SELECT key, token, note, expires FROM leases WHERE key = ? AND expires > ?", key, now)
	return h, held, err
}

// holding converts a row of key, token, note and expires.
func holding(stmt *sqlite.Stmt, now int64) quorum.Holding {
	return quorum.Holding{
		Key:   stmt.ColumnText(0),
		Token: stmt.ColumnText(1),
		Note:  stmt.ColumnText(2),
		Left:  time.Duration(stmt.ColumnInt64(3)-now) * time.Microsecond,
	}
}

// keptFor reports whether a freed key is kept for the waiter of a request: by a lease with no
// token, and the waiter's ID as note.
func keptFor(holder quorum.Holding, request quorum.LeaseRequest) bool {
	return holder.Token == "" && request.Waiter != "" && holder.Note == request.Waiter
}

// release frees the leases that still have the tokens of requests. If a key is kept for a waiter
// that releases it, it becomes free.
func release(conn *sqlite.Conn, requests []quorum.LeaseRequest, now int64) (freed int, err error) {
	for _, request := range requests {
		err := execute(conn, "DELETE FROM leases WHERE key = ?1 AND token = ?2 AND (?3 = '' OR note = ?3) AND expires > ?4",
			request.Key, request.Token, request.Note, now)
		if err != nil {
			return 0, err
		}
		deleted := conn.Changes()
		freed += deleted
		switch {
		case deleted > 0 && request.Next != "":
			err = execute(conn, "INSERT INTO leases (key, token, note, expires) VALUES (?, '', ?, ?)",
				request.Key, request.Next, now+quorum.HandOver.Microseconds())
		case deleted == 0 && request.Waiter != "":
			err = execute(conn, "DELETE FROM leases WHERE key = ? AND token = '' AND note = ?", request.Key, request.Waiter)
		}
		if err != nil {
			return 0, err
		}
	}
	return freed, nil
}

// list returns the leases with a prefix. It compares keys itself, without LIKE or a range,
// since a prefix may contain any bytes.
func list(conn *sqlite.Conn, prefix string, now int64) (found []quorum.Holding, err error) {
	err = query(conn, func(row *sqlite.Stmt) (more bool) {
		h := holding(row, now)
		if !strings.HasPrefix(h.Key, prefix) {
			return false // keys in order: no later one has it
		}
		found = append(found, h)
		return true
	}, "SELECT key, token, note, expires FROM leases WHERE key >= ? AND expires > ? AND token != '' ORDER BY key", prefix, now)
	return found, err
}

// votesFrom returns the time from which the node votes under a marker. It writes a missing
// marker, in the abstaining form.
func votesFrom(conn *sqlite.Conn, marker string, now int64) (int64, error) {
	from, found, err := readMarker(conn, marker)
	if err != nil || found {
		return from, err
	}
	from = now + quorum.MaxTTL.Microseconds()
	return from, setMarker(conn, marker, from)
}

func readMarker(conn *sqlite.Conn, marker string) (votesFrom int64, found bool, err error) {
	found, err = first(conn, func(row *sqlite.Stmt) { votesFrom = row.ColumnInt64(0) },
		"SELECT votes_from FROM markers WHERE name = ?", marker)
	return votesFrom, found, err
}

func setMarker(conn *sqlite.Conn, marker string, from int64) error {
	return execute(conn, "REPLACE INTO markers (name, votes_from) VALUES (?, ?)", marker, from)
}

func readRunID(conn *sqlite.Conn) (id string, err error) {
	_, err = first(conn, func(row *sqlite.Stmt) { id = row.ColumnText(0) }, "SELECT run_id FROM node")
	return id, err
}
