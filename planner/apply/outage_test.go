package apply

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"salectl/planner"
	"salectl/planner/current"
)

// A long reason is whole: it names what fails at its end.
func TestOutageTellsTheReason(t *testing.T) {
	cause := errors.New("read sale/tickets: " + strings.Repeat("HBase table sales: ", 20) + "zk: could not\n connect to a server")
	o, err := current.ReadOutage(t.Context(), newWorld(t).running().Backends, "tickets", fmt.Errorf("sale tickets: %w: %w", planner.ErrStore, cause))
	if err != nil {
		t.Fatal(err)
	}
	got := o.Status("").LedgerError
	if !strings.HasPrefix(got, "read sale/tickets: HBase") || !strings.HasSuffix(got, "table sales: zk: could not connect to a server") {
		t.Errorf("%q", got)
	}
}
