package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"salectl/backends/ledger"
	"salectl/backends/lists"
)

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
	names := [4]string{}
	values := [4]string{}
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
	return ask(ctx, l.node, func(ctx context.Context) (lists.Settings, error) {
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
