package draw

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// This file reads the part of an export that Verify needs, and writes it as a list.

// Format and kinds of a file: an export of the ledger, or a list that Publish has made of one.
const (
	exportFormat = 1
	kindExport   = "export"
	kindEntries  = "entries"
)

// exportHeader is the part of an export's header that concerns a draw.
type exportHeader struct {
	Format int     `json:"format"`
	Kind   string  `json:"kind"`
	Sale   string  `json:"sale"`
	UID    string  `json:"uid"`
	Draw   *Record `json:"draw"`
}

// readExport reads the header and the lines of the entries. It calls header, then entry for each
// line in order. It leaves the lines after the entries unread.
func readExport(from io.Reader, header func(exportHeader) error, entry func(Line) error) error {
	lines := bufio.NewReaderSize(from, 1<<16)
	for number := 1; ; number++ {
		text, err := lines.ReadBytes('\n')
		switch {
		case number > 1 && (err == io.EOF && len(text) == 0 || err == nil && !bytes.HasPrefix(text, []byte(`{"claim":`))):
			return nil
		case err == io.EOF && len(text) > 0:
			err = fmt.Errorf("it ends in the middle: %w", io.ErrUnexpectedEOF)
		case err != nil:
		case number == 1:
			err = readHeader(text, header)
		default:
			var line Line
			if err = json.Unmarshal(text, &line); err == nil {
				err = entry(line)
			}
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
}

func readHeader(text []byte, take func(exportHeader) error) error {
	var h exportHeader
	if err := json.Unmarshal(text, &h); err != nil {
		if !json.Valid(text) {
			err = errors.New("the first line is not JSON")
		}
		return fmt.Errorf("an export begins with a header: %w", err)
	}
	switch {
	case h.Kind != kindExport && h.Kind != kindEntries:
		return fmt.Errorf("an export begins with a header of kind %q or %q, and this one is of kind %q", kindExport, kindEntries, h.Kind)
	case h.Format != exportFormat:
		return fmt.Errorf("an export of format %d cannot be read, only format %d", h.Format, exportFormat)
	case h.Draw == nil:
		return ErrNoDraw
	}
	return take(h)
}

// Publish reads an export and writes the list that can be published: what Verify needs and
// nothing else. The header keeps the sale, the run and the draw; each entry has its claim,
// state, time, label and rank. The list has no users, keys, payments or reasons, and no
// commits, which contain all of these in base64.
func Publish(from io.Reader, to io.Writer) error {
	w := bufio.NewWriterSize(to, 1<<16)
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	err := readExport(from, func(h exportHeader) error {
		h.Kind = kindEntries
		return lines.Encode(h)
	}, func(line Line) error {
		if _, err := parseClaim(line.Claim); err != nil {
			return err
		}
		if line.Label == (Digest{}) {
			return fmt.Errorf("claim %s: it has no label", line.Claim)
		}
		return lines.Encode(Line{Claim: line.Claim, State: line.State, At: line.At, Label: line.Label, Rank: line.Rank})
	})
	if err != nil {
		return err
	}
	return w.Flush()
}
