package calls

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
)

// silent is a store that answers no call.
type silent struct{ ledger.Logs }

func (silent) Append(ctx context.Context, _ string, _ uint64, _, _, _ []byte) error {
	<-ctx.Done()
	return fmt.Errorf("waiting for server rs: %w", ledger.Ended(ctx))
}

// A call of the store that is not answered reports the call and its timeout.
func TestUnanswered(t *testing.T) {
	var got ledger.Reply
	call := OfLogs("append planned", time.Millisecond, &ledger.Request{Kind: ledger.AppendRequest}, func(_ clock.Now, r ledger.Reply) { got = r })
	call.Took(clock.Now{}, call.Do(t.Context(), Ends{Logs: silent{}}), nil)
	if want := `waiting for server rs: no answer to "append planned" within 1ms`; !errors.Is(got.Err, context.DeadlineExceeded) || got.Err.Error() != want {
		t.Errorf("got %v, want %s", got.Err, want)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	call = OfLogs("read sale", time.Hour, &ledger.Request{Kind: ledger.AppendRequest}, nil)
	if err := call.Do(ctx, Ends{Logs: silent{}}).(ledger.Reply).Err; err.Error() != "waiting for server rs: context deadline exceeded" {
		t.Errorf("the caller's time is up: %v", err)
	}
}
