// Package payments finds out which held claims are paid, and has the sale settle them:
// Checker asks a payment service, and Webhook reads what one sends by itself.
//
// # The life of a check
//
//  1. The Machine (machine.go) reads the holds of the shards that this process serves as they are made,
//     and after a takeover those that there are (Sale.NewHolds). Each becomes a watch of the
//     schedule (schedule.go).
//  2. When a watch is due, the ledger is asked whether the claim is still not paid
//     (Sale.Unpaid); if not, the watch ends.
//  3. The service is asked about the claim (ask.go), by one of maxAsks goroutines. What it
//     answers is success, failure, or neither.
//  4. Success confirms the claim with its payment, failure cancels it (settle.go). A
//     settlement that has no answer is repeated until it has one. Neither, or no answer, has
//     the watch wait for its next turn: an interval, or longer after failures. In any
//     case the service is asked once between the deadline and the release, and once behind
//     that, so that a payment which came too late stands in the ledger. About a claim that
//     was cancelled it is asked soon, and once behind what was its release, for the same
//     reason; or until it says that there will be no payment.
//
// # What is promised
//
// Nothing here is trusted but the ledger: it says what is held, and it takes each payment
// once, whoever brings it and however often. Nothing is kept here that a process which
// takes over could miss. The check runs beside the sale, under no lease and no lock that
// claims wait for: a payment service that hangs delays payments and nothing else.
//
// What is declared is that of the newest generation, and takes effect within a second.
package payments

import (
	"context"
	"time"

	"salectl/executor"
	"salectl/spec"
)

// Sale is what this package needs of a sale. An executor.Executor is one.
type Sale interface {
	Books
	// Do is executor.Service's.
	Do(ctx context.Context, r executor.Request) executor.Answer
}

// Books is what a sale declares and what it holds.
type Books interface {
	Sale() string
	// Declared is what the newest generation declares; false: this process does not serve. Then it is
	// what the run had declared whose end this process has seen, or nothing.
	Declared() (spec.Sale, bool)
	// NewHolds and Unpaid read what is not paid, as those of executor.Executor.
	NewHolds(seen *executor.HoldsSeen, since time.Time) (holds []executor.Hold, anew, more bool)
	Unpaid(id executor.ClaimID) (executor.Hold, bool)
}

// Lookup returns a variable of the environment, as os.LookupEnv does.
type Lookup func(name string) (string, bool)
