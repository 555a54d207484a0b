// Package csvfile reads CSV whose first line names the columns, and reports what is wrong with it
// by line and column. Cells are separated by commas or, as spreadsheets of many countries write
// them, by semicolons or tabs: the first line decides. New reads that line, Column finds a column
// by its name, and Record returns the next record. Callers interpret the cells.
package csvfile

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"salectl/spec"
)

// Refuse reports a fault at a line and a column, both from 1. An error of Refuse ends the reading.
type Refuse func(line, column int, remedy, message string, args ...any) error

// ErrBroken reports a line that is not CSV, or has another number of cells than the first. Refuse
// has reported it. Where a cell may contain line breaks, no later line is certain.
var ErrBroken = errors.New("a line is no CSV")

// Reader reads the records of a file.
type Reader struct {
	// Header has the names of the columns, without a byte order mark.
	Header []string
	// Hidden keeps texts of the file out of the reports of Refuse, except for a name that nearly
	// equals the one that is searched for: the first line of a file without a header may be a
	// secret.
	Hidden bool

	csv    *csv.Reader
	refuse Refuse
}

// New reads the first line. needed describes the expected columns, for the remedy of an empty file.
func New(from io.Reader, needed string, refuse Refuse) (*Reader, error) {
	lines := bufio.NewReader(from)
	first, err := lines.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	first = strings.TrimPrefix(first, "\ufeff")
	r := &Reader{csv: csv.NewReader(io.MultiReader(strings.NewReader(first), lines)), refuse: refuse}
	r.csv.ReuseRecord = true
	r.csv.Comma = separator(first)
	remedy, message := "", ""
	switch {
	case strings.HasPrefix(first, "\xff\xfe"), strings.HasPrefix(first, "\xfe\xff"):
		remedy, message = "Save it as UTF-8.", "the file is UTF-16"
	case !utf8.ValidString(first):
		remedy, message = "Save it as CSV UTF-8.", "the names of the columns are not UTF-8"
	case strings.Contains(strings.TrimRight(first, "\r\n"), "\r"):
		remedy, message = "Save it with the ends of lines of Unix or Windows.", "a carriage return alone does not end a line"
	case strings.HasPrefix(first, "sep="):
		remedy, message = "Remove the line: the separator is taken from the header.", "the line is a setting of a spreadsheet, and no names of columns"
	}
	if message != "" {
		return nil, cmp.Or(refuse(1, 1, remedy, "%s", message), ErrBroken)
	}
	header, err := r.csv.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, cmp.Or(refuse(1, 1, "Write the names of the columns into the first line, "+needed+".", "the file is empty"), ErrBroken)
	case err != nil:
		return nil, r.broken(err)
	}
	r.Header = slices.Clone(header)
	return r, nil
}

// separator returns the separator of the names of columns: a comma, if there is one outside of
// quotes, else a semicolon or a tab.
func separator(line string) rune {
	found, quoted := ',', false
	for _, c := range line {
		switch {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ',':
			return ','
		case found == ',' && (c == ';' || c == '\t'):
			found = c
		}
	}
	return found
}

// Column returns the index of a column, below zero if there is none. It reports a column that is
// missing, or that occurs twice.
func (r *Reader) Column(name string) (int, error) {
	i := slices.Index(r.Header, name)
	if i < 0 {
		return i, r.refuse(1, 1, r.others(name), "there is no column named %s", name)
	}
	if again := slices.Index(r.Header[i+1:], name); again >= 0 {
		line, at := r.csv.FieldPos(i + 1 + again)
		return i, r.refuse(line, at, "Rename one of them.", "there are two columns named %s", name)
	}
	return i, nil
}

// others returns the remedy for a missing column.
func (r *Reader) others(name string) string {
	near := spec.Nearest(name, r.Header)
	switch {
	case near != "" && (!r.Hidden || likeName(near, name)):
		return fmt.Sprintf("Is %s meant? Name it %s.", near, name)
	case r.Hidden:
		return fmt.Sprintf("Write the names of the columns into the first line, %s among them, or declare another column.", name)
	}
	return fmt.Sprintf("The columns are %s. Name the one that is meant %s.", strings.Join(r.Header, ", "), name)
}

// likeName reports whether a text that resembles a name is a name, rather than a secret that begins
// like it.
func likeName(text, name string) bool {
	return len(text) <= len(name)+2 && !strings.ContainsAny(text, "0123456789")
}

// Record returns the next record, which is valid until the next call; io.EOF after the last.
func (r *Reader) Record() ([]string, error) {
	record, err := r.csv.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.broken(err)
	}
	return record, err
}

// At returns the place where a field of the record begins.
func (r *Reader) At(field int) (line, column int) { return r.csv.FieldPos(field) }

// broken reports a line that is not CSV; it returns any other error, which is that of the file.
func (r *Reader) broken(err error) error {
	parse, ok := errors.AsType[*csv.ParseError](err)
	if !ok {
		return err
	}
	remedy := "Put texts that hold a " + map[rune]string{',': "comma", ';': "semicolon", '\t': "tab"}[r.csv.Comma] + " or a quote into double quotes, and double each quote in them."
	if errors.Is(err, csv.ErrFieldCount) {
		remedy = "Give each line as many cells as the header has."
	}
	return cmp.Or(r.refuse(parse.Line, parse.Column, remedy, "this is no CSV: %v", parse.Err), ErrBroken)
}
