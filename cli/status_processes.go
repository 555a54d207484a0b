package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"salectl/api"
	"salectl/cli/terminal"
	"salectl/spec"
)

func (p *program) processesCommand() *urfave.Command {
	return &urfave.Command{
		Name: "processes", Category: groupInspect, Usage: "list the processes that share sales",
		Description: "Queries a process of each sale for all of them. A process is named by its address for claims in logs, " +
			"metrics, leases and other commands; its id is that of one start. The address for operators is as the process " +
			"sees it.",
		Flags: append(salesFlags(valueFlag("timeout", fmt.Sprintf("time out after `DURATION` (default: %s)", defaultWait))),
			append(operatorFlags(), jsonFlag())...),
		Action: action(func(f *flags) statusOptions {
			o := statusOptions{source: parseSource(f), secrets: f.secrets(), admin: f.server("admin"), processes: true}
			o.timeout = cmp.Or(o.timeout, defaultWait)
			return o
		}, p.status),
	}
}

// saleProcesses is the output of processes with --json.
type saleProcesses struct {
	Sale      string        `json:"sale"`
	ReadAt    string        `json:"readAt"`
	Processes []api.Process `json:"processes"` // null: unknown
	Moves     []api.Move    `json:"moves,omitempty"`
}

// processesOnly prints the processes that share the sale, with all their addresses.
func (p *program) processesOnly(s *saleStatus) {
	c := p.colours(p.out)
	fmt.Fprintf(p.out, "%s: %s\n", c.Bold(s.Sale), served(s))
	if len(s.Processes) == 0 {
		return
	}
	table := terminal.NewTable("process", "operators", "id", "version", "state", ">shards")
	for _, m := range s.Processes {
		row := processOf(m)
		table.Row(m.Address, orDash(m.Admin), m.ID, orDash(m.Version), row.state, row.owns)
	}
	table.Write(p.out, "  ", c.Dim)
}

// processRow has the columns of a process whose values depend on whether it is reached.
type processRow struct{ owns, state string }

func processOf(m api.Process) processRow {
	row := processRow{"?", m.State}
	if m.Shards != nil {
		row.owns = grouped(*m.Shards)
	}
	if !m.Up { // its last note may be from before its death
		row.state = "not reached"
	}
	return row
}

// processesText prints the processes that share the sale, if there are several.
func (p *program) processesText(s *saleStatus, c terminal.Palette) {
	if len(s.Processes) < 2 {
		return
	}
	table := terminal.NewTable("process", "version", "state", ">shards", ">assigned", ">requests/s", ">forwarded", "")
	for _, m := range s.Processes {
		row, notes := processOf(m), []string(nil)
		if m.Self {
			notes = append(notes, "reports this")
		}
		if !m.Up {
			notes = append(notes, "the reporting process does not reach it")
		}
		table.Row(m.Address, orDash(m.Version), row.state, row.owns, grouped(m.Assigned), rate(m.Requests), passedOn(m), strings.Join(notes, ", "))
	}
	table.Write(p.out, "  ", c.Dim)
	for _, m := range s.Moves {
		fmt.Fprintf(p.out, "  %s\n", moveText(m, s.Processes))
	}
	fmt.Fprintln(p.out)
}

// unreached lists the shards of an open sale without an owner reached by the reporting
// process; "" if there are none. A moving shard belongs to its old owner until the new one has
// it.
func (s *saleStatus) unreached() string {
	if len(s.Processes) < 2 {
		return "" // unknown, or no other process
	}
	switch nobodys := s.unowned(); len(nobodys) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("shard %d has no reachable owner", nobodys[0])
	default:
		return fmt.Sprintf("shards %s have no reachable owner", spec.Numbers(nobodys))
	}
}

// reached returns the addresses of the processes that the reporting process reaches, including
// its own.
func (s *saleStatus) reached() (addresses []string) {
	for _, m := range s.Processes {
		if m.Up {
			addresses = append(addresses, m.Address)
		}
	}
	return addresses
}

// unreported describes what the queried process does not report.
func (s *saleStatus) unreported() string {
	what := "the state of the sale"
	if len(s.Processes) > 1 {
		what = "the state of the whole sale"
	}
	return fmt.Sprintf("does not report %s: %s", what, s.Server.Error)
}

// unowned returns the shards of an open sale without a reached owner.
func (s *saleStatus) unowned() (shards []int) {
	if !s.open() {
		return nil
	}
	reached := s.reached()
	for _, shard := range s.Shards {
		if shard.Server == nil || !slices.Contains(reached, shard.Server.Owner) {
			shards = append(shards, shard.Shard)
		}
	}
	return shards
}

// rate formats a rate per second; "?" if it is unknown.
func rate(perSecond *float64) string {
	switch {
	case perSecond == nil:
		return "?"
	case *perSecond < 10:
		return fmt.Sprintf("%.1f", *perSecond)
	}
	return grouped(int64(*perSecond + 0.5))
}

// passedOn formats the share of requests that a process forwards to others.
func passedOn(m api.Process) string {
	switch {
	case m.Requests == nil || m.Forwarded == nil:
		return "?"
	case *m.Requests == 0:
		return "-"
	}
	return fmt.Sprintf("%.0f%%", min(100*(*m.Forwarded) / *m.Requests, 100))
}

// moveText describes the destination and the progress of a moving shard.
func moveText(m api.Move, all []api.Process) string {
	from, here := m.From, ""
	if from == "" {
		from = "no reachable owner"
	}
	for _, p := range all {
		if p.Self {
			here = p.Address
		}
	}
	stage := map[string]string{
		api.MoveDue: "not started, according to " + here, api.MoveFollows: "the new owner reads the log",
		api.MoveTakes: "the new owner waits for the lease", api.MoveGives: "the old owner releases the lease",
	}[m.Stage]
	return fmt.Sprintf("shard %d moves from %s to %s: %s", m.Shard, from, m.To, stage)
}
