package lists

import (
	"slices"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
)

// unitMoves are the units that leave for other shards, and come from them, while the list is on.
type unitMoves struct {
	take     int            // number of units to take for another shard
	taken    ledger.Units   // units taken; the log lacks their transfer
	moved    time.Duration  // monotonic: time of the last take or add
	dry      bool           // the list was found empty since
	unproved bool           // it is not proved that the log had all grabs then: a read is needed
	proving  bool           // the read under way is that read
	proved   bool           // that read found nothing: units that the log has available are lost
	empty    bool           // the last take found none, and none came since
	puts     []ledger.Units // units that the log has received and the list lacks
}

// recordMove records that units have entered or left the list: calls that found it empty before prove nothing.
func (u *unitMoves) recordMove(now clock.Now) {
	u.moved, u.dry, u.unproved = now.Mono, false, false
}

// Dry records that a grab found the list empty. fill is the fill under which the node was called, and begun
// the monotonic time of the call. If the log has units that are nowhere else, the node has lost them.
func (m *Machine) Dry(fill uint64, begun time.Duration) {
	if m.stage == on && m.fill == fill && begun > m.moved {
		m.dry, m.unproved = true, true
	}
}

// Take takes up to n units out of the list for another shard, in several calls. Taken then returns the units,
// or Empty reports that there were none. The log has the units as available until their transfer: if this
// process ends, or a call fails, the next fill has them again.
func (m *Machine) Take(n int) {
	if m.stage == on && m.take == 0 && len(m.taken) == 0 {
		m.take = min(n, movesAtOnce*m.sizes.Move)
	}
}

// Taken returns the units that one transfer may send of those taken, from the end of the last call until Sent or
// PutBack.
func (m *Machine) Taken() ledger.Units {
	if m.take > 0 {
		return nil
	}
	return m.taken[:min(len(m.taken), m.sizes.Ranges)]
}

// Empty reports whether the last Take found no units, and none came since.
func (u *unitMoves) Empty() bool { return u.empty }

// Sent records that the log has the transfer of the units that Taken has returned. The other units taken are put
// back.
func (m *Machine) Sent() {
	m.taken = m.taken[len(m.Taken()):]
	m.PutBack()
}

// PutBack puts the units taken back into the list.
func (m *Machine) PutBack() {
	if len(m.taken) > 0 {
		m.Receive(m.taken)
	}
	m.taken = nil
}

// Receive puts units that the log has received into the list. A list that is off is filled with them from the
// log.
func (m *Machine) Receive(units ledger.Units) {
	if m.stage == on {
		m.puts, m.empty = append(m.puts, slices.Clone(units)), false
	}
}

// Receiving reports whether the list lacks units received.
func (u *unitMoves) Receiving() bool { return len(u.puts) > 0 }

// firstOf removes the n lowest units from a set, and returns them.
func firstOf(u *ledger.Units, n int64) (first ledger.Units) {
	for n > 0 && len(*u) > 0 {
		r := (*u)[0]
		r.Count = min(r.Count, n)
		_ = u.Remove(r) // the set has it
		first = append(first, r)
		n -= r.Count
	}
	return first
}
