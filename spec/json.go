package spec

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// JSON returns the declaration as stored in the ledger and compared by plans: one line, in a
// fixed order, equal for equal declarations. Times are RFC 3339 in UTC; fields that end in Ms
// are in milliseconds. It omits File, Labels, Annotations, Embedded.Dir and paths of files. It
// fails for a Sale that Load would reject.
func (s Sale) JSON() ([]byte, error) {
	if err := s.sane(); err != nil {
		return nil, err
	}
	return json.Marshal(s.stored())
}

// FromJSON decodes the output of JSON, of this version of the program or another. Unknown
// fields are ignored. File, Embedded.Dir and paths are empty.
func FromJSON(data []byte) (Sale, error) {
	var in stored
	if err := json.Unmarshal(data, &in); err != nil {
		return Sale{}, fmt.Errorf("stored declaration: %w", err)
	}
	if in.APIVersion != APIVersion {
		return Sale{}, fmt.Errorf("stored declaration: it is of version %q, and this program reads %s: use a newer one",
			in.APIVersion, APIVersion)
	}
	if err := tooLong(in.terms()); err != nil {
		return Sale{}, fmt.Errorf("stored declaration: %w", err)
	}
	s, err := in.read()
	if err == nil {
		err = s.sane()
	}
	if err != nil {
		return Sale{}, fmt.Errorf("stored declaration: %w", err)
	}
	return s, nil
}

// storedTerm is a duration of a stored declaration, with its key.
type storedTerm struct {
	key string
	ms  int64
}

// tooLong returns an error for a duration beyond time.Duration.
func tooLong(terms []storedTerm) error {
	for _, t := range terms {
		if longest := math.MaxInt64 / int64(time.Millisecond); t.ms > longest || t.ms < -longest {
			return fmt.Errorf("%s is %d, which is too long", t.key, t.ms)
		}
	}
	return nil
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
