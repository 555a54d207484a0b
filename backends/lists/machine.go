package lists

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
)

// Machine keeps one shard's list in line with the shard's log. It is a step machine: it makes no call and
// appends nothing itself. The caller appends to the log with Draft and Committed, makes the calls that Next
// returns, and passes their replies to Done. At most one of these calls is under way. The caller makes the
// grabs itself, and passes the entry of each to Granted.
//
// Machine rebuilds a list in five steps. It (1) reads the server's run id and begins a fill in the log,
// which refuses grabs of other fills from then on; (2) takes the fill's token on the node, which turns the
// list off; (3) reads the stream that survived and appends its grabs under the new fill; (4) folds the log,
// as the log's state does; (5) fills the list with what it lacks and turns it on, if the token and the run
// id still hold. A model found a way to lose or to double a unit for each step that is left out, and for
// each other order.
//
// While the list is on, a grab is first granted and then logged. The reply to the grab has its entry of the
// stream, with the entry's number. Machine appends the entries in the order of their numbers: those before a
// missing number are in the log before the stream is deleted up to there. It reads the stream on when the
// reply of a grab is lost or late, when a grab has found the list empty, and twice a second. Such a read
// also deletes the entries that are logged.
//
// A list that a generation changes is turned off by steps (1) to (3), and stays off.
type Machine struct {
	list  List
	sizes Sizes
	stage stage
	want  Want
	run   string
	fill  uint64

	under *Call
	stale bool          // its reply is of a rebuild, or a list, that was given up since
	wake  time.Duration // monotonic: no call is made before; 0: none is delayed
	pause time.Duration // after the last failure

	streamProgress
	fillProgress
	unitMoves

	trouble error

	Fills uint64 // times the list was turned on; the caller may reset it
	Voids uint64 // grabs that the log could not take; the caller may reset it
}

// fillProgress is the progress of a rebuild.
type fillProgress struct {
	left   State        // the list when the rebuild began to fill it
	slot   uint64       // next slot of the log, if this rebuild alone has changed it
	adds   bool         // the draft appends grabs
	void   bool         // the log could not take some of the grabs that survived
	folded uint64       // next slot of the log that the list is filled from
	units  ledger.Units // of that log, not in the list yet
	put    Part         // under way, or the last
	claims int          // of that log, in the list
}

// Want is the state that a list is to reach.
type Want int

const (
	On      Want = iota // the list grants
	Stopped             // the list grants nothing, and the log has all its grabs
)

type stage int

const (
	readingRunID stage = iota
	fencing            // a Rebuild is appended, which begins a fill
	stopping           // the token is taken
	reading            // the stream that survived is read and appended
	stopped            // the log has all of it
	inspecting         // the state of the list is read
	filling
	starting
	on
)

// The pause of a machine after a failure, the interval of the reads without a reason, and the delay before
// an entry is read whose reply is late.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
	pollEvery  = 500 * time.Millisecond
	gapDelay   = 50 * time.Millisecond
)

// Sizes bound the size of one call. A node serves no other call meanwhile.
type Sizes struct {
	Read int // grabs of the stream
	Put  int // units or users while a list is filled
	Move int // units from one list to another

	Ranges int // ranges of units in one transfer
}

// usual are the default sizes. Each call takes a node some milliseconds.
var usual = Sizes{Read: 4000, Put: 1000, Move: 5000, Ranges: ledger.MaxRanges}

// movesAtOnce is the largest number of calls that take the units of one transfer. The requests that wait for
// the units wait for all of these calls.
const movesAtOnce = 20

// errMissing reports that a list that is on has fewer units than the log.
var errMissing = errors.New("units of the list are missing on the node")

// errFenced reports that another process rebuilds the list.
var errFenced = errors.New("another process has begun to rebuild the list")

// NewMachine returns the machine of a list in an unknown state. A size of 0 is the default.
func NewMachine(l List, sizes Sizes) *Machine {
	sizes.Read, sizes.Put, sizes.Move = cmp.Or(sizes.Read, usual.Read), cmp.Or(sizes.Put, usual.Put), cmp.Or(sizes.Move, usual.Move)
	sizes.Ranges = cmp.Or(sizes.Ranges, usual.Ranges)
	return &Machine{list: l, sizes: sizes}
}

// SetTarget sets the state that the list is to reach.
func (m *Machine) SetTarget(now clock.Now, w Want) {
	m.want = w
	if w == Stopped && m.stage > stopped {
		m.begin()
	}
	if w == On && m.stage == stopped {
		m.refill()
	}
}

// On returns the fill under which the list grants; 0: it grants nothing.
func (m *Machine) On() uint64 {
	if m.stage == on {
		return m.fill
	}
	return 0
}

// Stopped reports whether the list grants nothing, and the log of s has all its grabs that the node has. The
// next entry of that log may change the shard's units or phase.
func (m *Machine) Stopped(s *ledger.State) bool { return m.stage == stopped && s.Fill == m.fill }

// Trouble returns the error of the last failed step, until the next success; nil: there is none.
func (m *Machine) Trouble() error { return m.trouble }

// Lost records that the node refused a grab under a fill: the list has another fill, or none.
func (m *Machine) Lost(now clock.Now, fill uint64) {
	if m.stage == on && m.fill == fill {
		m.fail(now, ErrFill)
	}
}

// begin begins a rebuild, and forgets what was known of the stream.
func (m *Machine) begin() {
	m.stage, m.run, m.fill = readingRunID, "", 0
	m.streamProgress, m.unitMoves = streamProgress{}, unitMoves{}
	m.stale = m.under != nil
}

// fail begins a rebuild after a pause.
func (m *Machine) fail(now clock.Now, why error) {
	m.begin()
	m.trouble = why
	m.backOff(now)
}

// backOff delays the next call. The pauses double up to lastPause.
func (m *Machine) backOff(now clock.Now) {
	m.pause = min(max(2*m.pause, firstPause), lastPause)
	m.wake = now.Mono + m.pause
}

// Observe applies the state of the log, which this process or another may have changed.
func (m *Machine) Observe(now clock.Now, s *ledger.State) {
	switch {
	case m.stage >= stopping && s.Fill != m.fill:
		m.fail(now, errFenced)
		m.wake = now.Mono + lastPause // the other process finishes first
	case (m.stage == filling || m.stage == starting) && m.folded != 0 && s.Next() != m.folded:
		m.stale = m.under != nil
		m.refill()
	}
}

// Due reports whether there is something to append now.
func (m *Machine) Due(now clock.Now) bool {
	return m.stage == fencing || len(m.grabs) > 0 && (m.stage != on || now.Mono >= m.drainAt)
}

// Draft adds to a draft what is due to be appended: a Rebuild, which must be alone in its commit, or up to most
// grabs (0: as many as fit). It reports whether it has added a Rebuild.
func (m *Machine) Draft(now clock.Now, d *ledger.Draft, most int) (rebuild bool) {
	m.offered, m.refused, m.rebuilding = 0, 0, m.stage == fencing
	if m.rebuilding {
		d.Rebuild()
		return true
	}
	grabs := m.grabs
	if !m.Due(now) {
		grabs = nil
	}
	if most > 0 {
		grabs = grabs[:min(most, len(grabs))]
	}
	for _, g := range grabs {
		v := d.Grab(g)
		if v.Kind == ledger.Full {
			break
		}
		m.offered++
		if v.Kind == ledger.Void {
			m.refused++
		}
	}
	m.adds = d.Ops() > 0
	return false
}

// Committed records that the last draft is in the log, or had nothing to append. It returns the grabs of the
// draft. The log never loses those that it has taken.
func (m *Machine) Committed(now clock.Now, s *ledger.State) []ledger.Grab {
	if m.rebuilding {
		m.fill, m.stage, m.slot, m.void = s.Fill, stopping, s.Next(), false
		return nil
	}
	if m.adds {
		m.slot++
	}
	logged := m.takeLogged()
	m.Voids, m.void = m.Voids+uint64(m.refused), m.void || m.refused > 0
	m.finishReading()
	return logged
}

// finishReading ends step (3) of a rebuild when the log has the stream that survived.
func (m *Machine) finishReading() {
	if m.stage == reading && !m.more && len(m.grabs) == 0 && m.under == nil {
		m.stage = stopped
		if m.want == On {
			m.refill() // which may fail as it did before
		} else {
			m.trouble, m.pause = nil, 0
		}
	}
}

// refill begins to fill the list.
func (m *Machine) refill() {
	m.stage, m.left, m.folded, m.units, m.put, m.claims = inspecting, State{}, 0, nil, Part{}, 0
}

// Next returns the call to make now; nil: there is none. It also returns the monotonic time at which the caller
// calls Next or Draft again; 0: after the next event.
func (m *Machine) Next(now clock.Now, s *ledger.State) (*Call, time.Duration) {
	if m.under != nil {
		return nil, m.nextDrain(now)
	}
	if m.wake > now.Mono {
		return nil, clock.Soonest(m.wake, m.nextDrain(now))
	}
	c := &Call{List: m.list, Fill: m.fill, RunID: m.run}
	switch m.stage {
	case readingRunID:
		c.Kind = RunIDCall
	case stopping:
		c.Kind = StopCall
	case reading:
		if !m.more || len(m.grabs) > 2*m.sizes.Read {
			return nil, 0
		}
		c.Kind, c.Fill, c.After, c.Max = ReadCall, 0, m.after, m.sizes.Read
		m.more = false
	case inspecting:
		c.Kind = InspectCall
	case filling:
		if m.nextPart(s); m.stage == starting {
			return m.Next(now, s)
		}
		c.Kind, c.Part = PutCall, m.put
	case starting:
		c.Kind, c.Start = StartCall, Start{
			Units: m.put.Units, Users: m.put.Users, Drained: m.after,
			OpensAt: s.Settings().GetOpensAtUs(), ClosesAt: s.Settings().GetClosesAtUs(),
		}
	case on:
		if m.proved && len(m.grabs) == 0 && len(m.taken) == 0 && !m.Receiving() && s.Available > 0 {
			m.fail(now, errMissing)
			return nil, m.wake
		}
		m.proved = false
		if !m.whileOn(now, c) {
			at := m.poll
			if len(m.early) > 0 {
				at = min(at, m.gapAt)
			}
			return nil, clock.Soonest(at, m.nextDrain(now))
		}
	default:
		return nil, 0
	}
	m.under = c
	return c, 0
}

// nextPart sets the next part of the log's units and claims to put. After the last part the stage is starting.
func (m *Machine) nextPart(s *ledger.State) {
	if m.folded == 0 {
		m.fold(s)
	}
	m.put.Add = firstOf(&m.units, int64(m.sizes.Put))
	for m.put.Add == nil && m.claims < s.Claims() && len(m.put.Taken) < m.sizes.Put {
		c := s.Claim(m.claims)
		m.put.Taken = append(m.put.Taken, ledger.Grab{User: c.User, Key: c.Key, Unit: c.Units[0], GrantedUs: c.TimeUs})
		m.claims++
	}
	if !m.put.First && m.put.Add == nil && m.put.Taken == nil {
		m.stage = starting
	}
}

// fold determines which of the log's units and users the list lacks.
//
// The list may have all users. Since it was turned on, in the same run of its server, each user with a
// grant is in its stream, and so in the log now. The log has no other users than those of the list: as many
// users as claims are the same users. A grab that the log could not take, and a user whom another client has
// deleted, make the numbers differ.
//
// The list may have all units. Its units are among those that the log has available, as long as it was on:
// units leave the list before they leave the log's available ones. If it granted until this rebuild took its
// token, and the log has taken only grabs since, as many units are the same units. A list that was off in
// between may differ in both directions: the shard may have sent units to others, and received some.
func (m *Machine) fold(s *ledger.State) {
	m.folded = s.Next()
	users := m.left.Whole && !m.void && m.left.Users == int64(s.Claims())
	if users {
		m.claims, m.put.Users = s.Claims(), m.left.Users
	}
	if users && m.left.Fill == m.fill-1 && m.left.Units == s.Available && m.slot == m.folded {
		m.put.Units = m.left.Units
		return
	}
	m.units = s.AvailableUnits()
	m.put.First, m.put.Keep = true, users
}

// whileOn sets the next call of a list that is on, and reports whether there is one.
func (m *Machine) whileOn(now clock.Now, c *Call) bool {
	switch {
	case len(m.puts) > 0:
		rest := slices.Clone(m.puts[0])
		c.Kind, c.Units = AddCall, firstOf(&rest, int64(m.sizes.Move))
	case m.take > 0:
		c.Kind, c.Max = TakeCall, min(m.take, m.sizes.Move)
	case m.more, m.unproved && m.logged(), len(m.early) > 0 && now.Mono >= m.gapAt, now.Mono >= m.poll:
		c.Kind, c.After, c.Drained, c.Max = ReadCall, m.after, m.drained, m.sizes.Read
		m.poll, m.more, m.proving = now.Mono+pollEvery, false, m.dry && m.logged()
		m.unproved = m.unproved && !m.proving
	default:
		return false
	}
	return true
}

// Done applies the reply to the call under way.
func (m *Machine) Done(now clock.Now, r Reply) {
	c, stale := m.under, m.stale
	m.under, m.stale = nil, false
	switch {
	case stale:
		return
	case r.Err == nil && m.stage == on:
		m.trouble, m.pause = nil, 0
	case r.Err == nil: // the next step may fail as it did before
	case c.Kind == ReadCall && !errors.Is(r.Err, ErrFill):
		m.trouble, m.more = r.Err, true // a read may be repeated
		m.backOff(now)
		return
	default:
		// The node may have done it, or refuses it for good.
		m.fail(now, r.Err)
		return
	}
	switch c.Kind {
	case RunIDCall:
		m.run, m.stage = r.RunID, fencing
	case StopCall:
		m.stage, m.more = reading, true
	case ReadCall:
		m.read(now, r.Entries)
	case InspectCall:
		m.stage, m.left = filling, r.State
	case PutCall:
		m.put = Part{Units: m.put.Units + m.put.Add.Count(), Users: m.put.Users + int64(len(m.put.Taken))}
	case StartCall:
		m.stage, m.poll, m.next, m.early = on, now.Mono+pollEvery, 1, make(map[uint64][]ledger.Grab)
		m.trouble, m.pause = nil, 0
		m.moved = now.Mono
		m.Fills++
	case TakeCall:
		m.took(now, r.Units)
	case AddCall:
		if firstOf(&m.puts[0], int64(m.sizes.Move)); len(m.puts[0]) == 0 {
			m.puts = m.puts[1:]
		}
		m.empty = false
		m.recordMove(now)
	}
}

// took adds the units that a call has taken.
func (m *Machine) took(now clock.Now, units ledger.Units) {
	for _, r := range units {
		if err := m.taken.Add(r); err != nil {
			m.fail(now, err)
			return
		}
	}
	if m.take -= int(units.Count()); len(units) == 0 {
		m.take = 0
	}
	m.take, m.empty = max(m.take, 0), len(m.taken) == 0
	m.recordMove(now)
}

// read adds entries of the stream that a ReadCall has returned.
func (m *Machine) read(now clock.Now, entries []Entry) {
	if m.stage != on {
		m.more = m.more || len(entries) > 0
		for _, e := range entries {
			m.add(now, e.ID, e.Grabs, 0)
		}
		m.finishReading()
		return
	}
	m.proved, m.unproved = m.proving && len(entries) == 0, m.unproved || m.proving && len(entries) > 0
	read := 0
	for _, e := range entries {
		read += len(e.Grabs)
		fill, number, err := ParseEntryID(e.ID)
		switch {
		case err != nil || fill != m.fill || e.Fill != m.fill:
			m.fail(now, ErrFill) // its grabs are appended under a new fill
			return
		case number >= m.next:
			m.add(now, e.ID, e.Grabs, 0)
			m.next = number + 1
		}
	}
	m.more = m.more || read >= m.sizes.Read
	maps.DeleteFunc(m.early, func(number uint64, _ []ledger.Grab) bool { return number < m.next })
	m.addInOrder(now, 0)
}
