package audit

import (
	"context"
	"errors"

	"salectl/backends/ledger"
	"salectl/backends/ledger/payload"
)

// Where units are more than numbers, an audit checks only that the payload of each is stored. A
// plan, which has the key, compares the payloads with the declaration.

// readPayloads reads the log of units. Since reads may lag, it repeats that a few times while
// payloads of added units are missing. damage is the reason why the log cannot be read further.
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

// unstored returns the units of each plan in added whose payloads the log does not have.
func unstored(log *payload.Log, added []ledger.Added) (all []ledger.Units) {
	for _, plan := range added {
		if missing := log.Missing(plan); len(missing) > 0 {
			all = append(all, missing)
		}
	}
	return all
}

// Payloads checks that the log of units has the payload of each unit that plans had added before
// the log was read.
func (r *Recount) Payloads(log *payload.Log, added []ledger.Added) {
	for _, missing := range unstored(log, added) {
		r.Problem("units %v are in the sale, and what they are is not stored", missing)
	}
}
