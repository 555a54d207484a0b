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
	stale bool          // the reply to it is not for what the machine does now
	wake  time.Duration // monotonic: nothing is done before; 0: at once
	pause time.Duration // before the next try, after one that failed

	streamProgress
	fillProgress
	unitMoves

	trouble error
	voids   int
	fills   int
}

// streamProgress is what a machine knows of the stream, and what of that the log has.
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

// fillProgress is the progress of a rebuild.
type fillProgress struct {
	left   State  // the list at its beginning
	slot   uint64 // that the log is at if only this rebuild has changed it
	adds   bool   // the draft appends grabs
	void   bool   // of the grabs that survived, the log could not take some
	folded uint64
	units  ledger.Units // of the fold, not in the list yet
	put    Part         // under way, or the last
	claims int          // of the fold, in the list
}

// unitMoves are the units that go out to other shards and come in from them while the list is on.
type unitMoves struct {
	take   int            // the number of units to take for another shard
	taken  ledger.Units   // those that were taken; the log does not have their transfer yet
	moved  time.Duration  // monotonic: when units last went in or out
	dry    bool           // the list was found empty since
	check  bool           // a read is to prove that the log has all that the list gave before it was found empty
	checks bool           // the read under way does so
	gone   bool           // that read found nothing: if the log has units, they are lost
	empty  bool           // there were none to be taken, and none came since
	puts   []ledger.Units // that the log has received and the list has not
}

// Want says what a list is to come to.
type Want int

// What a list is to come to.
const (
	On      Want = iota // it gives
	Stopped             // it gives nothing, and all that it has given is in the log
)

type stage int

const (
	asking   stage = iota // who the server is
	fencing               // Rebuild is to be appended
	stopping              // the token is to be taken
	reading               // the stream that survived is read and appended
	stopped               // all is in the log
	looking               // what the list has still is asked
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

// Sizes are how much of a list is handled in one call: a node answers nobody else
// meanwhile.
type Sizes struct {
	Read int // grabs of the stream
	Put  int // units or users while a list is filled
	Move int // units from one list to another

	Ranges int // of units that one transfer gives
}

// usual are the sizes where none are given: each keeps a node for some milliseconds.
var usual = Sizes{Read: 4000, Put: 1000, Move: 5000, Ranges: ledger.MaxRanges}

// movesAtOnce is how many calls take what one transfer gives to another shard, at
// most: whoever waits for the units waits for all of them.
const movesAtOnce = 20

// errMissing says that a list that gives has fewer units than the log.
var errMissing = errors.New("units of the list are missing on the node")

// errFenced says that somebody else rebuilds the list.
var errFenced = errors.New("another process has begun to rebuild the list")

// NewMachine returns the machine of a list of which nothing is known. Sizes that are
// 0 are the usual ones.
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

// On returns the fill under which the list gives; 0: it does not.
func (m *Machine) On() uint64 {
	if m.stage == on {
		return m.fill
	}
	return 0
}

// Stopped reports whether the list gives nothing, and all that it ever gave and that
// its node still knows is in the log as it is folded. Whoever appends next to
// that very state may change the shard's units or phase.
func (m *Machine) Stopped(s *ledger.State) bool { return m.stage == stopped && s.Fill == m.fill }

// Trouble returns what keeps the machine from going on, nil if nothing does.
func (m *Machine) Trouble() error { return m.trouble }

// Fills returns how often the list was turned on.
func (m *Machine) Fills() int { return m.fills }

// Voids returns how many grabs the log could not take.
func (m *Machine) Voids() int { return m.voids }

// Granted records the entry of the stream that a grab has written under a fill: its number and its grabs.
// They are due to be appended within a duration. Entries may be recorded in any order, and more than once.
func (m *Machine) Granted(now clock.Now, fill, number uint64, grabs []ledger.Grab, within time.Duration) {
	if m.stage != on || m.fill != fill || number < m.next {
		return // the stream is read for a rebuild, or was read up to here
	}
	if number > m.next && len(m.early) == 0 {
		m.early, m.gapAt = make(map[uint64][]ledger.Grab), now.Mono+gapDelay
	}
	if number > m.next {
		m.early[number] = grabs
		return
	}
	for in := true; in; grabs, in = m.early[m.next] {
		delete(m.early, m.next)
		m.add(now, EntryID(fill, m.next), grabs, within)
		m.next++
	}
	if len(m.early) > 0 {
		m.gapAt = now.Mono + gapDelay
	}
}

// add adds the grabs of the entry behind after.
func (m *Machine) add(now clock.Now, id string, grabs []ledger.Grab, within time.Duration) {
	if len(m.grabs) == m.offered {
		m.drainAt = now.Mono + within
	}
	m.ScheduleDrain(now, within)
	m.grabs, m.after = append(m.grabs, grabs...), id
	m.ends = append(m.ends, entryEnd{id, len(grabs)})
}

// ScheduleDrain makes the grabs that the log lacks due within a duration.
func (m *Machine) ScheduleDrain(now clock.Now, within time.Duration) {
	m.drainAt = min(m.drainAt, now.Mono+within)
}

// Unanswered records that a grab under a fill got no reply: the stream may have its entry.
func (m *Machine) Unanswered(fill uint64) {
	if m.stage == on && m.fill == fill {
		m.more = true
	}
}

// Dry records that a grab found the list empty. fill is the fill under which the node was called, and begun
// the monotonic time of the call. If the log has units that are nowhere else, the node has lost them.
func (m *Machine) Dry(fill uint64, begun time.Duration) {
	if m.stage == on && m.fill == fill && begun > m.moved {
		m.dry, m.check = true, true
	}
}

// Hurry makes the grabs that the log lacks due at once.
func (m *Machine) Hurry() { m.drainAt = 0 }

// Lost says that the node refused a grab: the list is not what it was.
func (m *Machine) Lost(now clock.Now, fill uint64) {
	if m.stage == on && m.fill == fill {
		m.fail(now, ErrFill)
	}
}

// begin begins a rebuild.
func (m *Machine) begin() {
	m.stage, m.run, m.fill = asking, "", 0
	m.streamProgress = streamProgress{}
	m.take, m.taken, m.empty, m.puts = 0, nil, false, nil
	m.dry, m.check, m.gone, m.stale = false, false, false, m.under != nil
}

// fail begins a rebuild in a while.
func (m *Machine) fail(now clock.Now, why error) {
	m.begin()
	m.trouble = why
	m.hold(now)
}

func (m *Machine) hold(now clock.Now) {
	m.pause = min(max(2*m.pause, firstPause), lastPause)
	m.wake = now.Mono + m.pause
}

// Observe takes in that the log may have changed, by whomever.
func (m *Machine) Observe(now clock.Now, s *ledger.State) {
	switch {
	case m.stage >= stopping && s.Fill != m.fill:
		m.fail(now, errFenced)
		m.wake = now.Mono + lastPause // let the other one finish
	case (m.stage == filling || m.stage == starting) && m.folded != 0 && s.Next() != m.folded:
		m.stale = m.under != nil
		m.refill()
	}
}

// Due reports whether there is something to append now.
func (m *Machine) Due(now clock.Now) bool {
	return m.stage == fencing || len(m.grabs) > 0 && (m.stage != on || now.Mono >= m.drainAt)
}

// Draft puts what is to be appended next into a draft, no more than most grabs
// (0: as many as fit), and says whether that is a Rebuild, which must stay alone.
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

// Committed takes in that the last draft is in the log, or had nothing to append,
// and returns its grabs: what the log has of them it has for good.
func (m *Machine) Committed(now clock.Now, s *ledger.State) []ledger.Grab {
	if m.rebuilding {
		m.fill, m.stage, m.slot, m.void = s.Fill, stopping, s.Next(), false
		return nil
	}
	if m.adds {
		m.slot++
	}
	logged := m.grabs[:m.offered:m.offered]
	m.grabs, m.offered = m.grabs[m.offered:], 0
	for left := len(logged); left > 0; {
		end := &m.ends[0]
		n := min(left, end.left)
		end.left, left = end.left-n, left-n
		if end.left == 0 {
			m.drained, m.ends = end.id, m.ends[1:]
		}
	}
	m.voids, m.void = m.voids+m.refused, m.void || m.refused > 0
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
	m.stage, m.left, m.folded, m.units, m.put, m.claims = looking, State{}, 0, nil, Part{}, 0
}

// Take asks for up to n units to be taken out of the list, for another shard, as many
// as some calls take: Taken then returns them, or Empty says that there are none.
// Until they are given the log has them as available: if this process ends, or one of
// the calls fails, whoever comes next fills the list with them again.
func (m *Machine) Take(n int) {
	if m.stage == on && m.take == 0 && len(m.taken) == 0 {
		m.take = min(n, movesAtOnce*m.sizes.Move)
	}
}

// Taken returns the units that were taken, when all are, until Gave or GiveBack: those of them
// that one transfer may give.
func (m *Machine) Taken() ledger.Units {
	if m.take > 0 {
		return nil
	}
	return m.taken[:min(len(m.taken), m.sizes.Ranges)]
}

// Empty reports whether the last Take found nothing, and nothing came since.
func (m *Machine) Empty() bool { return m.empty }

// Gave says that the units that Taken has returned are in the log, on their way to another shard.
// What was taken beside them goes back.
func (m *Machine) Gave() {
	m.taken = m.taken[len(m.Taken()):]
	m.GiveBack()
}

// GiveBack puts the units taken into the list again.
func (m *Machine) GiveBack() {
	if len(m.taken) > 0 {
		m.Receive(m.taken)
	}
	m.taken = nil
}

// Receive puts units that the log has received into the list. One that is not on
// is filled from the log, which has them.
func (m *Machine) Receive(units ledger.Units) {
	if m.stage == on {
		m.puts, m.empty = append(m.puts, slices.Clone(units)), false
	}
}

// Receiving reports whether units received are not in the list yet.
func (m *Machine) Receiving() bool { return len(m.puts) > 0 }

// Next returns the call that is to be made now, nil if none is, and the monotonic
// time at which to ask again, 0 if an event must come first.
func (m *Machine) Next(now clock.Now, s *ledger.State) (*Call, time.Duration) {
	if m.under != nil {
		return nil, m.nextDrain(now)
	}
	if m.wake > now.Mono {
		return nil, clock.Soonest(m.wake, m.nextDrain(now))
	}
	c := &Call{List: m.list, Fill: m.fill, RunID: m.run}
	switch m.stage {
	case asking:
		c.Kind = RunIDCall
	case stopping:
		c.Kind = StopCall
	case reading:
		if !m.more || len(m.grabs) > 2*m.sizes.Read {
			return nil, 0
		}
		c.Kind, c.Fill, c.After, c.Max = ReadCall, 0, m.after, m.sizes.Read
		m.more = false
	case looking:
		c.Kind = InspectCall
	case filling:
		if m.nextPart(s); m.stage == starting {
			return m.Next(now, s)
		}
		c.Kind, c.Part = PutCall, m.put
	case starting:
		c.Kind, c.Start = StartCall, Start{
			Units: m.put.Units, Users: m.put.Users, Drained: m.after,
			OpensAt: ledger.Time(s.Settings().GetOpensAtUs()), ClosesAt: ledger.Time(s.Settings().GetClosesAtUs()),
		}
	case on:
		if m.gone && len(m.grabs) == 0 && len(m.taken) == 0 && !m.Receiving() && s.Available > 0 {
			m.fail(now, errMissing)
			return nil, m.wake
		}
		m.gone = false
		if !m.whileOn(now, c) {
			return nil, m.again(now)
		}
	default:
		return nil, 0
	}
	m.under = c
	return c, 0
}

// again returns the monotonic time of the next call or draft of a list that is on.
func (m *Machine) again(now clock.Now) time.Duration {
	at := m.poll
	if len(m.early) > 0 {
		at = min(at, m.gapAt)
	}
	return clock.Soonest(at, m.nextDrain(now))
}

// nextDrain returns the monotonic time at which grabs become due to be appended; 0: none will without an event.
func (m *Machine) nextDrain(now clock.Now) time.Duration {
	if m.stage == on && len(m.grabs) > m.offered && m.drainAt > now.Mono {
		return m.drainAt
	}
	return 0
}

// nextPart sets the part of the fold that is to be put next. When all is there
// it goes on to starting, with the lengths that the list must have.
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

// fold looks at what the list is to have, and what of that it has still.
//
// Since a list was turned on, in the same run of its server, each user that it gave
// to stands in its stream, and so in the log now, which has no other users than
// those: as many users as claims are the same users. (A grab that the log could not
// take, or a user that somebody else has deleted, makes the numbers differ.) Its
// units are some of those that the log has available, as long as it was on: whatever
// leaves the log's units has left the list before. So if it gave until this rebuild
// took its token, and the log has taken nothing but grabs since, as many units are
// the same units. A list that rested in between may differ in both directions: the
// shard may have sent units to others, and received some.
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

// firstOf takes the n lowest units out of a set.
func firstOf(u *ledger.Units, n int64) (first ledger.Units) {
	for n > 0 && len(*u) > 0 {
		r := (*u)[0]
		r.Count = min(r.Count, n)
		_ = u.Remove(r) // it is there
		first = append(first, r)
		n -= r.Count
	}
	return first
}

// whileOn sets what a list that gives needs next, and says whether it needs
// anything.
func (m *Machine) whileOn(now clock.Now, c *Call) bool {
	switch {
	case len(m.puts) > 0:
		rest := slices.Clone(m.puts[0])
		c.Kind, c.Units = AddCall, firstOf(&rest, int64(m.sizes.Move))
	case m.take > 0:
		c.Kind, c.Max = TakeCall, min(m.take, m.sizes.Move)
	case m.more, m.check && m.logged(), len(m.early) > 0 && now.Mono >= m.gapAt, now.Mono >= m.poll:
		c.Kind, c.After, c.Drained, c.Max = ReadCall, m.after, m.drained, m.sizes.Read
		m.poll, m.more, m.checks = now.Mono+pollEvery, false, m.dry && m.logged()
		m.check = m.check && !m.checks
	default:
		return false
	}
	return true
}

// logged reports whether the log has all entries of the stream that the machine knows.
func (m *Machine) logged() bool { return len(m.grabs) == 0 && len(m.early) == 0 }

// Done applies the reply to the call under way.
func (m *Machine) Done(now clock.Now, r Reply) {
	c, stale := m.under, m.stale
	m.under, m.stale = nil, false
	switch {
	case stale: // of a rebuild, or a list, that was given up meanwhile
		return
	case r.Err == nil && m.stage == on:
		m.trouble, m.pause = nil, 0
	case r.Err == nil: // the next step may fail as it did before
	case c.Kind == ReadCall && !errors.Is(r.Err, ErrFill):
		m.trouble, m.more = r.Err, true // it may be read again
		m.hold(now)
		return
	default:
		// Whether it was done is not known, or it cannot be any more.
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
		m.stage, m.poll, m.next = on, now.Mono+pollEvery, 1
		m.trouble, m.pause = nil, 0
		m.moved = now.Mono
		m.fills++
	case TakeCall:
		m.took(now, r.Units)
	case AddCall:
		if firstOf(&m.puts[0], int64(m.sizes.Move)); len(m.puts[0]) == 0 {
			m.puts = m.puts[1:]
		}
		m.empty, m.moved, m.dry, m.check = false, now.Mono, false, false
	}
}

// took takes in units that a call has taken.
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
	m.moved, m.dry, m.check = now.Mono, false, false
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
	m.gone, m.check = m.checks && len(entries) == 0, m.check || m.checks && len(entries) > 0
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
	if grabs, in := m.early[m.next]; in {
		m.Granted(now, m.fill, m.next, grabs, 0)
	}
}
