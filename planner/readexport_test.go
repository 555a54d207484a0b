package planner

import (
	"bytes"
	"context"
	"encoding/json"

	"salectl/backends/ledger"
	"salectl/spec"
)

// ReadExport folds the commits of an export, as whoever has nothing else of the sale
// would, and holds the export against the fold.
func ReadExport(content []byte) (header ledger.ExportHeader, shards []*ledger.State, err error) {
	first, rest, _ := bytes.Cut(content, []byte("\n"))
	if err := json.Unmarshal(first, &header); err != nil {
		return header, nil, err
	}
	for i := range header.Roots {
		shards = append(shards, ledger.NewState(spec.ShardLog(header.UID, i, len(header.Roots))))
	}
	for line := range bytes.Lines(rest) {
		var c ledger.ExportCommit
		if err := json.Unmarshal(line, &c); err != nil {
			return header, nil, err
		}
		if c.Commit == nil { // the line of a claim
			continue
		}
		if err := shards[c.Shard].Fold(c.Commit); err != nil {
			return header, nil, err
		}
	}
	return header, shards, ledger.CheckExport(context.Background(), bytes.NewReader(content), header.Sale, header.UID, shards, nil)
}
