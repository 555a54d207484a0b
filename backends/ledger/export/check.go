package export

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"salectl/backends/ledger"
	"salectl/backends/ledger/payload"
)

// Check reads an export of shards as they are folded back, and holds it
// against them and the sale's own log byte for byte: the header, a line for each claim, and
// commits that hash to the roots, so that they are those that were folded. ErrCorrupt
// says that something was altered, added or left out since the export was written.
//
// It keeps no more than a line in memory: who has folded a large sale has no room
// for another fold.
func Check(ctx context.Context, logs ledger.Logs, from io.Reader, sale string, log *ledger.Sale, shards []*ledger.State, payloads *payload.Reader) error {
	x, err := readOfSale(ctx, logs, log)
	if err != nil {
		return err
	}
	if err := x.readUnits(ctx, payloads, shards); err != nil {
		return err
	}
	r := lineReader{lines: bufio.NewReaderSize(from, 1<<16)}
	if _, err := r.header(); err != nil {
		return err
	}
	want := x.header(sale, log.UID(), shards)
	if !bytes.Equal(r.line, encode(want)) || !x.packets.all(shards) {
		return fmt.Errorf("the export's header is not that of the ledger: %w", ledger.ErrCorrupt)
	}
	if err := r.claims(ctx, sale, shards, x, payloads); err != nil {
		return err
	}
	for shard, s := range shards {
		err := r.slots(ledger.NewTail(s.Log()), s.Next(), s.Root(), func(slot uint64, commit []byte) any {
			return Commit{Shard: shard, Slot: slot, Commit: commit}
		})
		if err != nil {
			return fmt.Errorf("shard %d: %w", shard, err)
		}
	}
	for _, log := range x.logs(want) {
		err := r.slots(log.from, log.has.First+log.has.Slots, log.has.Root, func(slot uint64, commit []byte) any {
			return LogCommit{Log: log.name, Slot: slot, Commit: commit}
		})
		if err != nil {
			return fmt.Errorf("log %s: %w", log.from.Log(), err)
		}
	}
	if len(r.line) > 0 {
		return fmt.Errorf("the export goes on behind its end: %w", ledger.ErrCorrupt)
	}
	return nil
}

// lineReader reads an export line by line.
type lineReader struct {
	lines *bufio.Reader
	line  []byte // the last one read; none at the end
}

// next reads the next line, none at the end.
func (r *lineReader) next() (err error) {
	r.line, err = r.lines.ReadBytes('\n')
	switch {
	case err == io.EOF && len(r.line) == 0:
		return nil
	case err == io.EOF:
		return fmt.Errorf("the export ends in the middle of a line: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// header reads the first line.
func (r *lineReader) header() (header Header, err error) {
	if err = r.next(); err == nil {
		err = json.Unmarshal(r.line, &header)
	}
	if err != nil {
		return header, fmt.Errorf("an export begins with a header: %w", err)
	}
	return header, header.check()
}

// check says why what follows the header cannot be read.
func (h *Header) check() error {
	switch {
	case h.Kind != Kind:
		return fmt.Errorf("an export begins with a header of kind %q, and this one is of kind %q", Kind, h.Kind)
	case h.Format != Format:
		return fmt.Errorf("an export of format %d cannot be read, only format %d", h.Format, Format)
	}
	return nil
}

func isClaim(line []byte) bool { return bytes.HasPrefix(line, []byte(`{"claim":`)) }

// claims reads the lines of the claims, which are to be those of the shards, and
// the line after them.
func (r *lineReader) claims(ctx context.Context, sale string, shards []*ledger.State, x *ofSale, payloads *payload.Reader) error {
	err := r.next()
	for shard, s := range shards {
		for i := range s.Claims() {
			if err != nil {
				return err
			}
			claim, err2 := x.claim(ctx, payloads, sale, shard, s.Claim(i))
			if err2 != nil {
				return err2
			}
			if !bytes.Equal(r.line, encode(claim)) {
				return fmt.Errorf("claim %s has another line in the export than in its commit: %w", claim.Claim, ledger.ErrCorrupt)
			}
			err = r.next()
		}
	}
	if err != nil || !isClaim(r.line) {
		return err
	}
	return fmt.Errorf("the export has a line for a claim that is in no commit: %w", ledger.ErrCorrupt)
}

// slots reads the lines of a log's commits up to a slot, from the last line read on, and the
// line after them. line makes of a commit the line that should be there.
func (r *lineReader) slots(at *ledger.Tail, to uint64, root ledger.Hash, line func(slot uint64, commit []byte) any) error {
	for at.Next() < to {
		var has struct{ Commit []byte }
		if err := json.Unmarshal(r.line, &has); err != nil {
			return fmt.Errorf("a line of the export: %w: %w", err, ledger.ErrCorrupt)
		}
		if !bytes.Equal(r.line, encode(line(at.Next(), has.Commit))) {
			return fmt.Errorf("the export has another line than that of slot %d: %w", at.Next(), ledger.ErrCorrupt)
		}
		if _, err := at.Take(has.Commit); err != nil {
			return err
		}
		if err := r.next(); err != nil {
			return err
		}
	}
	if at.Root() != root {
		return at.Corrupt("the export has other commits than were folded")
	}
	return nil
}
