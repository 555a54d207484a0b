package ownership

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/quorum"
	"salectl/executor/shard"
)

// peers are the other processes of the sale, by id. The lock nodes list them. A peer itself
// reports which shards it owns, and counts as reachable as long as it reports anything.
type peers struct {
	all           map[string]*peer
	members       []Process     // by the last complete view of the lock nodes, with this process
	assigned      bool          // desired has been computed from members
	metAt         time.Duration // monotonic: when members were first known; 0: they are not
	holder        []string      // by shard: the peer that says it owns it
	noted         Process       // the note of this process on the lock nodes
	isolatedSince time.Duration // monotonic: since when this process is isolated; 0: it is not

	totals      *shard.SaleTotals
	warm        func(i int) bool // whether the machine of a shard has read its log to the end
	changedAt   time.Duration    // monotonic: when what this process owns changed; 0: peers know
	broadcastAt time.Duration    // monotonic: when peers were last sent an update
	allAt       time.Duration    // monotonic: when the next update has all reports
	wake        time.Duration
	moves       uint64 // shards given to peers, in all
	pins        []pin  // shards that an operator has moved here

	traffic    *Traffic // of this process; nil: it is not known
	collection collection
}

// peer is another process of the sale.
type peer struct {
	Process
	note         string        // as the lock nodes have it
	noted        Process       // what that says, decoded
	listed       bool          // the lock nodes have it
	since        time.Duration // monotonic: when they first had it
	up           bool          // there is a link to it
	dialed       bool          // or one is being made
	heard        time.Duration // monotonic: when something last came from it
	reached      time.Duration // monotonic: the same, while there was a link to it
	reported     *string       // its state by its own updates
	reportedAt   time.Duration
	reportedPins []pin
	owns         map[int]uint64 // epoch by shard
	traffic      *Traffic       // nil: it is not known
	sent         map[int]uint64 // by shard: the slot of the last report that it was sent
}

// A peer is sent an update every beatEvery, all reports every allEvery, and news within updateEvery.
// It counts as away when it has been silent for silentAfter, so that the shards of a process that
// has died are served again about a ttl and a second later, when its leases have expired, too. What
// a peer reports of its own state overrides its note on the lock nodes for reportedFor.
const (
	beatEvery   = 250 * time.Millisecond
	allEvery    = time.Second
	UpdateEvery = 20 * time.Millisecond
	silentAfter = 900 * time.Millisecond
	reportedFor = 2 * time.Second

	// GoneAfter is the silence after which a peer that the lock nodes still list is assigned nothing:
	// it has died, or it cannot be reached at the address in its note. A process that starts waits
	// as long for the peers that it discovers.
	GoneAfter = 5 * time.Second

	// unreachedAfter is the silence after which a listed peer counts as not reached. Lock nodes with
	// the default ttl have dropped a dead process by then, and notes change before GoneAfter.
	unreachedAfter = 4 * time.Second
)

// ids returns the ids of all peers, in order.
func (f *peers) ids() []string { return slices.Sorted(maps.Keys(f.all)) }

func newPeers() peers { return peers{all: make(map[string]*peer)} }

// announce writes the note of this process to the lock nodes.
func (o *Machine) announce(now clock.Now) (err error) {
	if o.stage != serving {
		return nil
	}
	if o.roster == nil {
		o.roster, err = quorum.NewRoster(quorum.RosterConfig{Nodes: o.cfg.Nodes, Room: roomOf(o.uid), ID: o.me, TTL: o.ttl})
		if err != nil {
			return err
		}
	}
	if o.peers.holder == nil {
		o.peers.holder = make([]string, len(o.shares.all))
	}
	me := o.myself()
	reached, counted := o.reaches(now)
	me.Linked = 2*reached >= counted
	if !me.same(o.noted) {
		note, err := json.Marshal(me)
		if err != nil {
			return err
		}
		me.Pins = slices.Clone(me.Pins)
		o.noted, o.changedAt = me, now.Mono
		o.discovered(now, o.roster.Present(now, string(note)))
	}
	return nil
}

// roomOf is the key of a run's members on a lock node.
func roomOf(uid string) string { return "salectl:" + uid + ":members" }

// myself returns the note of this process.
func (o *Machine) myself() Process {
	m := Process{ID: o.me, Address: o.cfg.Address, Version: o.cfg.Version, Pins: o.pins}
	switch {
	case o.ending, o.draining:
		m.State = api.ProcessDraining
	case o.standby:
		m.State = api.ProcessStandby
	case o.clockOff != 0:
		m.State = api.ProcessUnable
	}
	return m
}

// reaches returns how many processes this one reaches, itself included, and how many count: those, and
// the listed ones that it has not reached for unreachedAfter. One that has been silent for less may
// have died. The processes that were listed when this one started count at once. A link alone does
// not count: a link to the record of a dead process, at whose address another one runs, is made and
// refused again and again.
func (o *Machine) reaches(now clock.Now) (reached, counted int) {
	counted, reached = 1, 1
	for _, p := range o.peers.all {
		switch {
		case !p.listed:
		case p.up && p.reached != 0 && now.Mono < p.reached+silentAfter:
			counted++
			reached++
		case p.reached == 0 && p.since == o.metAt, now.Mono >= max(p.reached, p.since)+unreachedAfter:
			counted++
		}
	}
	return reached, counted
}

// isolated reports whether this process reaches fewer than half of the listed processes, while a peer
// that it has not reached for GoneAfter reaches half or more. It may be listed under a wrong address,
// or be unable to make links. Clients would reach its shards through this process alone, so it takes
// no others, and releases those it owns after a ttl. A dead peer is not listed for so long. Of two
// processes that do not reach each other each reaches half, and neither is isolated.
func (o *Machine) isolated(now clock.Now) bool {
	if o.noted.Linked {
		return false
	}
	for _, p := range o.peers.all {
		if p.listed && p.State == "" && p.Linked && (p.reached == 0 || now.Mono >= p.reached+GoneAfter) {
			return true
		}
	}
	return false
}

// isolatedTooLong notes since when this process is isolated, and reports whether it has been for a
// ttl, so that it releases its shards.
func (o *Machine) isolatedTooLong(now clock.Now) bool {
	switch {
	case !o.isolated(now):
		o.isolatedSince = 0
	case o.isolatedSince == 0:
		o.isolatedSince = now.Mono
	}
	return o.isolatedSince != 0 && now.Mono >= o.isolatedSince+o.ttl
}

// discovered carries out the calls of the roster, and takes in the members that it has found.
func (o *Machine) discovered(now clock.Now, e quorum.Effects) {
	o.out.Roster = append(o.out.Roster, e.Calls...)
	for _, c := range e.Calls {
		o.watch.Called(now, c.Node)
	}
	o.rosterWake = e.Wake
	if o.stage == serving {
		o.view(now)
	}
}

// discover reads the list of members if a link to this process was made by a peer that it does not
// know.
func (o *Machine) Discover(now clock.Now, from string) {
	if o.stage == serving && o.roster != nil && o.peers.all[from] == nil {
		o.discovered(now, o.roster.Look(now))
	}
}

// view takes in the members that the lock nodes list.
func (o *Machine) view(now clock.Now) {
	listed, sure := o.roster.Members(now)
	if !sure {
		return
	}
	if o.metAt == 0 {
		o.metAt = now.Mono
	}
	for _, p := range o.peers.all {
		p.listed = false
	}
	members := []Process{o.myself()} // also where the nodes have just forgotten it
	for _, l := range listed {
		if l.ID == o.me {
			continue
		}
		p := o.peers.all[l.ID]
		m := Process{ID: l.ID}
		switch {
		case p != nil && p.note == l.Note:
			m = p.noted
		case json.Unmarshal([]byte(l.Note), &m) != nil:
			continue
		}
		if p == nil {
			p = &peer{since: now.Mono, owns: make(map[int]uint64), sent: make(map[int]uint64)}
			o.peers.all[m.ID] = p
		}
		p.Process, p.listed, p.noted, p.note = m, true, m, l.Note
		if p.reported != nil && now.Mono < p.reportedAt+reportedFor {
			p.State, p.Pins = *p.reported, p.reportedPins
		}
		if !p.dialed {
			p.dialed = true
			o.out.Dial = append(o.out.Dial, m)
		}
		if now.Mono < max(p.heard, o.metAt)+GoneAfter {
			members = append(members, p.Process)
		}
	}
	for _, id := range o.peers.ids() {
		p := o.peers.all[id]
		if !p.listed && !(p.up && now.Mono < p.heard+silentAfter) {
			o.forgetOwned(id)
			delete(o.peers.all, id)
			o.hangUp(id)
		}
	}
	o.assign(members)
}

// hangUp ends the link to a peer, or the attempt to make one.
func (o *Machine) hangUp(id string) {
	o.out.Dial = slices.DeleteFunc(o.out.Dial, func(m Process) bool { return m.ID == id })
	o.out.Hang = append(o.out.Hang, id)
}

// assign computes which member should own which shard.
func (o *Machine) assign(members []Process) {
	slices.SortFunc(members, func(a, b Process) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	if o.assigned && slices.EqualFunc(members, o.members, sameRole) {
		return
	}
	o.members, o.assigned = members, true
	o.outdated(members)
	o.shares.desired = assign(o.uid, len(o.shares.all), members)
}

// sameRole reports whether two members are assigned the same.
func sameRole(a, b Process) bool {
	return a.ID == b.ID && a.State == b.State && a.Version == b.Version && slices.Equal(a.Pins, b.Pins)
}

// linked takes in that the link to a peer was made (up) or cut.
func (o *Machine) Linked(now clock.Now, id string, up bool) {
	p := o.peers.all[id]
	if p == nil {
		return
	}
	if p.up = up; up {
		p.heard = now.Mono
		clear(p.sent)
		o.changedAt = now.Mono
		return
	}
	o.forgetOwned(id)
}

// forgetOwned forgets which shards a peer owns.
func (o *Machine) forgetOwned(id string) {
	for i := range o.holder {
		if o.holder[i] == id {
			o.holder[i] = ""
		}
	}
	clear(o.peers.all[id].owns)
}

// isUp reports whether there is a link to a peer, and the peer has sent something within
// silentAfter.
func (o *Machine) isUp(now clock.Now, id string) bool {
	p := o.peers.all[id]
	return p != nil && p.up && now.Mono < p.heard+silentAfter
}

// ownerOf returns the reachable peer that reports to own a shard, "" if there is none.
func (o *Machine) ownerOf(now clock.Now, i int) string {
	if id := o.holder[i]; id != "" && o.isUp(now, id) {
		return id
	}
	return ""
}

// Route returns the peer that reports to own a shard. Where there is none, owner is "", and lost
// reports whether the last owner has lost the shard: it may still own it while the lock nodes are
// silent, or for a ttl.
func (o *Machine) Route(now clock.Now, i int) (r shard.Route, lost bool) {
	id := o.holder[i]
	if id == "" {
		return r, !o.silent && o.shares.all[i].free(now, o.ttl)
	}
	p := o.peers.all[id]
	return shard.Route{Owner: id, Address: p.Address, Epoch: p.owns[i]}, false
}

// Reach is which processes of the sale this process reaches.
type Reach struct {
	Peers    []PeerReach
	Isolated bool // see isolated
	Reached  int  // processes, with this one
	Counted  int  // processes that should be reached, with this one
	TTL      time.Duration
}

// PeerReach is one of the peers of Reach.
type PeerReach struct {
	ID, Address string
	Up          bool
	Since       time.Duration // monotonic: when a listed peer was last reached, or could first have been; 0: it is not listed
}

// Reach returns which processes this one reaches.
func (o *Machine) Reach(now clock.Now) (r Reach) {
	for _, id := range o.peers.ids() {
		p := o.peers.all[id]
		one := PeerReach{ID: id, Address: p.Address, Up: o.isUp(now, id)}
		if p.listed {
			one.Since = max(p.reached, o.metAt)
		}
		r.Peers = append(r.Peers, one)
	}
	r.Isolated, r.TTL = o.isolated(now), o.ttl
	r.Reached, r.Counted = o.reaches(now)
	return r
}

// NextUpdate returns when peers may next be sent an update, by the monotonic clock; 0: there are none.
func (o *Machine) NextUpdate() time.Duration {
	if o.stage != serving || len(o.peers.all) == 0 {
		return 0
	}
	return o.broadcastAt + UpdateEvery
}

// send sends an update to a peer.
func (o *Machine) send(to string, u *PeerUpdate) {
	u.Run = o.uid
	o.out.Updates = append(o.out.Updates, Outgoing{to, u})
}

// receive takes in an update of a peer, unless it is about another run of the sale: that run has
// other units and logs under the same shard numbers.
func (o *Machine) Receive(now clock.Now, from string, t *PeerUpdate) {
	p := o.peers.all[from]
	if p == nil || o.stage != serving || t.Run != o.uid {
		return
	}
	p.heard = now.Mono
	if p.up {
		p.reached = now.Mono
	}
	if t.Traffic != nil {
		p.traffic = t.Traffic
	}
	if t.State != nil && (*t.State != p.State || !slices.Equal(t.Pins, p.Pins)) {
		p.reported, p.reportedAt, p.State, p.Pins = t.State, now.Mono, *t.State, t.Pins
		p.reportedPins = t.Pins
		members := slices.Clone(o.members)
		for i := range members {
			if members[i].ID == from {
				members[i].State, members[i].Pins = *t.State, t.Pins
			}
		}
		o.assign(members)
	}
	if t.Owns != nil {
		o.forgetOwned(from)
		for n, i := range t.Owns.Shards {
			if i < 0 || i >= len(o.holder) || n >= len(t.Owns.Epochs) {
				continue
			}
			p.owns[i] = t.Owns.Epochs[n]
			if other := o.peers.all[o.holder[i]]; other == nil || other.owns[i] <= p.owns[i] {
				o.holder[i] = from
			}
		}
	}
	for _, r := range t.Reports {
		if r.Shard >= 0 && r.Shard < len(o.holder) {
			o.totals.Receive(r)
		}
	}
	for _, w := range t.Wants {
		o.want(now, from, w)
	}
	for _, i := range t.Agrees {
		o.agreed(now, from, i)
	}
	for _, i := range t.Gives {
		o.given(now, from, i)
	}
	for _, m := range t.Moves {
		if m.Valid(len(o.holder)) {
			o.out.Moves = append(o.out.Moves, m)
		}
	}
	if t.Collect != 0 {
		promised := o.totals.PromiseNoReturn(now)
		o.send(from, &PeerUpdate{Collects: t.Collect, Returns: !promised, Reports: o.sureReports(now)})
	}
	if t.Collects != 0 && !t.Returns {
		o.collect(t.Collects, t.Reports)
	}
}

// broadcast sends peers what has changed, and a beat where nothing has.
func (o *Machine) broadcast(now clock.Now) {
	_ = o.announce(now) // the roster is made already, which alone may fail
	if len(o.peers.all) == 0 {
		o.peers.wake = 0
		return
	}
	news := o.changedAt != 0 || o.totals.News() && now.Mono >= o.broadcastAt+UpdateEvery
	if news || now.Mono >= o.broadcastAt+beatEvery {
		o.totals.Reported()
		state := o.myself().State
		owns := o.owns()
		all := now.Mono >= o.allAt // a peer that did not know this process yet has dropped its updates
		if all {
			o.allAt = now.Mono + allEvery
		}
		for _, id := range o.peers.ids() {
			p := o.peers.all[id]
			if all {
				clear(p.sent)
			}
			if p.up {
				o.send(id, &PeerUpdate{State: &state, Pins: o.pins, Owns: owns, Reports: o.totals.Reports(p.sent), Traffic: o.traffic})
			}
		}
		o.changedAt, o.broadcastAt = 0, now.Mono
	}
	o.proveSoldOut(now)
	o.peers.wake = o.broadcastAt + beatEvery
	if o.totals.News() {
		o.peers.wake = o.broadcastAt + UpdateEvery
	}
	for _, p := range o.peers.all {
		if silent := p.heard + silentAfter; p.up && now.Mono < silent {
			o.peers.wake = min(o.peers.wake, silent)
		}
	}
}

// sureReports is how the shards stand of which this process has the lease now: of another
// it might not have heard that somebody else owns it.
func (o *Machine) sureReports(now clock.Now) []shard.Report {
	return slices.DeleteFunc(o.totals.Reports(make(map[int]uint64)), func(r shard.Report) bool { return !o.has(now, r.Shard) })
}

// has reports whether this process owns a shard at an instant.
func (o *Machine) has(now clock.Now, i int) bool {
	return o.shares.all[i].stage == owned && o.leases.Validity(o.shares.keys[i]).At(now)
}

// owns is what this process owns.
func (o *Machine) owns() *Owns {
	owns := &Owns{}
	for _, r := range o.totals.Reports(make(map[int]uint64)) {
		if o.shares.all[r.Shard].stage == owned {
			owns.Shards = append(owns.Shards, r.Shard)
			owns.Epochs = append(owns.Epochs, r.Totals.Epoch)
		}
	}
	return owns
}

// collection is a read of all shards at one instant, for the proof that all is sold: see
// shard.SaleTotals.NeedsProof.
type collection struct {
	n     uint64
	at    time.Duration // monotonic: when peers were sent the request; 0: no collection is in progress
	began clock.Now
	slots []uint64
	same  []bool // by shard: its owner has confirmed the slot
}

// collectAgain is how long the replies of peers to a collection are waited for.
const collectAgain = 200 * time.Millisecond

// proveSoldOut requests reports of all shards from their owners, if all units seem to be sold.
func (o *Machine) proveSoldOut(now clock.Now) {
	c := &o.collection
	for i, id := range o.holder {
		if !o.has(now, i) && !o.isUp(now, id) {
			o.totals.ForgetProof() // what it owned may have changed
			c.at = 0
			return
		}
	}
	slots, unsure := o.totals.NeedsProof(now)
	switch {
	case !unsure:
		return
	case c.at != 0 && now.Mono < c.at+collectAgain:
		return
	}
	*c = collection{n: c.n + 1, at: now.Mono, began: now, slots: slots, same: make([]bool, len(slots))}
	asked := make(map[string]bool)
	for i, id := range o.holder {
		switch {
		case o.has(now, i):
			c.same[i] = true // or settle finds that it is not
		case !asked[id]:
			asked[id] = true
			o.send(id, &PeerUpdate{Collect: c.n})
		}
	}
}

// collect takes in how the shards of a peer stand, which was asked.
func (o *Machine) collect(n uint64, reports []shard.Report) {
	c := &o.collection
	if c.at == 0 || n != c.n {
		return
	}
	for _, r := range reports {
		if r.Shard >= 0 && r.Shard < len(c.slots) && r.Next == c.slots[r.Shard] {
			c.same[r.Shard] = true
		}
	}
	if !slices.Contains(c.same, false) {
		o.totals.Prove(c.slots, c.began)
		c.at = 0
	}
}
