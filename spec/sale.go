// Package spec defines the sale document, its defaults and its validation. It also has what
// follows from a declaration by arithmetic alone (shares.go, packets.go) and the one place
// where keys and row keys are built (names.go).
//
// A document that Load accepts is a valid Sale. For any other, Load returns all problems, each
// Problem with its place and a remedy.
//
// Sale declares every option once: the tags of its fields, and of the structs below it, are the
// keys, bounds, defaults and descriptions (option.go). Documents are decoded by them (fill.go,
// with the forms of form.go), written (yaml.go) and described by a JSON Schema (schema.go), and
// ledgers store the same structs (json.go). Tags also declare which options exclude or need each
// other (relation.go). A block of options has a file of its own, such as payment.go, with the
// checks that depend on values.
//
// The package reads files, and the environment variables that they declare (env.go); it knows no
// backend.
package spec

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
)

// Sale is one valid declaration with its defaults filled in. Type option documents the tags. Stock
// and LockCount have no default: they determine what is sold and how fast, so a document must
// declare them.
type Sale struct {
	Name string `yaml:"metadata.name" json:"name" form:"name" example:"movie-tickets" doc:"Unique name of the sale, a DNS label: lower-case letters, digits and hyphens, at most 63."`
	Run  int64  `yaml:"metadata.run,omitempty" json:"run" default:"1" doc:"Reuses the name of a destroyed sale: use the next number."`
	About
	// Labels and Annotations are for people and pipelines; nil if there are none. They do not
	// affect the sale: neither ledger nor plans have them.
	Labels      map[string]string `yaml:"metadata.labels,omitempty" json:"-" form:"labels" doc:"Labels for -l, with keys and values as in Kubernetes. Not part of the plan."`
	Annotations map[string]string `yaml:"metadata.annotations,omitempty" json:"-" form:"annotations" doc:"Free text under such keys, 256 KiB in all. Not part of the plan."`

	// Env are the environment variables in the values of the document, as NAME=VALUE. They do not affect
	// the sale otherwise.
	Env []string `yaml:"metadata.env,omitempty" json:"-" form:"environment" max:"64" example:"STOCK" doc:"Environment variables for values. Plans show them."`

	Stock        int64 `yaml:"spec.stock" json:"stock" max:"2305843009213693951" example:"100" doc:"Number of units on sale."`
	LockCount    int   `yaml:"spec.lockCount" json:"lockCount" max:"1024" example:"5" doc:"Number of shards, at most the stock; fixed for a run. plan warns of fewer than 4 * perUserLimit units per shard."`
	PerUserLimit int64 `yaml:"spec.perUserLimit,omitempty" json:"perUserLimit" default:"1" doc:"Maximum number of units per user."`
	Partial      bool  `yaml:"spec.partial,omitempty" json:"partial,omitempty" ledger:"which gives each user one unit: there is no part of it" doc:"Needs engine ledger. A claim for more units than available or permitted gets as many as possible, instead of none. May change on a live sale."`
	// Phase is unchanged with ""; a new run is open.
	Phase Phase `yaml:"spec.phase,omitempty" json:"phase,omitempty" words:"open paused closed" doc:"closed is final. A phase set by pause or resume is drift, which apply corrects. Default: a new sale is open, a live one keeps its phase."`
	// OpensAt and ClosesAt are in UTC.
	OpensAt  time.Time `yaml:"spec.opensAt,omitempty" json:"opensAt,omitzero" example:"2026-11-11T20:00:00+08:00" doc:"Start of selling, RFC 3339 with seconds and zone. Default: when the sale is applied."`
	ClosesAt time.Time `yaml:"spec.closesAt,omitempty" json:"closesAt,omitzero" example:"2026-11-11T21:00:00+08:00" doc:"End of selling, RFC 3339 with seconds and zone, after opensAt. Default: when somebody closes the sale."`
	// Payment nil: a claim is sold at once.
	Payment *Payment `yaml:"spec.payment,omitempty" json:"payment,omitempty" ledger:"which sells every claim at once" doc:"Needs engine ledger. Claims are held until paid; without it they are sold at once. May change on a live sale; holds keep their deadline and grace."`

	// Eligibility and order of claims, with EngineLedger. Draw is set if and only if the order
	// is OrderDraw.
	Rules     []Rule     `yaml:"spec.rules,omitempty" json:"rules,omitempty" ledger:"whose lists know nothing of users" max:"64" example:"{name: members, require: user.known}" doc:"Needs engine ledger. Conditions for claims; the first that fails refuses. May change on a live sale."`
	Variables []Variable `yaml:"spec.variables,omitempty" json:"variables,omitempty" ledger:"whose lists know nothing of users" max:"64" example:"{name: minor, expression: user.age < 18}" doc:"Expressions that rules read as variables.NAME. Each may use those before it."`
	Users     *Users     `yaml:"spec.users,omitempty" json:"users,omitempty" ledger:"whose lists know nothing of users" doc:"Attributes of users for rules, from a file or an HBase table."`
	History   *History   `yaml:"spec.history,omitempty" json:"history,omitempty" ledger:"whose lists know nothing of users" doc:"Purchases in earlier sales for rules, from exports, an HBase table, or both."`
	Queue     *Queue     `yaml:"spec.queue,omitempty" json:"queue,omitempty" ledger:"whose lists give units in the order of arrival" doc:"Needs engine ledger. Order in which waiting claims are served."`
	Draw      *Draw      `yaml:"spec.draw,omitempty" json:"draw,omitempty" doc:"Draw of entries, with queue.order draw. Only the source of the key may change during a run."`

	// How units are given out. With EngineLedger, Ack is AckLedger, Backlog is 0 and RedPacket
	// is nil. With EngineRedis, Units is nil. With neither Units nor RedPacket, a unit is a
	// number. Backlog is over all shards; see Allotment.
	Engine    Engine     `yaml:"spec.engine,omitempty" json:"engine,omitempty" words:"ledger redis" default:"ledger" doc:"What allocates units: ledger, or redis, where Redis lists allocate and the ledger records. Fixed for a run."`
	Ack       Ack        `yaml:"spec.ack,omitempty" json:"ack,omitempty" words:"ledger redis" default:"ledger" doc:"With engine redis: answer a claim when the ledger has it, or when Redis has it."`
	Backlog   int64      `yaml:"spec.backlog,omitempty" json:"backlog,omitempty" max:"10000000" default:"100000" doc:"With engine redis: maximum number of claims that Redis granted and the ledger lacks, split over the shards, at least 1 each. Beyond it claims are refused as overloaded."`
	Units     *Units     `yaml:"spec.units,omitempty" json:"units,omitempty" doc:"What each unit is, and what its buyer receives. Default: a number."`
	RedPacket *RedPacket `yaml:"-" json:"redPacket,omitempty"`

	LockTTL Duration `yaml:"spec.lock.ttl,omitempty" json:"lockTtlMs" min:"2s" max:"10s" default:"3s" example:"3s" doc:"Time from the death of an owner to the takeover of its shards: {bounds}. Short locks are lost on a slow disk; long ones block shards after a crash. A change takes effect at the next takeover."`

	// Location of the sale. With EngineLedger: either Embedded, or Redis and HBase. With
	// EngineRedis: Redis, and one of Embedded and HBase. Only drivers need the kind; others
	// use Ledger, Locks and ListNodes.
	Redis    *Redis    `yaml:"spec.redis,omitempty" json:"redis,omitempty" doc:"Redis nodes for locks (with hbase), and with engine redis for lists (with hbase or embedded)."`
	HBase    *HBase    `yaml:"spec.hbase,omitempty" json:"hbase,omitempty" doc:"HBase table of the ledger. Needs redis."`
	Embedded *Embedded `yaml:"spec.embedded,omitempty" json:"embedded,omitempty" doc:"Locks and ledger in local files, instead of redis and hbase; with engine redis only the ledger."`
	// Homes replaces these if ledger and locks are of kinds that no document can name; Redis
	// then only has the list nodes.
	Homes *Homes `yaml:"-" json:"homes,omitempty"`

	// File is the place of the document as file:line. It is no part of the declaration.
	File string `yaml:"-" json:"-"`

	// places are the places of expressions and messages by path. They are no part of the
	// declaration.
	places map[string]Place
}

// About is what people are shown of a sale wherever it is shown: in plans, its status, lists, the
// dashboard and reports.
type About struct {
	Description string `yaml:"metadata.description,omitempty" json:"description,omitempty" form:"line" max:"200" example:"Tickets for the premiere" doc:"What the sale is, in one line of at most 200 characters. Plans, status, lists, dashboard and reports show it. May change on a live sale."`
	// Protect reports that the sale can be neither destroyed nor closed.
	Protect bool `yaml:"metadata.protect,omitempty" json:"protect,omitempty" doc:"Refuses destroy, close, and a past closesAt, until an apply without it. May change on a live sale."`
}

// Each calls show with the key and the text of every option that is there.
func (a About) Each(show func(key, text string)) {
	Each(&a, func(path, text string) {
		if text != "" {
			show(strings.TrimPrefix(path, "metadata."), text)
		}
	})
}

// MaxStock is the maximum number of units of a sale: arithmetic on unit numbers does not
// overflow. MaxLockCount is the maximum number of shards.
const (
	MaxStock     = math.MaxInt64 / 4
	MaxLockCount = 1024
)

// needsLedger names an option of the sale that requires engine ledger; "" if there is none.
func (s Sale) needsLedger() (name string) {
	if s.Units != nil {
		return "units that are no red packets"
	}
	for _, o := range root().option("spec").inner.options {
		if o.ledger != "" && !reflect.ValueOf(s).FieldByIndex(o.field).IsZero() {
			name = cmp.Or(name, o.key)
		}
	}
	return name
}

// spec checks options that depend on others. The default of tables is the location of the
// ledger.
func (d *decoder) spec(o object, s *Sale) {
	if s.Stock > 0 && int64(s.LockCount) > s.Stock {
		d.refuse(o.values["lockCount"], fmt.Sprintf("Write at most %d, or raise the stock: a shard needs a unit.", s.Stock),
			"spec.lockCount is above the stock, which is %d", s.Stock)
	}
	d.hours(o, s)
	d.oneReference(s.Payment)
	d.units(s)
	d.ofEngine(o, s)
	d.stores(o, s.Engine)
	d.distinctNames(o, "rules")
	d.distinctNames(o, "variables")
	d.users(s)
	if s.History != nil && s.History.Table != nil {
		d.rows("spec.history.hbase", s, s.History.Table)
	}
	d.queue(s.Queue)
	d.draw(s)
}

// written returns the sale as a document has it: files without a known name have one in
// capitals, and tables at the location of the ledger have none.
func (s Sale) written() Sale {
	if s.RedPacket != nil {
		s.Units = &Units{RedPacket: s.RedPacket}
	}
	copyBlocks(reflect.ValueOf(&s).Elem())
	if u := s.Units; u != nil {
		u.Public = u.FromFile && !u.Secret
	}
	s.Env = nil
	s.setFiles(nil)
	if s.Users != nil && s.Users.Table != nil {
		s.Users.Table.omitHome(s.HBase)
	}
	if s.History != nil && s.History.Table != nil {
		s.History.Table.omitHome(s.HBase)
	}
	return s
}

// sane checks what the rest of the program assumes about a declaration. It does not check
// limits that a later version may change: an accepted declaration stays readable. Nor does it
// check the location of the sale, which comes from the document that leads to the ledger. An
// absent option is sane.
func (s Sale) sane() error {
	if int64(s.LockCount) > s.Stock {
		return errors.New("lockCount is above stock")
	}
	s.Name = strings.TrimPrefix(s.Name, CopyPrefix)
	return cmp.Or(
		root().sane(reflect.ValueOf(s)),
		s.Users.sane(),
		s.Queue.sane(),
		s.saneDraw(),
		s.saneEngine(),
	)
}

// WithFiles returns a declaration of FromJSON with what it lacks: folder, files, labels and
// annotations of another declaration of the same sale. From a declaration of another sale at
// the same location it takes only the folder.
func (s Sale) WithFiles(local Sale) Sale {
	if local.Name != s.Name {
		local = Sale{Embedded: local.Embedded}
	}
	s.Labels, s.Annotations = local.Labels, local.Annotations
	copyBlocks(reflect.ValueOf(&s).Elem())
	s.setFiles(&local)
	if s.Embedded != nil && local.Embedded != nil {
		s.Embedded.Dir = local.Embedded.Dir
	}
	return s
}

func (Sale) constrain(s *jsonschema.Schema) {
	property(s, "spec").OneOf = []*jsonschema.Schema{
		home("in local files", EngineLedger, []string{"embedded"}, []string{"redis", "hbase"}),
		home("on servers", EngineLedger, []string{"redis", "hbase"}, []string{"embedded"}),
		home("on lists of Redis, with the ledger in local files", EngineRedis, []string{"engine", "redis", "embedded"}, []string{"hbase"}),
		home("on lists of Redis, with the ledger on servers", EngineRedis, []string{"engine", "redis", "hbase"}, []string{"embedded"}),
	}
}

// Phase is the declared phase of a sale.
type Phase string

// Phases of a declaration.
const (
	PhaseOpen   Phase = "open" // within OpensAt and ClosesAt
	PhasePaused Phase = "paused"
	PhaseClosed Phase = "closed" // final
)

// hours checks the hours of a sale.
func (d *decoder) hours(o object, s *Sale) {
	if !s.OpensAt.IsZero() && !s.ClosesAt.IsZero() && !s.ClosesAt.After(s.OpensAt) {
		d.refuse(o.values["closesAt"], "Write a closesAt after opensAt.",
			"spec.closesAt is not after opensAt, which is on line %d", o.values["opensAt"].Line)
	}
}
