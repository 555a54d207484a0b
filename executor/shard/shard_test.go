package shard

import (
	"errors"
	"sync"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor/saletest"
)

// TestLateComers offers a request to a shard whose sequencer has just stopped.
func TestLateComers(t *testing.T) {
	var waited int
	s := New(Config{
		Log: "log", Me: saletest.Planner, Address: "127.0.0.1:1", Totals: NewSaleTotals(1), Doubts: new(Doubts),
		Clock: clock.System(), Queue: 10, ObserveWait: func(time.Duration) { waited++ },
	})
	s.Apply(Halt{Why: errors.New("the end"), Refusal: api.Draining})
	late := NewTicket(new(sync.Pool), Request{User: "ann", Key: "1", Quantity: 1}, nil, 0)
	if no := s.Offer(clock.System()(), late); no != "" {
		t.Fatalf("an open shard says %s", no)
	}
	s.close()
	select {
	case <-late.done:
		if late.answer.Outcome != api.Draining {
			t.Errorf("who came just in time is told %+v", late.answer)
		}
	default:
		t.Error("who came just in time waits for ever")
	}
	if waited != 1 {
		t.Errorf("%d batches were counted", waited)
	}
	if no := s.Offer(clock.System()(), NewTicket(new(sync.Pool), Request{User: "bob", Key: "1", Quantity: 1}, nil, 0)); no != api.Standby {
		t.Errorf("a closed shard says %q", no)
	}
}
