// Package units reads the declared units of a sale, where these are more than numbers:
// coupon codes, seats. It validates them, seals them, and compares them with the units that
// a sale has already.
//
// ForSale returns the Source of a sale's units, with the key under which they are encrypted
// at rest. Source.Check reads all of them once: there must be as many as the stock, each with
// a name, and names must be unique. Its Summary distinguishes declarations and reveals nothing
// of their units. Source.Read passes on the units in order, for a sale that has none yet. Pack
// encodes some of them as bytes, Key.Seal encrypts these for their place in a log, and Key.Open
// and Unpack reverse that. For a sale that has units, Source.Compare determines which are no
// longer declared and how many are new, and Source.Read passes on which are.
//
// A file may have millions of units. It is read line by line, as often as necessary. Only
// hashes and the line of a unit are kept, see mark. A file that changes between two readings is
// refused before a changed unit is passed on. No text of a file with secret units is ever part
// of an error, except for the name of a column that resembles the declared one.
package units

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"

	"salectl/spec"
)

// Unit is one unit of a sale.
type Unit struct {
	Name       string
	Attributes []string // in the order of Source.Columns()[1:]
}

// Source is the declaration of a sale's units. It is not safe for concurrent use.
type Source struct {
	sale    string // for problems without a file
	stock   int64
	units   spec.Units
	key     *Key
	columns []string
	seen    *seen // result of the first reading that was completed
	size    int64 // of the file, when it was last opened
	marker  *marker
}

// ForSale returns the Source of a sale's units; nil without an error if they are numbers, or
// red packets. It reads the key and not the units. env is os.LookupEnv. The error is a
// *spec.Problem: the key is missing, or invalid.
func ForSale(s spec.Sale, env func(string) (string, bool)) (*Source, error) {
	if s.Units == nil {
		return nil, nil
	}
	source := &Source{sale: cmp.Or(s.File, "sale "+s.Name), stock: s.Stock, units: *s.Units, marker: newMarker()}
	if !s.Units.FromFile {
		source.columns = []string{"unit"}
	}
	if s.Units.Secret {
		var err error
		source.key, err = keyOf{sale: source.sale, part: "units", env: s.Units.KeyEnv, path: s.Units.KeyFile}.read(env)
		if err != nil {
			return nil, err
		}
	}
	return source, nil
}

// PayloadKey returns the key of the units of a sale's file; nil if they are public, or numbers.
func PayloadKey(s spec.Sale, env func(string) (string, bool)) (*Key, error) {
	source, err := ForSale(s, env)
	if source == nil || err != nil {
		return nil, err
	}
	return source.Key(), nil
}

// appendFields appends the name and the attributes, each preceded by its length.
func (u Unit) appendFields(dst []byte) []byte {
	dst = appendField(dst, u.Name)
	for _, a := range u.Attributes {
		dst = appendField(dst, a)
	}
	return dst
}

func appendField(dst []byte, field string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(field))), field...)
}

// Columns returns the names of a unit's fields, beginning with that of its name. Those of a file
// are known once one of the other methods has read it.
func (s *Source) Columns() []string { return s.columns }

// Key returns the key that encrypts the units; nil: they are public.
func (s *Source) Key() *Key { return s.key }

// Summary distinguishes declarations.
type Summary struct {
	Count int64
	// Digest covers the columns and all units in order: an HMAC under the key, so that
	// nobody can test codes against it, or a SHA-256 if the units are public.
	Digest [32]byte
}

// Check reads all units once. The error has the first problems, each a *spec.Problem with its
// line, and the number of further ones.
func (s *Source) Check(ctx context.Context) (Summary, error) {
	_, summary, err := s.index(ctx)
	return summary, err
}

// Read calls each for all units in order, until each returns an error; added reports whether a
// unit is added by c, where nil adds all. After a Check, or if c is not nil, these are the units
// that Check or Compare has seen: if the file has changed since, Read returns an error before it
// passes on a changed unit. Otherwise units passed on before an error must be discarded, since
// the file may turn out to have too few units. Read does not detect duplicate names, as Check
// does.
func (s *Source) Read(ctx context.Context, c *Change, each func(u Unit, added bool) error) error {
	if c != nil {
		s.seen = c.seen // also if this is another source than the one that compared
	}
	problems := s.problems()
	if _, err := s.scan(ctx, problems, func(line int64, u Unit) error {
		if problems.any() {
			return nil
		}
		return each(u, c.adds(line))
	}); err != nil {
		return err
	}
	return problems.err()
}

// maxProblems is the maximum number of problems of a declaration that are reported.
const maxProblems = 10

// problems are the first problems of a declaration, and the number of further ones.
type problems struct {
	file string
	all  []error
	more int64
}

func (s *Source) problems() *problems {
	if s.units.FromFile {
		return &problems{file: s.units.File}
	}
	return &problems{file: s.sale}
}

// refuse is a csvfile.Refuse that records the problem and continues.
func (p *problems) refuse(line, column int, remedy, message string, args ...any) error {
	if len(p.all) == maxProblems {
		p.more++
		return nil
	}
	p.all = append(p.all, &spec.Problem{File: p.file, Line: line, Column: column, Message: fmt.Sprintf(message, args...), Remedy: remedy})
	return nil
}

func (p *problems) any() bool { return len(p.all) > 0 }

// err returns the problems as an error, nil if there is none.
func (p *problems) err() error {
	if p.more == 0 {
		return spec.Join(p.all)
	}
	return spec.Join(p.all, &spec.Problem{File: p.file,
		Message: fmt.Sprintf("it has %s", spec.Count(p.more, "more problem")), Remedy: "Correct those above first."})
}
