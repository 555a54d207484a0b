package csvfile

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// collector is a Refuse that reads on until there are most problems.
type collector struct {
	most  int
	texts []string
}

var errEnough = errors.New("enough")

func (c *collector) refuse(line, column int, remedy, message string, args ...any) error {
	c.texts = append(c.texts, fmt.Sprintf("%d:%d: %s. %s", line, column, fmt.Sprintf(message, args...), remedy))
	if len(c.texts) == c.most {
		return errEnough
	}
	return nil
}

func TestReader(t *testing.T) {
	c := &collector{}
	r, err := New(strings.NewReader("\ufeffid,level\nada,\"5\n6\"\nbob\neve,7\n"), "id among them", c.refuse)
	if err != nil || !slices.Equal(r.Header, []string{"id", "level"}) {
		t.Fatal(r, err)
	}
	if i, err := r.Column("level"); i != 1 || err != nil {
		t.Errorf("column %d, %v", i, err)
	}
	record, err := r.Record()
	if line, column := r.At(1); err != nil || record[1] != "5\n6" || line != 2 || column != 5 {
		t.Errorf("got %q at %d:%d, %v", record, line, column, err)
	}
	if _, err := r.Record(); err != ErrBroken {
		t.Errorf("a line with one cell: %v", err)
	}
	record, err = r.Record()
	if line, _ := r.At(0); err != nil || record[0] != "eve" || line != 5 {
		t.Errorf("got %q in line %d, %v", record, line, err)
	}
	if _, err := r.Record(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	if want := "4:1: this is no CSV: wrong number of fields. Give each line as many cells as the header has."; len(c.texts) != 1 || c.texts[0] != want {
		t.Errorf("reported: %q", c.texts)
	}
}

// The first line determines how cells are separated; what stands in quotes there does not.
func TestSeparators(t *testing.T) {
	for text, want := range map[string][]string{
		"id,level\na;b,c\td\n":              {"id|level", "a;b|c\td"},
		"\ufeffid;level\r\na,b;c\r\n":       {"id|level", "a,b|c"},
		"\ufeff\"id\";\"a,b\"\na;\"c;d\"\n": {"id|a,b", "a|c;d"},
		"id\tlevel;x\na\tb;c\n":             {"id|level;x", "a|b;c"},
		"id;level\tx,y\na;b,c\n":            {"id;level\tx|y", "a;b|c"},
		"\"i\nd\",level\na,b":               {"i\nd|level", "a|b"},
		"id\na;b\n":                         {"id", "a;b"},
	} {
		c := &collector{}
		r, err := New(strings.NewReader(text), "", c.refuse)
		if err != nil {
			t.Errorf("%q: %v, %q", text, err, c.texts)
			continue
		}
		got := []string{strings.Join(r.Header, "|")}
		for record, err := r.Record(); err == nil; record, err = r.Record() {
			got = append(got, strings.Join(record, "|"))
		}
		if !slices.Equal(got, want) || len(c.texts) > 0 {
			t.Errorf("%q: got %q, want %q; %q", text, got, want, c.texts)
		}
	}
}

func TestHeader(t *testing.T) {
	for _, c := range []struct {
		text, column string
		hidden       bool
		want         string
	}{
		{"", "id", false, "1:1: the file is empty. Write the names of the columns into the first line, id among them."},
		{"\xff\xfei\x00d\x00\n\x00", "id", false, "1:1: the file is UTF-16. Save it as UTF-8."},
		{"id;stra\xdfe\n", "id", false, "1:1: the names of the columns are not UTF-8. Save it as CSV UTF-8."},
		{"id,x\ra,1\r", "id", false, "1:1: a carriage return alone does not end a line. Save it with the ends of lines of Unix or Windows."},
		{"sep=;\nid;x\n", "id", false, "1:1: the line is a setting of a spreadsheet, and no names of columns. Remove the line: the separator is taken from the header."},
		{"i\"d\";x\n", "id", false, "1:2: this is no CSV: bare \" in non-quoted-field. Put texts that hold a semicolon or a quote into double quotes, and double each quote in them."},
		{"user\tx\n", "id", false, "1:1: there is no column named id. The columns are user, x. Name the one that is meant id."},
		{"i\"d\"\n", "id", false, "1:2: this is no CSV: bare \" in non-quoted-field. Put texts that hold a comma or a quote into double quotes, and double each quote in them."},
		{"user,x\n", "id", false, "1:1: there is no column named id. The columns are user, x. Name the one that is meant id."},
		{"levle,x\n", "level", false, "1:1: there is no column named level. Is levle meant? Name it level."},
		{"a,id,id\n", "id", false, "1:6: there are two columns named id. Rename one of them."},
		{"levle,x\n", "level", true, "1:1: there is no column named level. Is levle meant? Name it level."},
		{"level-XYZ,x\n", "level", true, "1:1: there is no column named level. Write the names of the columns into the first line, level among them, or declare another column."},
		{"level-XYZ,x\n", "level", false, "1:1: there is no column named level. Is level-XYZ meant? Name it level."},
	} {
		all := &collector{}
		r, err := New(strings.NewReader(c.text), "id among them", all.refuse)
		if err == nil {
			r.Hidden = c.hidden
			_, err = r.Column(c.column)
		} else if err != ErrBroken {
			t.Errorf("%q: %v", c.text, err)
		} else {
			err = nil
		}
		if err != nil || len(all.texts) != 1 || all.texts[0] != c.want {
			t.Errorf("%q: got %q, %v", c.text, all.texts, err)
		}
	}
}

// A callback that wants no more problems gets its own error back.
func TestRefuseEndsReading(t *testing.T) {
	for _, text := range []string{"", "a\"\n", "id\na\"\n"} {
		all := &collector{most: 1}
		r, err := New(strings.NewReader(text), "id among them", all.refuse)
		if err == nil {
			_, err = r.Record()
		}
		if err != errEnough {
			t.Errorf("%q: %v", text, err)
		}
	}
	all := &collector{most: 1}
	r, err := New(strings.NewReader("a\n"), "id among them", all.refuse)
	if err != nil {
		t.Fatal(err)
	}
	if i, err := r.Column("id"); i >= 0 || err != errEnough {
		t.Errorf("column %d, %v", i, err)
	}
}
