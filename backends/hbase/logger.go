package hbase

import (
	"context"
	"log/slog"
)

// demoted returns a logger for gohbase that logs at debug level. gohbase logs as errors what a
// call returns anyway, and would fill the log while a server is unreachable.
func demoted(to *slog.Logger) *slog.Logger { return slog.New(demoter{to.Handler()}) }

type demoter struct{ slog.Handler }

func (d demoter) Enabled(ctx context.Context, _ slog.Level) bool {
	return d.Handler.Enabled(ctx, slog.LevelDebug)
}

func (d demoter) Handle(ctx context.Context, r slog.Record) error {
	r.Level = min(r.Level, slog.LevelDebug)
	return d.Handler.Handle(ctx, r)
}

func (d demoter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return demoter{d.Handler.WithAttrs(attrs)}
}

func (d demoter) WithGroup(name string) slog.Handler { return demoter{d.Handler.WithGroup(name)} }
