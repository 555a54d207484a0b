package units

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"salectl/internal/csvfile"
	"salectl/internal/files"
	"salectl/spec"
)

// scan reads all units once. It calls each for every valid unit, with its line or, with ranges,
// its place from 1 on, and continues after an invalid one. The error is one of each, of ctx, or
// of a file that cannot be read or has changed; faults of the units are in problems. After the
// first completed scan, later ones call each only for units that the first has seen in the same
// place.
func (s *Source) scan(ctx context.Context, problems *problems, each func(line int64, u Unit) error) (Summary, error) {
	p := &pass{source: s, ctx: ctx, problems: problems, each: each}
	var err error
	if s.units.FromFile {
		err = p.file()
	} else {
		p.sum = s.newDigest()
		for name := range s.units.Names() {
			p.units++
			if err = cmp.Or(p.unit(p.units, Unit{Name: name}), context.Cause(ctx)); err != nil {
				break
			}
		}
	}
	if err != nil {
		return Summary{}, err
	}
	summary := Summary{Count: p.units}
	if p.sum != nil {
		p.sum.Sum(summary.Digest[:0])
	}
	if s.seen == nil {
		s.seen = &seen{digest: summary.Digest, parts: p.parts}
	}
	if s.seen.digest != summary.Digest {
		return Summary{}, s.changed()
	}
	return summary, p.handOver()
}

// seen is the result of a scan, for comparison with later ones: the digest of all units, and
// the digests up to the end of each part.
type seen struct {
	digest [32]byte
	parts  [][32]byte
}

// partSize is the approximate number of bytes of units that are held back until they are known
// to be those that the first scan has seen.
const partSize = 64 << 10

// pass is one reading of all units.
type pass struct {
	source   *Source
	ctx      context.Context
	problems *problems
	each     func(line int64, u Unit) error
	units    int64     // including invalid ones
	sum      hash.Hash // of the columns, and the units so far; nil: the columns are invalid
	fields   []byte    // of the unit being read; reused for the next

	parts [][32]byte // digests up to the end of each completed part
	size  int        // bytes of the present part
	held  []heldUnit // units of the present part for which each was not called yet
}

type heldUnit struct {
	line int64
	unit Unit
}

// newDigest returns the hash for all units, which has the columns already.
func (s *Source) newDigest() hash.Hash {
	h := sha256.New()
	if s.key != nil {
		h = hmac.New(sha256.New, s.key.digest)
	}
	head := binary.AppendUvarint([]byte("salectl units v1\x00"), uint64(len(s.columns)))
	for _, column := range s.columns {
		head = appendField(head, column)
	}
	h.Write(head)
	return h
}

// unit adds a valid unit.
func (p *pass) unit(line int64, u Unit) error {
	p.fields = u.appendFields(p.fields[:0])
	p.sum.Write(p.fields)
	if p.source.seen != nil {
		p.held = append(p.held, heldUnit{line, u})
	} else if err := p.each(line, u); err != nil {
		return err
	}
	if p.size += len(p.fields); p.size < partSize {
		return nil
	}
	p.size = 0
	return p.endPart()
}

// endPart passes on the units of a part, unless the first scan has seen others.
func (p *pass) endPart() error {
	n := len(p.parts)
	p.parts = append(p.parts, [32]byte{})
	p.sum.Sum(p.parts[n][:0])
	if first := p.source.seen; first != nil && (n >= len(first.parts) || p.parts[n] != first.parts[n]) {
		return p.source.changed()
	}
	return p.handOver()
}

// handOver calls each for the units that are held back.
func (p *pass) handOver() error {
	for _, h := range p.held {
		if err := p.each(h.line, h.unit); err != nil {
			return err
		}
	}
	clear(p.held)
	p.held = p.held[:0]
	return nil
}

// file reads the units of a file.
func (p *pass) file() error {
	path := p.source.units.File
	if path == "" {
		return &spec.Problem{File: p.source.sale, Message: "its units are in a file that only the sale file names",
			Remedy: "Name the sale file with -f."}
	}
	f, err := files.Open(path)
	if err != nil {
		return spec.Unreadable(path, err)
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return spec.Unreadable(path, err)
	}
	if !before.Mode().IsRegular() {
		return &spec.Problem{File: path, Message: "it is no regular file, and units are read more than once", Remedy: "Name a file."}
	}
	p.source.size = before.Size()
	if err := p.csv(f); err != nil {
		return err
	}
	after, err := f.Stat()
	if err != nil {
		return spec.Unreadable(path, err)
	}
	if before.Size() != after.Size() || !before.ModTime().Equal(after.ModTime()) {
		return p.source.changed()
	}
	return nil
}

func (s *Source) changed() error {
	return &spec.Problem{File: s.units.File, Message: "the file changed while it was read",
		Remedy: "Try again once nobody writes to it any more."}
}

// csv reads all lines.
func (p *pass) csv(f io.Reader) error {
	s := p.source
	lines := newLines(f, s.stock+1, p.problems.refuse)
	if begin, _ := lines.from.Peek(2); string(begin) == "\xff\xfe" || string(begin) == "\xfe\xff" {
		return p.problems.refuse(1, 1, "Save it as UTF-8.", "the file is UTF-16")
	}
	among := "that of the units' names among them"
	if s.units.Column != "" {
		among = s.units.Column + " among them"
	}
	reader, err := csvfile.New(lines, among, p.problems.refuse)
	switch {
	case errors.Is(err, csvfile.ErrBroken), err == nil && p.problems.any():
		return nil
	case err != nil:
		return spec.Unreadable(s.units.File, err)
	}
	reader.Hidden = s.units.Secret
	name := p.header(reader, lines)
	if p.problems.any() {
		return nil
	}
	p.sum = s.newDigest()
	for {
		record, err := reader.Record()
		switch {
		case errors.Is(err, io.EOF):
			p.units = lines.filled - 1
			p.hold(lines)
			return nil
		case errors.Is(err, csvfile.ErrBroken): // it is reported, and the next record is in the next line
		case err != nil:
			return spec.Unreadable(s.units.File, err)
		default:
			if err := p.record(record, name, reader, lines); err != nil {
				return err
			}
		}
		if p.ctx.Err() != nil {
			return context.Cause(p.ctx)
		}
	}
}

// header sets the columns, and returns the index of the one that names units.
func (p *pass) header(reader *csvfile.Reader, lines *lines) (name int) {
	s := p.source
	if n := len(reader.Header); n > maxColumns {
		_ = p.problems.refuse(1, 1, "Leave out those that no buyer needs.", "there are %d columns, at most %d are allowed", n, maxColumns)
		return 0
	}
	first := map[string]int{}
	for i, column := range reader.Header {
		_, at := reader.At(i)
		at = lines.column(at)
		switch other, twice := first[column]; {
		case strings.TrimSpace(column) == "":
			_ = p.problems.refuse(1, at, "Name each column.", "column %d has no name", i+1)
		case len(column) > maxField:
			_ = p.problems.refuse(1, at, "Shorten it.", "the name of column %d has more than %d bytes", i+1, maxField)
		case twice:
			_ = p.problems.refuse(1, at, "Rename one of them.", "columns %d and %d have the same name", other+1, i+1)
		default:
			first[column] = i
		}
	}
	if i, there := first[s.units.Column]; there {
		name = i
	} else if s.units.Column != "" {
		_, _ = reader.Column(s.units.Column) // reports that it is missing
	}
	s.columns = slices.Concat(reader.Header[name:name+1], reader.Header[:name], reader.Header[name+1:])
	return name
}

// record adds the unit of a record.
func (p *pass) record(record []string, name int, reader *csvfile.Reader, lines *lines) error {
	refuse := func(field int, remedy, message string, args ...any) error {
		_, at := reader.At(field)
		return p.problems.refuse(lines.number, lines.column(at), remedy, message, args...)
	}
	for i, field := range record {
		if len(field) > maxField {
			return refuse(i, "Shorten it.", "cell %d has %d bytes, at most %d are allowed", i+1, len(field), maxField)
		}
	}
	u := Unit{Name: record[name]}
	switch trimmed := strings.TrimSpace(u.Name); {
	case trimmed == "":
		return refuse(name, "Write the unit's name there, or remove the line.", "the unit has no name")
	case trimmed != u.Name:
		return refuse(name, "Remove the blank.", "the unit's name begins or ends with a blank")
	}
	if len(record) > 1 {
		u.Attributes = slices.Concat(record[:name], record[name+1:])
	}
	return p.unit(int64(lines.number), u)
}

// hold compares the number of units with the stock.
func (p *pass) hold(lines *lines) {
	stock := p.source.stock
	switch missing := stock - p.units; {
	case missing > 0:
		_ = p.problems.refuse(0, 0, fmt.Sprintf("Add %s, or write stock: %d. The first line names the columns and is no unit.", spec.Count(missing, "line"), p.units),
			"the file has %s but the stock is %s: it lacks %s", spec.Count(p.units, "unit"), spec.Grouped(stock), spec.Grouped(missing))
	case missing < 0:
		_ = p.problems.refuse(lines.surplus, 1, fmt.Sprintf("Remove %s, or write stock: %d.", spec.Count(-missing, "line"), p.units),
			"the file has %s but the stock is %s: it has %s more, from line %d on", spec.Count(p.units, "unit"), spec.Grouped(stock), spec.Grouped(-missing), lines.surplus)
	}
}
