package access

import (
	"errors"
	"testing"

	"salectl/internal/wait"
)

// A request on a stream waits while those of its token count for too much, and others do not.
func TestMemory(t *testing.T) {
	m := NewMemory(100)
	never := make(chan struct{})
	m.Take(500, never) // alone
	took := make(chan error, 1)
	go func() { m.Take(60, never); took <- nil }()
	wait.Until(t, "a request waits", func() bool { return m.room.Load() != nil })
	select {
	case <-took:
		t.Error("it takes what is not there")
	default:
	}
	m.Add(-500)
	<-took
	over := make(chan struct{})
	go func() {
		m.Take(50, over)
		took <- errors.New("over")
	}()
	wait.Until(t, "another waits", func() bool { return m.room.Load() != nil })
	close(over)
	<-took
	if used := m.used.Load(); used != 110 { // its stream gives all back
		t.Errorf("%d bytes are taken", used)
	}
}
