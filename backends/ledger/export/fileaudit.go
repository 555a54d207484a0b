package export

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"salectl/backends/ledger/audit"
	"salectl/backends/ledger/payload"
)

// lineReader reads an export line by line.
type lineReader struct {
	lines *bufio.Reader
	line  []byte // last line read; empty at the end
}

// next reads the next line, which is empty at the end.
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

func isClaim(line []byte) bool { return bytes.HasPrefix(line, []byte(`{"claim":`)) }

type fileAudit struct {
	*audit.Recount
	contents // by the commits; sale is nil if its log cannot be trusted
	lineReader
	number int // of the last line read
	header Header
	worth  int64

	logs     []*auditedLog // of the shards, then the sale's own, and that of its units if the header names it
	payloads *payload.Log  // nil: that log cannot be trusted
	entries  [][]byte      // of the log of units
	reader   *payload.Reader
	locked   bool // the units are encrypted, and there is no key
}

func (x *fileAudit) at(format string, args ...any) {
	x.Problem("line %d: %s", x.number, fmt.Sprintf(format, args...))
}

// damaged reports whether a shard could not be applied to its end, or any of them if shard is -1.
func (x *fileAudit) damaged(shard int) bool {
	for i, b := range x.Books() {
		if (shard < 0 || i == shard) && (x.logs[i].damage != nil || !b.Compared()) {
			return true
		}
	}
	return false
}

// differs reports the fields in which the last line read differs from want, the line that source
// requires.
func (x *fileAudit) differs(what string, want []byte, source string) {
	if bytes.Equal(x.line, want) {
		return
	}
	is, should := fields(x.line), fields(want)
	names := maps.Clone(is)
	maps.Copy(names, should)
	found := false
	for _, name := range slices.Sorted(maps.Keys(names)) {
		switch a, b := is[name], should[name]; {
		case a == b:
			continue
		case a == "":
			x.at("%s has no %s, %s %s", what, name, source, b)
		case b == "":
			x.at("%s has %s %s, %s nothing of it", what, name, a, source)
		default:
			x.at("%s has %s %s, %s %s", what, name, a, source, b)
		}
		found = true
	}
	if !found {
		x.at("%s does not have the form that salectl writes", what)
	}
}

// fields returns the values of a JSON object by name; those of nested objects have dotted names.
func fields(line []byte) map[string]string {
	all := make(map[string]string)
	var walk func(prefix string, text json.RawMessage)
	walk = func(prefix string, text json.RawMessage) {
		var inner map[string]json.RawMessage
		if json.Unmarshal(text, &inner) != nil || inner == nil {
			all[strings.TrimSuffix(prefix, ".")] = string(text)
			return
		}
		for name, value := range inner {
			walk(prefix+name+".", value)
		}
	}
	walk("", line)
	return all
}
