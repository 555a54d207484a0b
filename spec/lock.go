package spec

import (
	"fmt"
	"reflect"
	"time"

	"github.com/invopop/jsonschema"
)

// Limits and default of a lock's ttl.
const (
	MinLockTTL     = 2 * time.Second
	MaxLockTTL     = 10 * time.Second
	DefaultLockTTL = 3 * time.Second
)

type lockPart struct {
	TTL Duration `yaml:"ttl,omitempty" jsonschema:"example=3s,example=2500ms" jsonschema_description:"Time from the death of an owner to the takeover of its shards, 2s to 10s. A change takes effect at the next takeover."`
}

func (lockPart) JSONSchemaExtend(s *jsonschema.Schema) {
	ttl := property(s, "ttl")
	ttl.Pattern, ttl.Default = ttlForm, DefaultLockTTL.String()
}

// lock decodes the ttl of locks.
func (d *decoder) lock(spec object) (ttl time.Duration) {
	ttl = DefaultLockTTL
	o, ok := d.part(spec, "lock", reflect.TypeFor[lockPart]())
	if !ok {
		return ttl
	}
	// A number without a unit is the likeliest mistake, and has a better message than text.
	if v, ok := d.value(o, "ttl"); ok && d.scalar(v, "a duration", "Write ttl: 3s, or leave the key out.") {
		var f *fault
		if ttl, f = readTTL(v.node.Value); f != nil {
			d.fault(v, f)
		}
	}
	return ttl
}

func readTTL(text string) (time.Duration, *fault) {
	const write = "Write seconds or milliseconds in whole numbers, such as 3s or 2500ms."
	if f := checkDuration(text, durationRE, "3s or 2500ms", write); f != nil {
		return 0, f
	}
	// ParseDuration fails only far beyond the limit.
	d, err := time.ParseDuration(text)
	if err != nil || d < MinLockTTL || d > MaxLockTTL {
		return 0, &fault{fmt.Sprintf("is outside of %v to %v", MinLockTTL, MaxLockTTL),
			"A shorter lock is lost to a slow disk, a longer one blocks its shard for long after a crash. 3s is a good value."}
	}
	return d, nil
}

// lockPartOf converts the ttl to its part of a document.
func lockPartOf(ttl time.Duration) *lockPart {
	if ttl == DefaultLockTTL {
		return nil
	}
	return &lockPart{TTL: Duration(ttl)}
}

func saneLockTTL(ttl time.Duration) error {
	if ttl <= 0 || ttl%time.Millisecond != 0 {
		return fmt.Errorf("the lock's ttl of %v is no positive number of milliseconds", ttl)
	}
	return nil
}
