package embedded

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"salectl/backends/quorum"
)

// clockTable has the instant at which the host's wall clock was believed last. There
// is at most one row. Times are in microseconds, wall's since 1970, ago's since boot.
const clockTable = `
CREATE TABLE clock (
	id   INTEGER PRIMARY KEY CHECK (id = 1),
	boot TEXT    NOT NULL,
	ago  INTEGER NOT NULL,
	wall INTEGER NOT NULL
)`

// Host is what a node asks of the machine that it is on.
type Host struct {
	Wall func() time.Time
	// Booted names the present boot and says how long ago it was, by a clock that
	// nobody can set and that runs on while the machine sleeps. "": there is none,
	// and the wall clock is believed. It may be nil, for the same.
	Booted func() (boot string, ago time.Duration)
	// Kept says that a time server keeps the wall clock right. It may be nil: nobody
	// knows.
	Kept func() bool
}

const (
	// mostStep is by how much a wall clock may be set with nobody asking why: as far
	// as clocks of several lock nodes may differ.
	mostStep = quorum.MaxTTL
	// believeAnew is how much later a time is recorded again.
	believeAnew = int64(time.Second / time.Microsecond)
)

// instant is one instant by a host's two clocks.
type instant struct {
	boot      string
	ago, wall int64 // microseconds
}

func (h Host) instant() instant {
	i := instant{wall: h.Wall().UnixMicro()}
	if h.Booted != nil {
		boot, ago := h.Booted()
		i.boot, i.ago = boot, ago.Microseconds()
	}
	return i
}

// time returns the node's time in microseconds since 1970, and whether that is what
// the host's wall clock shows. A wall clock that was set since it was believed last,
// while no time server keeps it right, is not believed: then the node's time is that
// which was believed last, carried on by the clock that cannot be set. So whoever
// compares its own clock with the node's sees by how much that is wrong. Over a
// reboot, of which nobody knows how long the machine was off, the clock is believed
// unless it was set back.
func (h Host) time(conn *sqlite.Conn) (now instant, believed bool, err error) {
	now = h.instant()
	if now.boot == "" {
		return now, true, nil
	}
	last, found, err := readInstant(conn)
	if err != nil || !found {
		return now, err == nil, err
	}
	step := now.wall - last.wall - now.ago
	if last.boot == now.boot {
		step += last.ago
	} else if step > 0 {
		return now, true, nil
	}
	if most := mostStep.Microseconds(); -most <= step && step <= most || h.Kept != nil && h.Kept() {
		return now, true, nil
	}
	now.wall -= step
	return now, false, nil
}

func readInstant(conn *sqlite.Conn) (i instant, found bool, err error) {
	found, err = first(conn, func(row *sqlite.Stmt) {
		i = instant{boot: row.ColumnText(0), ago: row.ColumnInt64(1), wall: row.ColumnInt64(2)}
	}, "SELECT boot, ago, wall FROM clock")
	return i, found, err
}

// believe records an instant as one whose wall clock was right.
func (i instant) believe(conn *sqlite.Conn) error {
	return execute(conn, "REPLACE INTO clock (id, boot, ago, wall) VALUES (1, ?, ?, ?)", i.boot, i.ago, i.wall)
}

// keepTime is time for whoever writes: what is believed is recorded, now and then.
func (h Host) keepTime(conn *sqlite.Conn) (us int64, err error) {
	now, believed, err := h.time(conn)
	if err != nil || !believed || now.boot == "" {
		return now.wall, err
	}
	last, _, err := readInstant(conn)
	if err != nil || last.boot == now.boot && last.wall <= now.wall && now.wall < last.wall+believeAnew {
		return now.wall, err
	}
	return now.wall, now.believe(conn)
}

// TrustClock has the node believe the host's wall clock as it is now, whatever it was
// before.
func (n *Node) TrustClock(ctx context.Context) error {
	return n.writer.do(ctx, &change{creates: true, step: func(conn *sqlite.Conn) (answer, failed error) {
		return nil, n.host.instant().believe(conn)
	}})
}
