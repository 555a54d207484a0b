package apply

import (
	"context"
	"fmt"
	"slices"
	"time"

	"salectl/backends/ledger"
	"salectl/rules"
)

// A manifest records the digest of an export beside it, so that a recipient of both can verify
// the export with sha256sum -c.

// Remember stores what users bought in a run of a sale, for the rules of later sales. It may
// receive the same buyers again. Without buyers it only returns the error that storing would
// have.
type Remember func(ctx context.Context, sale, uid string, buyers []rules.Buyer) error

// rememberAtOnce bounds the number of buyers in one call of a Remember.
const rememberAtOnce = 4096

// remembering returns an Exporter that stores what users bought after the export: what is
// stored without an export would be stored again.
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

// buyers returns the users who have units, in the order of the shards. A user's claims are on
// one shard.
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
