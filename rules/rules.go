// Package rules decides who may claim, based on the user's registration and earlier purchases, and
// on the claim.
//
// # A rule
//
// A rule has a name, a CEL expression that must be true (require), and a text for the buyer if it is
// false (message, or messageExpression for a text with values). A rule with enforce deny refuses the
// claim. A rule with enforce audit refuses nothing: it is counted, so that an operator sees its effect
// before enforcing it. Variables are expressions shared by rules; each may use those before it.
//
// # Names in a rule
//
//	user       user.id, user.known, and one field for each declared attribute
//	claim      claim.quantity, claim.key, claim.at
//	sale       sale.name, sale.stock, sale.perUserLimit, sale.opensAt, sale.closesAt
//	history    if declared: purchases in other sales, newest first or in any other order, each
//	           with sale, units and at; history.units() is the sum of a list's units
//	now        the time of the decision
//	variables  variables.<name>
//
// has(user.level) reports whether there is a value. Reading a missing attribute is an evaluation
// error, unless && or || makes the value irrelevant. claim.key, sale.opensAt and sale.closesAt may
// be missing, too.
//
// Equal inputs get equal verdicts. ForSale rejects what could differ: iteration over a map, names
// of time zones, whose tables differ between hosts, and dyn, which could hide an unknown attribute.
//
// # The life of a decision
//
// ForSale compiles the rules of a sale and reports all problems at once, each at its place. Users
// provides the Attributes of the users of a batch: Cache looks up uncached users in a File or a
// database. Set.Decide evaluates the rules in order and returns a Verdict: the first unsatisfied
// deny rule refuses. A failed evaluation refuses, too, with its own Reason: missing attribute, too
// costly, or any other error. No failure allows a claim. Set.Hash and Attributes.Digest identify
// the rules and values of a decision. A decision recorded with them can be explained later, by
// Set.Explain over the same rules and values.
//
// # Costs
//
// Each rule has a worst-case cost in CEL's units, estimated from the maximum sizes of values: MaxText
// bytes for a text and MaxList elements for a list. ForSale rejects a rule whose worst case exceeds
// MaxCost. Evaluation counts again and stops at the same limit. A test verifies this, since CEL once
// ignored the limit under some options. Counting takes CEL as long as the evaluation itself. So Decide
// does not count an expression that has no loop and costs at most MaxUncounted: each part of it is
// evaluated at most once, and the limit is far away even if the estimate is wrong many times over.
//
// # Payments
//
// ForPayments compiles a sale file's expressions about the answers and
// events of a payment service (predicate.go). These are JSON of any form, so names in them are
// resolved at evaluation. Otherwise they follow the rules above.
//
// # Kubernetes
//
// The model is Kubernetes' ValidatingAdmissionPolicy: deny and audit, message and
// messageExpression, and variables evaluated on first use. There are three differences. A type
// error is an error here and not a warning. A failed evaluation always refuses; there is no
// failurePolicy. There is one ordered set of rules, and the buyer sees the first refusal.
package rules

import "context"

// Limits of a declaration and of values.
const (
	MaxExpression = 4096 // characters
	MaxMessage    = 256  // bytes of a message for the buyer
	MaxText       = 256  // bytes of a string
	MaxList       = 100  // elements of a list, and purchases of a history

	// MaxCost is the maximum cost of a rule, including the variables that it uses, in units of CEL:
	// about 20 ns each.
	MaxCost = 100_000
	// MaxUncounted is the maximum worst-case cost of an expression without a loop that is evaluated
	// without counting.
	MaxUncounted = MaxCost / 100
)

// Users provides the attributes of users. All methods are safe for concurrent use.
type Users interface {
	// Lookup returns the attributes of each id, in the order of ids, which may contain duplicates.
	// A user without an entry is Schema.Unknown, and one whose values do not fit the schema is
	// Schema.Unreadable; neither is an error. An error leaves all of them unknown: the caller
	// refuses their claims, or tries again. Implementations do not retry beyond ctx. Without ids,
	// Lookup only reads what the source keeps in memory as a whole.
	Lookup(ctx context.Context, ids []string) ([]Attributes, error)
}

// UnknownUsers returns a Users without an entry for any user.
func UnknownUsers(s *Schema) Users { return newFile(s) }

// SourceError reports that the source does not contain the users as declared. A retry does not help.
type SourceError struct {
	What   string // a clause without a period
	Remedy string // in sentences
}

func (e *SourceError) Error() string { return e.What }
