package embedded

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"salectl/backends/quorum"
)

// clockTable holds the last instant at which the host's wall clock was trusted, in at most one
// row. Times are in microseconds, wall since 1970 and ago since boot.
const clockTable = `
CREATE TABLE clock (
	id   INTEGER PRIMARY KEY CHECK (id = 1),
	boot TEXT    NOT NULL,
	ago  INTEGER NOT NULL,
	wall INTEGER NOT NULL
)`

// Host provides the clocks of the node's machine.
type Host struct {
	Wall func() time.Time
	// Booted returns an ID of the present boot, and the time since the boot by a clock that
	// cannot be set and that runs while the machine sleeps. If boot is "", or Booted is nil,
	// there is no such clock, and the wall clock is trusted.
	Booted func() (boot string, ago time.Duration)
	// Kept reports whether a time server controls the wall clock. nil: unknown.
	Kept func() bool
}

const (
	// mostStep is the largest step of the wall clock that is accepted: as much as the clocks of
	// lock nodes may differ.
	mostStep = quorum.MaxTTL
	// believeAnew is the minimum interval between records of the trusted time.
	believeAnew = int64(time.Second / time.Microsecond)
)

// instant is one instant by the two clocks of a host.
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

// time returns the node's time in microseconds since 1970, and whether it is that of the host's
// wall clock. A wall clock that was set since it was last trusted is not trusted, unless a time
// server controls it. Then the node's time is the last trusted time, continued by the clock
// that cannot be set. So a process that compares its clock with the node's detects the error.
// After a reboot, since the time that the machine was off is unknown, the clock is trusted
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

// believe records an instant at which the wall clock was right.
func (i instant) believe(conn *sqlite.Conn) error {
	return execute(conn, "REPLACE INTO clock (id, boot, ago, wall) VALUES (1, ?, ?, ?)", i.boot, i.ago, i.wall)
}

// keepTime returns the node's time, like time, and records a trusted instant at intervals of
// believeAnew. Only writers may call it.
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

// TrustClock makes the node trust the host's wall clock as it is now.
func (n *Node) TrustClock(ctx context.Context) error {
	return n.writer.do(ctx, &change{creates: true, step: func(conn *sqlite.Conn) (answer, failed error) {
		return nil, n.host.instant().believe(conn)
	}})
}
