package cli

import (
	"net/http"
	"strings"
	"testing"
)

// Several processes are shown with what is known of each, and a question mark where nothing
// is; the first that tells is believed.
func TestStatusOfSeveralProcesses(t *testing.T) {
	address := answering(t, http.StatusOK, `{"sale":"tickets","phase":"open","nodes":[],"shards":[],
		"processes":[{"address":"a:1","version":"v2","state":"serving","here":true,"up":true,"shards":2,"should":1,"requests":120.4,"forwarded":80},
			{"address":"b:1","state":"draining","up":false,"should":2},{"address":"c:1","state":"standby","up":true,"shards":0,"should":0,"requests":0,"forwarded":0}],
		"owners":[{"shard":0,"owner":"a:1","load":1234.5,"waiting":3,"busy":true},{"shard":2,"owner":"b:1"}],
		"moves":[{"shard":0,"from":"a:1","to":"b:1","stage":"due"},{"shard":2,"to":"a:1","stage":"takes"}]}`)
	s := troubled("127.0.0.1:1") // nobody is there
	s.Shards[2].Owner = address
	view := &saleStatus{Status: s}
	askServer(t.Context(), view, asker{token: "secret"})
	if s.Server == nil || s.Server.Address != address || s.Server.Error != "" {
		t.Fatalf("asked was %+v", s.Server)
	}
	c := newCapture()
	c.statusText(view, false)
	got := squeeze(c.out.String())
	for _, want := range []string{`served by 3 processes
`, `
process version state shards should own requests/s passed on
a:1 v2 serving 2 1 120 66% tells this
b:1 - not reached ? 2 ? ? the process that tells this does not reach it
c:1 - standby 0 0 0.0 -
shard 0 is to go from a:1 to b:1: not begun, as far as a:1 knows
shard 2 is to go from nobody that is known to a:1: it waits for the lease
`, "limit available held sold claims/s\n", " 30 20 0 10 1,235 busier than the others\n", " 30 20 0 10 ?\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("it says\n%s\nwhich lacks\n%s", got, want)
		}
	}
}
