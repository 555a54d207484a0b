package events

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"salectl/backends/ledger"
)

// readable is a service with a ledger.
type readable struct{ logs ledger.Logs }

func (r readable) Logs() ledger.Logs { return r.logs }

// TestReadsOfFollowers: all followers of a sale have few reads under way at a time.
func TestReadsOfFollowers(t *testing.T) {
	store := &slow{inside: make(chan struct{}, 10), open: make(chan struct{})}
	logs := NewSale("movie", readable{store}).logs
	var reads sync.WaitGroup
	for i := range maxReads {
		reads.Go(func() {
			if i == 0 {
				logs.Heads(t.Context(), nil)
			} else {
				logs.Read(t.Context(), "log", 0, 1)
			}
		})
		<-store.inside
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := logs.Heads(over, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("one more look at heads: %v", err)
	}
	if _, _, err := logs.Read(over, "log", 0, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("one more read: %v", err)
	}
	close(store.open)
	reads.Wait()
	if _, err := logs.Heads(t.Context(), nil); err != nil {
		t.Errorf("a look at heads when there is room: %v", err)
	}
}

// slow is a store whose reads last until it is open. It takes no account of contexts.
type slow struct {
	ledger.Logs
	inside, open chan struct{}
	under        atomic.Int64
}

var errTooMany = errors.New("more reads than there may be")

func (s *slow) Read(context.Context, string, uint64, int) ([]byte, [][]byte, error) {
	defer s.under.Add(-1)
	if s.under.Add(1) > maxReads {
		return nil, nil, errTooMany
	}
	s.inside <- struct{}{}
	<-s.open
	return nil, nil, nil
}

func (s *slow) Heads(context.Context, []string) ([][]byte, error) {
	_, _, err := s.Read(context.Background(), "", 0, 0)
	return nil, err
}
