package httpd

import (
	"net/http"
	"time"

	"salectl/executor"
)

// verdict is how an outcome other than an accepted claim reaches a buyer.
type verdict struct {
	status int
	title  string
	detail string // unless the executor has a better message

	// retry is the least Retry-After, 0: none unless the executor gives one.
	retry time.Duration
	// timed says that the answer tells the server's time, because the outcome
	// depends on it.
	timed bool
}

// askAgain is said where an earlier request of the same key may have reached
// another server, or this one before it was started again.
const askAgain = " An earlier one with the same Idempotency-Key may have been accepted elsewhere: ask again with that key."

// verdictOf maps every outcome to its HTTP status, and is the only place that
// does. The status of an accepted claim is that of its first answer; a replayed
// one is 200.
func verdictOf(o executor.Outcome) verdict {
	switch o {
	case executor.Sold, executor.Held:
		return verdict{status: http.StatusCreated}

	case executor.SoldOut:
		return verdict{status: http.StatusConflict, title: "Sold out",
			detail: "Every unit of the sale is sold."}
	case executor.NoneNow:
		return verdict{status: http.StatusConflict, title: "None free now", retry: time.Second,
			detail: "Fewer units are free at the moment than the claim asks for; some may come back."}
	case executor.LimitReached:
		return verdict{status: http.StatusConflict, title: "Limit reached",
			detail: "With this claim the user would have more units than one user may have."}

	case executor.NotOpen:
		return verdict{status: http.StatusForbidden, title: "Not open yet", retry: time.Second, timed: true,
			detail: "The sale has not opened yet."}
	case executor.Paused:
		return verdict{status: http.StatusForbidden, title: "Paused", retry: time.Second, timed: true,
			detail: "The sale is paused."}
	case executor.Closed:
		// A closed sale seldom comes back; whoever obeys the header should
		// not ask every second until the end of time.
		return verdict{status: http.StatusForbidden, title: "Closed", retry: time.Minute, timed: true,
			detail: "The sale is closed; this request was not accepted."}
	case executor.NotEligible:
		return verdict{status: http.StatusForbidden, title: "Not eligible",
			detail: "A rule of the sale refuses this claim."}

	case executor.BadRequest:
		return verdict{status: http.StatusUnprocessableEntity, title: "Bad request",
			detail: "The request cannot be a claim."}
	case executor.KeyReused:
		return verdict{status: http.StatusUnprocessableEntity, title: "Key reused",
			detail: "The Idempotency-Key belongs to an earlier claim of another quantity: send that quantity, or a new key."}
	case executor.NoSuchSale:
		return verdict{status: http.StatusNotFound, title: "No such sale",
			detail: "No sale of this name is served here."}

	case executor.Overloaded:
		return verdict{status: http.StatusTooManyRequests, title: "Overloaded", retry: time.Second,
			detail: "Too many requests are waiting; this one was not looked at." + askAgain}
	case executor.NoQuorum:
		return verdict{status: http.StatusServiceUnavailable, title: "No quorum", retry: time.Second,
			detail: "This server has lost the right to sell for the moment; it did not accept this request." + askAgain}
	case executor.Unknown:
		return verdict{status: http.StatusServiceUnavailable, title: "Unknown", retry: time.Second,
			detail: "Nobody knows yet whether the claim was accepted: ask again with the same Idempotency-Key."}
	case executor.Standby:
		return verdict{status: http.StatusServiceUnavailable, title: "Standby", retry: time.Second,
			detail: "Another server has the sale at the moment; this request was not looked at." + askAgain}
	case executor.Draining:
		return verdict{status: http.StatusServiceUnavailable, title: "Going down", retry: time.Second,
			detail: "This server is going down; this request was not looked at." + askAgain}
	}
	return verdict{status: http.StatusInternalServerError, title: "Internal error",
		detail: "The server has no words for this outcome; it is a fault of the server."}
}

// outcomes are all that a claim can come to. Answers that never vary are
// prepared from it, and it bounds the labels of metrics.
var outcomes = []executor.Outcome{
	executor.Sold, executor.Held, executor.SoldOut, executor.NoneNow, executor.LimitReached,
	executor.NotOpen, executor.Paused, executor.Closed, executor.NotEligible,
	executor.BadRequest, executor.KeyReused, executor.NoSuchSale,
	executor.Overloaded, executor.NoQuorum, executor.Unknown, executor.Standby, executor.Draining,
}
