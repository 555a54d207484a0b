package api

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"salectl/api/streampb"
)

// TestStreamBreaks reads a stream that ends as it should, and others that break. The errors leave the
// server to the caller, which names it.
func TestStreamBreaks(t *testing.T) {
	reset := errors.New("connection reset")
	for name, c := range map[string]struct {
		body io.Reader
		want error
	}{
		"end":              {strings.NewReader(""), nil},
		"reset":            {iotest.ErrReader(reset), reset},
		"within a message": {strings.NewReader("\x05ab"), io.ErrUnexpectedEOF},
		"no length":        {strings.NewReader(strings.Repeat("\xff", 11)), streampb.ErrNoLength},
	} {
		conn := &StreamConn{cfg: StreamConfig{Server: "http://here:8080"}, body: io.NopCloser(c.body)}
		if err := conn.read(); !errors.Is(err, c.want) || err != nil && strings.Contains(err.Error(), "8080") {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

// TestCallPlaces uses the places of a stream's calls again. An answer that comes after its call was removed
// must not reach the next call in the same place.
func TestCallPlaces(t *testing.T) {
	x, first, second, third := new(linked), new(call), new(call), new(call)
	x.enter(first)
	x.enter(second)
	early := first.id
	if got := x.take(early); got != first {
		t.Fatalf("call %d: got %p, want %p", early, got, first)
	}
	x.enter(third)
	if len(x.calls) != 2 || third.id == early {
		t.Errorf("ids %d, %d and %d in %d places", early, second.id, third.id, len(x.calls))
	}
	for _, id := range []uint64{0, early, third.id + 1} {
		if got := x.take(id); got != nil {
			t.Errorf("id %d: got call %d", id, got.id)
		}
	}
	if x.take(third.id) != third || x.take(second.id) != second || len(x.free) != 2 {
		t.Errorf("the calls %d and %d are not found; %d places are free", second.id, third.id, len(x.free))
	}
	for range maxCalls {
		x.enter(new(call))
	}
	if x.enter(new(call)) {
		t.Errorf("the stream accepted %d calls", len(x.calls))
	}
}
