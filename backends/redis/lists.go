package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/spec"
)

// Lists implements lists.Node on a Node's server, over the Node's connections. It is usable
// until the Node is closed.
type Lists struct{ node *Node }

var _ lists.Node = (*Lists)(nil)

// Lists returns the server's lists of the Redis engine.
func (n *Node) Lists() *Lists { return &Lists{n} }

// Name implements lists.Node. It returns the server's address.
func (l *Lists) Name() string { return l.node.address }

// RunID implements lists.Node.
func (l *Lists) RunID(ctx context.Context) (string, error) {
	return runAndRead(ctx, l.node, runScript, nil, nil, func(a *answer) (string, error) { return a.text(), nil })
}

// refusals are the errors for the result numbers of the list scripts.
var refusals = []error{nil, lists.ErrFill, lists.ErrToken, lists.ErrOtherRun, lists.ErrLength, lists.ErrNotOpen, lists.ErrClosed}

// refusal returns the error for a script's result number; nil for success.
func refusal(number int64) error {
	if number < 0 || number >= int64(len(refusals)) {
		return errAnswer
	}
	return refusals[number]
}

// refused reports whether err is one of refusals.
func refused(err error) bool {
	return slices.ContainsFunc(refusals[1:], func(r error) bool { return errors.Is(err, r) })
}

// change runs a script that changes a list, and returns its refusal as an error.
func (l *Lists) change(ctx context.Context, script *goredis.Script, list lists.List, args ...any) error {
	number, err := l.node.count(ctx, script, keysOf(list), args...)
	if err == nil {
		err = l.node.explain(refusal(int64(number)))
	}
	return err
}

// keysOf returns the keys of a list, in the order that the scripts expect.
func keysOf(l lists.List) []string { return appendKeys(nil, l) }

func appendKeys(keys []string, l lists.List) []string {
	return append(keys, spec.ListKey(l.UID, l.Shard), spec.TakenKey(l.UID, l.Shard),
		spec.StreamKey(l.UID, l.Shard), spec.FillKey(l.UID, l.Shard))
}

// Stop implements lists.Node.
func (l *Lists) Stop(ctx context.Context, list lists.List, fill uint64, runID string) error {
	return l.change(ctx, stopScript, list, fill, runID)
}

// Put implements lists.Node. A part is one step of the server, which serves no other client
// meanwhile: ten thousand units or users take it some milliseconds.
func (l *Lists) Put(ctx context.Context, list lists.List, fill uint64, runID string, p lists.Part) error {
	first := "0"
	switch {
	case p.First && p.Keep:
		first = "2"
	case p.First:
		first = "1"
	}
	args := []any{fill, runID, first, p.Units, p.Users, len(p.Add)}
	args = appendRanges(args, p.Add)
	for _, g := range p.Taken {
		args = append(args, g.User, grant(g.Unit, g.GrantedUs, g.Key))
	}
	return l.change(ctx, putScript, list, args...)
}

// Start implements lists.Node.
func (l *Lists) Start(ctx context.Context, list lists.List, fill uint64, runID string, s lists.Start) error {
	return l.change(ctx, startScript, list, fill, runID, s.Units, s.Users, s.OpensAt, s.ClosesAt, s.Drained)
}

// Add implements lists.Node.
func (l *Lists) Add(ctx context.Context, list lists.List, fill uint64, units ledger.Units) error {
	return l.change(ctx, addScript, list, appendRanges([]any{fill}, units)...)
}

func appendRanges(args []any, units ledger.Units) []any {
	for _, r := range units {
		args = append(args, r.First, r.Count)
	}
	return args
}

// Take implements lists.Node.
func (l *Lists) Take(ctx context.Context, list lists.List, fill uint64, n int) (ledger.Units, error) {
	if n <= 0 {
		return nil, fmt.Errorf("lock node %s: take %d units; take at least one", l.Name(), n)
	}
	return runAndRead(ctx, l.node, takeScript, keysOf(list), []any{fill, n}, func(a *answer) (units ledger.Units, err error) {
		if err := refusal(next[int64](a)); err != nil {
			return nil, err
		}
		for len(a.items) > 0 {
			if err := units.Add(ledger.Range{First: next[int64](a), Count: 1}); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrForeign, err)
			}
		}
		return units, nil
	})
}

// Inspect implements lists.Node.
func (l *Lists) Inspect(ctx context.Context, list lists.List) (lists.State, error) {
	return runAndRead(ctx, l.node, inspectScript, keysOf(list), nil, func(a *answer) (lists.State, error) {
		return lists.State{
			Exists: next[int64](a) == 1, On: next[int64](a) == 1,
			Fill: a.fill(), Token: a.fill(),
			Units: next[int64](a), Users: next[int64](a), Entries: next[int64](a),
			Whole: next[int64](a) == 1,
		}, nil
	})
}

// fill reads the number of a fill; 0 for "".
func (a *answer) fill() uint64 {
	text := a.text()
	if text == "" {
		return 0
	}
	number, err := strconv.ParseUint(text, 10, 64)
	a.bad = a.bad || err != nil
	return number
}

// Forget implements lists.Node.
func (l *Lists) Forget(ctx context.Context, list lists.List) error {
	_, err := await(ctx, l.node, func(ctx context.Context) (int64, error) {
		return l.node.client.Unlink(ctx, keysOf(list)...).Result()
	})
	return err
}

// grant returns the form in which a server stores a user's grant.
func grant(unit, at int64, key string) string {
	return strconv.FormatInt(unit, 10) + " " + strconv.FormatInt(at, 10) + " " + key
}

// parseGrant parses the result of grant; it returns false for another form.
func parseGrant(text string) (unit, at int64, key string, ok bool) {
	number, rest, _ := strings.Cut(text, " ")
	when, key, found := strings.Cut(rest, " ")
	unit, err1 := strconv.ParseInt(number, 10, 64)
	at, err2 := strconv.ParseInt(when, 10, 64)
	return unit, at, key, found && err1 == nil && err2 == nil
}

// Read implements lists.Node.
func (l *Lists) Read(ctx context.Context, list lists.List, fill uint64, after, drained string, max int) ([]lists.Entry, error) {
	return runAndRead(ctx, l.node, readScript, keysOf(list), []any{fill, after, drained, max}, func(a *answer) (entries []lists.Entry, err error) {
		if err := refusal(next[int64](a)); err != nil {
			return nil, err
		}
		for len(a.items) > 0 {
			e, err := entryOf(answer{items: next[[]any](a)})
			if err != nil {
				return nil, err
			}
			entries = append(entries, e)
		}
		return entries, nil
	})
}

// entryOf reads an entry of the stream.
func entryOf(a answer) (lists.Entry, error) {
	e := lists.Entry{ID: a.text()}
	fields := next[[]any](&a)
	if err := a.end(); err != nil {
		return e, err
	}
	if grabs, fill, ok := grabsOf(answer{items: fields}); ok {
		e.Grabs, e.Fill = grabs, fill
		return e, nil
	}
	return e, fmt.Errorf("%w: entry %s of a stream is not one of grants", ErrForeign, e.ID)
}

// grabsOf reads the fields of an entry; it returns false for another form.
func grabsOf(a answer) (grabs []ledger.Grab, fill uint64, ok bool) {
	var names, values [4]string
	for i := range names {
		names[i], values[i] = a.text(), a.text()
	}
	at, err := strconv.ParseInt(values[1], 10, 64)
	fill, users, keys, ok := unpacked(values[3])
	if a.end() != nil || names != [4]string{"count", "at", "units", "batch"} || err != nil || !ok {
		return nil, 0, false
	}
	units := strings.Split(values[2], " ")
	if len(units) != len(users) || values[0] != strconv.Itoa(len(users)) {
		return nil, 0, false
	}
	grabs = make([]ledger.Grab, len(users))
	for i, user := range users {
		unit, err := strconv.ParseInt(units[i], 10, 64)
		if err != nil {
			return nil, 0, false
		}
		grabs[i] = ledger.Grab{User: user, Key: keys[i], Unit: unit, GrantedUs: at}
	}
	return grabs, fill, true
}

// Settings implements lists.Node. If CONFIG is not permitted or does not exist, Fsync is "" and
// Snapshots is false, whatever the server's settings.
func (l *Lists) Settings(ctx context.Context) (lists.Settings, error) {
	return await(ctx, l.node, func(ctx context.Context) (lists.Settings, error) {
		info, err := l.node.client.Info(ctx).Result()
		if err != nil {
			return lists.Settings{}, err
		}
		fields := make(map[string]string)
		for line := range strings.Lines(info) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			fields[name] = value
		}
		fsync, err1 := l.configured(ctx, "appendfsync")
		save, err2 := l.configured(ctx, "save")
		return lists.Settings{AOF: fields["aof_enabled"] == "1", Fsync: fsync, Snapshots: save != ""}, errors.Join(err1, err2)
	})
}

// configured returns a setting of the server; "" if the server refuses to return it.
func (l *Lists) configured(ctx context.Context, name string) (string, error) {
	values, err := l.node.client.ConfigGet(ctx, name).Result()
	if _, replied := errors.AsType[goredis.Error](err); replied {
		return "", nil
	}
	return values[name], err
}
