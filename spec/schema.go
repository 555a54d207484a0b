package spec

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/invopop/jsonschema"
)

// Schema returns a JSON Schema (draft 2020-12) of a sale document, indented
// and ended by a newline, for editors and their YAML servers. It is made from
// the types in document.go and the limits of the decoder. Load refuses more
// than it does: numbers in forms that YAML takes for plain ones, comparisons
// of two values, and all that spans documents.
func Schema() ([]byte, error) {
	r := jsonschema.Reflector{FieldNameTag: "yaml", Anonymous: true, DoNotReference: true}
	s := r.Reflect(saleDocument{})
	s.Title = "A sale for salectl"
	text, err := json.MarshalIndent(s, "", "  ")
	return append(text, '\n'), err
}

func property(s *jsonschema.Schema, name string) *jsonschema.Schema {
	p, ok := s.Properties.Get(name)
	if !ok {
		panic("spec: the schema has no property " + name)
	}
	return p
}

// bound sets the range of a number, and its default unless that is 0.
func bound(s *jsonschema.Schema, name string, most, ifAbsent int64) {
	p := property(s, name)
	p.Minimum, p.Maximum = "1", json.Number(strconv.FormatInt(most, 10))
	if ifAbsent != 0 {
		p.Default = ifAbsent
	}
}

func (saleDocument) JSONSchemaExtend(s *jsonschema.Schema) {
	property(s, "apiVersion").Const = APIVersion
	property(s, "kind").Const = Kind
}

func (metadataPart) JSONSchemaExtend(s *jsonschema.Schema) {
	property(s, "name").Pattern = nameForm
	bound(s, "run", math.MaxInt64, DefaultRun)
	property(s, "protect").Default = false
	for _, name := range []string{"labels", "annotations"} {
		longest := uint64(MaxLabelPrefix + len("/") + MaxLabelName)
		property(s, name).PropertyNames = &jsonschema.Schema{Pattern: labelKeyForm, MaxLength: &longest}
	}
	property(s, "labels").AdditionalProperties.Pattern = labelValueForm
}

func (specPart) JSONSchemaExtend(s *jsonschema.Schema) {
	bound(s, "stock", math.MaxInt64, 0)
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

// home is one of the ways to give out units and keep a sale: which keys it
// needs, which it forbids, and which values its engine takes.
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
		forbids = append(append(forbids, "partial", "payment"), ruleKeys...)
		s.Properties.Set("stock", &jsonschema.Schema{Maximum: json.Number(strconv.Itoa(MaxRedisStock))})
		s.Properties.Set("perUserLimit", &jsonschema.Schema{Const: DefaultPerUserLimit})
	}
	for _, name := range forbids {
		s.Not.AnyOf = append(s.Not.AnyOf, &jsonschema.Schema{Required: []string{name}})
	}
	return s
}

// choices are the words that a key takes; the first is its default.
func choices[Word ~string](s *jsonschema.Schema, name string, words ...Word) {
	p := property(s, name)
	p.Default = words[0]
	for _, word := range words {
		p.Enum = append(p.Enum, word)
	}
}

func (unitsPart) JSONSchemaExtend(s *jsonschema.Schema) {
	longest := uint64(MaxRangeText)
	list(property(s, "range"), MaxRanges)
	property(s, "range").Items.MaxLength = &longest
	property(s, "keyEnv").Pattern = envForm
	notBlank(s, "file", "column", "keyFile")
	property(s, "public").Default = false
	property(s, "choose").Default = false
	for _, kind := range unitKinds {
		if kind.key != "file" {
			s.OneOf = append(s.OneOf, unitsOf(kind.key, kind.with))
			continue
		}
		for _, key := range []string{"keyEnv", "keyFile"} {
			withKey := unitsOf("file", []string{"column", "public", "choose", key}, key)
			withKey.Properties.Set("public", &jsonschema.Schema{Const: false})
			withKey.Properties.Set("choose", &jsonschema.Schema{Const: false})
			s.OneOf = append(s.OneOf, withKey)
		}
		public := unitsOf("file", []string{"column", "public", "choose"}, "public")
		public.Properties.Set("public", &jsonschema.Schema{Const: true})
		s.OneOf = append(s.OneOf, public)
	}
}

// unitsOf is one of the ways to say what units are: the key that says it, those that may
// stand beside it, and those of them that must.
func unitsOf(key string, with []string, must ...string) *jsonschema.Schema {
	s := &jsonschema.Schema{Required: append([]string{key}, must...), Properties: jsonschema.NewProperties(), Not: &jsonschema.Schema{}}
	for _, k := range keysOf(reflect.TypeFor[unitsPart]()) {
		if k.name != key && !slices.Contains(with, k.name) {
			s.Not.AnyOf = append(s.Not.AnyOf, &jsonschema.Schema{Required: []string{k.name}})
		}
	}
	return s
}

func (redPacketPart) JSONSchemaExtend(s *jsonschema.Schema) {
	property(s, "total").Pattern = amountForm
	property(s, "min").Pattern = amountForm
	property(s, "currency").Pattern = "^[A-Z]{3}$"
	choices(s, "split", SplitRandom, SplitEven, SplitFixed)
}

func (paymentPart) JSONSchemaExtend(s *jsonschema.Schema) {
	for _, name := range []string{"holdFor", "grace", "extendBy"} {
		property(s, name).Pattern = termForm
	}
	property(s, "grace").Default = FormatTerm(0)
	choices(s, "late", LateRefuse, LateResell)
}

func (rulePart) JSONSchemaExtend(s *jsonschema.Schema) {
	property(s, "name").Pattern = nameForm
	notBlank(s, "require", "message", "messageExpression")
	choices(s, "enforce", EnforceDeny, EnforceAudit)
}

func (variablePart) JSONSchemaExtend(s *jsonschema.Schema) {
	identifier(property(s, "name"))
	notBlank(s, "expression")
}

func (usersPart) JSONSchemaExtend(s *jsonschema.Schema) {
	attributes, most := property(s, "attributes"), uint64(MaxAttributes)
	attributes.PropertyNames = &jsonschema.Schema{Not: &jsonschema.Schema{Enum: []any{"id", "known"}}}
	identifier(attributes.PropertyNames)
	attributes.MaxProperties = &most
	for _, name := range AttributeTypes {
		attributes.AdditionalProperties.Enum = append(attributes.AdditionalProperties.Enum, name)
	}
	property(s, "file").Pattern = `[.]([cC][sS][vV]|[nN][dD][jJ][sS][oO][nN]|[jJ][sS][oO][nN][lL])$`
	property(s, "fresh").Pattern, property(s, "fresh").Default = termForm, FormatTerm(DefaultFresh)
	bound(s, "cached", MaxCached, DefaultCached)
	s.OneOf = []*jsonschema.Schema{{Required: []string{"file"}}, {Required: []string{"hbase"}}}
	s.DependentRequired = map[string][]string{"hbase": {"attributes"}}
}

func (usersTablePart) JSONSchemaExtend(s *jsonschema.Schema) {
	outerTable(s)
	property(s, "columns").AdditionalProperties.Pattern = "[^ ]"
}

func (historyPart) JSONSchemaExtend(s *jsonschema.Schema) {
	list(property(s, "files"), MaxFiles)
	s.AnyOf = []*jsonschema.Schema{{Required: []string{"files"}}, {Required: []string{"hbase"}}}
}

func (historyTablePart) JSONSchemaExtend(s *jsonschema.Schema) { outerTable(s) }

// outerTable is a table that the sale does not keep.
func outerTable(s *jsonschema.Schema) {
	addressList(property(s, "zookeeper"))
	property(s, "zookeeperRoot").Pattern = znodeForm
	property(s, "table").Pattern = tableForm
	property(s, "family").Pattern = familyForm
}

func (queuePart) JSONSchemaExtend(s *jsonschema.Schema) {
	choices(s, "order", OrderArrival, OrderPriority, OrderDraw)
	notBlank(s, "priority")
	bound(s, "depth", MaxDepth, DefaultDepth)
	byPriority := &jsonschema.Schema{Properties: jsonschema.NewProperties(), Required: []string{"order", "priority"}}
	byPriority.Properties.Set("order", &jsonschema.Schema{Const: OrderPriority})
	byArrival := &jsonschema.Schema{Properties: jsonschema.NewProperties(), Not: &jsonschema.Schema{Required: []string{"priority"}}}
	byArrival.Properties.Set("order", &jsonschema.Schema{Enum: []any{OrderArrival, OrderDraw}})
	s.OneOf = []*jsonschema.Schema{byArrival, byPriority}
}

// list bounds how long a list may be.
func list(s *jsonschema.Schema, most int) {
	least, longest := uint64(1), uint64(most)
	s.MinItems, s.MaxItems = &least, &longest
}

// notBlank asks for text that is not blank.
func notBlank(s *jsonschema.Schema, names ...string) {
	for _, name := range names {
		property(s, name).Pattern = `[^ \t\r\n]`
	}
}

// identifier asks for a name that CEL takes.
func identifier(s *jsonschema.Schema) {
	longest := uint64(MaxIdentifier)
	s.Pattern, s.MaxLength = identifierForm, &longest
	if s.Not == nil {
		s.Not = new(jsonschema.Schema)
	}
	for _, word := range reservedWords {
		s.Not.Enum = append(s.Not.Enum, word)
	}
}

func (checkPart) JSONSchemaExtend(s *jsonschema.Schema) {
	property(s, "url").Pattern = checkURLForm
	for name, standard := range map[string]time.Duration{"interval": DefaultCheckInterval, "timeout": DefaultCheckTimeout} {
		p := property(s, name)
		p.Pattern, p.Default = termForm, FormatTerm(standard)
	}
	property(s, "tokenEnv").Pattern = envForm
}

func (webhookPart) JSONSchemaExtend(s *jsonschema.Schema) {
	property(s, "secretsEnv").Pattern = envForm
}

func (drawPart) JSONSchemaExtend(s *jsonschema.Schema) {
	property(s, "keyEnv").Pattern = envForm
	notBlank(s, "keyFile")
	p := property(s, "substitutes")
	p.Minimum, p.Maximum = "0", json.Number(strconv.Itoa(MaxRanks))
	s.OneOf = []*jsonschema.Schema{{Required: []string{"keyEnv"}}, {Required: []string{"keyFile"}}}
}

func (beaconPart) JSONSchemaExtend(s *jsonschema.Schema) {
	notBlank(s, "name")
	round := property(s, "round")
	round.OneOf = []*jsonschema.Schema{{Type: "integer", Minimum: "0"}, {Type: "string", Pattern: `[^ \t\r\n]`}}
	choices(s, "fallback", FallbackNone, FallbackSecret)
}

func (lockPart) JSONSchemaExtend(s *jsonschema.Schema) {
	ttl := property(s, "ttl")
	ttl.Pattern, ttl.Default = ttlForm, DefaultLockTTL.String()
}

func (redisPart) JSONSchemaExtend(s *jsonschema.Schema) {
	addressList(property(s, "nodes"))
	property(s, "usernameEnv").Pattern = envForm
	property(s, "passwordEnv").Pattern = envForm
	property(s, "tls").Default = false
	s.DependentRequired = map[string][]string{"usernameEnv": {"passwordEnv"}}
}

func (hbasePart) JSONSchemaExtend(s *jsonschema.Schema) {
	addressList(property(s, "zookeeper"))
	root := property(s, "zookeeperRoot")
	root.Pattern, root.Default = znodeForm, DefaultZookeeperRoot
	property(s, "table").Pattern = tableForm
}

func (embeddedPart) JSONSchemaExtend(s *jsonschema.Schema) {
	dir, one := property(s, "dir"), uint64(1)
	dir.Default, dir.MinLength = DefaultEmbeddedDir, &one
}

func addressList(s *jsonschema.Schema) {
	one, most := uint64(1), uint64(MaxServers)
	s.MinItems, s.MaxItems, s.UniqueItems, s.Items.Pattern = &one, &most, true, addressForm
}
