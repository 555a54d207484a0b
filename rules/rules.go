// Package rules decides who may claim, by what is known of the user: an
// attribute of the registration, what was bought before, how much is asked for.
//
// # A rule
//
// A rule is a name, an expression in CEL that must be true (require), and what
// the buyer is told if it is false (message, or messageExpression where the
// text depends on values). A rule with enforce deny refuses the claim. A rule
// with enforce audit refuses nothing: it is counted, so that an operator sees
// what the rule would do before it does it. Variables are expressions that
// several rules share; each may use those before it.
//
// # What a rule sees
//
//	user       user.id, user.known, and one field for each declared attribute
//	claim      claim.quantity, claim.key, claim.at
//	sale       sale.name, sale.stock, sale.perUserLimit, sale.opensAt, sale.closesAt
//	history    if declared: purchases in other sales, newest first or in any other order, each
//	           with sale, units and at; history.units() is the sum of a list's units
//	now        the time of the decision
//	variables  variables.<name>
//
// has(user.level) tells whether there is a value. A rule that reads an attribute
// that the user does not have is an error of evaluation, unless && or || makes
// it needless. claim.key, sale.opensAt and sale.closesAt may be missing, too.
//
// The same input always gets the same verdict. What could differ is refused by
// Compile: iterating over a map, the names of time zones, whose tables differ
// from host to host, and dyn, behind which an unknown attribute could hide.
//
// # The life of a decision
//
// Compile checks a Declaration and says all that is wrong with it at once, each
// Problem with its place. Users finds the Attributes of the users of a batch:
// Cache asks a File or a database for those that it does not have. Set.Decide
// evaluates the rules in their order and returns a Verdict: the first deny rule
// that is not satisfied refuses. An evaluation that fails refuses too, for a
// Reason of its own: missing attribute, too costly, any other error. Nothing
// that failed is ever a yes. Set.Hash and Attributes.Digest name what was
// decided by and about, so that a decision that was recorded with them can be
// explained afterwards, by Set.Explain over the same rules and values.
//
// # Costs
//
// Each rule has a worst-case cost in CEL's units, estimated from the sizes that
// values can have here: a text has at most MaxText bytes and a list at most
// MaxList elements. A rule whose worst case is above MaxCost is refused by
// Compile. Evaluation counts again and stops at the same limit, which a test holds
// CEL to, since it has once ignored the limit under some options. To count
// takes CEL as long as the evaluation itself, so Decide does not count what has no
// loop and costs at most MaxUncounted: each part of it is evaluated once at most,
// and the limit is far away even if that estimate were wrong many times over.
//
// # Payments
//
// Scope.Condition and Scope.Reference compile what a sale file says about the answers and
// events of a payment service (predicate.go). Those are JSON of any form, so that a name in
// them is looked for when the answer is there; all else is as with rules.
//
// # Kubernetes
//
// The model is that of Kubernetes' ValidatingAdmissionPolicy: deny and audit,
// message and messageExpression, variables evaluated when first used. What
// differs: an error of types is an error here and no warning; an evaluation
// that fails always refuses, there is no failurePolicy; and there is one set of
// rules in one order, so that the first refusal is the one that the buyer sees.
package rules

import "salectl/spec"

// Declaration is what Compile reads.
type Declaration struct {
	Attributes *Schema    // what is known of a user; nil: id and known alone
	History    bool       // whether rules may use history
	Variables  []Variable // at most MaxVariables, in the order in which they may use each other
	Rules      []Rule     // at most MaxRules, in the order in which they refuse
	Priority   string     // an int or double for the order of a queue, the highest first; empty: none
	// Tables names the tables that users and history are read from. No rule sees them, but what
	// was decided by one table is not decided by another.
	Tables []string
}

// Rule is a condition of a claim.
type Rule struct {
	Name              string // a DNS label, unlike that of every other rule
	Require           string // a bool: the claim satisfies the rule
	Message           string // for the buyer, one line of at most MaxMessage bytes; empty: a text that names the rule
	MessageExpression string // a string for the buyer; if its evaluation fails, Message is told
	Enforce           Enforce
}

// Variable is an expression that rules share. It is evaluated at most once a
// claim, and not before it is used.
type Variable struct {
	Name       string // an identifier
	Expression string
}

// Enforce is what a rule does with a claim that does not satisfy it.
type Enforce string

// The ways to enforce a rule.
const (
	Deny  Enforce = "deny"  // refuse the claim; the default
	Audit Enforce = "audit" // count it
)

// Limits of a declaration and of values.
const (
	MaxRules      = spec.MaxRules
	MaxVariables  = spec.MaxVariables
	MaxAttributes = spec.MaxAttributes
	MaxExpression = 4096 // characters
	MaxMessage    = 256  // bytes of what a buyer is told
	MaxText       = 256  // bytes of a string
	MaxList       = 100  // elements of a list, and purchases of a history

	// MaxCost is the most that a rule may cost, with the variables that it uses,
	// in units of CEL: about 20 ns each.
	MaxCost = 100_000
	// MaxUncounted is the most that an expression without a loop may cost at worst to be
	// evaluated without counting.
	MaxUncounted = MaxCost / 100
)
