package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"salectl/backends/ledger"
)

// Check compares an export with the output of Write, byte for byte. ErrCorrupt means that the export
// was altered or extended since it was written, or that a log is not what was folded from it;
// io.ErrUnexpectedEOF means that the export ends too early. Check reads the payloads again, and keeps
// only a part of the export in memory.
func (s Sale) Check(ctx context.Context, from io.Reader) error {
	s.Payloads = s.Payloads.Fresh()
	if err := s.Write(ctx, &comparison{from: from, line: 1}); err != nil {
		return err
	}
	switch _, err := io.ReadFull(from, make([]byte, 1)); {
	case err == nil:
		return fmt.Errorf("the export continues after its end: %w", ledger.ErrCorrupt)
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

// comparison is an io.Writer that compares its input with from.
type comparison struct {
	from io.Reader
	has  []byte
	line int // number of the line being compared
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
			return i, fmt.Errorf("line %d of the export differs from the ledger: %w", c.line, ledger.ErrCorrupt)
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
