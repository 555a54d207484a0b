package embedded

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"time"

	"zombiezen.com/go/sqlite"

	"salectl/backends/quorum"
	"salectl/spec"
)

// Times are in microseconds since 1970, by the node's time. A lease without an expiry cannot be
// stored.
const locksTables = `
CREATE TABLE node (run_id TEXT NOT NULL);
CREATE TABLE markers (
	name       TEXT    PRIMARY KEY,
	votes_from INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE leases (
	key     TEXT    PRIMARY KEY,
	token   TEXT    NOT NULL,
	note    TEXT    NOT NULL,
	expires INTEGER NOT NULL
) WITHOUT ROWID
`

// Node implements quorum.Node on one SQLite file. It is the only lock node of a sale whose
// processes all run on this machine.
//
// Its run id is created with its file and never changes, so markers need not store it: removing
// the file removes them too. Commits are not synced to the disk one by one. A power cut may
// undo the last few promises, but it also ends every process that got them; if it undoes a
// marker, the node abstains.
type Node struct {
	handle
	host  Host
	runID string // the node's run id if this handle is the first to write
}

var _ quorum.Node = (*Node)(nil)

// OpenNode returns a handle on the lock node in dir. Neither OpenNode nor reading creates
// anything. host is ThisHost, except in tests. Close releases the files; leases stay until they expire.
func OpenNode(dir string, host Host) (*Node, error) {
	dir, err := folder(dir)
	if err != nil {
		return nil, err
	}
	return newNode(locksDatabase(dir), host), nil
}

func locksDatabase(dir string) *database {
	return &database{
		path:        filepath.Join(dir, locksFile),
		appID:       0x6c6f636b, // "lock"
		version:     3,
		tables:      locksTables + ";" + clockTable + ";" + membersTable,
		synchronous: "NORMAL", // see Node
	}
}

func newNode(db *database, host Host) *Node {
	runID := rand.Text()
	db.seed = func(conn *sqlite.Conn) error {
		return execute(conn, "INSERT INTO node (run_id) VALUES (?)", runID)
	}
	return &Node{handle: open(db), host: host, runID: runID}
}

// write makes a change at the node's time, and returns its value.
func write[T any](ctx context.Context, n *Node, creates bool, do func(conn *sqlite.Conn, now int64) (value T, answer, failed error)) (T, error) {
	var value T
	err := n.writer.do(ctx, &change{creates: creates, step: func(conn *sqlite.Conn) (answer, failed error) {
		// Read the time only now: the transaction may have waited for other writers.
		now, failed := n.host.keepTime(conn)
		if failed == nil {
			value, answer, failed = do(conn, now)
		}
		return answer, failed
	}})
	if err != nil {
		// value may still be written by a change that outlives ctx.
		var none T
		return none, err
	}
	return value, nil
}

// Name implements quorum.Node. A sale has at most one embedded node.
func (n *Node) Name() string { return spec.EmbeddedNode }

// Info implements quorum.Node. If the node has no file yet, Info returns the run id that it
// gets if this handle writes first. If another handle does, Mark with that run id returns
// ErrOtherRun, as after any other loss of memory.
func (n *Node) Info(ctx context.Context) (quorum.Info, error) {
	info := quorum.Info{RunID: n.runID, Time: n.host.Wall()}
	err := n.readers.do(ctx, func(conn *sqlite.Conn) (err error) {
		if info.RunID, err = readRunID(conn); err != nil {
			return err
		}
		now, believed, err := n.host.time(conn)
		info.Time, info.Carried = time.UnixMicro(now.wall), !believed
		return err
	})
	if err != nil {
		return quorum.Info{}, err
	}
	return info, nil
}

// Mark implements quorum.Node.
func (n *Node) Mark(ctx context.Context, marker, runID string) error {
	_, err := write(ctx, n, true, func(conn *sqlite.Conn, now int64) (from int64, answer, failed error) {
		if runID == "" {
			from, failed = votesFrom(conn, marker, now)
			return from, nil, failed
		}
		switch mine, err := readRunID(conn); {
		case err != nil:
			return 0, nil, err
		case mine != runID:
			return 0, fmt.Errorf("%s: %w", n.writer.db.path, quorum.ErrOtherRun), nil
		}
		return now, nil, setMarker(conn, marker, now)
	})
	return err
}

// ReadMarker implements quorum.Node.
func (n *Node) ReadMarker(ctx context.Context, marker string) (m quorum.Marker, err error) {
	err = n.readers.do(ctx, func(conn *sqlite.Conn) error {
		from, found, err := readMarker(conn, marker)
		if m = (quorum.Marker{}); err == nil && found {
			m = quorum.Marker{Good: true, VotesFrom: time.UnixMicro(from)}
		}
		return err
	})
	return m, err
}

// Forget implements quorum.Node.
func (n *Node) Forget(ctx context.Context, marker string) error {
	return n.writer.do(ctx, &change{step: func(conn *sqlite.Conn) (answer, failed error) {
		return nil, execute(conn, "DELETE FROM markers WHERE name = ?", marker)
	}})
}

// Vote implements quorum.Node. It rejects a ttl above quorum.MaxTTL, for which a node that lost
// its memory would not abstain long enough.
func (n *Node) Vote(ctx context.Context, b quorum.Ballot) (quorum.BallotReply, error) {
	if b.TTL <= 0 || b.TTL > quorum.MaxTTL {
		return quorum.BallotReply{}, fmt.Errorf("lock node %s: a lease of %v; it must be above 0 and at most %v", n.Name(), b.TTL, quorum.MaxTTL)
	}
	return write(ctx, n, true, func(conn *sqlite.Conn, now int64) (count quorum.BallotReply, answer, failed error) {
		count, failed = vote(conn, b, now)
		return count, nil, failed
	})
}

// Release implements quorum.Node.
func (n *Node) Release(ctx context.Context, requests []quorum.LeaseRequest) (int, error) {
	return write(ctx, n, false, func(conn *sqlite.Conn, now int64) (freed int, answer, failed error) {
		freed, failed = release(conn, requests, now)
		return freed, nil, failed
	})
}

// List implements quorum.Node.
func (n *Node) List(ctx context.Context, prefix string) (found []quorum.Holding, err error) {
	err = n.readers.do(ctx, func(conn *sqlite.Conn) (err error) {
		now, _, err := n.host.time(conn)
		if err == nil {
			found, err = list(conn, prefix, now.wall)
		}
		return err
	})
	return found, err
}

// Watch implements quorum.Node. It always returns ErrCannotWatch: processes that share a file
// do not notify each other.
func (n *Node) Watch(context.Context, string, string, func()) error { return quorum.ErrCannotWatch }

// membersTable holds the members of all registries. Times are as in locksTables.
const membersTable = `
CREATE TABLE members (
	registry TEXT    NOT NULL,
	id       TEXT    NOT NULL,
	note     TEXT    NOT NULL,
	expires  INTEGER NOT NULL,
	PRIMARY KEY (registry, id)
) WITHOUT ROWID`

// Announce implements quorum.Node.
func (n *Node) Announce(ctx context.Context, registry string, m quorum.Member, ttl time.Duration) ([]quorum.Member, error) {
	if err := m.Check(ttl); err != nil {
		return nil, &quorum.NodeError{Node: n.Name(), Err: err}
	}
	return write(ctx, n, ttl > 0, func(conn *sqlite.Conn, now int64) (all []quorum.Member, full, failed error) {
		return announce(conn, registry, m, ttl, now)
	})
}

// announce adds or removes a member at a time of the node. full is ErrRegistryFull if the registry
// has no space for the member.
func announce(conn *sqlite.Conn, registry string, m quorum.Member, ttl time.Duration, now int64) (all []quorum.Member, full, failed error) {
	// An expiry beyond the longest ttl is from before the wall clock was set back.
	if err := execute(conn, "DELETE FROM members WHERE expires <= ?", now); err != nil {
		return nil, nil, err
	}
	if err := execute(conn, "UPDATE members SET expires = ?1 WHERE expires > ?1", now+quorum.MaxTTL.Microseconds()); err != nil {
		return nil, nil, err
	}
	if ttl == 0 {
		failed = execute(conn, "DELETE FROM members WHERE registry = ? AND id = ?", registry, m.ID)
	} else {
		failed = execute(conn, "REPLACE INTO members (registry, id, note, expires) VALUES (?, ?, ?, ?)", registry, m.ID, m.Note, now+ttl.Microseconds())
	}
	if failed == nil {
		all, failed = members(conn, registry, now)
	}
	if failed == nil && len(all) > quorum.MaxMembers {
		return nil, quorum.ErrRegistryFull, execute(conn, "DELETE FROM members WHERE registry = ? AND id = ?", registry, m.ID)
	}
	return all, nil, failed
}

// members returns the members of a registry at a time of the node.
func members(conn *sqlite.Conn, registry string, now int64) (all []quorum.Member, err error) {
	err = query(conn, func(row *sqlite.Stmt) (more bool) {
		all = append(all, quorum.Member{
			ID: row.ColumnText(0), Note: row.ColumnText(1), Left: time.Duration(row.ColumnInt64(2)-now) * time.Microsecond,
		})
		return true
	}, "SELECT id, note, expires FROM members WHERE registry = ?", registry)
	return all, err
}
