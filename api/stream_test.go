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
