package spec

import (
	"fmt"
	"time"

	"github.com/invopop/jsonschema"
)

// Limits and default of a lock's ttl.
const (
	MinLockTTL     = Duration(2 * time.Second)
	MaxLockTTL     = Duration(10 * time.Second)
	DefaultLockTTL = Duration(3 * time.Second)
)

func ttlSchema(s *jsonschema.Schema) {
	s.Pattern = ttlForm
	s.Examples = append(s.Examples, "2500ms")
}

// ttl decodes the ttl of locks.
func (d *decoder) ttl(v value, o *option) (any, bool) {
	// A number without a unit is the likeliest mistake, and has a better message than text.
	if !d.scalar(v, "a duration", "Write ttl: 3s, or leave the key out.") {
		return nil, false
	}
	ttl, f := readTTL(v.node.Value)
	if f != nil {
		d.fault(v, f)
	}
	return ttl, f == nil
}

func readTTL(text string) (Duration, *fault) {
	const write = "Write seconds or milliseconds in whole numbers, such as 3s or 2500ms."
	if f := checkDuration(text, durationRE, "3s or 2500ms", write); f != nil {
		return 0, f
	}
	// ParseDuration fails only far beyond the limit.
	d, err := time.ParseDuration(text)
	if ttl := Duration(d); err == nil && ttl >= MinLockTTL && ttl <= MaxLockTTL {
		return ttl, nil
	}
	return 0, &fault{fmt.Sprintf("is outside of %v to %v", MinLockTTL, MaxLockTTL),
		"A shorter lock is lost to a slow disk, a longer one blocks its shard for long after a crash. 3s is a good value."}
}
