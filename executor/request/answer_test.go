package request_test

import (
	"slices"
	"testing"

	"salectl/api"
	"salectl/executor/request"
)

func TestAnswers(t *testing.T) {
	accepted := []api.Outcome{api.Sold, api.Held, api.Entered}
	// Whoever hears one of these knows that the claim was accepted, or does not know that it was not.
	allows := append([]api.Outcome{
		api.NotDrawn, api.Expired, api.Cancelled, api.Refunded, api.KeyReused, api.BadRequest, api.Unknown, api.Returned,
	}, accepted...)
	outcomes := []api.Outcome{"of a newer program"}
	for _, row := range api.Outcomes() {
		outcomes = append(outcomes, row.Outcome)
	}
	for _, outcome := range outcomes {
		a := request.Answer{Outcome: outcome}
		if a.Accepted() != slices.Contains(accepted, outcome) || a.Denies() == slices.Contains(allows, outcome) {
			t.Errorf("%s: accepted %v, denies %v", outcome, a.Accepted(), a.Denies())
		}
	}
	for want, id := range map[string]request.ClaimID{"3-7-2": {Shard: 3, Slot: 7, Index: 2}, "3-u9": {Shard: 3, Unit: 9}} {
		if id.String() != want {
			t.Errorf("%+v is %s, want %s", id, id, want)
		}
	}
}
