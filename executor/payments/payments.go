// Package payments determines which held claims are paid, and settles them. A Checker queries a
// payment service, and a Webhook reads the messages that the service sends.
//
// # The life of a check
//
//  1. The Machine (machine.go) reads new holds of the shards that this process serves, and all
//     existing holds after a takeover (Books.NewHolds). Each becomes a watch of the schedule
//     (schedule.go).
//  2. When a watch is due, the machine reads in the ledger whether the claim is still unpaid
//     (Books.Unpaid). If it is not, the watch ends.
//  3. One of up to maxAttempts goroutines queries the service about the claim (query.go). The answer
//     is success, failure, or neither.
//  4. Success confirms the claim with its payment, failure cancels it (terms.go). A settlement
//     without an answer is repeated until it has one. After neither, or no answer, the watch
//     waits for its next turn: an interval, or longer after failures. The service is always
//     queried once between the deadline and the release, and once after the release, so that
//     the ledger records a late payment. For the same reason it is queried about a cancelled
//     claim soon, and once after its former release, unless it reports that there will be no
//     payment.
//
// # Guarantees
//
// Only the ledger is trusted: it defines what is held, and it records each payment once, however
// often and from which source it is reported. This package keeps no state that a process would miss
// after a takeover. The check runs beside the sale, without a lease or lock that claims wait for. A
// payment service that hangs delays payments and nothing else.
//
// The newest generation declares the check. A new declaration takes effect within a second.
package payments

import (
	"context"
	"time"

	"salectl/executor"
	"salectl/spec"
)

// Sale is the part of a sale that this package needs. executor.Executor implements it.
type Sale interface {
	Books
	// Do settles a claim, as executor.Service.Do.
	Do(ctx context.Context, r executor.Request) executor.Answer
}

// Books provides the declaration and the holds of a sale.
type Books interface {
	Sale() string
	// Declared returns the declaration of the newest generation. It reports false if this process
	// does not serve; then it returns the declaration of the run whose end this process has seen,
	// or a zero Sale.
	Declared() (spec.Sale, bool)
	// NewHolds and Unpaid read unpaid claims, as the methods of executor.Executor.
	NewHolds(seen *executor.HoldsSeen, since time.Time) (holds []executor.Hold, anew, more bool)
	Unpaid(id executor.ClaimID) (executor.Hold, bool)
}

// Lookup returns a variable of the environment, as os.LookupEnv does.
type Lookup func(name string) (string, bool)
