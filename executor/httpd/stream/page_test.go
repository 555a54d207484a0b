package stream

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"salectl/api"
	"salectl/api/streampb"
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
	requests := regexp.MustCompile("`(id:.*})` \\|").FindAllStringSubmatch(page, -1)
	if len(requests) != 6 {
		t.Errorf("the page has %d requests", len(requests))
	}
	for _, r := range requests {
		m := new(streampb.Request)
		if err := prototext.Unmarshal([]byte(r[1]), m); err != nil {
			t.Errorf("%s: %v", r[1], err)
			continue
		}
		whole, _ := proto.Marshal(m)
		if got, f := decode(new(streampb.Decoder), whole); f != nil || got.User == "" && got.Settle == nil && got.Query == nil && !got.cancel {
			t.Errorf("%s: %v", r[1], f)
		}
	}
	opens := time.Date(2026, 11, 11, 10, 0, 0, 0, time.UTC)
	answers := []executor.Answer{
		{Outcome: api.Sold, Claim: executor.Claim{
			ID: executor.ClaimID{Shard: 4, Slot: 2}, User: "ada", Units: []int64{81}, State: api.Sold, At: time.Date(2026, 11, 21, 7, 29, 33, 837468000, time.UTC),
		}},
		{Outcome: api.NotOpen, OpensAt: opens, RetryAfter: 90 * time.Second},
	}
	now := clock.System()()
	now.Wall = opens.Add(-90 * time.Second)
	_, section, _ := strings.Cut(page, "## Replies")
	replies := regexp.MustCompile("(?m)^id: 1 answer .*$").FindAllString(section, -1)
	if len(replies) != len(answers) {
		t.Fatalf("the page has %d replies", len(replies))
	}
	for i, reply := range replies {
		want := new(streampb.Reply)
		if err := prototext.Unmarshal([]byte(reply), want); err != nil {
			t.Errorf("%s: %v", reply, err)
			continue
		}
		r := &inflight{id: 1, answer: answers[i], content: executor.Request{User: "ada", Quantity: 1}}
		whole := new(encoder).appendAnswer(nil, r, executor.Place{Shard: 4, Shards: 5, Owner: "10.0.0.7:8080"}, func() clock.Now { return now })
		message, _, err := streampb.Cut(whole, streampb.MaxReply)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := new(streampb.Decoder).Reply(message); err != nil || !proto.Equal(got, want) {
			t.Errorf("the page has %v, and the server sends %v, %v", want, got, err)
		}
	}
	for _, name := range []string{api.TypeStream, api.AddressHeader, api.ShardHeader + ": 4/5", api.OwnerHeader} {
		if !strings.Contains(page, name) {
			t.Errorf("the page does not have %s", name)
		}
	}
}
