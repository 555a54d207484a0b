package memory

import (
	"fmt"
	"slices"

	"salectl/backends/ledger"
	"salectl/backends/lists"
)

// list is one list of a node. What follows must be called with the node's
// mu held; each is one step, like the script of the same name.
type list struct {
	units   []int64
	taken   map[string]ledger.Grab
	entries []lists.Entry
	given   uint64 // entries of the present fill in all

	fill, last, token uint64 // fill: 0 while it is off; last: its last value above 0
	runID             string // of the token
	whole             string // the run when it was turned on, until its users are deleted
	opens, closes     int64  // microseconds since 1970, closes 0: never
}

// position is the position of an entry in a stream.
type position struct{ fill, number uint64 }

// upTo reports whether p is q or before it.
func (p position) upTo(q position) bool {
	return p.fill < q.fill || p.fill == q.fill && p.number <= q.number
}

// positionOf parses the ID of an entry; "" is the position before all entries.
func positionOf(id string) (p position, err error) {
	p.fill, p.number, err = lists.ParseEntryID(id)
	return p, err
}

// list returns a list, an empty one if the node has none of that name.
func (n *Lists) list(l lists.List) *list {
	if found := n.memory[l]; found != nil {
		return found
	}
	return &list{taken: make(map[string]ledger.Grab)}
}

func (n *Lists) isOn(l *list, fill uint64) bool {
	return l.fill != 0 && l.fill == fill && l.runID == n.runID()
}

func (n *Lists) grab(b lists.Batch) lists.Given {
	l, given := n.list(b.List), lists.Given{}
	switch {
	case !n.isOn(l, b.Fill):
		given.Why = lists.ErrFill
		return given
	case b.At < l.opens:
		given.Why, given.OpensAt = lists.ErrNotOpen, l.opens
	case l.closes != 0 && b.At >= l.closes:
		given.Why = lists.ErrClosed
	}
	given.Units, given.Entry = l.grant(b, given.Why == nil)
	return given
}

// grant returns the units of the users, after a grant to each who has none if the list is open, and the
// number of the entry that records the grants.
func (l *list) grant(b lists.Batch, open bool) (units []lists.Unit, number uint64) {
	var grabs []ledger.Grab
	for i, user := range b.Users {
		g, found := l.taken[user]
		switch {
		case found:
			units = append(units, lists.Unit{Number: g.Unit, Before: true, Key: g.Key, At: g.GrantedUs})
		case open && len(l.units) > 0:
			g = ledger.Grab{User: user, Key: b.Keys[i], Unit: l.units[0], GrantedUs: b.At}
			l.units = l.units[1:]
			grabs = append(grabs, g)
			units = append(units, lists.Unit{Number: g.Unit})
		default:
			units = append(units, lists.Unit{})
		}
	}
	if len(grabs) > 0 {
		for _, g := range grabs {
			l.taken[g.User] = g
		}
		l.given++
		number = l.given
		l.entries = append(l.entries, lists.Entry{ID: lists.EntryID(b.Fill, number), Fill: b.Fill, Grabs: grabs})
	}
	return units, number
}

func (n *Lists) stop(name lists.List, fill uint64, runID string) error {
	l := n.list(name)
	if runID != n.runID() {
		return lists.ErrOtherRun
	}
	if l.token >= fill {
		return lists.ErrToken
	}
	l.fill, l.token, l.runID = 0, fill, runID
	n.memory[name] = l
	return nil
}

// mayFill returns the reason why the holder of a token and a run id may not fill a list.
func (n *Lists) mayFill(l *list, fill uint64, runID string) error {
	switch {
	case runID != n.runID():
		return lists.ErrOtherRun
	case l.token != fill || l.fill != 0 || l.token == 0:
		return lists.ErrToken
	case l.runID != runID:
		return lists.ErrOtherRun
	}
	return nil
}

func (n *Lists) put(name lists.List, fill uint64, runID string, p lists.Part) error {
	l := n.list(name)
	if err := n.mayFill(l, fill, runID); err != nil {
		return err
	}
	units, users := int64(len(l.units)), int64(len(l.taken))
	if p.First {
		units = 0
	}
	if p.First && !p.Keep {
		users = 0
	}
	if units != p.Units || users != p.Users {
		return lists.ErrLength
	}
	if p.First {
		l.units = nil
	}
	if p.First && !p.Keep {
		l.taken, l.whole = make(map[string]ledger.Grab), ""
	}
	l.push(p.Add)
	for _, g := range p.Taken {
		l.taken[g.User] = g
	}
	return nil
}

func (l *list) push(units ledger.Units) {
	for _, r := range units {
		for i := range r.Count {
			l.units = append(l.units, r.First+i)
		}
	}
}

func (n *Lists) start(name lists.List, fill uint64, runID string, s lists.Start) error {
	l := n.list(name)
	drained, err := positionOf(s.Drained)
	if err == nil {
		err = n.mayFill(l, fill, runID)
	}
	if err != nil {
		return err
	}
	if int64(len(l.units)) != s.Units || int64(len(l.taken)) != s.Users {
		return lists.ErrLength
	}
	l.forgetUpTo(drained)
	l.fill, l.last, l.opens, l.closes = fill, fill, s.OpensAt, s.ClosesAt
	l.whole, l.given = runID, 0
	return nil
}

func (l *list) forgetUpTo(p position) {
	for len(l.entries) > 0 && isUpTo(l.entries[0], p) {
		l.entries = l.entries[1:]
	}
}

// isUpTo reports whether an entry of a stream is at p or before it.
func isUpTo(e lists.Entry, p position) bool {
	at, err := positionOf(e.ID)
	return err == nil && at.upTo(p)
}

func (n *Lists) read(name lists.List, fill uint64, after, drained string, max int) (entries []lists.Entry, err error) {
	l := n.list(name)
	from, err := positionOf(after)
	if err != nil {
		return nil, err
	}
	until, err := positionOf(drained)
	if err != nil {
		return nil, err
	}
	if fill != 0 {
		if !n.isOn(l, fill) {
			return nil, lists.ErrFill
		}
		l.forgetUpTo(until)
	}
	for _, e := range l.entries {
		if max <= 0 {
			break
		}
		if !isUpTo(e, from) {
			max -= len(e.Grabs)
			e.Grabs = slices.Clone(e.Grabs)
			entries = append(entries, e)
		}
	}
	return entries, nil
}

func (n *Lists) take(name lists.List, fill uint64, count int) (units ledger.Units, err error) {
	l := n.list(name)
	if !n.isOn(l, fill) {
		return nil, lists.ErrFill
	}
	keep := max(0, len(l.units)-count)
	for _, unit := range l.units[keep:] {
		if err := units.Add(ledger.Range{First: unit, Count: 1}); err != nil {
			return nil, err
		}
	}
	l.units = l.units[:keep]
	return units, nil
}

func (n *Lists) add(name lists.List, fill uint64, units ledger.Units) error {
	l := n.list(name)
	if !n.isOn(l, fill) {
		return lists.ErrFill
	}
	l.push(units)
	return nil
}

func (n *Lists) inspect(name lists.List) lists.State {
	l := n.list(name)
	return lists.State{
		Exists: n.memory[name] != nil, On: n.isOn(l, l.fill), Fill: l.last, Token: l.token,
		Units: int64(len(l.units)), Users: int64(len(l.taken)), Entries: int64(len(l.entries)),
		Whole: l.whole == n.runID(),
	}
}

// runID must be called with mu held.
func (n *Lists) runID() string { return fmt.Sprintf("%s-run-%d", n.name, n.runs) }
