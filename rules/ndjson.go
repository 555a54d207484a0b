package rules

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// ndjson reads one JSON object per line.
func (r *fileReader) ndjson(from *bufio.Reader) error {
	if _, err := from.Peek(1); errors.Is(err, io.EOF) {
		return done(r.refuse(1, 1, "Write one user a line, or, if there is none yet, an empty line.", "the file is empty"))
	}
	if mark, _ := from.Peek(3); string(mark) == "\ufeff" {
		_, _ = from.Discard(3)
	}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxFileLine)
	r.values = make([]Value, len(r.table.schema.attributes))
	n := 0
	for lines.Scan() {
		n++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if err := r.ndjsonUser(n, line); err != nil {
			return done(err)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return done(r.refuse(n+1, 1, "Write one user a line.", "the line has more than %d bytes", maxFileLine))
	}
	return lines.Err()
}

// ndjsonUser reads a user. It reads single tokens, since a map would hide a duplicate key.
func (r *fileReader) ndjsonUser(n int, line []byte) error {
	clear(r.values)
	if !utf8.Valid(line) {
		return r.refuse(n, 1, "Save the file as UTF-8.", "the line is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return r.refuse(n, 1, `Write one object a line, such as {"id": "ada"}.`, "this is no JSON object")
	}
	id, seen := "", map[string]bool{}
	for d.More() {
		key, err := d.Token()
		name, _ := key.(string)
		at := int(d.InputOffset()) + 1
		var raw json.RawMessage
		if err == nil {
			err = d.Decode(&raw)
		}
		if err != nil {
			return r.refuse(n, at, "Correct it.", "this is no JSON: %v", err)
		}
		if seen[name] {
			return r.refuse(n, at, "Keep one of them.", "%q stands here twice", name)
		}
		seen[name] = true
		if name == fieldID {
			err = json.Unmarshal(raw, &id)
			if err != nil {
				return r.refuse(n, at, `Write it as a text, such as "4711".`, "the id is no text")
			}
			continue
		}
		i, ok := r.table.schema.index[name]
		if !ok {
			continue
		}
		if r.values[i], err = jsonValue(r.table.schema.attributes[i].Type, raw); err != nil {
			return r.refuse(n, at, remedyFor(r.table.schema.attributes[i]), "%s: %s", name, err)
		}
	}
	if _, err := d.Token(); err != nil {
		return r.refuse(n, int(d.InputOffset())+1, "Correct it.", "this is no JSON: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return r.refuse(n, int(d.InputOffset())+1, "Write one object a line.", "something stands behind the object")
	}
	return r.user(n, 1, id)
}

// jsonValue parses a value in JSON notation.
func jsonValue(t Type, raw []byte) (Value, error) {
	if string(raw) == "null" {
		return Value{}, nil
	}
	wrong := fmt.Errorf("%s is no %s in JSON", oneLine(string(raw)), t)
	var v Value
	var text string
	switch t {
	case Strings:
		var list []*string
		if json.Unmarshal(raw, &list) != nil {
			return Value{}, wrong
		}
		texts := make([]string, len(list))
		for i, s := range list {
			if s == nil {
				return Value{}, wrong
			}
			texts[i] = *s
		}
		v = StringsOf(texts)
	case String, Timestamp:
		if json.Unmarshal(raw, &text) != nil || text == "" && t == Timestamp {
			return Value{}, wrong
		}
		if t == Timestamp {
			return ParseValue(t, text)
		}
		v = StringOf(text)
	default:
		if raw[0] == '"' {
			return Value{}, wrong
		}
		return ParseValue(t, string(raw))
	}
	if err := v.check(); err != nil {
		return Value{}, fmt.Errorf("%s %w", oneLine(string(raw)), err)
	}
	return v, nil
}
