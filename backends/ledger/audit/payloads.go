package audit

import (
	"context"
	"errors"

	"salectl/backends/ledger"
	"salectl/backends/ledger/payload"
)

// What an audit knows of what units are, where they are more than numbers: that it is stored of
// each. What it is needs the key, and is held against the declaration by a plan.

// readPayloads reads the log of units, and again a few times while it does not say what units are
// that were added: a read may lag. damage says why it cannot be read further.
func readPayloads(ctx context.Context, logs ledger.Logs, log *payload.Log, added []ledger.Added) (damage, err error) {
	for try := 1; ; try++ {
		_, err := ledger.Load(ctx, logs, log.Log(), log)
		switch {
		case errors.Is(err, ledger.ErrCorrupt) || errors.Is(err, ledger.ErrGone):
			return err, nil
		case err != nil || try == ledger.MissingTries || len(unstored(log, added)) == 0:
			return nil, err
		}
		if err := ledger.Wait(ctx, logs, ledger.MissingPause); err != nil {
			return nil, err
		}
	}
}

// unstored returns the units that plans have added and of which the log does not say what they are.
func unstored(log *payload.Log, added []ledger.Added) (all []ledger.Units) {
	for _, plan := range added {
		if missing := log.Missing(plan); len(missing) > 0 {
			all = append(all, missing)
		}
	}
	return all
}

// Payloads checks that the log of units has the payload of each unit that plans had added before
// it was read.
func (r *Recount) Payloads(log *payload.Log, added []ledger.Added) {
	for _, missing := range unstored(log, added) {
		r.Problem("units %v are in the sale, and what they are is not stored", missing)
	}
}
