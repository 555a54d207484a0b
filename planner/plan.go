package planner

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"google.golang.org/protobuf/proto"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
)

// PlanVersion is the version of a plan's JSON.
const PlanVersion = 1

// Plan is a list of changes, bound to the state of the sale at its making: to the next slot of
// the sale's log and the generation before it.
type Plan struct {
	FormatVersion int    `json:"formatVersion"`
	Kind          Kind   `json:"kind"`
	Sale          string `json:"sale"`
	UID           string `json:"uid"` // run that the plan begins or changes, "" if there is none
	Run           int64  `json:"run"`
	// Phase is the current phase of the sale, "" if it does not exist.
	Phase      string      `json:"phase"`
	Generation uint64      `json:"generation"` // goal of the shards
	Slot       uint64      `json:"slot"`       // next slot of the sale's log
	After      ledger.Hash `json:"after"`      // root of the sale's log before that slot
	// Nonce is an input of the uid, in a plan that begins a run.
	Nonce   string   `json:"nonce,omitempty"`
	Actions []Action `json:"actions"`
	Summary Summary  `json:"summary"`
	// Warnings are clauses about matters that change nothing: a server that is down, an end
	// that has passed.
	Warnings []string `json:"warnings"`
	// Payload is the Planned that apply appends to the sale's log, as protobuf, without what
	// apply adds: the author, the plan's digest, and the seed of red packets. If it is empty,
	// apply appends no Planned and completes the generations of the log.
	Payload []byte `json:"payload,omitempty"`
	// Beacon is the value of the beacon's round, in a plan to reveal a draw; empty if it is
	// unknown or there is no beacon.
	Beacon []byte `json:"beacon,omitempty"`
	// EntriesOnly limits a plan of kind reveal to publishing the entries.
	EntriesOnly bool `json:"entriesOnly,omitempty"`
	// Digest is the SHA-256 of all the above. The sale's log keeps it to identify a saved
	// plan. It does not authenticate the author of the plan.
	Digest ledger.Hash `json:"digest"`
	// Labels are those of the sale file, set by callers that display the plan. They are
	// neither planned nor part of the digest.
	Labels map[string]string `json:"labels,omitempty"`
	// Env are the environment variables in the sale file, set as Labels are.
	Env []string `json:"env,omitempty"`

	unchecked bool // decoded from a file and not checked; see Check
}

// Kind is the purpose of a plan.
type Kind string

// Kinds of plans. apply.Destroy carries out KindDestroy, apply.Run the others.
const (
	KindApply   Kind = "apply"
	KindPhase   Kind = "phase"
	KindDestroy Kind = "destroy"
	KindReveal  Kind = "reveal" // reveal of a draw
)

// The addresses of resources in plans: the table of the ledger, the sale, a shard, the list of a
// shard, and a lock node.
func TableAddress(name string) string { return "table/" + name }
func SaleAddress(name string) string  { return "sale/" + name }
func ShardAddress(i int) string       { return fmt.Sprintf("shard/%d", i) }
func ListAddress(i int) string        { return fmt.Sprintf("list/%d", i) }
func NodeAddress(name string) string  { return "node/" + name }

// Action is one change of one resource.
type Action struct {
	Address string      `json:"address"`
	Action  string      `json:"action"` // create, update, delete
	Before  *Attributes `json:"before"` // null for create
	After   *Attributes `json:"after"`  // null for delete
	// ActionReason and Reason are the reason as a code for programs and as a sentence.
	ActionReason ActionReason `json:"actionReason"`
	Reason       string       `json:"reason"`
}

// Values of Action.Action.
const (
	Create = "create"
	Update = "update"
	Delete = "delete"
)

// Field is one attribute as text; "" means absent.
type Field struct {
	Name   string `json:"name"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// Fields returns the attributes that an action sets, changes or removes, in a fixed order.
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
	for _, f := range before { // such as removed rules
		if text, gone := was[f.Name]; gone {
			add(Field{Name: f.Name, Before: text})
		}
	}
	return fields
}

// Summary counts actions by kind.
type Summary struct {
	Create int `json:"create"`
	Update int `json:"update"`
	Delete int `json:"delete"`
}

// Empty reports whether there is nothing to do.
func (p *Plan) Empty() bool { return len(p.Actions) == 0 }

func (p *planning) add(a Action) {
	// A reason may quote an error; invalid UTF-8 would not survive JSON.
	a.Reason = strings.ToValidUTF8(a.Reason, "?")
	p.Actions = append(p.Actions, a)
	p.Summary.Count(a.Action)
}

// Count adds one action: Create, Update or Delete.
func (s *Summary) Count(action string) {
	switch action {
	case Create:
		s.Create++
	case Update:
		s.Update++
	case Delete:
		s.Delete++
	}
}

// planning is a plan in the making, with the state of the sale that it starts from.
type planning struct {
	*Plan
	actual *Actual
}

// newPlan returns an empty plan, bound to the state of the sale.
func newPlan(kind Kind, actual *Actual) *planning {
	sale := actual.Sale
	return &planning{&Plan{
		FormatVersion: PlanVersion, Kind: kind, Sale: actual.Name, UID: sale.UID(), Run: sale.Run(),
		Phase: sale.Phase(), Generation: sale.Generation(), Slot: sale.Next(), After: sale.Root(),
		Actions: []Action{}, Warnings: []string{},
	}, actual}
}

// setPlanned makes p a plan that appends planned, and completes it. It refuses here, before any
// apply, what no shard could accept.
func (p *planning) setPlanned(planned *pb.Planned) error {
	switch err := ledger.CheckPlanned(planned); {
	case errors.Is(err, ledger.ErrTooLarge):
		return Refuse("sale %s: the plan does not fit into a slot of the sale's log: %v", p.Sale, err).
			With("Change fewer units at a time: those whose numbers follow each other take the least room.")
	case err != nil:
		return Refuse("sale %s: generation %d could not be taken by its shards: %v", p.Sale, planned.GetGeneration(), err).
			With("Change the declaration. Nothing was applied.")
	}
	payload, err := proto.MarshalOptions{Deterministic: true}.Marshal(planned)
	if err != nil {
		return fmt.Errorf("encoding the plan of sale %s: %w", p.Sale, err)
	}
	p.UID, p.Run, p.Generation, p.Payload = planned.GetUid(), planned.GetRun(), planned.GetGeneration(), payload
	return p.complete()
}

// complete sets the plan's digest.
func (p *planning) complete() (err error) {
	p.Digest, err = p.digest()
	return err
}

func (p *Plan) digest() (ledger.Hash, error) {
	bare := *p
	bare.Digest, bare.Labels, bare.Env = ledger.Hash{}, nil, nil
	b, err := json.Marshal(&bare)
	if err != nil {
		return ledger.Hash{}, fmt.Errorf("encoding the plan of sale %s: %w", p.Sale, err)
	}
	return sha256.Sum256(b), nil
}

// Intent returns the op that an execution of the plan appends, nil if there is none. It refuses
// a decoded plan without Check.
func (p *Plan) Intent() (*pb.Planned, error) {
	if p.unchecked {
		return nil, fmt.Errorf("%w: it was not checked since it was read", ErrBadPlan)
	}
	return p.planned()
}

// planned returns the op to append, nil if there is none.
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

// Encode returns the plan as JSON. DecodePlans reads it.
func (p *Plan) Encode() ([]byte, error) {
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the plan of sale %s: %w", p.Sale, err)
	}
	return append(b, '\n'), nil
}

// LooksLikePlan reports whether a file begins like a saved plan. This distinguishes plans from
// sale files, which may be JSON too.
func LooksLikePlan(begin []byte) bool { return plans.Match(begin) }

var plans = regexp.MustCompile(`^\s*\{\s*"formatVersion"\s*:\s*[0-9]+\s*,\s*"kind"\s*:\s*"(apply|phase|destroy|reveal)"`)

// DecodePlans decodes the concatenated output of Encode for one or several sales. A plan of
// another version, or with a wrong digest, is ErrBadPlan. A deliberate change can have the
// right digest, so a decoded plan needs Check before it is carried out.
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
	p := &Plan{unchecked: true}
	if err := lines.Decode(p); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadPlan, err)
	}
	if p.Kind != KindApply && p.Kind != KindDestroy {
		return nil, fmt.Errorf("%w: it is of kind %s, and only plans to apply and to destroy are saved", ErrBadPlan, p.Kind)
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

func (p *planning) warn(format string, args ...any) {
	p.Warnings = append(p.Warnings, strings.ToValidUTF8(fmt.Sprintf(format, args...), "?"))
}

func (p *planning) updateSale(why ActionReason, reason string, before, after *Attributes) {
	p.add(Action{Address: SaleAddress(p.Sale), Action: Update, ActionReason: why, Reason: reason, Before: before, After: after})
}
