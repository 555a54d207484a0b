package cli

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	urfave "github.com/urfave/cli/v2"

	"salectl/api"
	"salectl/backends"
	"salectl/backends/ledger"
	"salectl/planner/current"
	"salectl/rules"
	"salectl/spec"
)

type explainOptions struct {
	source
	user     string
	quantity int64
	key      string    // "": no key
	at       time.Time // zero: now
}

func (p *program) explainCommand() *urfave.Command {
	return &urfave.Command{
		Name: "explain", Category: groupInspect, Usage: "explain why a user may or may not claim",
		Description: "Evaluates the rules of the files, applied or not, with the present attributes of the " +
			"user. It sells nothing. Exit codes: 0 the user may claim, 3 a rule refuses, 4 bad file " +
			"or usage.",
		Flags: salesFlags(
			required(valueFlag("user", "`ID` of the user")),
			valueFlag("quantity", fmt.Sprintf("evaluate for a claim of `N` units, at most %d (default: 1)", api.MaxQuantity)),
			valueFlag("key", "evaluate for a claim with `KEY` (default: none)"),
			valueFlag("at", "evaluate at `TIME`, such as 2026-11-11T20:00:00+08:00 (default: now)"),
			timeoutFlag(),
			jsonFlag(),
		),
		Action: action(func(f *flags) (o explainOptions) {
			o = explainOptions{source: parseSource(f), quantity: f.number("quantity", 1, api.MaxQuantity, 1), at: f.time("at")}
			o.user, o.key = f.buyer()
			return o
		}, p.explainRules),
	}
}

func (p *program) explainRules(ctx context.Context, o explainOptions) error {
	show := pick(o.json, p.explainText, func(x *explanation) { p.emit(x) })
	return p.forEach(ctx, o.source, func(ctx context.Context, sale spec.Sale) error {
		x, err := p.explain(ctx, sale, o)
		if err != nil {
			return err
		}
		x.Live = p.liveRules(ctx, sale)
		show(x)
		if !x.Allowed {
			return shown{&outcomeError{api.NotEligible, x.Message}}
		}
		return nil
	})
}

// explain evaluates the rules of a sale for a user.
func (p *program) explain(ctx context.Context, sale spec.Sale, o explainOptions) (*explanation, error) {
	set, err := rules.ForSale(sale)
	if err != nil {
		return nil, err
	}
	user, err := p.lookUp(ctx, sale, o.user)
	if err != nil {
		return nil, err
	}
	now := time.Now().Truncate(time.Microsecond)
	if !o.at.IsZero() {
		now = o.at
	}
	in := &rules.Input{
		User: user, Claim: rules.Claim{Quantity: o.quantity, Key: o.key, At: now}, Sale: &sale,
		Now: now,
	}
	return newExplanation(sale, set, in), nil
}

// lookUp returns the attributes of a user, and what the user bought in other sales if that is
// declared.
func (p *program) lookUp(ctx context.Context, sale spec.Sale, id string) (user rules.Attributes, err error) {
	ctx, cancel := context.WithTimeout(ctx, usersPatience)
	defer cancel()
	users, closeUsers, err := p.users(sale, rules.SchemaFor(sale))
	if err != nil {
		return user, err
	}
	defer func() { err = errors.Join(err, closeUsers()) }()
	found, err := users.Lookup(ctx, []string{id})
	if err != nil {
		return user, err
	}
	return found[0], nil
}

// liveRules compares the rules of a file with those of the live sale; nil if there is none.
func (p *program) liveRules(ctx context.Context, sale spec.Sale) *liveRules {
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	var live *liveRules
	err := p.withStore(sale, func(store *backends.Store) error {
		cfg := p.planning(store)
		cfg.Logger = nil
		actual, err := current.ReadSale(ctx, cfg.Backends, sale.Name)
		if err != nil || !actual.Sale.Live() {
			return err
		}
		live = &liveRules{RuleSet: hex.EncodeToString(actual.Sale.Newest().GetSettings().GetRules())}
		return nil
	})
	if err != nil {
		return &liveRules{Error: err.Error()}
	}
	if live != nil {
		live.Same = live.RuleSet == ruleSetOf(sale)
	}
	return live
}

// ruleSetOf returns the hash of a sale's rules; "" if it has none.
func ruleSetOf(sale spec.Sale) string {
	if hash, ok := rules.HashFor(sale); ok {
		return hash.String()
	}
	return ""
}

// explanation is the output of explain for one sale.
type explanation struct {
	Sale     string      `json:"sale"`
	File     string      `json:"file"`
	Allowed  bool        `json:"allowed"`
	Outcome  api.Outcome `json:"outcome,omitempty"` // outcome of a refused claim
	Rule     string      `json:"rule,omitempty"`    // refusing rule
	Message  string      `json:"message,omitempty"` // text for the buyer
	At       string      `json:"at"`                // RFC 3339, UTC
	Quantity int64       `json:"quantity"`
	Key      string      `json:"key,omitempty"`
	RuleSet  string      `json:"ruleSet,omitempty"` // SHA-256; "": every user may claim
	// Live is the rule set of the live sale; nil: there is none.
	Live     *liveRules            `json:"live,omitempty"`
	User     explainedUser         `json:"user"`
	Rules    []rules.RuleResult    `json:"rules"`
	Priority *rules.PriorityResult `json:"priority,omitempty"`
}

type liveRules struct {
	RuleSet string `json:"ruleSet"` // "": no rules
	Same    bool   `json:"same"`    // equal to the file's
	Error   string `json:"error,omitempty"`
}

type explainedUser struct {
	ID         string             `json:"id"`
	Known      bool               `json:"known"`
	From       string             `json:"from,omitempty"`  // source of the attributes; "": no users are declared
	Error      string             `json:"error,omitempty"` // why they cannot be read
	Attributes []rules.NamedValue `json:"attributes"`
	History    []rules.Purchase   `json:"history,omitempty"`
	Digest     string             `json:"digest"` // of all of it, as recorded with a claim in the ledger and exports

	HistoryRead bool `json:"-"`
}

// newExplanation evaluates the rules. A sale without rules admits every claim.
func newExplanation(sale spec.Sale, set *rules.Set, in *rules.Input) *explanation {
	x := &explanation{
		Sale: sale.Name, File: sale.File, Allowed: true,
		At: in.Now.UTC().Format(time.RFC3339Nano), Quantity: in.Claim.Quantity, Key: in.Claim.Key,
		RuleSet: ruleSetOf(sale), User: newExplainedUser(sale, in.User), Rules: []rules.RuleResult{},
	}
	if set == nil {
		return x
	}
	found := set.Explain(in)
	if refusal := found.Verdict.Refusal; !found.Verdict.Allowed() {
		x.Allowed, x.Outcome, x.Rule, x.Message = false, api.NotEligible, refusal.Rule, refusal.Message
	}
	for _, r := range found.Rules {
		if r.Enforce != spec.EnforceDeny {
			r.Message = "" // no buyer receives it
		}
		x.Rules = append(x.Rules, r)
	}
	x.Priority = found.Priority
	return x
}

func newExplainedUser(sale spec.Sale, user rules.Attributes) explainedUser {
	x := explainedUser{
		ID: user.ID(), Known: user.Known(), Digest: user.Digest().String()[:2*ledger.AttributesLen], Attributes: []rules.NamedValue{}, HistoryRead: sale.History != nil,
	}
	if u := sale.Users; u != nil {
		x.From = u.File
		if u.Table != nil {
			x.From = "HBase table " + u.Table.Table
		}
		for _, a := range u.Attributes {
			x.Attributes = append(x.Attributes, rules.NamedValue{Name: a.Name, Value: rules.Show(user.Value(a.Name))})
		}
	}
	if err := user.Err(); err != nil {
		x.Error = err.Error()
	}
	for _, p := range user.History() {
		p.At = p.At.UTC()
		x.History = append(x.History, p)
	}
	return x
}

func (p *program) explainText(x *explanation) {
	warning := x.Live.warning(x.RuleSet)
	if x.Live == nil || x.Live.Error == "" {
		warning = p.withFlags(warning, x.Sale)
	}
	p.view("explanation", struct {
		*explanation
		Warning string
	}{x, warning})
}

// warning returns a text if the live sale has other rules than the file; "" if it has the
// same, or there is none.
func (l *liveRules) warning(file string) string {
	short := func(set string) string { return set[:min(len(set), 12)] }
	switch {
	case l == nil || l.Same && l.Error == "":
		return ""
	case l.Error != "":
		return "the rules of the live sale cannot be read: " + l.Error
	case l.RuleSet == "":
		return "the live sale has no rules: 'salectl plan' shows what the file would change"
	case file == "":
		return fmt.Sprintf("the live sale has rules (rule set %s): 'salectl plan' shows what the file would change", short(l.RuleSet))
	}
	return fmt.Sprintf("the live sale has rule set %s, but the file has %s: 'salectl plan' shows the difference", short(l.RuleSet), short(file))
}
