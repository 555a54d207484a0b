package rules

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"salectl/internal/csvfile"
)

// csv reads CSV with a header.
func (r *fileReader) csv(from io.Reader) error {
	lines, err := csvfile.New(from, fieldID+" among them", r.refuse)
	if err != nil {
		return csvDone(err)
	}
	columns, id, err := r.header(lines)
	if err != nil || len(r.problems) > 0 {
		return csvDone(err)
	}
	r.values = make([]Value, len(r.table.schema.attributes))
	for {
		record, err := lines.Record()
		if err == nil {
			err = r.csvUser(record, columns, id, lines)
		}
		if err != nil {
			return csvDone(err)
		}
	}
}

// csvDone maps the end of reading to nil. A line that is not CSV ends the reading, too, since the
// lines after it are unreliable.
func csvDone(err error) error {
	if errors.Is(err, csvfile.ErrBroken) {
		return nil
	}
	return done(err)
}

// header returns the column of each attribute, and that of the id.
func (r *fileReader) header(lines *csvfile.Reader) (columns []int, id int, err error) {
	if id, err = lines.Column(fieldID); err != nil {
		return nil, 0, err
	}
	for _, name := range r.table.schema.Names() {
		column, err := lines.Column(name)
		if err != nil {
			return nil, 0, err
		}
		columns = append(columns, column)
	}
	return columns, id, nil
}

func (r *fileReader) csvUser(record []string, columns []int, id int, lines *csvfile.Reader) error {
	for i, a := range r.table.schema.attributes {
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
func remedyFor(a Attribute) string {
	return fmt.Sprintf("Correct it, leave it empty if it is not known, or declare %s as another type than %s.", a.Name, a.Type)
}
