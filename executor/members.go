package executor

import (
	"salectl/api"
	"salectl/backends/clock"
)

// memberStatus is who there is, as far as is known.
func (o *owner) memberStatus(now clock.Now) (all []MemberStatus) {
	owns, should := make(map[string]int), make(map[string]int)
	for i := range o.shares.all {
		should[o.shares.desired[i]]++
		if o.shares.all[i].stage == owned {
			owns[o.me]++
		} else if id := o.ownerOf(now, i); id != "" {
			owns[id]++
		}
	}
	for _, m := range o.members {
		s := MemberStatus{
			ID: m.ID, Address: m.Address, Version: m.Version, State: m.State, Here: m.ID == o.me,
			Shards: owns[m.ID], Assigned: should[m.ID],
		}
		if s.Here {
			s.Up, s.Traffic = true, o.traffic
		} else if p := o.peers.all[m.ID]; p != nil && o.isUp(now, m.ID) {
			s.Up, s.Traffic = true, p.traffic
		}
		all = append(all, s)
	}
	return all
}

// held is, by shard, whether a process that can be reached owns it, as far as is known.
func (o *owner) held(now clock.Now) []bool {
	all := make([]bool, len(o.shares.all))
	for i := range all {
		all[i] = o.shares.all[i].stage == owned || o.ownerOf(now, i) != ""
	}
	return all
}

// moving is which shards are not where they should be, as far as whoever should own them is
// there: what a process that cannot be reached owned goes to its fallback.
func (o *owner) moving(now clock.Now) (all []MoveStatus) {
	for i := range o.shares.all {
		s := &o.shares.all[i]
		holder, to := o.ownerOf(now, i), o.shares.desired[i]
		m := MoveStatus{Shard: i, Stage: api.MoveDue}
		switch s.stage {
		case owned, stopping:
			holder = o.me
			if s.stage == stopping && s.to != "" {
				to, m.Stage = s.to, api.MoveGives
			}
		case warming:
			m.Stage = api.MoveFollows
		case trying, taking:
			m.Stage = api.MoveTakes
		}
		switch {
		case holder != "":
		case o.isolatedSince != 0: // those who are not reached see to it
			continue
		case o.shares.fallbacks != nil:
			to = o.shares.fallbacks[i]
		}
		if to == holder || to != o.me && !o.isUp(now, to) {
			continue
		}
		m.From, m.To = o.addressOf(holder), o.addressOf(to)
		all = append(all, m)
	}
	return all
}

// addressOf is where a member answers.
func (o *owner) addressOf(id string) string {
	for _, m := range o.members {
		if m.ID == id {
			return m.Address
		}
	}
	return ""
}
