package spec

import (
	"encoding/json"
	"fmt"
)

// storedSale is the JSON of a declaration. Ledgers keep it for years: a field may be added, with
// a zero that equals its absence, but none is ever renamed, moved or redefined.
type storedSale struct {
	APIVersion string `json:"apiVersion"`
	Sale
}

// JSON returns the declaration as stored in the ledger and compared by plans: one line, in a
// fixed order, equal for equal declarations. Times are RFC 3339 in UTC; fields that end in Ms
// are in milliseconds. It omits File, Labels, Annotations, Embedded.Dir and paths of files. It
// fails for a Sale that Load would reject.
func (s Sale) JSON() ([]byte, error) {
	if err := s.sane(); err != nil {
		return nil, err
	}
	s.OpensAt, s.ClosesAt = s.OpensAt.UTC(), s.ClosesAt.UTC()
	if s.Engine != EngineRedis {
		s.Engine, s.Ack = "", "" // absent: ledger
	}
	return json.Marshal(storedSale{APIVersion, s})
}

// FromJSON decodes the output of JSON, of this version of the program or another. Unknown
// fields are ignored. File, Embedded.Dir and paths are empty.
func FromJSON(data []byte) (Sale, error) {
	var in storedSale
	if err := json.Unmarshal(data, &in); err != nil {
		return Sale{}, fmt.Errorf("stored declaration: %w", err)
	}
	if in.APIVersion != APIVersion {
		return Sale{}, fmt.Errorf("stored declaration: it is of version %q, and this program reads %s: use a newer one",
			in.APIVersion, APIVersion)
	}
	s := in.Sale
	s.OpensAt, s.ClosesAt = s.OpensAt.UTC(), s.ClosesAt.UTC()
	if s.Engine == "" {
		s.Engine, s.Ack = EngineLedger, AckLedger
	}
	if err := s.sane(); err != nil {
		return Sale{}, fmt.Errorf("stored declaration: %w", err)
	}
	return s, nil
}
