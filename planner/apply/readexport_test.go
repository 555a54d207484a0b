package apply

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"salectl/backends/ledger"
	"salectl/backends/ledger/export"
	"salectl/spec"
)

// ReadExport folds the commits of an export, as whoever has nothing else of the sale
// would, and audits it.
func ReadExport(content []byte) (header export.Header, shards []*ledger.State, err error) {
	first, rest, _ := bytes.Cut(content, []byte("\n"))
	if err := json.Unmarshal(first, &header); err != nil {
		return header, nil, err
	}
	for i := range header.Roots {
		shards = append(shards, ledger.NewState(spec.ShardLog(header.UID, i, len(header.Roots))))
	}
	for line := range bytes.Lines(rest) {
		var c struct {
			Shard  int
			Commit []byte
			Log    string `json:"log"`
		}
		if err := json.Unmarshal(line, &c); err != nil {
			return header, nil, err
		}
		if c.Commit == nil || c.Log != "" { // the line of a claim, or of no shard
			continue
		}
		if err := shards[c.Shard].Fold(c.Commit); err != nil {
			return header, nil, err
		}
	}
	a, _, err := export.Audit(bytes.NewReader(content), nil)
	if err == nil && !a.OK {
		err = errors.New(strings.Join(a.Problems, "\n"))
	}
	return header, shards, err
}
