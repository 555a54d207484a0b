package rules

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"salectl/spec"
)

// csv reads CSV with a header.
func (r *fileReader) csv(from io.Reader) error {
	lines := csv.NewReader(from)
	lines.ReuseRecord = true
	header, err := lines.Read()
	if errors.Is(err, io.EOF) {
		return done(r.refuse(1, 1, "Write the names of the columns into the first line, id among them.", "the file is empty"))
	}
	if err != nil {
		return r.csvError(err)
	}
	columns, id := r.header(slices.Clone(header), lines)
	if len(r.problems) > 0 {
		return nil
	}
	r.values = make([]Value, len(r.table.schema.attributes))
	for {
		record, err := lines.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = r.csvUser(record, columns, id, lines)
		} else {
			err = r.csvError(err)
		}
		if err != nil {
			return done(err)
		}
	}
}

// csvError is a line that is no CSV, after which nothing is certain.
func (r *fileReader) csvError(err error) error {
	var parse *csv.ParseError
	if !errors.As(err, &parse) {
		return err
	}
	remedy := "Put texts that hold a comma, a quote or a new line into double quotes, and double each quote in them."
	if errors.Is(err, csv.ErrFieldCount) {
		remedy = "Give each line as many cells as the header has."
	}
	_ = r.refuse(parse.Line, parse.Column, remedy, "this is no CSV: %v", parse.Err)
	return errEnough
}

// header returns the column of each attribute, and that of the id.
func (r *fileReader) header(header []string, lines *csv.Reader) (columns []int, id int) {
	header[0] = strings.TrimPrefix(header[0], "\ufeff")
	column := func(name string) int {
		i := slices.Index(header, name)
		if i >= 0 && slices.Contains(header[i+1:], name) {
			line, at := lines.FieldPos(i + 1 + slices.Index(header[i+1:], name))
			_ = r.refuse(line, at, "Rename one of them.", "there are two columns named %s", name)
		}
		if i < 0 {
			remedy := fmt.Sprintf("The columns are %s. Name the one that is meant %s.", strings.Join(header, ", "), name)
			if near := spec.Nearest(name, header); near != "" {
				remedy = fmt.Sprintf("Is %s meant? Name it %s.", near, name)
			}
			_ = r.refuse(1, 1, remedy, "there is no column named %s", name)
		}
		return i
	}
	id = column(fieldID)
	for _, name := range r.table.schema.Names() {
		columns = append(columns, column(name))
	}
	return columns, id
}

func (r *fileReader) csvUser(record []string, columns []int, id int, lines *csv.Reader) error {
	for i, a := range r.table.schema.attributes {
		v, err := ParseValue(a.Type, record[columns[i]])
		if err != nil {
			line, at := lines.FieldPos(columns[i])
			return r.refuse(line, at, remedyFor(a), "%s: %s", a.Name, err)
		}
		r.values[i] = v
	}
	line, at := lines.FieldPos(id)
	return r.user(line, at, strings.Clone(record[id]))
}

// remedyFor is what to do about a value that is not of its type.
func remedyFor(a Attribute) string {
	return fmt.Sprintf("Correct it, leave it empty if it is not known, or declare %s as another type than %s.", a.Name, a.Type)
}
