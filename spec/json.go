package spec

import (
	"encoding/json"
	"fmt"
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
	s, err := in.read()
	if err == nil {
		err = s.sane()
	}
	if err != nil {
		return Sale{}, fmt.Errorf("stored declaration: %w", err)
	}
	return s, nil
}
