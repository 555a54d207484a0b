package redis

import (
	"context"
	"errors"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"salectl/backends/lists"
)

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
	if _, said := errors.AsType[goredis.Error](err); said {
		return "", nil
	}
	return values[name], err
}
