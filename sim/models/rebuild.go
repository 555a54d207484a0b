package models

import (
	"fmt"

	"salectl/sim/models/explore"
)

// The list of one shard on one Redis node: users take units off it, drainers append
// what they took to the shard's log, and after a restart of the node, with all data,
// from its last sync or empty, the list is rebuilt by one or two processes.

const (
	listUsers = 3
	listUnits = 2
)

// listNode is what the node has. Who took what is by user, a unit + 1.
type listNode struct {
	fill   uint8 // the marker: the fill of the list; 0: off
	run    uint8 // and in which run of the server
	token  uint8 // the fill of the last rebuild that took the token
	units  uint8 // a set
	taken  [listUsers]uint8
	stream [listUsers]uint8
	under  [listUsers]uint8 // the fill of what is in the stream
}

// drainer carries one grab from the stream to the log. The reply of a grab, which also carries it, is a read
// of the stream at the moment of the grab.
type drainer struct {
	stage            drainStage
	user, unit, fill uint8
	slot             uint8
}

type drainStage uint8

const (
	resting drainStage = iota
	holding            // a grab that it has read
	adding             // its append is under way
	added
)

// rebuilder is a process that fills the list anew.
type rebuilder struct {
	stage               rebuildStage
	run, fill           uint8
	readStream, readLog bool
	owners              [listUnits]uint8 // as the log had them
}

type rebuildStage uint8

const (
	rebuildNone rebuildStage = iota
	rebuildToken
	rebuildRead
	rebuildWrite
)

type listState struct {
	node, disk listNode
	run        uint8            // of the server
	owners     [listUnits]uint8 // by the log: a user + 1
	fill       uint8            // by the log: how many Rebuilds it has, + 1
	slots      uint8
	drainers   [2]drainer
	rebuilders [2]rebuilder
	rebuilds   uint8
	restarts   uint8
	killed     bool
	answered   [listUsers]uint8
	robbed     bool // a user received a unit that the log had granted to another
	changed    bool // a user received two units
}

// listRules is what can be left out, and how large the world is.
type listRules struct {
	anyRun      bool // a marker holds in any run of the server
	noRebuildOp bool // a rebuild leaves the log alone
	noToken     bool // and takes no token on the node
	streamLeft  bool // and leaves what the stream has to the drainers
	logFirst    bool // and folds the log before it reads the stream

	ackLedger            bool // a user receives the unit in the log, else that of the node
	loses                bool // the node may come back without all that it had
	drainers, rebuilders int
	robbedOnly           bool // with ack redis and a node that loses, no more than this is promised
}

func (w listRules) model() explore.Model[listState] {
	s := listState{node: listNode{fill: 1, units: 1<<listUnits - 1}, fill: 1}
	s.disk = s.node
	return explore.Model[listState]{Init: s, Next: w.next, Wrong: w.wrong, Goal: w.goal}
}

// valid reports whether the list's marker is believed.
func (w listRules) valid(n listNode, run uint8) bool {
	return n.fill != 0 && (w.anyRun || n.run == run)
}

func (s *listState) answer(user int, unit uint8) {
	s.changed = s.changed || s.answered[user] != 0 && s.answered[user] != unit+1
	s.robbed = s.robbed || s.owners[unit] != 0 && s.owners[unit] != uint8(user)+1
	s.answered[user] = unit + 1
}

// free reports whether the log could grant a unit to a user.
func (s *listState) free(user, unit uint8) bool {
	for _, owner := range s.owners {
		if owner == user+1 {
			return false
		}
	}
	return s.owners[unit] == 0
}

func (w listRules) wrong(s listState) string {
	switch {
	case s.robbed:
		return "a user received a unit that the log had granted to another"
	case w.robbedOnly:
		return ""
	case s.changed:
		return "a user received two units"
	}
	for u, unit := range s.answered {
		if unit == 0 {
			continue
		}
		for v := range u {
			if s.answered[v] == unit {
				return "two users received one unit"
			}
		}
		if owner := s.owners[unit-1]; owner != uint8(u)+1 && (owner != 0 || w.ackLedger) {
			return fmt.Sprintf("a user received a unit that the log grants to %s", map[bool]string{true: "nobody", false: "another"}[owner == 0])
		}
	}
	return ""
}

// goal: all units are in the log as given. Rebuilds that have been used up end what
// the model is about.
func (w listRules) goal(s listState) bool {
	for _, owner := range s.owners {
		if owner == 0 {
			return s.rebuilds == listRebuilds
		}
	}
	return true
}

const (
	listRebuilds = 3
	listRestarts = 2
)

func rebuildModel() Model {
	const robbed = "a user received a unit that the log had granted to another"
	const double = "two users received one unit"
	return Model{
		Name:  "rebuild",
		About: "a list on a Redis that restarts with all data, from its last sync, or empty; drainers and rebuilders that may be killed",
		Rules: []Rule{
			{Name: "run-in-marker", Marked: true,
				Text:    "In all these cases the server's run differs from the marker's, or there is no marker, and the script gives nothing.",
				Without: "A server restarted from its last sync still has the unit that it granted last, and grants it again."},
			{Name: "rebuild-in-log", Marked: true,
				Text:    "**Append `Rebuild` to the shard's log.** It counts the fills. From then on the reducer takes grabs of the new fill only.",
				Without: "An earlier drainer appends a grab that the list has lost, and the new list grants its unit again."},
			{Name: "rebuild-token", Marked: true,
				Text:    "**Take the token of the fill on the node**, in a script: only if the server is still in the run read at the beginning, and nobody has taken this token or a later one.",
				Without: "The later of two rebuilders writes what it read before users took units off the earlier one's list."},
			{Name: "stream-into-log", Marked: true,
				Text:    "**Read the surviving stream and append its grabs under the new fill.** Users may have been answered.",
				Without: "The reducer drops the stream's grabs of the earlier fill: the new list grants a unit that a user has received already."},
			{Name: "stream-before-fold", Marked: true,
				Text:    "Folding the log first would put units into the list that the stream has given.",
				Without: "A grab enters the log after the fold and before the stream is read: the rebuilder sees it in neither, and its unit is given again."},
		},
		Cases: []Case{
			{Name: "ack redis, no loss, two rebuilders", Large: true, Run: bound(listRules{drainers: 1, rebuilders: 2}.model())},
			{Name: "ack redis, no loss, two drainers", Run: bound(listRules{drainers: 2, rebuilders: 1}.model())},
			{Name: "ack ledger, a node that loses", Large: true, Run: bound(listRules{ackLedger: true, loses: true, drainers: 1, rebuilders: 1}.model())},
			{Name: "ack redis, a node that loses: nobody is robbed", Large: true,
				Run: bound(listRules{loses: true, robbedOnly: true, drainers: 1, rebuilders: 1}.model())},
			{Name: "a marker of any run", Off: "run-in-marker", Finds: robbed,
				Run: bound(listRules{anyRun: true, loses: true, robbedOnly: true, drainers: 1, rebuilders: 1}.model())},
			{Name: "no Rebuild in the log", Off: "rebuild-in-log", Finds: robbed,
				Run: bound(listRules{noRebuildOp: true, noToken: true, loses: true, robbedOnly: true, drainers: 1, rebuilders: 1}.model())},
			{Name: "no token", Off: "rebuild-token", Finds: double,
				Run: bound(listRules{noToken: true, drainers: 1, rebuilders: 2}.model())},
			{Name: "the stream is left to the drainers", Off: "stream-into-log", Finds: double,
				Run: bound(listRules{streamLeft: true, drainers: 1, rebuilders: 1}.model())},
			{Name: "the log is folded first", Off: "stream-before-fold", Finds: robbed,
				Run: bound(listRules{logFirst: true, drainers: 1, rebuilders: 1}.model())},
		},
	}
}
