package spec

import (
	"fmt"
	"slices"
	"strings"
)

// Engine is what gives a sale's units out.
type Engine string

// The engines.
const (
	EngineLedger Engine = "ledger" // every claim is an entry of its shard's log first
	EngineRedis  Engine = "redis"  // lists on Redis give units out, and the ledger follows
)

// Ack is when a claim of the Redis engine is answered.
type Ack string

// The acknowledgements.
const (
	AckLedger Ack = "ledger" // once the ledger has the claim
	AckRedis  Ack = "redis"  // once Redis has it, so that Redis may still lose it
)

// engine takes what says how units are given out. It returns false if the
// engine could not be made out: then nobody can say what goes with it.
func (d *decoder) engine(o object, s *Sale) bool {
	engine, ok := choice(d, o, "engine", EngineLedger, EngineRedis)
	ack, _ := choice(d, o, "ack", AckLedger, AckRedis)
	s.Engine, s.Ack = engine, ack
	if engine == EngineRedis {
		s.Backlog = DefaultBacklog
	}
	if v, ok := d.value(o, "backlog"); ok {
		s.Backlog, _ = d.number(v, 1, MaxBacklog)
	}
	if v, found := d.value(o, "units"); found {
		d.units(v, s, ok)
		d.tooMany(o, s)
	}
	if !ok {
		return false
	}
	switch engine {
	case EngineLedger:
		d.onlyRedis(o)
	case EngineRedis:
		d.notRedis(o, s)
	}
	return true
}

// redisKeys are the keys that go with the Redis engine alone.
var redisKeys = []string{"ack", "backlog"}

func (d *decoder) onlyRedis(o object) {
	for _, key := range redisKeys {
		if at := o.keys[key]; at != nil {
			d.refuse(at, fmt.Sprintf("Add engine: redis, or remove %s.", key), "%s stands without engine: redis", join(o.path, key))
		}
	}
}

// notRedis reports what the Redis engine does not do.
func (d *decoder) notRedis(o object, s *Sale) {
	if s.PerUserLimit > DefaultPerUserLimit {
		d.refuse(o.values["perUserLimit"], "Write perUserLimit: 1, leave the key out, or use engine: ledger.",
			"%s is %d, and engine redis gives each user one", join(o.path, "perUserLimit"), s.PerUserLimit)
	}
	if s.Stock > MaxRedisStock {
		d.refuse(o.values["stock"], fmt.Sprintf("Write at most %d, or use engine: ledger.", MaxRedisStock),
			"%s is above %d, the most that engine redis keeps in its lists", join(o.path, "stock"), MaxRedisStock)
	}
	if at := o.keys["payment"]; at != nil {
		d.refuse(at, "Remove payment, or use engine: ledger.", "%s stands with engine: redis, which sells every claim at once",
			join(o.path, "payment"))
	}
	if at := o.keys["partial"]; at != nil {
		d.refuse(at, "Remove partial, or use engine: ledger.", "%s stands with engine: redis, which gives each user one unit: there is no part of it",
			join(o.path, "partial"))
	}
	for _, key := range ruleKeys {
		why := "whose lists know nothing of users"
		if key == "queue" {
			why = "whose lists give units in the order of arrival"
		}
		if at := o.keys[key]; at != nil {
			d.refuse(at, fmt.Sprintf("Remove %s, or use engine: ledger.", key), "%s stands with engine: redis, %s", join(o.path, key), why)
		}
	}
}

// choice takes one of a few words; the first stands for an absent key. It
// returns false, and the empty word, for any other.
func choice[Word ~string](d *decoder, o object, key string, words ...Word) (Word, bool) {
	if o.keys[key] == nil {
		return words[0], true
	}
	var all []string
	for _, word := range words {
		all = append(all, string(word))
	}
	remedy := fmt.Sprintf("Write %s: %s.", key, strings.Join(all, ", or "+key+": "))
	v, ok := d.value(o, key)
	if !ok || !d.scalar(v, "one of "+and(all), remedy) {
		return "", false
	}
	if i := slices.Index(all, v.node.Value); i >= 0 {
		return words[i], true
	}
	d.refuse(v.at, remedy, "%s is %q, which is none of %s", v.path, v.node.Value, and(all))
	return "", false
}
