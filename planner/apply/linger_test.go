package apply

import (
	"context"
	"errors"
	"testing"
	"time"

	"salectl/backends/ledger"
)

// What was exported is left where it is for a while, and an end of the command ends that.
func TestLingering(t *testing.T) {
	failed, over := errors.New("no room"), errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	var fail error
	exporting := func(context.Context, ledger.Logs, *Export) (string, []byte, error) {
		if fail == nil {
			cancel(over) // it would wait for an hour
		}
		return "file", []byte("sum"), fail
	}
	fail = failed
	if _, _, err := lingering(exporting, time.Hour)(ctx, nil, nil); !errors.Is(err, failed) {
		t.Errorf("an export that fails: %v", err)
	}
	fail = nil
	if _, _, err := lingering(exporting, time.Hour)(ctx, nil, nil); !errors.Is(err, over) {
		t.Errorf("a command that is ended: %v", err)
	}
	path, digest, err := lingering(exporting, time.Nanosecond)(t.Context(), nil, nil)
	if path != "file" || string(digest) != "sum" || err != nil {
		t.Errorf("%s %s %v", path, digest, err)
	}
}
