package draw

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
)

// This file reads the part of an export that Verify needs.

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
	first, err := lines.ReadBytes('\n')
	switch {
	case err == io.EOF && len(first) > 0:
		err = errCutOff
	case err == nil:
		err = readHeader(first, header)
	}
	if err != nil {
		return fmt.Errorf("line 1: %w", err)
	}
	over := make(chan struct{})
	defer close(over)
	for p := range decoded(lines, over) {
		<-p.done
		for i, line := range p.lines {
			if err := entry(line); err != nil {
				return fmt.Errorf("line %d: %w", p.first+i, err)
			}
		}
		if p.err != nil {
			return fmt.Errorf("line %d: %w", p.first+len(p.lines), p.err)
		}
	}
	return nil
}

var errCutOff = fmt.Errorf("it ends in the middle: %w", io.ErrUnexpectedEOF)

// part is a sequence of consecutive lines.
type part struct {
	first int // number of the first line
	texts [][]byte
	err   error // of the line after texts, or after lines once it is done
	lines []Line
	done  chan struct{} // closed when the texts are decoded
}

// linesOfPart is large enough that passing a part on costs little compared with decoding it.
const linesOfPart = 256

// decoded returns the lines after the header in parts, in order. The parts are decoded
// concurrently, which is most of the work. The goroutines end when over is closed.
func decoded(from *bufio.Reader, over <-chan struct{}) <-chan *part {
	parts := make(chan *part, 2*runtime.GOMAXPROCS(0))
	go func() {
		defer close(parts)
		for next, last := 2, false; !last; {
			p := &part{first: next, done: make(chan struct{})}
			last = p.read(from)
			next += len(p.texts)
			go p.decode()
			select {
			case parts <- p:
			case <-over:
				return
			}
		}
	}()
	return parts
}

// read fills a part. last reports whether no lines of entries follow it.
func (p *part) read(from *bufio.Reader) (last bool) {
	for len(p.texts) < linesOfPart {
		text, err := from.ReadBytes('\n')
		switch {
		case err == io.EOF && len(text) == 0, err == nil && !bytes.HasPrefix(text, []byte(`{"claim":`)):
			return true
		case err == io.EOF:
			p.err = errCutOff
			return true
		case err != nil:
			p.err = err
			return true
		}
		p.texts = append(p.texts, text)
	}
	return false
}

func (p *part) decode() {
	p.lines = make([]Line, len(p.texts))
	for i, text := range p.texts {
		if err := json.Unmarshal(text, &p.lines[i]); err != nil {
			p.lines, p.err = p.lines[:i], err
			break
		}
	}
	p.texts = nil
	close(p.done)
}

func readHeader(text []byte, take func(exportHeader) error) error {
	var h exportHeader
	if err := json.Unmarshal(text, &h); err != nil {
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
