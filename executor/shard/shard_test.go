package shard

import (
	"errors"
	"sync"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor/request"
	"salectl/executor/saletest"
)

// TestLateComers offers a request to a shard whose sequencer has just stopped.
func TestLateComers(t *testing.T) {
	var waited int
	s := New(Config{
		Log: "log", Writer: saletest.Planner, Address: "127.0.0.1:1", Totals: NewSaleTotals(1), Doubts: new(request.Doubts),
		Clock: clock.System(), Queue: 10, ObserveWait: func(time.Duration) { waited++ },
	})
	s.Apply(Halt{Why: errors.New("the end"), Refusal: api.Draining})
	late, answered := request.NewTicket(new(sync.Pool), request.Request{User: "ann", Key: "1", Quantity: 1}, nil, 0), false
	late.OnAnswer(request.WaiterFunc(func() { answered = true }))
	if no := s.Offer(clock.System()(), late); no != "" {
		t.Fatalf("an open shard says %s", no)
	}
	s.close()
	if !answered || late.Answer.Outcome != api.Draining {
		t.Errorf("who came just in time is told %+v", late.Answer)
	}
	if waited != 1 {
		t.Errorf("%d batches were counted", waited)
	}
	if no := s.Offer(clock.System()(), request.NewTicket(new(sync.Pool), request.Request{User: "bob", Key: "1", Quantity: 1}, nil, 0)); no != api.Standby {
		t.Errorf("a closed shard says %q", no)
	}
}
