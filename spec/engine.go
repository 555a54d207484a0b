package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/invopop/jsonschema"
)

// Engine is the component that gives out a sale's units.
type Engine string

// Engines.
const (
	EngineLedger Engine = "ledger" // every claim is first appended to its shard's log
	EngineRedis  Engine = "redis"  // lists on Redis give out units, and the ledger follows
)

// Ack is the time of the answer to a claim of the Redis engine.
type Ack string

// Values of Ack.
const (
	AckLedger Ack = "ledger" // once the ledger has the claim
	AckRedis  Ack = "redis"  // once Redis has the claim, which it may still lose
)

// Limits of the Redis engine, and its default backlog.
const (
	MaxRedisStock  = 10_000_000 // units are kept in Redis's memory
	MaxBacklog     = 10_000_000
	DefaultBacklog = 100_000
)

// ofEngine reports options that conflict with the engine.
func (d *decoder) ofEngine(o object, s *Sale) {
	switch s.Engine {
	case EngineLedger:
		s.Backlog = 0
		for _, key := range redisKeys {
			if at := o.keys[key]; at != nil {
				d.refuse(at, fmt.Sprintf("Add engine: redis, or remove %s.", key), "%s needs engine: redis", join(o.path, key))
			}
		}
	case EngineRedis:
		d.notRedis(o, s)
	}
}

// redisKeys are the keys that require the Redis engine.
var redisKeys = []string{"ack", "backlog"}

// notRedis reports options that the Redis engine does not support.
func (d *decoder) notRedis(o object, s *Sale) {
	if s.PerUserLimit > 1 {
		d.refuse(o.values["perUserLimit"], "Write perUserLimit: 1, leave the key out, or use engine: ledger.",
			"%s is %d, but engine redis gives each user one", join(o.path, "perUserLimit"), s.PerUserLimit)
	}
	if s.Stock > MaxRedisStock {
		d.refuse(o.values["stock"], fmt.Sprintf("Write at most %d, or use engine: ledger.", MaxRedisStock),
			"%s is above %d, the maximum for lists of engine redis", join(o.path, "stock"), MaxRedisStock)
	}
	for _, k := range root().option("spec").inner.options {
		if at := o.keys[k.key]; at != nil && k.ledger != "" {
			d.refuse(at, fmt.Sprintf("Remove %s, or use engine: ledger.", k.key), "%s does not fit engine: redis, %s", join(o.path, k.key), k.ledger)
		}
	}
}

// home returns the schema of one combination of engine and stores: its required, forbidden and
// restricted keys.
func home(title string, engine Engine, needs, forbids []string) *jsonschema.Schema {
	s := &jsonschema.Schema{Title: title, Required: needs, Properties: jsonschema.NewProperties(), Not: &jsonschema.Schema{}}
	s.Properties.Set("engine", &jsonschema.Schema{Const: engine})
	packets := &jsonschema.Schema{Required: []string{"redPacket"}}
	switch engine {
	case EngineLedger:
		forbids = append(forbids, redisKeys...)
		s.Properties.Set("units", &jsonschema.Schema{Not: packets})
	case EngineRedis:
		s.Properties.Set("units", packets)
		for _, k := range root().option("spec").inner.options {
			if k.ledger != "" {
				forbids = append(forbids, k.key)
			}
		}
		s.Properties.Set("stock", &jsonschema.Schema{Maximum: json.Number(strconv.Itoa(MaxRedisStock))})
		s.Properties.Set("perUserLimit", &jsonschema.Schema{Const: 1})
	}
	for _, name := range forbids {
		s.Not.AnyOf = append(s.Not.AnyOf, &jsonschema.Schema{Required: []string{name}})
	}
	return s
}

// saneEngine checks engine and units for sane. In a Sale built in a program the engine may be
// "", which means ledger.
func (s Sale) saneEngine() error {
	switch {
	case s.Engine == "" || s.Engine == EngineLedger:
		if s.Ack != "" && s.Ack != AckLedger || s.Backlog != 0 || s.RedPacket != nil {
			return errors.New("ack, backlog and red packets stand without engine redis")
		}
		return s.Units.sane(s.Stock)
	case s.needsLedger() != "":
		return errors.New("engine redis does not take " + s.needsLedger())
	case s.Ack == "" || s.Backlog == 0:
		return errors.New("ack or backlog is missing with engine redis")
	case s.RedPacket != nil:
		return s.RedPacket.Check(s.Stock)
	}
	return nil
}
