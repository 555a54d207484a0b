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

type fileAudit struct {
	*audit.Recount
	contents // by the commits; sale is nil if its log cannot be trusted
	lines    *bufio.Reader
	line     []byte // last line read; empty at the end
	number   int    // of that line
	header   Header
	worth    int64

	logs     []*auditedLog // of the shards, then the sale's own, and that of its units if the header names it
	payloads *payload.Log  // nil: that log cannot be trusted
	entries  [][]byte      // of the log of units
	reader   *payload.Reader
	locked   bool // the units are encrypted, and there is no key
}

// rewind begins to read a file.
func (x *fileAudit) rewind(from io.Reader) {
	x.lines, x.number = bufio.NewReaderSize(from, 1<<16), 0
}

// read reads the next line. A line cut off by the end of the file is a problem, and not judged.
func (x *fileAudit) read() (err error) {
	x.number++
	if x.line, err = x.lines.ReadBytes('\n'); err != io.EOF {
		return err
	}
	if len(x.line) > 0 {
		x.at("the file ends in the middle of this line: its end was cut off")
		x.line = nil
	}
	return nil
}

// isClaim reports whether the last line read is that of a claim.
func (x *fileAudit) isClaim() bool { return bytes.HasPrefix(x.line, []byte(`{"claim":`)) }

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
