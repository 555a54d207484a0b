package api

import (
	"net/http"
	"slices"
	"time"
)

// Outcome is what became of a claim, as one word. The same words stand in HTTP
// answers, in metrics, in reports and in what the program prints.
type Outcome string

// Every claim has one of these outcomes; Outcomes says what each means to whoever
// asked.
const (
	Sold         Outcome = "sold"
	Held         Outcome = "held"          // until paid or its deadline
	Entered      Outcome = "entered"       // into a draw: what it wins is known after that
	SoldOut      Outcome = "sold_out"      // for good, unless the stock is raised or a claim refunded
	NoneNow      Outcome = "none_now"      // too few units are free at the moment
	UnitsTaken   Outcome = "units_taken"   // not all of the units that the claim names are free at the moment
	NotAdjacent  Outcome = "not_adjacent"  // so many units are free, but nowhere side by side
	LimitReached Outcome = "limit_reached" // the user would pass the per-user limit
	NotOpen      Outcome = "not_open"
	Paused       Outcome = "paused"
	Closed       Outcome = "closed"
	NotEligible  Outcome = "not_eligible" // a rule said no
	BadRequest   Outcome = "bad_request"
	KeyReused    Outcome = "key_reused" // the key was used for another quantity, or for other units
	NoSuchSale   Outcome = "no_such_sale"
	Unknown      Outcome = "unknown" // perhaps accepted: ask again with the same key

	// What became of a claim that was accepted, and what is said to whoever asks for
	// something that it forbids.
	Expired     Outcome = "expired"       // it was not paid in time
	Cancelled   Outcome = "cancelled"     // given up before it was paid
	Refunded    Outcome = "refunded"      // undone after it was sold
	NotDrawn    Outcome = "not_drawn"     // an entry that has won nothing, or not yet
	NotHeld     Outcome = "not_held"      // it is sold already
	NotSold     Outcome = "not_sold"      // it is only held
	NoExtension Outcome = "no_extension"  // the sale extends no holds
	NoSuchClaim Outcome = "no_such_claim" // nobody was given it

	// These say of one request that it is not accepted. Of an earlier request with
	// the same key they say so only where this process has decided that request: of
	// what other processes were asked it knows nothing.
	Overloaded Outcome = "overloaded"  // refused before anything was written
	NoQuorum   Outcome = "no_quorum"   // this process lost the right to write
	Standby    Outcome = "standby"     // another process serves the sale
	Draining   Outcome = "draining"    // this process is going down
	NotChecked Outcome = "not_checked" // what the rules read of the user cannot be read
)

// Replayed is how reports and metrics count an accepted claim that had been
// accepted before, so that Sold counts each claim once. It is no Outcome of a claim.
const Replayed Outcome = "replayed"

// Accepted reports whether the claim has units, or is an entry that may be given some.
func (o Outcome) Accepted() bool { return o == Sold || o == Held || o == Entered }

// Denies is Row's, of all outcomes of this program and of newer ones.
func (o Outcome) Denies() bool { return o.row().Denies }

// Retry reports whether the same request, with the same key, is worth sending again.
type Retry int

const (
	// Final: the answer stays, unless an operator changes the sale. LimitReached ends with a
	// hold of the user that is not paid too, and NotEligible where a rule reads the time or a
	// file that is replaced.
	Final Retry = iota
	// Later: the answer is true now, and may be another one later.
	Later
	// Again: this server has not decided on the claim. Another one may do so now, or
	// this one later.
	Again
)

func (r Retry) String() string { return [...]string{"final", "later", "again"}[r] }

// Exit codes of the program for a claim. Others are in package cli.
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

// Row is what one outcome means to whoever asked.
type Row struct {
	Outcome Outcome
	Status  int // of the HTTP answer. A claim that had been accepted before is answered with 200.
	Exit    int // exit code of salectl claim. A settlement that is done ends with ExitOK.
	Retry   Retry

	// RetryAfter is the least that the header Retry-After says; an answer may say
	// more. 0: the answer has the header only if the server knows when to ask again.
	RetryAfter time.Duration
	// Decides says that the server has looked for the key in the ledger, so that
	// this is also the answer to all earlier attempts of the same request. A sale
	// that is closed or gone may have accepted the claim before.
	Decides bool
	// Denies says that whoever gets the answer takes it that the claim is not accepted.
	Denies bool
	// Timed says that the answer tells the server's time, on which it depends.
	Timed bool

	// Title and Detail are those of the problem document, unless the server has a
	// better detail.
	Title, Detail string
}

// askAgain is said where an earlier request of the same key may have reached
// another server, or this one before it was started again.
const askAgain = " An earlier one with the same Idempotency-Key may have been accepted elsewhere: ask again with that key."

// outcomes is the table: the only place that says what an outcome means outside of
// the executor.
var outcomes = [...]Row{
	{Outcome: Sold, Status: http.StatusCreated, Exit: ExitOK, Decides: true},
	{Outcome: Held, Status: http.StatusCreated, Exit: ExitOK, Decides: true},
	{Outcome: Entered, Status: http.StatusCreated, Exit: ExitOK, Decides: true},

	{Outcome: SoldOut, Denies: true, Status: http.StatusConflict, Exit: ExitSoldOut, Decides: true,
		Title: "Sold out", Detail: "Every unit of the sale is sold."},
	{Outcome: NoneNow, Denies: true, Status: http.StatusConflict, Exit: ExitSoldOut, Retry: Later, RetryAfter: time.Second, Decides: true,
		Title: "None free now", Detail: "Fewer units are free at the moment than the claim asks for; some may come back."},
	{Outcome: UnitsTaken, Denies: true, Status: http.StatusConflict, Exit: ExitSoldOut, Retry: Later, RetryAfter: time.Second, Decides: true,
		Title: "Units taken", Detail: "Not all of the units that the claim names are free at the moment: somebody has them, or they are on their way from one part of the stock to another. They may come back; others may be free."},
	{Outcome: NotAdjacent, Denies: true, Status: http.StatusConflict, Exit: ExitSoldOut, Retry: Later, RetryAfter: time.Second, Decides: true,
		Title: "Not adjacent", Detail: "Nowhere are so many units free side by side at the moment; fewer may be, or some that are apart."},
	{Outcome: LimitReached, Denies: true, Status: http.StatusConflict, Exit: ExitLimit, Decides: true,
		Title: "Limit reached", Detail: "With this claim the user would have more units than one user may have."},

	{Outcome: NotOpen, Denies: true, Status: http.StatusForbidden, Exit: ExitNotOpen, Retry: Later, RetryAfter: time.Second, Decides: true, Timed: true,
		Title: "Not open yet", Detail: "The sale has not opened yet."},
	{Outcome: Paused, Denies: true, Status: http.StatusForbidden, Exit: ExitNotOpen, Retry: Later, RetryAfter: time.Second, Decides: true, Timed: true,
		Title: "Paused", Detail: "The sale is paused."},
	{Outcome: Closed, Denies: true, Status: http.StatusForbidden, Exit: ExitNotOpen, Timed: true,
		Title: "Closed", Detail: "The sale is closed; this request was not accepted."},
	{Outcome: NotEligible, Denies: true, Status: http.StatusForbidden, Exit: ExitRefused, Decides: true,
		Title: "Not eligible", Detail: "A rule of the sale refuses this claim."},

	{Outcome: Expired, Status: http.StatusConflict, Exit: ExitRefused, Decides: true,
		Title: "Expired", Detail: "The claim was held and not paid in time; its units are for sale again."},
	{Outcome: Cancelled, Status: http.StatusConflict, Exit: ExitRefused, Decides: true,
		Title: "Cancelled", Detail: "The claim was cancelled; its units are for sale again."},
	{Outcome: Refunded, Status: http.StatusConflict, Exit: ExitRefused, Decides: true,
		Title: "Refunded", Detail: "The claim was refunded."},
	{Outcome: NotDrawn, Status: http.StatusConflict, Exit: ExitRefused, Decides: true,
		Title: "Not drawn", Detail: "The claim is an entry of a draw, and has won nothing."},
	{Outcome: NotHeld, Denies: true, Status: http.StatusConflict, Exit: ExitRefused, Decides: true,
		Title: "Not held", Detail: "The claim is sold: it can be refunded, and nothing else."},
	{Outcome: NotSold, Denies: true, Status: http.StatusConflict, Exit: ExitRefused, Decides: true,
		Title: "Not sold", Detail: "The claim is held: it can be confirmed or cancelled, and not refunded."},
	{Outcome: NoExtension, Denies: true, Status: http.StatusConflict, Exit: ExitRefused, Decides: true,
		Title: "No extension", Detail: "The sale does not extend holds."},
	{Outcome: NoSuchClaim, Denies: true, Status: http.StatusNotFound, Exit: ExitError, Decides: true,
		Title: "No such claim", Detail: "No claim of this name was accepted."},

	{Outcome: BadRequest, Status: http.StatusUnprocessableEntity, Exit: ExitUsage,
		Title: "Bad request", Detail: "The request cannot be a claim."},
	{Outcome: KeyReused, Status: http.StatusUnprocessableEntity, Exit: ExitUsage, Decides: true,
		Title: "Key reused", Detail: "The Idempotency-Key belongs to an earlier claim, of another quantity or other units: send what that asked for, or a new key."},
	{Outcome: NoSuchSale, Denies: true, Status: http.StatusNotFound, Exit: ExitError,
		Title: "No such sale", Detail: "No sale of this name is served here."},

	{Outcome: Overloaded, Denies: true, Status: http.StatusTooManyRequests, Exit: ExitTimeout, Retry: Again, RetryAfter: time.Second,
		Title: "Overloaded", Detail: "Too many requests are waiting; this one was not looked at." + askAgain},
	{Outcome: NoQuorum, Denies: true, Status: http.StatusServiceUnavailable, Exit: ExitTimeout, Retry: Again, RetryAfter: time.Second,
		Title: "No quorum", Detail: "This server has lost the right to sell for the moment; it did not accept this request." + askAgain},
	{Outcome: Unknown, Status: http.StatusServiceUnavailable, Exit: ExitTimeout, Retry: Again, RetryAfter: time.Second,
		Title: "Unknown", Detail: "Nobody knows yet whether the claim was accepted: ask again with the same Idempotency-Key."},
	{Outcome: Standby, Denies: true, Status: http.StatusServiceUnavailable, Exit: ExitTimeout, Retry: Again, RetryAfter: time.Second,
		Title: "Standby", Detail: "The process that owns the shard cannot be reached from here at the moment; this request was not looked at." + askAgain},
	{Outcome: NotChecked, Denies: true, Status: http.StatusServiceUnavailable, Exit: ExitTimeout, Retry: Again, RetryAfter: time.Second,
		Title: "Not checked", Detail: "The rules of the sale could not be checked; this request was not accepted." + askAgain},
	{Outcome: Draining, Denies: true, Status: http.StatusServiceUnavailable, Exit: ExitTimeout, Retry: Again, RetryAfter: time.Second,
		Title: "Going down", Detail: "This server is going down; this request was not looked at." + askAgain},
}

// Outcomes returns the table of all outcomes: accepted ones first, then by what is
// to be done about them.
func Outcomes() []Row { return slices.Clone(outcomes[:]) }

// Row returns the outcome's row. An outcome that this program has no row for is a
// fault of the server, or the word of a newer one: status 500, exit code 1, final.
func (o Outcome) Row() Row { return *o.row() }

func (o Outcome) row() *Row {
	for i := range outcomes {
		if outcomes[i].Outcome == o {
			return &outcomes[i]
		}
	}
	return &Row{Outcome: o, Denies: true, Status: http.StatusInternalServerError, Exit: ExitError, Title: "Internal error",
		Detail: "The server has no words for this outcome; it is a fault of the server."}
}
