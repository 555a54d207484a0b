package cli

import (
	"context"
	"os"

	"salectl/backends/ledger"
	"salectl/backends/ledger/payload"
	"salectl/planner"
	"salectl/planner/apply"
	"salectl/planner/current"
	"salectl/spec"
	"salectl/units"
)

// Payloads of units that are more than numbers. Nil stands for numbers.

// readPayloads reads the declared units of a sale, and their changes, for the plan.
func readPayloads(ctx context.Context, logs ledger.Logs, sale spec.Sale, actual *planner.Actual) error {
	source, err := units.ForSale(sale, os.LookupEnv)
	if err == nil {
		actual.Units = current.ReadUnits(ctx, logs, sale.Units, source, actual)
	}
	return err
}

// payloadReader returns a reader of a sale's payloads, given the sale's log. It refuses a key
// that decrypts none of them, even before anything is sold.
func payloadReader(ctx context.Context, logs ledger.Logs, sale spec.Sale, log *ledger.Sale) (*payload.Reader, error) {
	if len(log.Newest().GetUnits()) == 0 {
		return nil, nil
	}
	key, err := units.PayloadKey(sale, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	if err := payload.CheckKey(ctx, logs, log, key); err != nil {
		return nil, err
	}
	return payload.NewReaderOfSale(logs, log, key), nil
}

// drawKeyFits refuses to plan a draw whose key is missing, or does not decrypt the committed
// secret: the draw could not be revealed.
func drawKeyFits(sale spec.Sale, live *ledger.Sale) error {
	if sale.Draw == nil || live.Live() && live.Drawn() != nil {
		return nil
	}
	key, err := units.DrawKey(sale, os.LookupEnv)
	if err != nil {
		return err
	}
	return apply.FitsDraw(live, key)
}
