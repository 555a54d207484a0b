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
	// Nonce is, of a plan that begins a run, what its uid follows from with all else.
	Nonce   string   `json:"nonce,omitempty"`
	Actions []Action `json:"actions"`
	Summary Summary  `json:"summary"`
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
	// saved plan is known again. It proves nothing about who made the plan.
	Digest ledger.Hash `json:"digest"`
	// Labels are those of the sale's file, where whoever shows the plan has set them. They are
	// no part of what is planned, nor of the digest.
	Labels map[string]string `json:"labels,omitempty"`

	unchecked bool // it comes from a file: see Check
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

// Summary counts the actions.
type Summary struct {
	Create int `json:"create"`
	Update int `json:"update"`
	Delete int `json:"delete"`
}

// Empty reports whether there is nothing to do.
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

// LooksLikePlan reports whether a file begins like one of plans, so that it can be told from
// a sale file, which may be JSON, too.
func LooksLikePlan(begin []byte) bool {
	return plans.Match(begin)
}

var plans = regexp.MustCompile(`^\s*\{\s*"formatVersion"\s*:\s*[0-9]+\s*,\s*"kind"\s*:\s*"(apply|phase|destroy|reveal)"`)

// DecodePlans reads what Encode wrote, of one sale or of several one after another. A plan
// of another version, or one that was changed since it was made, is ErrBadPlan. Whoever
// changes a plan on purpose can give it the right digest: Check is due before it is carried out.
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
