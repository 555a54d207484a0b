package planner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"salectl/backends/ledger"
	"salectl/rules"
)

// Remember keeps what users bought in a run of a sale, for the rules of later sales.
// What it was told before it may be told again. Without buyers it only returns why it could
// keep none.
type Remember func(ctx context.Context, sale, uid string, buyers []rules.Buyer) error

// rememberAtOnce bounds how many buyers one call of a Remember gets.
const rememberAtOnce = 4096

// remembering is an Exporter that has what users bought kept as well, once the export is
// where it belongs: what is kept without one would be kept again.
func remembering(export Exporter, remember Remember) Exporter {
	return func(ctx context.Context, logs ledger.Logs, e *Export) (string, []byte, error) {
		path, digest, err := export(ctx, logs, e)
		if err != nil {
			return path, digest, err
		}
		for chunk := range slices.Chunk(e.buyers(), rememberAtOnce) {
			if err := remember(ctx, e.sale, e.uid, chunk); err != nil {
				return path, digest, fmt.Errorf("keeping what users bought: %w", err)
			}
		}
		return path, digest, nil
	}
}

// buyers are the users who have units, in the order in which the shards have them. A
// user's claims are on one shard.
func (e *Export) buyers() (all []rules.Buyer) {
	for _, s := range e.shards {
		index := make(map[string]int)
		for i := range s.Claims() {
			c := s.Claim(i)
			if c.State != ledger.StateSold {
				continue
			}
			n, known := index[c.User]
			if !known {
				n = len(all)
				index[c.User], all = n, append(all, rules.Buyer{User: c.User})
			}
			b := &all[n]
			b.Units += int64(len(c.Units))
			if at := time.UnixMicro(c.TimeUs).UTC(); at.After(b.At) {
				b.At = at
			}
		}
	}
	return all
}
