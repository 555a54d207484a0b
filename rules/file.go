package rules

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"salectl/api"
	"salectl/internal/csvfile"
	"salectl/internal/files"
	"salectl/spec"
)

// File is a Users that reads a file once and keeps it in memory, without pointers to the users, so that the
// garbage collector has nothing to trace: one byte slice holds all records, and a map their places. A
// record is the id and the values, as appendText and canonical write them.
type File struct {
	schema *Schema
	seed   maphash.Seed      // random in each process, so that ids cannot be chosen to collide
	places map[uint64]uint32 // by hash of the id; that of an id with the hash of another is the next free one
	bytes  []byte
}

func newFile(s *Schema) *File {
	return &File{schema: s, seed: maphash.MakeSeed(), places: map[uint64]uint32{}}
}

// maxRecords is the maximum size of records that 32-bit places can address.
const maxRecords = math.MaxUint32 - 1

// full reports whether another record might not fit.
func (f *File) full() bool {
	return len(f.bytes) > maxRecords-(2*MaxText+spec.MaxAttributes*(MaxList+1)*(MaxText+2))
}

// find returns the encoded values of a user, or the free hash for it.
func (f *File) find(id string) (values []byte, free uint64, ok bool) {
	for hash := maphash.String(f.seed, id); ; hash++ {
		at, ok := f.places[hash]
		if !ok {
			return nil, hash, false
		}
		if known, values := readText(f.bytes[at:]); string(known) == id {
			return values, 0, true
		}
	}
}

// add adds a user. It reports false if the user exists already.
func (f *File) add(id string, values []Value) bool {
	_, free, ok := f.find(id)
	if ok {
		return false
	}
	f.places[free] = uint32(len(f.bytes))
	f.bytes = appendText(f.bytes, id)
	for _, v := range values {
		f.bytes = canonical(f.bytes, v)
	}
	return true
}

// get returns a user's attributes, or Unknown if there is no such user.
func (f *File) get(id string) Attributes {
	b, _, ok := f.find(id)
	if !ok {
		return f.schema.Unknown(id)
	}
	values := make([]Value, len(f.schema.attributes))
	for i, a := range f.schema.attributes {
		values[i], b = readValue(a.Type, b)
	}
	return f.schema.Known(id, values)
}

// maxFileProblems is the maximum number of reported problems of a file.
const maxFileProblems = 20

// maxFileLine is the maximum size of a line, in bytes.
const maxFileLine = 1 << 20

// OpenFile reads the users of a file: CSV with a header (.csv), or one JSON object per line
// (.ndjson or .jsonl). Each user has an id and the attributes of the schema under their names;
// other fields are ignored. An empty cell of CSV, and null in JSON, is a missing value. ParseValue
// defines the format of values in CSV. In JSON, ints are numbers without a fraction, timestamps are
// strings, and lists are arrays of strings. An empty file is an error, since a full disk leaves
// one. If a manifest in the format of sha256sum lies beside the file, the digests must match.
//
// The error contains the first problems of the file, each a *spec.Problem with its line.
func OpenFile(path string, s *Schema) (*File, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	defer f.Close()
	r := &fileReader{path: path, file: newFile(s), values: make([]Value, len(s.attributes))}
	digest := sha256.New()
	from := bufio.NewReaderSize(io.TeeReader(f, digest), 1<<20)
	switch strings.ToLower(filepath.Ext(path)) {
	case ".csv":
		err = r.csv(from)
	case ".ndjson", ".jsonl":
		err = r.ndjson(from)
	default:
		return nil, &spec.Problem{File: path, Message: "the file name does not show the format",
			Remedy: "Name it .csv for CSV with a header, or .ndjson for one JSON object a line."}
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errEnough) && !errors.Is(err, csvfile.ErrBroken) {
		return nil, fileError(path, err)
	}
	if err := spec.Join(r.problems); err != nil {
		return nil, err
	}
	if err := checkManifest(path, digest.Sum(nil)); err != nil {
		return nil, fileError(path, err)
	}
	r.file.bytes = slices.Clip(r.file.bytes)
	return r.file, nil
}

func fileError(path string, err error) error {
	p := &spec.Problem{File: path, Message: fmt.Sprintf("cannot read the users: %v", err), Cause: err}
	if errors.Is(err, fs.ErrNotExist) {
		p.Message, p.Remedy = "there is no such file of users", "Write the path of a file that exists."
	}
	return p
}

// IDs returns the ids of the users, in the order of the file.
func (f *File) IDs() []string {
	places := slices.Sorted(maps.Values(f.places))
	ids := make([]string, len(places))
	for i, at := range places {
		id, _ := readText(f.bytes[at:])
		ids[i] = string(id)
	}
	return ids
}

// Lookup implements Users. It never fails.
func (f *File) Lookup(_ context.Context, ids []string) ([]Attributes, error) {
	all := make([]Attributes, len(ids))
	for i, id := range ids {
		all[i] = f.get(id)
	}
	return all, nil
}

// Fresh returns a user without a read.
func (f *File) Fresh(id string) (Attributes, bool) { return f.get(id), true }

// fileReader reads the users of one file.
type fileReader struct {
	path     string
	file     *File
	problems []error
	values   []Value // of the user being read
}

var errEnough = errors.New("there are enough problems")

// refuse adds a problem of a line. It returns errEnough after maxFileProblems.
func (r *fileReader) refuse(line, column int, remedy, message string, args ...any) error {
	r.problems = append(r.problems, &spec.Problem{File: r.path, Line: line, Column: column,
		Message: fmt.Sprintf(message, args...), Remedy: remedy})
	if len(r.problems) >= maxFileProblems {
		return errEnough
	}
	return nil
}

// user adds the user of a line, whose values are in r.values.
func (r *fileReader) user(line, column int, id string) error {
	if id == "" {
		return r.refuse(line, column, "Add an id to each user.", "a user has no id")
	}
	if err := api.CheckUser(id); err != nil {
		return r.refuse(line, column, "Correct it.", "the user id %s: %s", quoted(id), strings.TrimPrefix(err.Error(), "user: "))
	}
	if r.file.full() {
		return r.refuse(line, column, "Keep so many users in a database.", "the users need more than %d bytes of memory", maxRecords)
	}
	if !r.file.add(id, r.values) {
		return r.refuse(line, column, "Keep one of the lines.", "the user %s is in the file twice", quoted(id))
	}
	return nil
}

// csv reads CSV with a header.
func (r *fileReader) csv(from io.Reader) error {
	lines, err := csvfile.New(from, fieldID+" among them", r.refuse)
	if err != nil {
		return err
	}
	id, err := lines.Column(fieldID)
	columns := make([]int, len(r.values))
	for i, a := range r.file.schema.attributes {
		if err == nil {
			columns[i], err = lines.Column(a.Name)
		}
	}
	if err != nil || len(r.problems) > 0 {
		return err
	}
	for {
		record, err := lines.Record()
		if err == nil {
			err = r.csvUser(record, columns, id, lines)
		}
		if err != nil {
			return err
		}
	}
}

func (r *fileReader) csvUser(record []string, columns []int, id int, lines *csvfile.Reader) error {
	for i, a := range r.file.schema.attributes {
		v, err := ParseValue(a.Type, record[columns[i]])
		if err != nil {
			line, at := lines.At(columns[i])
			return r.refuse(line, at, remedyFor(a), "%s: %s", a.Name, err)
		}
		r.values[i] = v
	}
	line, at := lines.At(id)
	return r.user(line, at, strings.Clone(record[id]))
}

// remedyFor returns the remedy for a value of the wrong type.
func remedyFor(a spec.Attribute) string {
	return fmt.Sprintf("Correct it, leave it empty if it is not known, or declare %s as another type than %s.", a.Name, a.Type)
}

// ndjson reads one JSON object per line.
func (r *fileReader) ndjson(from *bufio.Reader) error {
	if _, err := from.Peek(1); errors.Is(err, io.EOF) {
		return r.refuse(1, 1, "Write one user per line; without users write an empty line.", "the file is empty")
	}
	if mark, _ := from.Peek(3); string(mark) == "\ufeff" {
		_, _ = from.Discard(3)
	}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxFileLine)
	n := 0
	for lines.Scan() {
		n++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if err := r.ndjsonUser(n, line); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return r.refuse(n+1, 1, "Write one user a line.", "the line has more than %d bytes", maxFileLine)
	}
	return lines.Err()
}

// ndjsonUser reads the user of a line.
func (r *fileReader) ndjsonUser(n int, line []byte) error {
	if !utf8.Valid(line) {
		return r.refuse(n, 1, "Save the file as UTF-8.", "the line is not UTF-8")
	}
	object, err := parseJSON(line, func(number string) any { return json.Number(number) })
	if err != nil {
		column := 1
		if m, ok := errors.AsType[*misread](err); ok {
			column += int(m.at)
		}
		return r.refuse(n, column, "Write one JSON object a line, with each name once.", "%v", err)
	}
	fields, ok := object.(map[string]any)
	if !ok {
		return r.refuse(n, 1, `Write one object a line, such as {"id": "ada"}.`, "this is no JSON object")
	}
	at := func(name string) int { return 1 + max(0, bytes.Index(line, strconv.AppendQuote(nil, name))) }
	for i, a := range r.file.schema.attributes {
		if r.values[i], err = jsonValue(a.Type, fields[a.Name]); err != nil {
			return r.refuse(n, at(a.Name), remedyFor(a), "%s: %s", a.Name, err)
		}
	}
	id, ok := fields[fieldID].(string)
	if !ok && fields[fieldID] != nil {
		return r.refuse(n, at(fieldID), `Write it as a text, such as "4711".`, "the id is no text")
	}
	return r.user(n, 1, id)
}
