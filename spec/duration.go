package spec

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Duration is a duration of whole milliseconds: text such as 90m in a document, and a number
// of milliseconds in JSON.
type Duration time.Duration

// String returns the duration as time.Duration does.
func (d Duration) String() string { return time.Duration(d).String() }

// isWhole reports whether the duration is of whole milliseconds.
func (d Duration) isWhole() bool { return time.Duration(d)%time.Millisecond == 0 }

// MarshalYAML returns the form of a document.
func (d Duration) MarshalYAML() (any, error) { return FormatTerm(time.Duration(d)), nil }

// MarshalJSON returns the number of milliseconds.
func (d Duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, time.Duration(d).Milliseconds(), 10), nil
}

// UnmarshalJSON reads a number of milliseconds.
func (d *Duration) UnmarshalJSON(text []byte) error {
	ms, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return fmt.Errorf("%s is no number of milliseconds", text)
	}
	if longest := math.MaxInt64 / int64(time.Millisecond); ms > longest || ms < -longest {
		return fmt.Errorf("%d milliseconds are too long", ms)
	}
	*d = Duration(ms) * Duration(time.Millisecond)
	return nil
}

// Bounds and default of a lock's ttl.
const (
	MaxLockTTL     = Duration(10 * time.Second)
	DefaultLockTTL = Duration(3 * time.Second)
)
