// Package models has small models of the protocols by which a sale stays exact, and
// explores all of their states. Each model names the rules that it rests on. For each
// rule there is a case that leaves the rule out, in which the explorer finds what goes
// wrong, so that nobody has to believe that the rule is needed; and there are cases
// with all rules, in which it finds nothing.
//
// A model is an argument about a protocol, in a world of two or three processes, one
// or two units and a few faults. It shares no code with the program; that the program
// follows the protocol is checked by the simulation.
package models

import (
	"fmt"

	"salectl/sim/models/explore"
)

// Rule is a sentence that a protocol rests on.
type Rule struct {
	Name string
	Text string
	// Marked rules stand word for word in docs/design.md, with a ◆ behind them.
	Marked bool
	// Without describes what happens where the rule does not hold.
	Without string
}

// Case is a model at one size, with one rule left out or with all of them.
type Case struct {
	Name string
	Off  string // the rule that is left out; empty: none
	// Finds is what the explorer must report as wrong; empty: it must find nothing. A case
	// that finds something with all rules on shows what the protocol does not promise.
	Finds string
	// Large cases are left to `make models`.
	Large bool
	Run   func() explore.Result
}

// Model is a protocol with what it rests on.
type Model struct {
	Name  string
	About string
	Rules []Rule
	Cases []Case
}

// All are the models, in the order of docs/protocol.md.
func All() []Model {
	return []Model{
		appendModel(),
		destroyModel(),
		cellsModel(),
		batchModel(),
		plansModel(),
		busyModel(),
		transferModel(),
		swapModel(),
		auditModel(),
		clocksModel(),
		votesModel(),
		rebuildModel(),
		handoverModel(),
		successionModel(),
		routesModel(),
		copiesModel(),
		sharesModel(),
		totalsModel(),
	}
}

// limit is how many states a case may have. What has more is not explored in full,
// and the tests require that everything is.
const limit = 8_000_000

// bound returns a function that explores m when it is called.
func bound[S comparable](m explore.Model[S]) func() explore.Result {
	return func() explore.Result { return explore.Run(m, limit) }
}

// Check returns what differs from the case.
func (c Case) Check(r explore.Result) error {
	switch {
	case r.Cut && r.Wrong == "":
		return fmt.Errorf("there are more than %d states", r.States)
	case r.Wrong == c.Finds:
		return nil
	case c.Finds == "":
		return fmt.Errorf("found: %s", r.Wrong)
	case r.Wrong == "":
		return fmt.Errorf("found nothing, and not: %s", c.Finds)
	}
	return fmt.Errorf("found: %s, and not: %s", r.Wrong, c.Finds)
}
