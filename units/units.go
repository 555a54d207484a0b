// Package units knows what the units of a sale are where they are more than numbers:
// coupon codes, seats. It reads what a sale declares, checks it, seals it, and compares it
// with what a sale has already.
//
// ForSale finds what a sale declares, and the key under which its units are encrypted
// where they are kept. Source.Check reads all of it once: there are as many units as the
// stock has, each has a name and no name is there twice. Its Summary tells two
// declarations apart and nothing of their units. Source.Read hands the units over in
// their order, for a sale that has none yet. Pack makes bytes of some of them, Key.Seal
// encrypts these for the place where they are to stand, and Key.Open and Unpack turn them
// back. For a sale that has units, Source.Compare finds which are declared no more and
// how many are new, and Source.New hands these over.
//
// A file may have millions of units. They are read line by line, as often as it takes, and
// what is remembered of a unit is two hashes and its line, see mark. A file that changes
// between two readings is refused, before a unit that has changed is handed over. No text of
// a file with secret units ever stands in an error, but for the name of a column that is
// nearly the one declared.
package units

import (
	"context"
	"encoding/binary"
	"hash/maphash"

	"salectl/spec"
)

// Unit is what one unit of a sale is.
type Unit struct {
	Name       string
	Attributes []string // in the order of Source.Columns()[1:]
}

// Source is where the units of a sale are declared. It is not safe for concurrent use.
type Source struct {
	sale    string // for problems that are of no file
	stock   int64
	units   spec.Units
	key     *Key
	columns []string
	seen    *seen                    // by the first reading that came to its end
	size    int64                    // of the file, when it was last opened
	hash    func(name string) uint64 // for names; tests let them collide
	whole   func(u Unit) uint64      // for a unit with its attributes
}

// ForSale returns where the units of a sale are declared; nil without an error if they are
// numbers, or red packets. It reads the key and not the units. env is os.LookupEnv. The
// error is a *spec.Problem: the key is not there, or is none.
func ForSale(s spec.Sale, env func(string) (string, bool)) (*Source, error) {
	if s.Units == nil {
		return nil, nil
	}
	source := &Source{sale: s.File, stock: s.Stock, units: *s.Units}
	if source.sale == "" {
		source.sale = "sale " + s.Name
	}
	names, wholes := maphash.MakeSeed(), maphash.MakeSeed()
	source.hash = func(name string) uint64 { return maphash.String(names, name) }
	var fields []byte
	source.whole = func(u Unit) uint64 {
		fields = u.appendFields(fields[:0])
		return maphash.Bytes(wholes, fields)
	}
	if !s.Units.FromFile {
		source.columns = []string{"unit"}
	}
	if s.Units.Secret {
		var err error
		if source.key, err = source.readKey(env); err != nil {
			return nil, err
		}
	}
	return source, nil
}

// appendFields appends the name and the attributes, each with its length before it.
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

// Columns are what the fields of a unit are called, that of the name first. Those of a file
// are known once it has been read by one of the other methods.
func (s *Source) Columns() []string { return s.columns }

// Key is what units are encrypted with; nil: they are public.
func (s *Source) Key() *Key { return s.key }

// Summary tells apart what is declared.
type Summary struct {
	Count int64
	// Digest is over the columns and all units in their order: an HMAC under the key, so
	// that nobody can try codes against it, or a SHA-256 if units are public.
	Digest [32]byte
}

// Check reads everything once and says what is wrong with it: the first problems, each a
// *spec.Problem with its line, and how many more there are.
func (s *Source) Check(ctx context.Context) (Summary, error) {
	_, summary, err := s.index(ctx)
	return summary, err
}

// Read hands over all units in their order, until each returns an error. Behind a Check these
// are units that it has seen: where the file has changed since, Read ends with an error before
// it. Without one, what was handed over counts for nothing if there is an error, since the file
// may turn out to have too few units. It does not look for names that are there twice, as
// Check does.
func (s *Source) Read(ctx context.Context, each func(Unit) error) error {
	problems := s.problems()
	if _, err := s.scan(ctx, problems, func(_ int64, u Unit) error {
		if problems.any() {
			return nil
		}
		return each(u)
	}); err != nil {
		return err
	}
	return problems.err()
}
