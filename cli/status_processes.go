package cli

import (
	"fmt"
	"slices"
	"strings"

	"salectl/api"
	"salectl/spec"
)

// processesText says which processes share the sale, where there are several or something
// is to be said of the one.
func (p *program) processesText(s *saleStatus, c palette) {
	if len(s.Processes) < 2 {
		return
	}
	table := newTable("process", "version", "state", ">shards", ">assigned", ">requests/s", ">passed on", "")
	for _, m := range s.Processes {
		owns, state, notes := "?", m.State, []string(nil)
		if m.Shards != nil {
			owns = fmt.Sprint(*m.Shards)
		}
		if m.Here {
			notes = append(notes, "tells this")
		}
		if !m.Up { // what it last wrote of itself may be from before its death
			state = "not reached"
			notes = append(notes, "the process that tells this does not reach it")
		}
		version := m.Version
		if version == "" {
			version = "-"
		}
		table.row(m.Address, version, state, owns, m.Assigned, rate(m.Requests), passedOn(m), strings.Join(notes, ", "))
	}
	table.write(p.out, "  ", c.dim)
	for _, m := range s.Moves {
		fmt.Fprintf(p.out, "  %s\n", moveText(m, s.Processes))
	}
	fmt.Fprintln(p.out)
}

// unreached says which shards of an open sale no process owns that is reached by the one that tells; "":
// there are none. A shard on its way from one process to another is the first one's until it is the other's.
func (s *saleStatus) unreached() string {
	if len(s.Processes) < 2 {
		return "" // nobody tells, or there is nobody to reach
	}
	switch nobodys := s.unowned(); len(nobodys) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("shard %d has no owner that is reached", nobodys[0])
	default:
		return fmt.Sprintf("shards %s have no owner that is reached", spec.Numbers(nobodys))
	}
}

// reached is where the processes answer that the one reaches which tells of them, itself among
// them.
func (s *saleStatus) reached() (addresses []string) {
	for _, m := range s.Processes {
		if m.Up {
			addresses = append(addresses, m.Address)
		}
	}
	return addresses
}

// untold says what the process that was asked does not tell.
func (s *saleStatus) untold() string {
	what := "how it goes"
	if len(s.Processes) > 1 {
		what = "how the whole sale stands"
	}
	return fmt.Sprintf("does not tell %s: %s", what, s.Server.Error)
}

// unowned is the shards of an open sale that no process owns that is reached.
func (s *saleStatus) unowned() (shards []int) {
	if !s.open() {
		return nil
	}
	reached, owned := s.reached(), make(map[int]bool)
	for _, o := range s.Ownership {
		owned[o.Shard] = slices.Contains(reached, o.Owner)
	}
	for _, shard := range s.Shards {
		if !owned[shard.Shard] {
			shards = append(shards, shard.Shard)
		}
	}
	return shards
}

// rate is how often something happens a second; "?" if that is not known.
func rate(perSecond *float64) string {
	switch {
	case perSecond == nil:
		return "?"
	case *perSecond < 10:
		return fmt.Sprintf("%.1f", *perSecond)
	}
	return grouped(int64(*perSecond + 0.5))
}

// passedOn is the share of its requests that a process passes on to others.
func passedOn(m api.Process) string {
	switch {
	case m.Requests == nil || m.Forwarded == nil:
		return "?"
	case *m.Requests == 0:
		return "-"
	}
	return fmt.Sprintf("%.0f%%", min(100*(*m.Forwarded) / *m.Requests, 100))
}

// moveText says of a shard where it is to go and how far that is.
func moveText(m api.Move, all []api.Process) string {
	from, here := m.From, ""
	if from == "" {
		from = "nobody that is reached"
	}
	for _, p := range all {
		if p.Here {
			here = p.Address
		}
	}
	stage := map[string]string{
		api.MoveDue: "not begun, as far as " + here + " knows", api.MoveFollows: "it reads the log",
		api.MoveTakes: "it waits for the lease", api.MoveGives: "the lease is about to be freed",
	}[m.Stage]
	return fmt.Sprintf("shard %d is to go from %s to %s: %s", m.Shard, from, m.To, stage)
}

// load is how busy a shard is, as a cell of a table.
func (s *saleStatus) load(shard int) (cell string, busy bool) {
	for _, o := range s.Ownership {
		if o.Shard == shard {
			return rate(o.Load), o.Busy
		}
	}
	return "?", false
}
