package process

import (
	"fmt"
	"testing"
	"time"
)

// A rate is that of the five seconds before the last sample, and there is none before.
func TestMeter(t *testing.T) {
	var m meter
	for i, c := range []struct {
		count uint64
		want  string
	}{{7, "?"}, {8, "?"}, {9, "?"}, {10, "?"}, {11, "?"}, {17, "2"}, {18, "2"}, {18, "1.8"}, {18, "1.6"}, {18, "1.4"}, {18, "0.2"}, {18, "0"}} {
		got := "?"
		if rate := m.sample(time.Duration(i)*time.Second, c.count); rate != nil {
			got = fmt.Sprint(*rate)
		}
		if got != c.want {
			t.Errorf("after %d s: %s, want %s", i, got, c.want)
		}
	}
}
