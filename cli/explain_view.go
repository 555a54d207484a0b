package cli

import (
	"fmt"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/rules"
	"salectl/spec"
)

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

	Asked bool `json:"-"` // the history was read
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
		ID: user.ID(), Known: user.Known(), Digest: user.Digest().String()[:2*ledger.AttributesLen], Attributes: []rules.NamedValue{}, Asked: sale.History != nil,
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
