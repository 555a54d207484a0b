package ledger

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
)

// CheckExport reads an export of shards as they are folded back, and holds it
// against them byte for byte: the header, a line for each claim, and commits that
// hash to the shards' roots, so that they are those that were folded. ErrCorrupt
// says that something was altered, added or left out since the export was written.
//
// It keeps no more than a line in memory: who has folded a large sale has no room
// for another fold.
func CheckExport(ctx context.Context, from io.Reader, sale, uid string, shards []*State, goods *PayloadReader) error {
	r := exportReader{lines: bufio.NewReaderSize(from, 1<<16)}
	header, packets, err := r.header()
	if err != nil {
		return err
	}
	want := Header(sale, uid, shards)
	drawn, err := readDraw(header.Draw, uid, shards)
	if err != nil {
		return err
	}
	x := &ofSale{packets: packets, draw: drawn}
	want.Packets, want.Draw = packets.header(shards), drawn.header(shards)
	if !bytes.Equal(r.line, exportLine(want)) || !packets.all(want.Counts) {
		return fmt.Errorf("the export's header is not that of the ledger: %w", ErrCorrupt)
	}
	if err := r.claims(ctx, header.Sale, shards, x, goods); err != nil {
		return err
	}
	chains := make([]chain, len(shards))
	for i := range chains {
		chains[i] = newChain(shards[i].log)
	}
	err = r.commits(len(shards), func(c ExportCommit) error {
		at := &chains[c.Shard]
		commit, err := at.decode(c.Commit)
		if err != nil {
			return err
		}
		at.advance(commit, sum(c.Commit))
		return nil
	}, func(shard int) uint64 { return chains[shard].next })
	for i, s := range shards {
		if err == nil && (chains[i].next != s.next || chains[i].hash != s.hash) {
			err = fmt.Errorf("the export has other commits of shard %d than were folded: %w", i, ErrCorrupt)
		}
	}
	return err
}

// exportReader reads an export line by line.
type exportReader struct {
	lines *bufio.Reader
	line  []byte // the last one read; none at the end
}

// next reads the next line, none at the end.
func (r *exportReader) next() (err error) {
	r.line, err = r.lines.ReadBytes('\n')
	switch {
	case err == io.EOF && len(r.line) == 0:
		return nil
	case err == io.EOF:
		return fmt.Errorf("the export ends in the middle of a line: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// header reads the first line, and what it says of the units' worth.
func (r *exportReader) header() (header ExportHeader, packets *exportedPackets, err error) {
	if err = r.next(); err == nil {
		err = json.Unmarshal(r.line, &header)
	}
	if err != nil {
		return header, nil, fmt.Errorf("an export begins with a header: %w", err)
	}
	if err := header.check(); err != nil {
		return header, nil, err
	}
	packets, err = header.Packets.read(header.UID)
	return header, packets, err
}

// check says why what follows the header cannot be read.
func (h *ExportHeader) check() error {
	switch {
	case h.Kind != KindExport:
		return fmt.Errorf("an export begins with a header of kind %q, and this one is of kind %q", KindExport, h.Kind)
	case h.Format != ExportFormat:
		return fmt.Errorf("an export of format %d cannot be read, only format %d", h.Format, ExportFormat)
	}
	return nil
}

func isClaim(line []byte) bool { return bytes.HasPrefix(line, []byte(`{"claim":`)) }

// claims reads the lines of the claims, which are to be those of the shards, and
// the line after them.
func (r *exportReader) claims(ctx context.Context, sale string, shards []*State, x *ofSale, goods *PayloadReader) error {
	err := r.next()
	for shard, s := range shards {
		for i := range s.Claims() {
			if err != nil {
				return err
			}
			claim, err2 := goods.exportClaim(ctx, sale, shard, s.Claim(i), x)
			if err2 != nil {
				return err2
			}
			if !bytes.Equal(r.line, exportLine(claim)) {
				return fmt.Errorf("claim %s has another line in the export than in its commit: %w", claim.Claim, ErrCorrupt)
			}
			err = r.next()
		}
	}
	if err != nil || !isClaim(r.line) {
		return err
	}
	return fmt.Errorf("the export has a line for a claim that is in no commit: %w", ErrCorrupt)
}

// commits reads the lines of the commits to the end, from the last line read on.
// next says which slot of a shard take is to be given.
func (r *exportReader) commits(shards int, take func(ExportCommit) error, next func(shard int) uint64) error {
	shard, err := 0, error(nil)
	for ; err == nil && len(r.line) > 0; err = r.next() {
		var c ExportCommit
		if err := json.Unmarshal(r.line, &c); err != nil {
			return fmt.Errorf("a line of the export: %w: %w", err, ErrCorrupt)
		}
		if c.Shard < shard || c.Shard >= shards || c.Slot != next(c.Shard) || !bytes.Equal(r.line, exportLine(c)) {
			return fmt.Errorf("the export has slot %d of shard %d out of order: %w", c.Slot, c.Shard, ErrCorrupt)
		}
		shard = c.Shard
		if err := take(c); err != nil {
			return err
		}
	}
	return err
}
