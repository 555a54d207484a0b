package api

import (
	"net/http"
	"slices"
	"time"
)

// Outcome is the result of a claim as a word. HTTP answers, metrics, reports and the program's
// output use the same words.
type Outcome string

// Outcomes of claims. The function Outcomes describes each for clients.
const (
	Sold         Outcome = "sold"
	Held         Outcome = "held"          // until it is paid or its deadline
	Entered      Outcome = "entered"       // in a draw, whose winners are published later
	SoldOut      Outcome = "sold_out"      // final unless the stock is raised or a claim refunded
	NoneNow      Outcome = "none_now"      // too few units are available at the moment
	UnitsTaken   Outcome = "units_taken"   // not all units named by the claim are available at the moment
	NotAdjacent  Outcome = "not_adjacent"  // enough units are available, but not adjacent
	LimitReached Outcome = "limit_reached" // the claim would exceed the per-user limit
	NotOpen      Outcome = "not_open"
	Paused       Outcome = "paused"
	Closed       Outcome = "closed"
	NotEligible  Outcome = "not_eligible" // a rule denies the claim
	BadRequest   Outcome = "bad_request"
	KeyReused    Outcome = "key_reused" // the key was used for another quantity or other units
	NoSuchSale   Outcome = "no_such_sale"
	Unknown      Outcome = "unknown" // may be accepted: repeat it with the same key

	// States of accepted claims, and refusals of settlements.
	Expired     Outcome = "expired"       // not paid in time
	Cancelled   Outcome = "cancelled"     // cancelled before it was paid
	Refunded    Outcome = "refunded"      // refunded after it was sold
	Returned    Outcome = "returned"      // of a payment, whatever the state of the claim: it was paid back
	NotDrawn    Outcome = "not_drawn"     // an entry that has not won, or not yet
	NotHeld     Outcome = "not_held"      // already sold
	NotSold     Outcome = "not_sold"      // only held
	NotDue      Outcome = "not_due"       // the payment is not owed back
	NoExtension Outcome = "no_extension"  // the sale extends no holds
	NoSuchClaim Outcome = "no_such_claim" // no claim has the id

	// These report that one request is not accepted. They cover an earlier request with the same
	// key only if this process decided it: a process does not have the requests to others.
	Overloaded Outcome = "overloaded"  // refused before anything was written
	NoQuorum   Outcome = "no_quorum"   // this process lost the right to write
	Standby    Outcome = "standby"     // another process serves the sale
	Draining   Outcome = "draining"    // this process is shutting down
	NotChecked Outcome = "not_checked" // user data that the rules read is unavailable
)

// Replayed counts in reports and metrics accepted claims that had been accepted before, so
// that Sold counts each claim once. It is no Outcome of a claim.
const Replayed Outcome = "replayed"

// Accepted reports whether the claim has units, or is an entry that may win some.
func (o Outcome) Accepted() bool { return o == Sold || o == Held || o == Entered }

// Denies returns Row.Denies, also for outcomes of newer programs.
func (o Outcome) Denies() bool { return o.row().Denies }

// Retry reports whether repeating a request with the same key may help.
type Retry int

const (
	// Final: the answer stays unless an operator changes the sale. LimitReached also ends when
	// an unpaid hold of the user ends, and NotEligible when a rule reads the time or a
	// replaced file.
	Final Retry = iota
	// Later: the answer is true now and may change.
	Later
	// Again: this server has not decided the claim. Another one may do so now, or this one
	// later.
	Again
)

func (r Retry) String() string { return [...]string{"final", "later", "again"}[r] }

// Exit codes of the program for a claim. Package cli has the others.
const (
	ExitOK      = 0
	ExitError   = 1
	ExitRefused = 3
	ExitUsage   = 4
	ExitTimeout = 7
	ExitSoldOut = 10
	ExitLimit   = 11
	ExitNotOpen = 12
)

// Row describes one outcome for clients.
type Row struct {
	Outcome Outcome
	Status  int // of the HTTP answer; 200 for a claim that had been accepted before
	Exit    int // exit code of salectl claim; a completed settlement ends with ExitOK
	Retry   Retry

	// RetryAfter is the least value of the header Retry-After; an answer may have more. 0: the
	// header is sent only if the time is known to the server.
	RetryAfter time.Duration
	// Decides reports that the server has read the key in the ledger, so that this is
	// also the answer to all earlier attempts. A sale that is closed or gone may have accepted
	// the claim before.
	Decides bool
	// Denies reports that clients take the answer to mean that the claim is not accepted.
	Denies bool
	// Timed reports that the answer depends on the server's time and includes it.
	Timed bool

	// Title and Detail are those of the problem document, unless the server has a better
	// detail.
	Title, Detail string
}

// Problem returns the problem document of the outcome without further details.
func (row *Row) Problem() Problem {
	return Problem{Type: OutcomeType + string(row.Outcome), Title: row.Title, Status: row.Status, Detail: row.Detail, Outcome: row.Outcome}
}

// RepeatAdvice ends the detail if an earlier request with the same key may have reached another
// server, or this one before its restart.
const RepeatAdvice = " Repeat the request with the same Idempotency-Key: an earlier one may have been accepted."

// outcomes is the only definition of the meaning of outcomes outside of the executor.
var outcomes = [...]Row{
	{Outcome: Sold, Status: http.StatusCreated, Exit: ExitOK, Decides: true},
	{Outcome: Held, Status: http.StatusCreated, Exit: ExitOK, Decides: true},
	{Outcome: Entered, Status: http.StatusCreated, Exit: ExitOK, Decides: true},

	{Outcome: SoldOut, Denies: true, Status: http.StatusConflict, Exit: ExitSoldOut, Decides: true,
		Title: "Sold out", Detail: "Every unit of the sale is sold."},
	{Outcome: NoneNow, Denies: true, Status: http.StatusConflict, Exit: ExitSoldOut, Retry: Later, RetryAfter: time.Second, Decides: true,
		Title: "None available now", Detail: "Fewer units are available now than the claim requests; some may return."},
	{Outcome: UnitsTaken, Denies: true, Status: http.StatusConflict, Exit: ExitSoldOut, Retry: Later, RetryAfter: time.Second, Decides: true,
		Title: "Units taken", Detail: "Some of the named units are not available now: they are sold, held or in transfer between shards. They may return; other units may be available."},
	{Outcome: NotAdjacent, Denies: true, Status: http.StatusConflict, Exit: ExitSoldOut, Retry: Later, RetryAfter: time.Second, Decides: true,
		Title: "Not adjacent", Detail: "No row has that many available units side by side now; fewer units, or units that are not adjacent, may be available."},
	{Outcome: LimitReached, Denies: true, Status: http.StatusConflict, Exit: ExitLimit, Decides: true,
		Title: "Limit reached", Detail: "The claim would exceed the user's limit."},

	{Outcome: NotOpen, Denies: true, Status: http.StatusForbidden, Exit: ExitNotOpen, Retry: Later, RetryAfter: time.Second, Decides: true, Timed: true,
		Title: "Not open yet", Detail: "The sale has not opened yet."},
	{Outcome: Paused, Denies: true, Status: http.StatusForbidden, Exit: ExitNotOpen, Retry: Later, RetryAfter: time.Second, Decides: true, Timed: true,
		Title: "Paused", Detail: "The sale is paused."},
	{Outcome: Closed, Denies: true, Status: http.StatusForbidden, Exit: ExitNotOpen, Timed: true,
		Title: "Closed", Detail: "The sale is closed; this request was not accepted."},
	{Outcome: NotEligible, Denies: true, Status: http.StatusForbidden, Exit: ExitRefused, Decides: true,
		Title: "Not eligible", Detail: "A rule of the sale refuses this claim."},

	{Outcome: Expired, Status: http.StatusConflict, Exit: ExitRefused, Decides: true,
		Title: "Expired", Detail: "The claim was not paid in time; its units are for sale again."},
	{Outcome: Cancelled, Status: http.StatusConflict, Exit: ExitRefused, Decides: true,
		Title: "Cancelled", Detail: "The claim was cancelled; its units are for sale again."},
	{Outcome: Refunded, Status: http.StatusConflict, Exit: ExitRefused, Decides: true,
		Title: "Refunded", Detail: "The claim was refunded."},
	{Outcome: NotDrawn, Status: http.StatusConflict, Exit: ExitRefused, Decides: true,
		Title: "Not drawn", Detail: "The claim is an entry of a draw that has not won."},
	{Outcome: NotHeld, Denies: true, Status: http.StatusConflict, Exit: ExitRefused, Decides: true,
		Title: "Not held", Detail: "The claim is sold: it can only be refunded."},
	{Outcome: NotSold, Denies: true, Status: http.StatusConflict, Exit: ExitRefused, Decides: true,
		Title: "Not sold", Detail: "The claim is held: confirm or cancel it; it cannot be refunded."},
	{Outcome: Returned, Status: http.StatusOK, Exit: ExitOK, Decides: true,
		Title: "Returned", Detail: "The payment was paid back."},
	{Outcome: NotDue, Denies: true, Status: http.StatusConflict, Exit: ExitRefused, Decides: true,
		Title: "Not due", Detail: "The payment is not owed back for this claim."},
	{Outcome: NoExtension, Denies: true, Status: http.StatusConflict, Exit: ExitRefused, Decides: true,
		Title: "No extension", Detail: "The sale does not extend holds."},
	{Outcome: NoSuchClaim, Denies: true, Status: http.StatusNotFound, Exit: ExitError, Decides: true,
		Title: "No such claim", Detail: "No accepted claim has this id."},

	{Outcome: BadRequest, Status: http.StatusUnprocessableEntity, Exit: ExitUsage,
		Title: "Bad request", Detail: "The request is not a valid claim."},
	{Outcome: KeyReused, Status: http.StatusUnprocessableEntity, Exit: ExitUsage, Decides: true,
		Title: "Key reused", Detail: "The Idempotency-Key belongs to an earlier claim with another quantity or other units: repeat that claim unchanged, or use a new key."},
	{Outcome: NoSuchSale, Denies: true, Status: http.StatusNotFound, Exit: ExitError,
		Title: "No such sale", Detail: "This server serves no sale of this name."},

	{Outcome: Overloaded, Denies: true, Status: http.StatusTooManyRequests, Exit: ExitTimeout, Retry: Again, RetryAfter: time.Second,
		Title: "Overloaded", Detail: "Too many requests are waiting; this one was not processed." + RepeatAdvice},
	{Outcome: NoQuorum, Denies: true, Status: http.StatusServiceUnavailable, Exit: ExitTimeout, Retry: Again, RetryAfter: time.Second,
		Title: "No quorum", Detail: "This server cannot sell at the moment: it has no lease, or the ledger does not answer. It did not accept this request." + RepeatAdvice},
	{Outcome: Unknown, Status: http.StatusServiceUnavailable, Exit: ExitTimeout, Retry: Again, RetryAfter: time.Second,
		Title: "Unknown", Detail: "It is not yet known whether the request was accepted." + RepeatAdvice},
	{Outcome: Standby, Denies: true, Status: http.StatusServiceUnavailable, Exit: ExitTimeout, Retry: Again, RetryAfter: time.Second,
		Title: "Standby", Detail: "The owner of the shard cannot be reached at the moment; this request was not processed." + RepeatAdvice},
	{Outcome: NotChecked, Denies: true, Status: http.StatusServiceUnavailable, Exit: ExitTimeout, Retry: Again, RetryAfter: time.Second,
		Title: "Not checked", Detail: "The rules of the sale could not be checked; this request was not accepted." + RepeatAdvice},
	{Outcome: Draining, Denies: true, Status: http.StatusServiceUnavailable, Exit: ExitTimeout, Retry: Again, RetryAfter: time.Second,
		Title: "Shutting down", Detail: "This server is shutting down; this request was not processed." + RepeatAdvice},
}

// Outcomes returns the table of all outcomes: accepted ones first, then by the action that
// they require.
func Outcomes() []Row { return slices.Clone(outcomes[:]) }

// Row returns the outcome's row. An outcome without a row is a fault of the server or that of
// a newer one: status 500, exit code 1, final.
func (o Outcome) Row() Row { return *o.row() }

func (o Outcome) row() *Row {
	for i := range outcomes {
		if outcomes[i].Outcome == o {
			return &outcomes[i]
		}
	}
	return &Row{Outcome: o, Denies: true, Status: http.StatusInternalServerError, Exit: ExitError, Title: "Internal error",
		Detail: "The outcome is unknown to this program: the server is newer, or faulty."}
}
