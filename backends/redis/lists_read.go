package redis

import (
	"context"
	"fmt"
	"strconv"

	"salectl/backends/ledger"
	"salectl/backends/lists"
)

// Read is lists.Node's.
func (l *Lists) Read(ctx context.Context, list lists.List, fill uint64, after, drained string, max int) ([]lists.Entry, error) {
	return ask(ctx, l.node, func(ctx context.Context) (entries []lists.Entry, err error) {
		a, err := l.node.run(ctx, readScript, keysOf(list), fill, after, drained, max)
		if err != nil {
			return nil, err
		}
		for len(a.items) > 0 {
			e, err := entryOf(answer{items: next[[]any](&a)})
			if err != nil {
				return nil, err
			}
			entries = append(entries, e)
		}
		return entries, a.end()
	})
}

// entryOf reads an entry of a stream.
func entryOf(a answer) (lists.Entry, error) {
	e := lists.Entry{ID: a.text()}
	fields := next[[]any](&a)
	if err := a.end(); err != nil {
		return e, err
	}
	foreign := fmt.Errorf("%w: entry %s of a stream is not one of grants", ErrForeign, e.ID)
	f := answer{items: fields}
	name, number := f.text(), f.text()
	fill, err := strconv.ParseUint(number, 10, 64)
	if f.bad || name != "f" || err != nil || len(f.items)%2 != 0 {
		return e, foreign
	}
	e.Fill = fill
	e.Grabs = make([]ledger.Grab, 0, len(f.items)/2)
	for len(f.items) > 0 {
		g := ledger.Grab{User: f.text()}
		ok := false
		if g.Unit, g.GrantedUs, g.Key, ok = parseGrant(f.text()); !ok || f.bad {
			return e, foreign
		}
		e.Grabs = append(e.Grabs, g)
	}
	return e, nil
}
