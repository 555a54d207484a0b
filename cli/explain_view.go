package cli

import (
	"fmt"
	"strings"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/cli/terminal"
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

	asked bool // the history was read
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
		if r.MessageErr != nil {
			r.Detail = "messageExpression: " + r.MessageErr.Error()
		}
		x.Rules = append(x.Rules, r)
	}
	x.Priority = found.Priority
	return x
}

func newExplainedUser(sale spec.Sale, user rules.Attributes) explainedUser {
	x := explainedUser{
		ID: user.ID(), Known: user.Known(), Digest: user.Digest().String()[:2*ledger.AttributesLen], Attributes: []rules.NamedValue{}, asked: sale.History != nil,
	}
	if u := sale.Users; u != nil {
		x.From = u.File
		if u.Table != nil {
			x.From = "HBase table " + u.Table.Table
		}
		for _, a := range u.Attributes {
			x.Attributes = append(x.Attributes, rules.NamedValue{Name: a.Name, Value: user.Value(a.Name).String()})
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
	c := p.colours(p.out)
	p.gap()
	switch {
	case !x.Allowed:
		fmt.Fprintf(p.out, "%s: %s would be refused by the rule %s, and told: %s (%s)\n", c.Bold(x.Sale), x.User.ID, c.Yellow(x.Rule), x.Message, x.File)
	case x.RuleSet == "" || len(x.Rules) == 0:
		fmt.Fprintf(p.out, "%s: %s may claim, as everybody: there are no rules (%s)\n", c.Bold(x.Sale), x.User.ID, x.File)
	default:
		fmt.Fprintf(p.out, "%s: %s may claim (%s)\n", c.Bold(x.Sale), x.User.ID, x.File)
	}
	if warning := x.Live.warning(x.RuleSet); warning != "" {
		if x.Live.Error == "" {
			warning = p.withFlags(warning, x.Sale)
		}
		terminal.WriteWarnings(p.out, c, []string{warning}, true)
	}
	p.userText(x.User)
	for _, r := range x.Rules {
		mark := c.Green("+")
		if r.Reason != rules.Satisfied {
			mark = c.Red("-")
		}
		fmt.Fprintf(p.out, "\n  %s rule %s (%s): %s%s\n", mark, r.Name, r.Enforce, r.Reason, because(r.Detail))
		p.evaluated(r.Require, r.Values, r.Cost, r.WorstCost)
		if r.Message != "" {
			fmt.Fprintf(p.out, "      the buyer is told: %s\n", r.Message)
		}
	}
	if q := x.Priority; q != nil {
		value := q.Value
		if q.Err != nil {
			value = fmt.Sprintf("%v: %s", q.Err.Reason, q.Err.Detail)
		}
		fmt.Fprintf(p.out, "\n  priority: %s\n", value)
		p.evaluated(q.Expression, q.Values, q.Cost, q.WorstCost)
	}
}

// userText prints the attributes of a user and their source.
func (p *program) userText(u explainedUser) {
	switch {
	case u.From == "":
		fmt.Fprintf(p.out, "\n  no users are declared, so nothing is known of %s\n", u.ID)
	case u.Error != "":
		fmt.Fprintf(p.out, "\n  what %s has of %s cannot be read: %s\n", u.From, u.ID, u.Error)
	case !u.Known:
		fmt.Fprintf(p.out, "\n  %s does not have %s\n", u.From, u.ID)
	default:
		fmt.Fprintf(p.out, "\n  %s has %s\n", u.From, u.ID)
		for _, v := range u.Attributes {
			fmt.Fprintf(p.out, "      user.%s = %s\n", v.Name, v.Value)
		}
	}
	if !u.asked {
		return
	}
	fmt.Fprintf(p.out, "  history: %s\n", count(len(u.History), "purchase"))
	for _, h := range u.History {
		fmt.Fprintf(p.out, "      %s of %s, %s\n", count(h.Units, "unit"), h.Sale, h.At.Format(time.RFC3339))
	}
}

// evaluated prints an expression, the values that it names, and its cost.
func (p *program) evaluated(expression string, values []rules.NamedValue, cost, worst uint64) {
	fmt.Fprintf(p.out, "      %s\n", strings.ReplaceAll(expression, "\n", "\n      "))
	for _, v := range values {
		fmt.Fprintf(p.out, "      %s = %s\n", v.Name, v.Value)
	}
	fmt.Fprintf(p.out, "      cost %s, at most %s of %s\n", grouped(cost), grouped(worst), grouped(uint64(rules.MaxCost)))
}

// warning returns a text if the live sale has other rules than the file; "" if it has the
// same, or there is none.
func (l *liveRules) warning(file string) string {
	short := func(set string) string { return set[:min(len(set), 12)] }
	switch {
	case l == nil || l.Same && l.Error == "":
		return ""
	case l.Error != "":
		return "whether the live sale has these rules is not known: " + l.Error
	case l.RuleSet == "":
		return "the live sale has no rules: 'salectl plan' shows what the file would change"
	case file == "":
		return fmt.Sprintf("the live sale has rules (rule set %s): 'salectl plan' shows what the file would change", short(l.RuleSet))
	}
	return fmt.Sprintf("the live sale has another rule set, %s, and the file has %s: 'salectl plan' shows the difference", short(l.RuleSet), short(file))
}
