package stream

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor"
)

// The page for those who write a client has requests that are understood, and answers that
// are given.
func TestPageOfStreams(t *testing.T) {
	text, err := os.ReadFile("../../../docs/stream.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	requests := regexp.MustCompile("`({\"id\":.*})` \\|").FindAllStringSubmatch(page, -1)
	if len(requests) != 6 {
		t.Errorf("the page has %d requests", len(requests))
	}
	for _, r := range requests {
		if got, f := new(lines).decode([]byte(r[1])); f != nil || got.User == "" && got.Settle == nil && got.Query == nil && !got.cancel {
			t.Errorf("%s: %v", r[1], f)
		}
	}
	opens := time.Date(2026, 11, 11, 10, 0, 0, 0, time.UTC)
	answers := map[string]executor.Answer{
		"ada": {Outcome: api.Sold, Claim: executor.Claim{
			ID: executor.ClaimID{Shard: 4, Slot: 2}, User: "ada", Units: []int64{81}, At: time.Date(2026, 11, 21, 7, 29, 33, 837468000, time.UTC),
		}},
		"eve": {Outcome: api.NotOpen, OpensAt: opens, RetryAfter: 90 * time.Second},
	}
	now := clock.System()()
	now.Wall = opens.Add(-90 * time.Second)
	codec := &lines{sale: "movie-tickets", now: func() clock.Now { return now }}
	for _, user := range []string{"ada", "eve"} {
		line := string(codec.appendAnswer(nil, &inflight{id: 1, answer: answers[user]}, executor.Place{Shard: 4, Shards: 5, Owner: "10.0.0.7:8080"}))
		if !json.Valid([]byte(line)) || !strings.Contains(page, "\n"+line) {
			t.Errorf("the page does not have %s", line)
		}
	}
	if away := string(codec.appendGoingAway(nil)); !strings.Contains(page, "`"+strings.TrimSpace(away)+"`") {
		t.Errorf("the page does not have %s", away)
	}
	for _, media := range []string{api.TypeLines, api.TypeStream, api.AddressHeader, api.ShardHeader + ": 4/5", api.OwnerHeader} {
		if !strings.Contains(page, media) {
			t.Errorf("the page does not have %s", media)
		}
	}
}
