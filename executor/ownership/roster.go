package ownership

import (
	"encoding/json"
	"slices"
	"time"

	"salectl/backends/clock"
	"salectl/backends/quorum"
)

// roster announces this process on the lock nodes, and processes their list of processes.
type roster struct {
	*process
	peers      *peers
	assignment *assignment
	entries    *quorum.Roster // kept after the session until the nodes have its end
	wake       time.Duration  // monotonic
}

// announce writes the note of this process to the lock nodes.
func (r *roster) announce(now clock.Now) (err error) {
	if r.stage != serving {
		return nil
	}
	if r.entries == nil {
		r.entries, err = quorum.NewRoster(quorum.RosterConfig{Nodes: r.cfg.Nodes, Registry: registryOf(r.uid), ID: r.cfg.ID, TTL: r.ttl})
		if err != nil {
			return err
		}
	}
	me := r.note()
	reached, counted := r.peers.reaches(now)
	me.Linked = 2*reached >= counted
	if me != r.peers.noted {
		note, err := json.Marshal(me)
		if err != nil {
			return err
		}
		r.peers.noted, r.peers.changedAt = me, now.Mono
		r.discovered(now, r.entries.Present(now, string(note)))
	}
	return nil
}

// registryOf returns the key of a run's list of processes on a lock node.
func registryOf(uid string) string { return "salectl:" + uid + ":members" }

// discovered queues the calls of the roster and processes the listed members.
func (r *roster) discovered(now clock.Now, e quorum.Effects) {
	r.out.Roster = append(r.out.Roster, e.Calls...)
	for _, c := range e.Calls {
		r.nodes.Called(now, c.Node)
	}
	r.wake = e.Wake
	if r.stage == serving {
		r.view(now)
	}
}

// discover reads the list of processes if an unknown peer has made a link to this process.
func (r *roster) discover(now clock.Now, from string) {
	if r.stage == serving && r.entries != nil && r.peers.all[from] == nil {
		r.discovered(now, r.entries.Refresh(now))
	}
}

// view processes the members that the lock nodes list.
func (r *roster) view(now clock.Now) {
	listed, sure := r.entries.Members(now)
	if !sure {
		return
	}
	if r.peers.discoveredAt == 0 {
		r.peers.discoveredAt = now.Mono
	}
	for _, p := range r.peers.all {
		p.listed = false
	}
	members := []Process{r.note()} // even if the nodes have just dropped it
	for _, l := range listed {
		if l.ID == r.cfg.ID {
			continue
		}
		m := Process{ID: l.ID}
		if json.Unmarshal([]byte(l.Note), &m) != nil {
			continue
		}
		p := r.peers.all[l.ID]
		if p == nil {
			p = &peer{since: now.Mono, owns: make(map[int]uint64), sent: make(map[int]uint64)}
			r.peers.all[m.ID] = p
			r.out.Dial = append(r.out.Dial, m)
		}
		p.Process, p.listed = m, true
		if p.reported != nil && now.Mono < p.reportedAt+reportedFor {
			p.State = *p.reported
		}
		if now.Mono < max(p.lastSeen, r.peers.discoveredAt)+GoneAfter {
			members = append(members, p.Process)
		}
	}
	for _, id := range r.peers.ids() {
		p := r.peers.all[id]
		if !p.listed && !(p.up && now.Mono < p.lastSeen+silentAfter) {
			r.peers.forgetOwned(id)
			delete(r.peers.all, id)
			r.hangUp(id)
		}
	}
	r.assignment.set(r.uid, len(r.peers.holder), members)
}

// hangUp ends the link to a peer, or the attempt to make one.
func (r *roster) hangUp(id string) {
	r.out.Dial = slices.DeleteFunc(r.out.Dial, func(m Process) bool { return m.ID == id })
	r.out.Hang = append(r.out.Hang, id)
}

// setState computes the assignment by a new state of a member.
func (r *roster) setState(id, state string) {
	members := slices.Clone(r.assignment.members)
	for i := range members {
		if members[i].ID == id {
			members[i].State = state
		}
	}
	r.assignment.set(r.uid, len(r.peers.holder), members)
}

// present announces the current state of this process.
func (r *roster) present(now clock.Now) {
	r.setState(r.cfg.ID, r.note().State)
	_ = r.announce(now) // without error: the roster exists
}
