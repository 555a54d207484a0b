package lists

import (
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
)

// streamProgress is the part of the stream that a machine has read, and the part of that in the log.
type streamProgress struct {
	poll    time.Duration            // monotonic: time of the next read without a reason
	after   string                   // position of the last entry in order: it is in grabs or in the log
	next    uint64                   // number of the entry behind it, while the list is on
	early   map[uint64][]ledger.Grab // grabs of entries that follow a missing one, by number
	gapAt   time.Duration            // monotonic: the missing one is read at this time
	more    bool                     // the stream has entries behind after, or may have
	drained string                   // position up to which the log has all entries

	grabs      []ledger.Grab // of entries in order, not known to be in the log
	ends       []entryEnd    // of these entries
	drainAt    time.Duration // monotonic: time from which grabs are due to be appended
	offered    int           // of grabs: number in the draft
	refused    int           // of these: number that the log cannot take
	rebuilding bool          // the draft has the rebuild
}

// entryEnd is the end of an entry of the stream in grabs.
type entryEnd struct {
	id   string
	left int // grabs of the entry that the log may lack
}

// Granted records the entry of the stream that a grab has written under a fill: its number and its grabs.
// They are due to be appended within a duration. Entries may be recorded in any order, and more than once.
func (m *Machine) Granted(now clock.Now, fill, number uint64, grabs []ledger.Grab, within time.Duration) {
	if m.stage != on || m.fill != fill || number < m.next {
		return // the stream is read for a rebuild, or was read up to here
	}
	m.early[number] = grabs
	m.addInOrder(now, within)
}

// addInOrder adds the grabs of early up to the next missing entry. It delays the read of that entry, unless
// it was missing before.
func (m *Machine) addInOrder(now clock.Now, within time.Duration) {
	before := m.next
	for grabs, in := m.early[m.next]; in; grabs, in = m.early[m.next] {
		delete(m.early, m.next)
		m.add(now, EntryID(m.fill, m.next), grabs, within)
		m.next++
	}
	if m.next != before || len(m.early) == 1 {
		m.gapAt = now.Mono + gapDelay
	}
}

// add adds the grabs of the entry behind after.
func (p *streamProgress) add(now clock.Now, id string, grabs []ledger.Grab, within time.Duration) {
	if len(p.grabs) == p.offered {
		p.drainAt = now.Mono + within
	}
	p.ScheduleDrain(now, within)
	p.grabs, p.after = append(p.grabs, grabs...), id
	p.ends = append(p.ends, entryEnd{id, len(grabs)})
}

// takeLogged removes and returns the grabs of the draft, which the log has now.
func (p *streamProgress) takeLogged() []ledger.Grab {
	logged := p.grabs[:p.offered:p.offered]
	p.grabs, p.offered = p.grabs[p.offered:], 0
	for left := len(logged); left > 0; {
		end := &p.ends[0]
		n := min(left, end.left)
		end.left, left = end.left-n, left-n
		if end.left == 0 {
			p.drained, p.ends = end.id, p.ends[1:]
		}
	}
	return logged
}

// ScheduleDrain makes the grabs that the log lacks due within a duration.
func (p *streamProgress) ScheduleDrain(now clock.Now, within time.Duration) {
	p.drainAt = min(p.drainAt, now.Mono+within)
}

// Unanswered records that a grab under a fill got no reply: the stream may have its entry.
func (m *Machine) Unanswered(fill uint64) {
	if m.stage == on && m.fill == fill {
		m.more = true
	}
}

// nextDrain returns the monotonic time at which grabs become due to be appended; 0: none will without an event.
func (m *Machine) nextDrain(now clock.Now) time.Duration {
	if m.stage == on && len(m.grabs) > m.offered && m.drainAt > now.Mono {
		return m.drainAt
	}
	return 0
}

// logged reports whether the log has all entries of the stream that the machine has read.
func (p *streamProgress) logged() bool { return len(p.grabs) == 0 && len(p.early) == 0 }
