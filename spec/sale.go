// Package spec defines the sale document, its defaults and its validation. It also has what
// follows from a declaration by arithmetic alone (shares.go, packets.go) and the one place
// where keys and row keys are built (names.go).
//
// A document that Load accepts is a valid Sale. For any other, Load returns all problems, each
// Problem with its place and a remedy.
//
// This file combines the options of a sale: each is a field of Sale, and a key in a document
// and a stored declaration; the functions below convert between these forms. The definition of
// an option, and how it is read, written and checked, is in a file of its own, such as
// payment.go.
//
// The package reads files only; it knows no backend.
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

// Sale is one valid declaration with its defaults filled in. Stock and LockCount have no
// default: they determine what is sold and how fast, so a document must declare them.
type Sale struct {
	Name         string        // a DNS label
	Run          int64         // from 1, the default; the next number reuses a destroyed sale's name
	Protect      bool          // the sale can be neither destroyed nor closed
	Stock        int64         // 1 to MaxStock
	LockCount    int           // 1 to MaxLockCount, at most Stock
	PerUserLimit int64         // units a user may have; from 1, the default
	Partial      bool          // with EngineLedger: a claim for more units than available gets those available
	Phase        Phase         // "": unchanged; a new run is open
	OpensAt      time.Time     // UTC; zero: open as soon as applied
	ClosesAt     time.Time     // UTC, after OpensAt; zero: until closed by hand
	LockTTL      time.Duration // MinLockTTL to MaxLockTTL in whole milliseconds
	Payment      *Payment      // with EngineLedger; nil: a claim is sold at once

	// Eligibility and order of claims, with EngineLedger.
	Rules     []Rule     // in order of evaluation
	Variables []Variable // each may use those before it
	Users     *Users     // nil: only the ids of users are known
	History   *History   // nil: rules cannot read it
	Queue     *Queue     // nil: by arrival, DefaultDepth deep
	Draw      *Draw      // set if and only if the order is OrderDraw

	// How units are given out. With EngineLedger, Ack is AckLedger, Backlog is 0 and RedPacket
	// is nil. With EngineRedis, Units is nil.
	Engine    Engine
	Ack       Ack
	Backlog   int64      // maximum number of claims granted by Redis that the ledger lacks, over all shards; 1 to MaxBacklog; see Allotment
	RedPacket *RedPacket // nil: a unit is no packet of money
	Units     *Units     // nil: a unit is a number, or a red packet

	// Location of the sale. With EngineLedger: either Embedded, or Redis and HBase. With
	// EngineRedis: Redis, and one of Embedded and HBase. Only drivers need the kind; others
	// use Ledger, Locks and ListNodes.
	Embedded *Embedded
	Redis    *Redis
	HBase    *HBase
	// Homes replaces these if ledger and locks are of kinds that no document can name; Redis
	// then only has the list nodes.
	Homes *Homes

	// File is the place of the document as file:line. It is no part of the declaration.
	File string
	// Labels and Annotations are for people and pipelines; nil if there are none. They do not
	// affect the sale and are no part of the declaration: neither ledger nor plans have them.
	Labels, Annotations map[string]string

	// expressions are the places of CEL expressions by path, for InExpression. They are no
	// part of the declaration.
	expressions map[string]*expression
}

// MaxStock is the maximum number of units of a sale: arithmetic on unit numbers does not
// overflow. MaxLockCount is the maximum number of shards. DefaultPerUserLimit is the default
// of a document.
const (
	MaxStock            = math.MaxInt64 / 4
	MaxLockCount        = 1024
	DefaultPerUserLimit = 1
)

// specPart is the part of a document with the options.
type specPart struct {
	Stock        int64        `yaml:"stock" jsonschema:"example=100" jsonschema_description:"Number of units on sale."`
	LockCount    int64        `yaml:"lockCount" jsonschema:"example=5" jsonschema_description:"Number of shards, at most the stock; fixed for a run. plan warns of fewer than 4 * perUserLimit units per shard."`
	PerUserLimit int64        `yaml:"perUserLimit,omitempty" jsonschema_description:"Maximum number of units per user."`
	Partial      bool         `yaml:"partial,omitempty" jsonschema_description:"Needs engine ledger. A claim for more units than available or permitted gets as many as possible, instead of none. May change on a live sale."`
	Phase        string       `yaml:"phase,omitempty" jsonschema_description:"closed is final. A phase set by pause or resume is drift, which apply corrects. Default: a new sale is open, a live one keeps its phase."`
	OpensAt      string       `yaml:"opensAt,omitempty" jsonschema:"example=2026-11-11T20:00:00+08:00" jsonschema_description:"Start of selling, RFC 3339 with seconds and zone. Default: when the sale is applied."`
	ClosesAt     string       `yaml:"closesAt,omitempty" jsonschema:"example=2026-11-11T21:00:00+08:00" jsonschema_description:"End of selling, RFC 3339 with seconds and zone, after opensAt. Default: when somebody closes the sale."`
	Payment      *Payment     `yaml:"payment,omitempty" jsonschema_description:"Needs engine ledger. Claims are held until paid; without it they are sold at once. May change on a live sale; holds keep their deadline and grace."`
	Rules        []Rule       `yaml:"rules,omitempty" jsonschema_description:"Needs engine ledger. Conditions for claims; the first that fails refuses. May change on a live sale."`
	Variables    []Variable   `yaml:"variables,omitempty" jsonschema_description:"Expressions that rules read as variables.NAME. Each may use those before it."`
	Users        *usersPart   `yaml:"users,omitempty" jsonschema_description:"Attributes of users for rules, from a file or an HBase table."`
	History      *historyPart `yaml:"history,omitempty" jsonschema_description:"Purchases in earlier sales for rules, from exports, an HBase table, or both."`
	Queue        *Queue       `yaml:"queue,omitempty" jsonschema_description:"Needs engine ledger. Order in which waiting claims are served."`
	Draw         *drawPart    `yaml:"draw,omitempty" jsonschema_description:"Draw of entries, with queue.order draw. Only the source of the key may change during a run."`
	Engine       string       `yaml:"engine,omitempty" jsonschema_description:"What allocates units: ledger, or redis, where Redis lists allocate and the ledger records. Fixed for a run."`
	Ack          string       `yaml:"ack,omitempty" jsonschema_description:"With engine redis: answer a claim when the ledger has it, or when Redis has it."`
	Backlog      int64        `yaml:"backlog,omitempty" jsonschema_description:"With engine redis: maximum number of claims that Redis granted and the ledger lacks, split over the shards, at least 1 each. Beyond it claims are refused as overloaded."`
	Units        *unitsPart   `yaml:"units,omitempty" jsonschema_description:"What each unit is, and what its buyer receives. Default: a number."`
	Lock         *lockPart    `yaml:"lock,omitempty" jsonschema_description:"Locks of shards."`
	Redis        *Redis       `yaml:"redis,omitempty" jsonschema_description:"Redis nodes for locks (with hbase), and with engine redis for lists (with hbase or embedded)."`
	HBase        *HBase       `yaml:"hbase,omitempty" jsonschema_description:"HBase table of the ledger. Needs redis."`
	Embedded     *Embedded    `yaml:"embedded,omitempty" jsonschema_description:"Locks and ledger in local files, instead of redis and hbase; with engine redis only the ledger."`
}

// stored is the JSON of a declaration. Ledgers keep it for years: a field may be added, with a
// zero that equals its absence, but none is ever renamed, moved or redefined.
type stored struct {
	APIVersion   string         `json:"apiVersion"`
	Name         string         `json:"name"`
	Run          int64          `json:"run"`
	Protect      bool           `json:"protect,omitempty"`
	Stock        int64          `json:"stock"`
	LockCount    int            `json:"lockCount"`
	PerUserLimit int64          `json:"perUserLimit"`
	Partial      bool           `json:"partial,omitempty"`
	Phase        Phase          `json:"phase,omitempty"`
	OpensAt      time.Time      `json:"opensAt,omitzero"`
	ClosesAt     time.Time      `json:"closesAt,omitzero"`
	LockTTL      Duration       `json:"lockTtlMs"`
	Redis        *Redis         `json:"redis,omitempty"`
	HBase        *HBase         `json:"hbase,omitempty"`
	Embedded     *Embedded      `json:"embedded,omitempty"`
	Engine       Engine         `json:"engine,omitempty"` // absent: ledger, and neither ack nor backlog
	Ack          Ack            `json:"ack,omitempty"`
	Backlog      int64          `json:"backlog,omitempty"`
	Units        *storedUnits   `json:"units,omitempty"`
	Homes        *Homes         `json:"homes,omitempty"`
	Payment      *Payment       `json:"payment,omitempty"`
	Rules        []Rule         `json:"rules,omitempty"`
	Variables    []Variable     `json:"variables,omitempty"`
	Users        *storedUsers   `json:"users,omitempty"`
	History      *storedHistory `json:"history,omitempty"`
	Queue        *Queue         `json:"queue,omitempty"`
	Draw         *Draw          `json:"draw,omitempty"`
}

// ledgerKeys are the keys that require engine ledger, with the reason why engine redis rejects
// them.
var ledgerKeys = []struct{ key, why string }{
	{"partial", "which gives each user one unit: there is no part of it"},
	{"payment", "which sells every claim at once"},
	{"rules", "whose lists know nothing of users"},
	{"variables", "whose lists know nothing of users"},
	{"users", "whose lists know nothing of users"},
	{"history", "whose lists know nothing of users"},
	{"queue", "whose lists give units in the order of arrival"},
}

// needsLedger names an option of the sale that requires engine ledger; "" if there is none.
func (s Sale) needsLedger() string {
	switch {
	case s.Payment != nil:
		return "payment stands"
	case s.Partial:
		return "partial stands"
	case s.Units != nil:
		return "units that are no red packets stand"
	case len(s.Rules) > 0 || len(s.Variables) > 0 || s.Users != nil || s.History != nil || s.Queue != nil:
		return "rules, variables, users, history or queue stand"
	}
	return ""
}

// spec decodes the options of a document. Some depend on others and follow them: the default
// of tables is the location of the ledger.
func (d *decoder) spec(v value, s *Sale) {
	s.PerUserLimit = DefaultPerUserLimit
	o, ok := d.object(v, reflect.TypeFor[specPart]())
	if !ok {
		return
	}
	stockOK := false
	if v, ok := d.value(o, "stock"); ok {
		s.Stock, stockOK = d.number(v, 1, MaxStock)
	}
	if v, ok := d.value(o, "lockCount"); ok {
		n, ok := d.number(v, 1, MaxLockCount)
		if ok && stockOK && n > s.Stock {
			d.refuse(v.at, fmt.Sprintf("Write at most %d, or raise the stock: a shard needs a unit.", s.Stock),
				"%s is above the stock, which is %d", v.path, s.Stock)
		}
		s.LockCount = int(n)
	}
	if v, ok := d.value(o, "perUserLimit"); ok {
		s.PerUserLimit, _ = d.number(v, 1, math.MaxInt64)
	}
	s.Partial = d.flag(o, "partial")
	s.Phase = d.phase(o)
	s.OpensAt, s.ClosesAt = d.times(o)
	s.Payment = d.payment(o)
	s.LockTTL = d.lock(o)
	s.Engine, s.Ack, s.Backlog = d.engine(o)
	s.Units, s.RedPacket = d.units(o, s)
	d.ofEngine(o, s)
	s.Embedded, s.Redis, s.HBase = d.stores(o, s.Engine)
	s.Rules, s.Variables = d.rules(o), d.variables(o)
	tables := tableHome{declared: o.keys["hbase"] != nil, sale: s.HBase}
	s.Users, s.History = d.users(o, tables), d.history(o, tables)
	s.Queue = d.queue(o)
	s.Draw = d.draw(o, s)
}

// specPart converts the options to their part of a document. It omits defaults.
func (s Sale) specPart() specPart {
	part := specPart{
		Stock: s.Stock, LockCount: int64(s.LockCount), PerUserLimit: unless(DefaultPerUserLimit, s.PerUserLimit),
		Partial:   s.Partial,
		Phase:     string(s.Phase),
		OpensAt:   timeOrNone(s.OpensAt),
		ClosesAt:  timeOrNone(s.ClosesAt),
		Payment:   s.Payment.part(),
		Rules:     ruleParts(s.Rules),
		Variables: s.Variables,
		Users:     s.Users.part(s.HBase),
		History:   s.History.part(s.HBase),
		Queue:     s.Queue.part(),
		Draw:      s.Draw.part(),
		Engine:    unless(string(EngineLedger), string(s.Engine)),
		Ack:       unless(string(AckLedger), string(s.Ack)),
		Units:     unitsPartOf(s.Units, s.RedPacket),
		Lock:      lockPartOf(s.LockTTL),
		Redis:     s.Redis,
		HBase:     s.HBase.part(),
		Embedded:  s.Embedded.part(),
	}
	if s.Engine == EngineRedis {
		part.Backlog = unless(DefaultBacklog, s.Backlog)
	}
	return part
}

// stored converts the declaration to its stored form.
func (s Sale) stored() stored {
	out := stored{
		APIVersion: APIVersion,
		Name:       s.Name, Run: s.Run, Protect: s.Protect,
		Stock: s.Stock, LockCount: s.LockCount, PerUserLimit: s.PerUserLimit,
		Partial:   s.Partial,
		Phase:     s.Phase,
		OpensAt:   s.OpensAt.UTC(),
		ClosesAt:  s.ClosesAt.UTC(),
		LockTTL:   Duration(s.LockTTL),
		Redis:     s.Redis,
		HBase:     s.HBase,
		Embedded:  s.Embedded,
		Units:     storeUnits(s.Units, s.RedPacket),
		Homes:     s.Homes,
		Payment:   s.Payment,
		Rules:     s.Rules,
		Variables: s.Variables,
		Users:     s.Users.stored(),
		History:   s.History.stored(),
		Queue:     s.Queue,
		Draw:      s.Draw,
	}
	if s.Engine == EngineRedis {
		out.Engine, out.Ack, out.Backlog = s.Engine, s.Ack, s.Backlog
	}
	return out
}

// read is the reverse of stored. It does not check the declaration.
func (in stored) read() (Sale, error) {
	s := Sale{
		Name: in.Name, Run: in.Run, Protect: in.Protect,
		Stock: in.Stock, LockCount: in.LockCount, PerUserLimit: in.PerUserLimit,
		Partial:   in.Partial,
		Phase:     in.Phase,
		OpensAt:   in.OpensAt.UTC(),
		ClosesAt:  in.ClosesAt.UTC(),
		LockTTL:   time.Duration(in.LockTTL),
		Redis:     in.Redis,
		HBase:     in.HBase,
		Embedded:  in.Embedded,
		Homes:     in.Homes,
		Payment:   in.Payment,
		Rules:     in.Rules,
		Variables: in.Variables,
		Users:     in.Users.read(),
		History:   in.History.read(),
		Queue:     in.Queue,
		Draw:      in.Draw,
		Engine:    in.Engine, Ack: in.Ack, Backlog: in.Backlog,
	}
	if s.Engine == "" {
		s.Engine, s.Ack = EngineLedger, AckLedger
	}
	var err error
	s.Units, s.RedPacket, err = in.Units.read()
	return s, err
}

// sane checks what the rest of the program assumes about a declaration. It does not check
// limits that a later version may change: an accepted declaration stays readable. Nor does it
// check the location of the sale, which comes from the document that leads to the ledger. An
// absent option is sane.
func (s Sale) sane() error {
	switch {
	case !nameRE.MatchString(strings.TrimPrefix(s.Name, CopyPrefix)):
		return fmt.Errorf("the name %q is no DNS label", s.Name)
	case s.Run < 1 || s.Stock < 1 || s.LockCount < 1 || s.PerUserLimit < 1:
		return errors.New("run, stock, lockCount and perUserLimit must be at least 1")
	case int64(s.LockCount) > s.Stock:
		return errors.New("lockCount is above stock")
	}
	return cmp.Or(
		saneLockTTL(s.LockTTL),
		s.Phase.sane(),
		s.Payment.sane(),
		saneRules(s.Rules),
		saneVariables(s.Variables),
		s.Users.sane(),
		s.History.sane(),
		s.Queue.sane(),
		s.saneDraw(),
		s.saneEngine(),
	)
}

// someFiles are the names in a document for files that a declaration does not name.
var someFiles = []string{someUsers, someExports, someUnits, someUnitsKey, someDrawKey}

// WithFiles returns a declaration of FromJSON with what it lacks: folder, files, labels and
// annotations of another declaration of the same sale. From a declaration of another sale at
// the same location it takes only the folder.
func (s Sale) WithFiles(local Sale) Sale {
	if local.Name != s.Name {
		local = Sale{Embedded: local.Embedded}
	}
	s.Labels, s.Annotations = local.Labels, local.Annotations
	s.Embedded = s.Embedded.withFolder(local.Embedded)
	s.Users = s.Users.withFile(local.Users)
	s.History = s.History.withFiles(local.History)
	s.Units = s.Units.withFiles(local.Units)
	s.Draw = s.Draw.withFile(local.Draw)
	return s
}

func (specPart) JSONSchemaExtend(s *jsonschema.Schema) {
	bound(s, "stock", MaxStock, 0)
	bound(s, "lockCount", MaxLockCount, 0)
	bound(s, "perUserLimit", math.MaxInt64, DefaultPerUserLimit)
	property(s, "partial").Default = false
	choices(s, "phase", phases...)
	property(s, "phase").Default = nil
	property(s, "opensAt").Pattern = timeForm
	property(s, "closesAt").Pattern = timeForm
	list(property(s, "rules"), MaxRules)
	list(property(s, "variables"), MaxVariables)
	choices(s, "engine", EngineLedger, EngineRedis)
	choices(s, "ack", AckLedger, AckRedis)
	bound(s, "backlog", MaxBacklog, DefaultBacklog)
	s.OneOf = []*jsonschema.Schema{
		home("in local files", EngineLedger, []string{"embedded"}, []string{"redis", "hbase"}),
		home("on servers", EngineLedger, []string{"redis", "hbase"}, []string{"embedded"}),
		home("on lists of Redis, with the ledger in local files", EngineRedis, []string{"engine", "redis", "embedded"}, []string{"hbase"}),
		home("on lists of Redis, with the ledger on servers", EngineRedis, []string{"engine", "redis", "hbase"}, []string{"embedded"}),
	}
}
