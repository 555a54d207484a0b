package hbase

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	"salectl/backends/ledger"
)

// Heads implements ledger.Logs. Each head is read at its own moment.
func (l *Logs) Heads(ctx context.Context, logs []string) ([][]byte, error) {
	if err := l.begin(); err != nil {
		return nil, err
	}
	defer l.busy.Done()
	heads := make([][]byte, len(logs))
	err := l.getRows(ctx, logs, map[string][]string{family: {headCell}}, func(i int, answer proto.Message) {
		heads[i] = headOf(answer)
	})
	if err != nil && !errors.Is(err, ledger.ErrNoTable) {
		return nil, l.failed("read heads", err)
	}
	return heads, nil
}
