package rules

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"

	"salectl/api"
	"salectl/internal/files"
	"salectl/spec"
)

// File is a Users that reads a file once and keeps it in memory.
type File struct{ table *table }

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
	r := &fileReader{path: path, table: newTable(s)}
	digest := sha256.New()
	from := bufio.NewReaderSize(io.TeeReader(f, digest), 1<<20)
	switch strings.ToLower(filepath.Ext(path)) {
	case ".csv":
		err = r.csv(from)
	case ".ndjson", ".jsonl":
		err = r.ndjson(from)
	default:
		return nil, &spec.Problem{File: path, Message: "the file's name does not say what it holds",
			Remedy: "Name it .csv for CSV with a header, or .ndjson for one JSON object a line."}
	}
	if err != nil {
		return nil, fileError(path, err)
	}
	if len(r.problems) > 0 {
		return nil, &multierror.Error{Errors: r.problems, ErrorFormat: spec.ErrorFormat}
	}
	if err := checkManifest(path, digest.Sum(nil)); err != nil {
		return nil, fileError(path, err)
	}
	r.table.bytes = slices.Clip(r.table.bytes)
	return &File{r.table}, nil
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
	places := slices.Sorted(maps.Values(f.table.places))
	ids := make([]string, len(places))
	for i, at := range places {
		id, _ := readText(f.table.bytes[at:])
		ids[i] = string(id)
	}
	return ids
}

// Lookup implements Users. It never fails.
func (f *File) Lookup(_ context.Context, ids []string) ([]Attributes, error) {
	all := make([]Attributes, len(ids))
	for i, id := range ids {
		all[i] = f.table.get(id)
	}
	return all, nil
}

// fileReader reads the users of one file into a table.
type fileReader struct {
	path     string
	table    *table
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
	err := checkID(id)
	if claimed := api.CheckUser(id); err == nil && claimed != nil {
		err = fmt.Errorf("the user id %s: %s", quoted(id), strings.TrimPrefix(claimed.Error(), "user: "))
	}
	if err != nil {
		remedy := "Correct it."
		if id == "" {
			remedy = "Give each user an id."
		}
		return r.refuse(line, column, remedy, "%s", err)
	}
	if r.table.full() {
		return r.refuse(line, column, "Keep so many users in a database.", "the users need more than %d bytes of memory", maxTable)
	}
	if !r.table.add(id, r.values) {
		return r.refuse(line, column, "Keep one of the lines.", "the user %s is in the file twice", quoted(id))
	}
	return nil
}

// done maps the end of reading to nil.
func done(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, errEnough) {
		return nil
	}
	return err
}
