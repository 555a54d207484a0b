package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"salectl/backends/ledger"
	"salectl/backends/ledger/payload"
)

// Check compares an export of shards as they are folded with what Write writes of them, byte for
// byte. ErrCorrupt says that something was altered, added or left out since the export was written,
// or that a log is not what was folded from it. Check keeps no more than a part of the export in
// memory.
func Check(ctx context.Context, logs ledger.Logs, from io.Reader, sale string, log *ledger.Sale, shards []*ledger.State, payloads *payload.Reader) error {
	compared := comparison{from: from, line: 1}
	if err := Write(ctx, logs, sale, log, shards, payloads, &compared); err != nil {
		return err
	}
	switch _, err := io.ReadFull(from, make([]byte, 1)); {
	case err == nil:
		return fmt.Errorf("the export goes on behind its end: %w", ledger.ErrCorrupt)
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

// comparison is a writer of what from must have.
type comparison struct {
	from io.Reader
	has  []byte
	line int // the number of the one that is compared
}

func (c *comparison) Write(want []byte) (int, error) {
	c.has = slices.Grow(c.has[:0], len(want))[:len(want)]
	n, err := io.ReadFull(c.from, c.has)
	ends := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if err != nil && !ends {
		return 0, err
	}
	for i, b := range c.has[:n] {
		if b != want[i] {
			return i, fmt.Errorf("line %d of the export is not that of the ledger: %w", c.line, ledger.ErrCorrupt)
		}
		if b == '\n' {
			c.line++
		}
	}
	if ends {
		return n, fmt.Errorf("the export ends in line %d: %w", c.line, io.ErrUnexpectedEOF)
	}
	return n, nil
}
