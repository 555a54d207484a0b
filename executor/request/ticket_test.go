package request

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"salectl/api"
)

func TestTicket(t *testing.T) {
	fresh := func() *Ticket {
		return NewTicket(new(sync.Pool), Request{User: "ann", Key: "1", Quantity: 1}, nil, 0)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	sold := Answer{Outcome: api.Sold}
	for name, test := range map[string]struct {
		before func(*Ticket)
		ctx    context.Context
		want   api.Outcome
	}{
		"answered":                         {func(k *Ticket) { k.Take(); k.Answer = sold; k.Complete() }, context.Background(), api.Sold},
		"answered, by who may end":         {func(k *Ticket) { k.Take(); k.Answer = sold; k.Complete() }, t.Context(), api.Sold},
		"given up before it was looked at": {func(*Ticket) {}, ended, api.Overloaded},
		"given up once it was put back":    {func(k *Ticket) { k.Take(); k.PutBack() }, ended, api.Overloaded},
		"given up while it is decided":     {func(k *Ticket) { k.Take() }, ended, api.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			k := fresh()
			test.before(k)
			if got := wait(test.ctx, k); got.Outcome != test.want {
				t.Errorf("got %+v", got)
			}
		})
	}
	t.Run("given up when the answer is there", func(t *testing.T) {
		k := fresh()
		k.Take()
		k.Answer = sold
		k.Complete()
		if got := k.Cancel(); got.Outcome != api.Sold {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("taken by one of two", func(t *testing.T) {
		k := fresh()
		if !k.Take() || k.Take() || k.Withdraw() {
			t.Error("it was had twice")
		}
		if k.PutBack(); !k.Withdraw() || k.Take() {
			t.Error("it was decided after it was withdrawn")
		}
	})
	t.Run("told instead of signalled", func(t *testing.T) {
		k, told := fresh(), 0
		k.waiter = WaiterFunc(func() { told++ })
		if k.Complete(); told != 1 || len(k.done) != 0 {
			t.Errorf("told %d times, signalled %d", told, len(k.done))
		}
	})
	t.Run("waits until the answer comes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k := fresh()
			go func() {
				time.Sleep(time.Second)
				k.Take()
				k.Answer = sold
				k.Complete()
			}()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if got := wait(ctx, k); got.Outcome != api.Sold {
				t.Errorf("got %+v", got)
			}
		})
	})
	t.Run("used again, it remembers nothing", func(t *testing.T) {
		k := fresh()
		pool := &sync.Pool{New: func() any { return k }}
		k.pool = pool
		k.Answer, k.Op, k.SentToList = sold, 7, true
		k.state.Store(ticketWithdrawn)
		again := NewTicket(pool, Request{User: "bob", Key: "2"}, nil, time.Second)
		if again != k || again.User != "bob" || again.QueuedAt != time.Second || again.Op != 0 || again.SentToList || again.Answer.Outcome != "" || !again.Take() {
			t.Errorf("%+v", again)
		}
		again.waiter = WaiterFunc(func() {})
		if again.Free(); again.waiter != nil || again.User != "" {
			t.Errorf("%+v", again)
		}
	})
}

// wait returns the answer to a ticket, or gives up when ctx ends.
func wait(ctx context.Context, t *Ticket) Answer {
	if t.Await(ctx) {
		return t.Finish()
	}
	return t.Cancel()
}
