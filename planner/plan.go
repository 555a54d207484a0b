package planner

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// PlanVersion is the version of a plan's JSON.
const PlanVersion = 1

// Plan is what is to change. It is bound to the sale as it was when the plan was
// made: to the next slot of the sale's log, and to the generation that stood
// before it.
type Plan struct {
	FormatVersion int    `json:"formatVersion"`
	Kind          Kind   `json:"kind"`
	Sale          string `json:"sale"`
	UID           string `json:"uid"` // of the run that it begins or changes, "" if there is none
	Run           int64  `json:"run"`
	// Phase is where the sale is now, "" if it does not exist.
	Phase      string      `json:"phase"`
	Generation uint64      `json:"generation"` // that the shards are to come to
	Slot       uint64      `json:"slot"`       // of the sale's log, the next one
	After      ledger.Hash `json:"after"`      // the root of the sale's log before that slot
	Actions    []Action    `json:"actions"`
	Summary    Summary     `json:"summary"`
	// Warnings are clauses about what is no change and matters: a server that is
	// down, an end that has passed.
	Warnings []string `json:"warnings"`
	// Payload is the Planned that apply appends to the sale's log, as protobuf,
	// without what apply adds: who ran it, the plan's digest, and the seed of red
	// packets. Empty: apply appends no Planned, and completes the generations that
	// the log has.
	Payload []byte `json:"payload,omitempty"`
	// Beacon is, of a plan to reveal a draw, the value of its beacon's round; none: it is
	// not known, or there is no beacon.
	Beacon []byte `json:"beacon,omitempty"`
	// EntriesOnly says, of such a plan, that it publishes the entries and reveals nothing.
	EntriesOnly bool `json:"entriesOnly,omitempty"`
	// Digest is the SHA-256 of all the above. The sale's log keeps it, so that a
	// saved plan is known again.
	Digest ledger.Hash `json:"digest"`
	// Labels are those of the sale's file, where whoever shows the plan has set them. They are
	// no part of what is planned, nor of the digest.
	Labels map[string]string `json:"labels,omitempty"`
}

// Kind says what a plan is for.
type Kind string

// The kinds of plans. Destroy carries out the last, Apply the others.
const (
	KindApply   Kind = "apply"
	KindPhase   Kind = "phase"
	KindDestroy Kind = "destroy"
	KindReveal  Kind = "reveal" // of a draw
)

// Action is one change of one resource. Addresses are table/<name>, sale/<name>,
// shard/<i>, list/<i> of a shard, and node/<name>.
type Action struct {
	Address string      `json:"address"`
	Action  string      `json:"action"` // create, update, delete
	Before  *Attributes `json:"before"` // null for create
	After   *Attributes `json:"after"`  // null for delete
	// ActionReason and Reason say why it is due, in a word for programs and a sentence for people.
	ActionReason ActionReason `json:"actionReason"`
	Reason       string       `json:"reason"`
}

// What an action does.
const (
	Create = "create"
	Update = "update"
	Delete = "delete"
)

// Attributes are a resource before or after an action. A sale, a shard and a
// node have different ones, a table has none; those that do not apply are left
// out.
type Attributes struct {
	Run           int64  `json:"run,omitempty"`
	Protect       bool   `json:"protect,omitempty"`       // it is neither destroyed nor closed
	Phase         string `json:"phase,omitempty"`         // that the sale is in
	DeclaredPhase string `json:"declaredPhase,omitempty"` // by spec.phase
	Stock         int64  `json:"stock,omitempty"`
	LockCount     int    `json:"lockCount,omitempty"`
	PerUserLimit  int64  `json:"perUserLimit,omitempty"`
	Partial       bool   `json:"partial,omitempty"`
	OpensAt       string `json:"opensAt,omitempty"`  // RFC 3339, UTC
	ClosesAt      string `json:"closesAt,omitempty"` // RFC 3339, UTC
	LockTTLMs     int64  `json:"lockTtlMs,omitempty"`
	// Ends is what a destroy ends; nil: the plan is of something else, or nothing is left.
	Ends *Ends `json:"ends,omitempty"`
	// Payment is nil if claims are sold at once.
	Payment *Payment `json:"payment,omitempty"`
	// Goods is what the units are; nil if they are numbers, or packets of money.
	Goods *Goods `json:"goods,omitempty"`
	// Draw is how the sale is drawn; nil if it is no draw.
	Draw *DrawShown `json:"draw,omitempty"`
	// Who may claim.
	Who
	// Where the sale is kept, and how its servers let us in.
	spec.Settings

	Generation uint64 `json:"generation,omitempty"`
	Limit      *int64 `json:"limit,omitempty"` // units of the shard, sold or not
	Units      string `json:"units,omitempty"` // new unit numbers

	Marker string `json:"marker,omitempty"` // of a lock node: good, missing, abstaining, unknown

	// Of a sale whose engine is redis.
	Engine    string `json:"engine,omitempty"`
	Ack       string `json:"ack,omitempty"`
	Backlog   int64  `json:"backlog,omitempty"`
	RedPacket string `json:"redPacket,omitempty"` // total, currency, split and least amount
	List      string `json:"list,omitempty"`      // of a shard: on, off, unknown
	Node      string `json:"node,omitempty"`      // that has the list
}

// Ends is how many units are what when a sale is destroyed, by the heads that can be read;
// of a red packet by the whole ledger, if that can be read.
type Ends struct {
	Sold      int64 `json:"sold"`
	Held      int64 `json:"held"`
	Available int64 `json:"available"`
	InFlight  int64 `json:"inFlight"`          // on their way from one shard to another
	Entries   int64 `json:"entries,omitempty"` // of a draw
	Unread    int64 `json:"unread,omitempty"`  // shards that cannot be read, which the sums leave out
	// Of a red packet, what is to be given back if nobody takes any more; what is on its way
	// is part of it. Nil: the units are no packets, or their amounts are not known.
	Refund *Refund `json:"refund,omitempty"`
	Claims int64   `json:"claims,omitempty"` // accepted, beside Refund
}

// Fields lists those that are not 0, and how many units are sold; of a red packet, what
// was granted and what is left.
func (e *Ends) Fields() (fields []Field) {
	type number struct {
		name  string
		units int64
	}
	var numbers []number
	switch {
	case e == nil:
		return nil
	case e.Refund != nil:
		r := e.Refund
		worth := func(amount string, packets int64) string {
			return fmt.Sprintf("%s %s in %s", amount, r.Currency, spec.Count(packets, "packet"))
		}
		fields = []Field{
			{Name: "granted", After: worth(r.GrantedAmount, r.Granted)}, {Name: "refund", After: worth(r.Amount, r.Packets)},
		}
		numbers = []number{{"claims", e.Claims}, {"inFlight", e.InFlight}}
	default:
		numbers = []number{{"sold", e.Sold}, {"held", e.Held}, {"available", e.Available}, {"inFlight", e.InFlight}, {"entries", e.Entries}, {"shards unread", e.Unread}}
	}
	for _, f := range numbers {
		if f.units > 0 || f.name == "sold" {
			fields = append(fields, Field{Name: f.name, After: strconv.FormatInt(f.units, 10)})
		}
	}
	return fields
}

// Field is one attribute as text.
type Field struct{ Name, Before, After string }

// Fields lists the attributes that an action sets, changes or removes, in a
// fixed order.
func (a Action) Fields() []Field {
	before, after := a.Before.list(), a.After.list()
	was := map[string]string{}
	for _, f := range before {
		was[f.Name] = f.After
	}
	var fields []Field
	add := func(f Field) {
		if f.Before != f.After {
			fields = append(fields, f)
		}
	}
	for _, f := range after {
		add(Field{Name: f.Name, Before: was[f.Name], After: f.After})
		delete(was, f.Name)
	}
	for _, f := range before { // such as rules that go away
		if text, gone := was[f.Name]; gone {
			add(Field{Name: f.Name, Before: text})
		}
	}
	return fields
}

// list returns every attribute, absent ones as "" or, if there may be any number of
// them, not at all.
func (a *Attributes) list() []Field {
	if a == nil {
		a = new(Attributes)
	}
	number := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	limit, ttl, partial := "", "", ""
	if a.Limit != nil {
		limit = strconv.FormatInt(*a.Limit, 10)
	}
	if a.LockTTLMs != 0 {
		ttl = strconv.FormatFloat(float64(a.LockTTLMs)/1000, 'f', -1, 64) + "s"
	}
	if a.Partial {
		partial = "true"
	}
	protect := ""
	if a.Protect {
		protect = "true"
	}
	fields := []Field{
		{Name: "run", After: number(a.Run)}, {Name: "protect", After: protect}, {Name: "phase", After: a.Phase},
		{Name: "spec.phase", After: a.DeclaredPhase},
		{Name: "stock", After: number(a.Stock)}, {Name: "lockCount", After: number(int64(a.LockCount))},
		{Name: "perUserLimit", After: number(a.PerUserLimit)}, {Name: "partial", After: partial},
		{Name: "opensAt", After: a.OpensAt}, {Name: "closesAt", After: a.ClosesAt},
		{Name: "lock.ttl", After: ttl},
	}
	fields = append(fields, a.Ends.Fields()...)
	fields = append(fields, a.Goods.list()...)
	fields = append(fields, a.Payment.list()...)
	fields = append(fields, a.Who.list()...)
	fields = append(fields, a.Draw.list()...)
	a.Settings.Each(func(name, value string) { fields = append(fields, Field{Name: name, After: value}) })
	return append(fields, []Field{
		{Name: "generation", After: number(int64(a.Generation))},
		{Name: "limit", After: limit}, {Name: "units", After: a.Units}, {Name: "marker", After: a.Marker},
		{Name: "engine", After: a.Engine}, {Name: "ack", After: a.Ack}, {Name: "backlog", After: number(a.Backlog)},
		{Name: "redPacket", After: a.RedPacket}, {Name: "list", After: a.List}, {Name: "node", After: a.Node},
	}...)
}

// Summary counts the actions.
type Summary struct {
	Create int `json:"create"`
	Update int `json:"update"`
	Delete int `json:"delete"`
}

// Empty says whether there is nothing to do.
func (p *Plan) Empty() bool { return len(p.Actions) == 0 }

func saleAddress(name string) string { return "sale/" + name }
func shardAddress(i int) string      { return "shard/" + strconv.Itoa(i) }
func nodeAddress(name string) string { return "node/" + name }

func (p *Plan) add(a Action) {
	// A reason may quote an error; what is no text would not survive JSON.
	a.Reason = strings.ToValidUTF8(a.Reason, "?")
	p.Actions = append(p.Actions, a)
	p.Summary.count(a.Action)
}

func (s *Summary) count(action string) {
	switch action {
	case Create:
		s.Create++
	case Update:
		s.Update++
	case Delete:
		s.Delete++
	}
}

// newPlan begins a plan that is bound to the sale as it is.
func newPlan(kind Kind, actual *Actual) *Plan {
	sale := actual.Sale
	return &Plan{
		FormatVersion: PlanVersion, Kind: kind, Sale: actual.Name, UID: sale.UID(), Run: sale.Run(),
		Phase: sale.Phase(), Generation: sale.Generation(), Slot: sale.Next(), After: sale.Root(),
		Actions: []Action{}, Warnings: []string{},
	}
}

// carry makes p a plan that appends planned, and completes it. What no shard could take is
// refused here, and not by an apply.
func (p *Plan) carry(planned *pb.Planned) error {
	switch err := ledger.CheckPlanned(planned); {
	case errors.Is(err, ledger.ErrTooLarge):
		return &Refusal{
			Reason: fmt.Sprintf("sale %s: the plan does not fit into a slot of the sale's log: %v", p.Sale, err),
			Remedy: "Change fewer units at a time: those whose numbers follow each other take the least room.",
		}
	case err != nil:
		return &Refusal{
			Reason: fmt.Sprintf("sale %s: generation %d could not be taken by its shards: %v", p.Sale, planned.GetGeneration(), err),
			Remedy: "Declare it otherwise. Nothing was changed.",
		}
	}
	payload, err := proto.MarshalOptions{Deterministic: true}.Marshal(planned)
	if err != nil {
		return fmt.Errorf("encoding the plan of sale %s: %w", p.Sale, err)
	}
	p.UID, p.Run, p.Generation, p.Payload = planned.GetUid(), planned.GetRun(), planned.GetGeneration(), payload
	return p.complete()
}

// complete ends the making of a plan.
func (p *Plan) complete() error {
	digest, err := p.digest()
	p.Digest = digest
	return err
}

func (p *Plan) digest() (ledger.Hash, error) {
	bare := *p
	bare.Digest, bare.Labels = ledger.Hash{}, nil
	b, err := json.Marshal(&bare)
	if err != nil {
		return ledger.Hash{}, fmt.Errorf("encoding the plan of sale %s: %w", p.Sale, err)
	}
	return sha256.Sum256(b), nil
}

// planned returns what is to be appended, nil if nothing is.
func (p *Plan) planned() (*pb.Planned, error) {
	if len(p.Payload) == 0 {
		return nil, nil
	}
	planned := new(pb.Planned)
	if err := proto.Unmarshal(p.Payload, planned); err != nil {
		return nil, fmt.Errorf("%w: its payload does not decode: %w", ErrBadPlan, err)
	}
	return planned, nil
}

// declared returns the declaration that a generation carries.
func declared(planned *pb.Planned) (spec.Sale, error) {
	sale, err := spec.FromJSON(planned.GetSpec())
	if err != nil {
		return spec.Sale{}, fmt.Errorf("generation %d: %w", planned.GetGeneration(), err)
	}
	return sale, nil
}

// Encode returns the plan as JSON, to be saved and carried out later.
func (p *Plan) Encode() ([]byte, error) {
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the plan of sale %s: %w", p.Sale, err)
	}
	return append(b, '\n'), nil
}

// LooksLikePlan says whether a file begins like one of plans, so that it can be told from
// a sale file, which may be JSON, too.
func LooksLikePlan(begin []byte) bool {
	return plans.Match(begin)
}

var plans = regexp.MustCompile(`^\s*\{\s*"formatVersion"\s*:\s*[0-9]+\s*,\s*"kind"\s*:\s*"(apply|phase|destroy|reveal)"`)

// DecodePlans reads what Encode wrote, of one sale or of several one after another. A plan
// of another version, or one that was changed since it was made, is ErrBadPlan.
func DecodePlans(b []byte) (all []*Plan, err error) {
	files := json.NewDecoder(bytes.NewReader(b))
	for {
		var one json.RawMessage
		switch err := files.Decode(&one); {
		case errors.Is(err, io.EOF) && len(all) > 0:
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("%w: it is not JSON: %w", ErrBadPlan, err)
		}
		plan, err := decodePlan(one)
		if err != nil {
			return nil, err
		}
		for _, other := range all {
			if other.Sale == plan.Sale {
				return nil, fmt.Errorf("%w: it has two plans of the sale %s", ErrBadPlan, plan.Sale)
			}
		}
		all = append(all, plan)
	}
}

func decodePlan(b []byte) (*Plan, error) {
	var version struct {
		FormatVersion int `json:"formatVersion"`
	}
	if err := json.Unmarshal(b, &version); err != nil {
		return nil, fmt.Errorf("%w: it is no plan: %w", ErrBadPlan, err)
	}
	if version.FormatVersion != PlanVersion {
		return nil, fmt.Errorf("%w: it has formatVersion %d and this program reads %d; make a new plan",
			ErrBadPlan, version.FormatVersion, PlanVersion)
	}
	lines := json.NewDecoder(bytes.NewReader(b))
	lines.DisallowUnknownFields()
	p := new(Plan)
	if err := lines.Decode(p); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadPlan, err)
	}
	switch digest, err := p.digest(); {
	case err != nil:
		return nil, err
	case digest != p.Digest:
		return nil, fmt.Errorf("%w: it was changed since it was made; make a new plan", ErrBadPlan)
	}
	_, err := p.planned()
	return p, err
}
