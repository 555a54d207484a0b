package cli

import (
	"fmt"
	"strings"
	"time"

	"salectl/cli/lock"
	"salectl/cli/terminal"
)

func (p *program) lockListText(l lockList) {
	c := p.colours(p.out)
	p.gap()
	fmt.Fprintf(p.out, "%s: %s\n", c.Bold(l.sale), count(len(l.locks), "lock"))
	terminal.WriteWarnings(p.out, c, l.warnings, true)
	for _, u := range l.unnamed {
		fmt.Fprintf(p.out, "  leases of %s are there under the uid %s\n", count(u.Shards, "shard"), u.UID)
	}
	if len(l.locks) > 0 {
		fmt.Fprintln(p.out)
		locks := terminal.NewTable("lock", "holder", "nodes", ">left", ">heartbeat", "")
		for _, lock := range l.locks {
			left, state := secondsText(lock.Left), ""
			if lock.Left == 0 {
				left, state = "-", "not held: too few lock nodes have it"
			}
			beat := "-"
			if age, ok := lock.Beat(); ok {
				beat = secondsText(age) + " ago"
			}
			locks.Row(lock.ID, lock.Holder, whereText(lock.On, len(l.nodes), fmt.Sprint(len(l.nodes))), left, beat, state)
		}
		locks.Write(p.out, "  ", c.Dim)
	}
	fmt.Fprintln(p.out)
	nodes := terminal.NewTable("lock node", ">keys", "state")
	for _, n := range l.nodes {
		nodes.Row(n.Name, len(n.Holdings), lockNodeState(n))
	}
	nodes.Write(p.out, "  ", c.Dim)
}

// whereText lists the nodes that have a lock. all is their number with its noun.
func whereText(on []lock.OnNode, nodes int, all string) string {
	text := fmt.Sprintf("%d of %s", len(on), all)
	if len(on) == nodes {
		return text
	}
	names := make([]string, len(on))
	for i := range on {
		names[i] = on[i].Node
	}
	return text + ": " + strings.Join(names, ", ")
}

func lockNodeState(n lock.Node) string {
	switch {
	case n.Err != nil:
		return "down now"
	case !n.VotesFrom.IsZero():
		return "up; abstains from named locks until " + n.VotesFrom.UTC().Format(time.RFC3339)
	}
	return "up"
}

func secondsText(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// lockListLine is the JSON of lock list.
type lockListLine struct {
	Sale     string          `json:"sale"`
	UID      string          `json:"uid,omitempty"`
	Locks    []lockLine      `json:"locks"`
	Unnamed  []unnamedLeases `json:"unnamed"`
	Nodes    []lockNodeLine  `json:"nodes"`
	Warnings []string        `json:"warnings"`
}

// lockLine is one lock of one holder.
type lockLine struct {
	Name   string `json:"name"`
	Holder string `json:"holder"`
	Held   bool   `json:"held"` // a majority of the nodes has promised it
	// LeftSeconds is the time until no majority promises it.
	LeftSeconds float64 `json:"leftSeconds"`
	// HeartbeatAgeSeconds is nil if the holder does not report it.
	HeartbeatAgeSeconds *float64       `json:"heartbeatAgeSeconds"`
	Nodes               []lockLeftLine `json:"nodes"` // nodes that have promised it
}

type lockLeftLine struct {
	Name        string  `json:"name"`
	LeftSeconds float64 `json:"leftSeconds"`
}

type lockNodeLine struct {
	Name      string `json:"name"`
	Up        bool   `json:"up"`
	Error     string `json:"error,omitempty"`
	VotesFrom string `json:"votesFrom,omitempty"` // end of the node's abstention from named locks; RFC 3339, UTC
}

func (p *program) lockListJSON(l lockList) {
	line := lockListLine{
		Sale: l.sale, UID: l.uid, Locks: []lockLine{},
		Unnamed: append([]unnamedLeases{}, l.unnamed...), Warnings: append([]string{}, l.warnings...),
	}
	for _, lock := range l.locks {
		line.Locks = append(line.Locks, newLockLine(lock))
	}
	for _, n := range l.nodes {
		one := lockNodeLine{Name: n.Name, Up: n.Err == nil, VotesFrom: timeText(n.VotesFrom)}
		if n.Err != nil {
			one.Error = lock.NodeWords(n.Name, n.Err)
		}
		line.Nodes = append(line.Nodes, one)
	}
	p.emit(line)
}

func newLockLine(lock lock.HeldBy) lockLine {
	line := lockLine{Name: lock.ID.String(), Holder: lock.Holder, Held: lock.Left > 0, LeftSeconds: lock.Left.Seconds()}
	if age, ok := lock.Beat(); ok {
		seconds := age.Seconds()
		line.HeartbeatAgeSeconds = &seconds
	}
	for _, on := range lock.On {
		line.Nodes = append(line.Nodes, lockLeftLine{on.Node, on.Holding.Left.Seconds()})
	}
	return line
}
