package peers

import (
	"reflect"
	"testing"

	"salectl/api"
	"salectl/executor/request"
)

// TestForwardedRequests: a forwarded request arrives as it was sent, but for the shard, which the
// other end computes.
func TestForwardedRequests(t *testing.T) {
	for name, e := range map[string]forwarded{
		"claim": {ID: 7, UID: "a run", Request: request.Request{User: "ada", Key: "key", Quantity: 2, Units: []int64{3, 4}, Adjacent: true}},
		"settle": {ID: 7, UID: "a run", Request: request.Request{Settle: &request.Settlement{
			Claim: request.ClaimID{Shard: 1, Slot: 2, Index: 3}, How: "refund",
			Settlement: api.Settlement{Payment: "payment", Who: "who", Reason: "reason", Retire: true},
		}}},
		"unit":    {ID: 7, UID: "a run", Request: request.Request{Query: &request.Query{Claim: request.ClaimID{Shard: 1, Unit: 1 << 40}}}},
		"user":    {ID: 7, UID: "a run", Request: request.Request{Query: &request.Query{User: "ada", Page: api.Page{Before: "1-2-3", Limit: 4}}}},
		"find":    {ID: 7, UID: "a run", Request: request.Request{Query: &request.Query{Claim: request.ClaimID{Shard: 1, Slot: 2, Index: 3}}}},
		"give up": {ID: 7, UID: "a run", Cancel: true, Request: request.Request{User: "ada", Key: "key"}},
		"no run":  {ID: 7, Request: request.Request{Query: &request.Query{User: "ada"}}},
	} {
		ticket := &request.Ticket{Request: e.Request}
		ticket.ForwardID = e.ID
		m := EncodeRequest(e.UID, ticket)
		if e.Cancel {
			m = encodeCancel(e.UID, ticket)
		}
		if got := decoded(m); !reflect.DeepEqual(got, e) {
			t.Errorf("%s: %+v arrives as %+v", name, e, got)
		}
	}
}
