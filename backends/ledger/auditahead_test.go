package ledger_test

import (
	"strings"
	"testing"
	"time"

	"salectl/backends/ledger"
)

// An audit of a ledger that was written with a clock ahead reports it, and finds
// nothing wrong.
func TestAuditWarnsOfAClock(t *testing.T) {
	w := ledger.NewWorld(t)
	logs := w.Logs
	last := time.UnixMicro(w.Shards[ledger.WorldShards-1].Head().TimeUs) // the newest of all
	for name, test := range map[string]struct {
		now  time.Time
		want string
	}{
		"the clock is right":             {last, ""},
		"it is as far off as clocks are": {last.Add(-ledger.MaxAhead), ""},
		"it is a little further off": {last.Add(-ledger.MaxAhead - time.Microsecond), "the time of log aa/" + ledger.TestUID +
			"/2 is 20s ahead of this host's clock: either this clock is wrong, or that of the writer was"},
	} {
		t.Run(name, func(t *testing.T) {
			a := mustAudit(t, logs)
			a.Warn(test.now)
			if got := strings.Join(a.Warnings, "; "); got != test.want || !a.OK {
				t.Errorf("it warns of %q, want %q; problems %q", got, test.want, a.Problems)
			}
		})
	}
	a := mustAudit(t, logs)
	if a.Warn(last.Add(-time.Hour)); len(a.Warnings) != ledger.WorldShards+1 {
		t.Errorf("of %d logs it names %q", ledger.WorldShards+1, a.Warnings)
	}
}
