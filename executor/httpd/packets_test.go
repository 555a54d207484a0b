package httpd

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/executor"
	"salectl/executor/httpd/httpdtest"
	"salectl/executor/shard"
	"salectl/spec"
)

// pocket is a red packet of 0.10 in 4 packets: 0.03, 0.03, 0.02 and 0.02.
var (
	red    = spec.RedPacket{Currency: "CNY", Scale: 2, Total: 10, Min: 1, Split: spec.SplitEven}
	pocket = red.Deal(4, [32]byte{})
)

// TestPackets tells buyers of a red packet what they have: whoever buys, asks
// again, has enough, or looks.
func TestPackets(t *testing.T) {
	grab := executor.Claim{ID: executor.ClaimID{Shard: 3, Unit: 2}, User: "u", Units: []int64{2}, State: api.Sold, At: noon, Packets: pocket}
	several := executor.Claim{ID: executor.ClaimID{Shard: 1, Slot: 5, Index: 1}, User: "u", Units: []int64{1, 4}, State: api.Sold, At: noon, Packets: pocket}
	const grabBody = `{"outcome":"sold","claim":"3-u2","sale":"movie","user":"u","units":[2],"amounts":["0.03"],"currency":"CNY","at":"2026-11-11T12:00:00Z"}`
	const severalBody = `{"outcome":"sold","claim":"1-5-1","sale":"movie","user":"u","units":[1,4],"amounts":["0.03","0.02"],"currency":"CNY","at":"2026-11-11T12:00:00Z"}`

	var answer executor.Answer
	f := &httpdtest.Fake{
		Name:      "movie",
		ClaimFunc: func(context.Context, executor.Request) executor.Answer { return answer },
		UserFunc:  func(string) ([]executor.Claim, api.Outcome) { return []executor.Claim{grab, several}, "" },
		StatusFunc: func() executor.Status {
			return executor.Status{Packets: &api.Packets{Currency: "CNY", Total: "0.10", Commitment: "ab" + strings.Repeat("0", 60) + "cd"}, Shards: []executor.ShardStatus{
				{Report: shard.Report{Totals: ledger.Totals{Limit: 2}}, Listed: true, ListOn: true, Undrained: 5}, {Report: shard.Report{Totals: ledger.Totals{Limit: 1}}, Listed: true, Undrained: 2}, {Report: shard.Report{Totals: ledger.Totals{Limit: 1}}, Listed: true, ListOn: true},
			}}
		},
	}
	s := New(Config{Clock: atNoon, Sales: []executor.Service{f}})
	ask := func(method, path string) string {
		return text(t, do(s, method, "/v1/sales/movie"+path, `{"user":"u"}`, nil))
	}
	for name, c := range map[string]struct {
		answer executor.Answer
		want   string
	}{
		"sold":          {executor.Answer{Outcome: api.Sold, Claim: grab}, grabBody},
		"several units": {executor.Answer{Outcome: api.Sold, Claim: several}, severalBody},
		"asked again":   {executor.Answer{Outcome: api.Sold, Claim: grab, Replayed: true}, grabBody},
		"limit reached": {executor.Answer{Outcome: api.LimitReached, Claims: []executor.Claim{grab}}, `"claims":[` + grabBody + `]}`},
	} {
		answer = c.answer
		if got := ask(http.MethodPost, "/claims"); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
	if got, want := ask(http.MethodGet, "/users/u"), `{"sale":"movie","user":"u","claims":[`+grabBody+`,`+severalBody+`]}`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got, want := ask(http.MethodGet, ""), `,"packets":{"currency":"CNY","total":"0.10","commitment":"ab`+strings.Repeat("0", 60)+`cd"},"lists":{"on":2,"off":1,"undrained":7},`; !strings.Contains(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}
