package api

import (
	"fmt"
	"time"

	"salectl/draw"
)

// Request is one claim. The key goes in a header, and is not part of the body.
type Request struct {
	User     string `json:"user"`
	Quantity int64  `json:"quantity"` // units wanted, all or nothing unless the sale has partial; 1 where a body, or a Go program, does not say
	Key      string `json:"-"`

	// Where the sale lets its buyers choose: the names of the units that are asked for, all or
	// none, whose number the quantity then is; or that the units are to lie side by side.
	Units    []string `json:"units,omitempty"`
	Adjacent bool     `json:"adjacent,omitempty"`
}

// Claim is an accepted claim: the answer to one (201, or 200 when it had been
// accepted before), that to GET /v1/sales/{sale}/claims/{claim}, and what a user has.
type Claim struct {
	Outcome Outcome `json:"outcome"` // Sold, Held, Expired, Cancelled or Refunded
	ID      string  `json:"claim"`
	Sale    string  `json:"sale"`
	User    string  `json:"user"`
	Units   []int64 `json:"units"`
	Asked   int64   `json:"asked,omitempty"` // units that were asked for, where fewer were given

	// Of a red packet: what each of the units is worth, an exact decimal, and the
	// currency by ISO 4217.
	Amounts  []string `json:"amounts,omitempty"`
	Currency string   `json:"currency,omitempty"`

	// What each of the units is, by the names of what it has, where units are more than
	// numbers: secrets once the claim is sold. Undelivered says that it could not be read now,
	// and that it is told to whoever asks for the claim again.
	Payloads    []map[string]string `json:"payloads,omitempty"`
	Undelivered bool                `json:"undelivered,omitempty"`

	At time.Time `json:"at"`

	// Of a claim that was held: the deadline to pay by.
	HeldUntil time.Time `json:"heldUntil,omitzero"`

	// Told to whoever looks a claim up, of one that was held or refunded: when it came to
	// its state, by whom and why, which payment bought it, and which bought nothing.
	SettledAt  time.Time `json:"settledAt,omitzero"`
	Who        string    `json:"who,omitempty"`
	Why        string    `json:"why,omitempty"`
	Payment    string    `json:"payment,omitempty"`
	Extended   bool      `json:"extended,omitempty"`   // the deadline is not the first
	Retired    bool      `json:"retired,omitempty"`    // its units went out of the sale by its refund
	RefundDue  []string  `json:"refundDue,omitempty"`  // the newest
	RefundsDue int       `json:"refundsDue,omitempty"` // how many there are
	// RefundDueNext is the Page.Before of older ones; "": there are none.
	RefundDueNext string `json:"refundDueNext,omitempty"`
}

// Page is which part of a list a look-up returns: the newest of it, or the newest of what is older
// than the cursor Before. A page has the order of the list. It has fewer than Limit entries where
// more would be too many bytes.
type Page struct {
	Before string // the cursor of the page before; "": there is none
	Limit  int    // 1 to MaxPage; 0: DefaultClaims or DefaultRefunds
}

// Settlement asks for a claim that was accepted to be confirmed, cancelled, extended or
// refunded. It is the body of POST /v1/sales/{sale}/claims/{claim}/{how}, whose answer
// is 200 with the Claim as it is then, or a Problem.
type Settlement struct {
	Payment string `json:"payment,omitempty"` // of a confirm: its reference, 1 to MaxPayment bytes
	Who     string `json:"who,omitempty"`     // of a cancel or refund, for the books; at most MaxWho bytes
	Reason  string `json:"reason,omitempty"`  // the same; at most MaxReason bytes
	Retire  bool   `json:"retire,omitempty"`  // of a refund: the units are not for sale again
}

// Problem is every answer other than 200 and 201: a problem document of RFC 9457.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`

	// Outcome is what a claim came to; empty where the server did not come to look
	// at a sale, such as for want of a token.
	Outcome Outcome `json:"outcome,omitempty"`

	ServerTime time.Time `json:"serverTime,omitzero"` // where Row.Timed says so
	OpensAt    time.Time `json:"opensAt,omitzero"`    // with NotOpen
	// Rule and Reason are, with NotEligible, the name of the rule that refuses the claim, and
	// why: denied, or missing_attribute, too_costly or evaluation_failed where it could not
	// be evaluated.
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Claims are the newest of the user's, with LimitReached, and Count is how many the user has.
	// Otherwise it is the one claim that the outcome is about, if there is one.
	Claims []Claim `json:"claims,omitempty"`
	Count  int     `json:"count,omitempty"`
	// RefundDue says that a payment bought nothing; the ledger has it for the books.
	RefundDue bool `json:"refundDue,omitempty"`
	// ExportDigest is, of a feed whose rest is deleted, the SHA-256 of the export that has it, in
	// hex.
	ExportDigest string `json:"exportDigest,omitempty"`
	// Known is, with 503 where a process cannot tell how a sale stands, what it knows of it still;
	// told to those who may operate.
	Known *Known `json:"known,omitempty"`
}

func (p *Problem) Error() string {
	if p.Outcome == "" {
		return fmt.Sprintf("%d %s: %s", p.Status, p.Title, p.Detail)
	}
	return fmt.Sprintf("%s: %s", p.Outcome, p.Detail)
}

// Known is of a Sale who serves it, and what that rests on.
type Known struct {
	Nodes     []Node      `json:"nodes"`
	Shards    []Shard     `json:"shards"`
	Processes []Process   `json:"processes,omitempty"`
	Owners    []Ownership `json:"owners,omitempty"`
	Moves     []Move      `json:"moves,omitempty"`

	Problems []SaleProblem `json:"problems,omitempty"`
}

// User is the answer to GET /v1/sales/{sale}/users/{user}: a page of a user's claims, in the
// order of acceptance.
type User struct {
	Sale   string  `json:"sale"`
	User   string  `json:"user"`
	Claims []Claim `json:"claims"`
	Next   string  `json:"next,omitempty"` // Page.Before of older claims; "": there are none
}

// Sale is the answer to GET /v1/sales/{sale}.
type Sale struct {
	Sale         string    `json:"sale"`
	UID          string    `json:"uid"`     // of the run
	Phase        string    `json:"phase"`   // at ServerTime: scheduled, open, stalled, paused, ended, closed
	SoldOut      bool      `json:"soldOut"` // every unit is sold: none is available, held or on its way
	Stock        int64     `json:"stock"`   // units added minus removed, over all shards
	Available    int64     `json:"available"`
	Held         int64     `json:"held"`
	Sold         int64     `json:"sold"`
	InFlight     int64     `json:"inFlight"` // on their way from one shard to another
	PerUserLimit int64     `json:"perUserLimit"`
	Partial      bool      `json:"partial,omitempty"` // a claim for more than there is gets what there is
	OpensAt      time.Time `json:"opensAt,omitzero"`
	ClosesAt     time.Time `json:"closesAt,omitzero"`
	Generation   uint64    `json:"generation"`
	ServerTime   time.Time `json:"serverTime"`

	Packets *Packets `json:"packets,omitempty"` // of a red packet
	Holds   *Holds   `json:"holds,omitempty"`   // where claims are held until they are paid, or were

	Draw *draw.Status `json:"draw,omitempty"` // of a draw

	// What follows is told to those who may operate.

	Lists        *Lists        `json:"lists,omitempty"`        // where units lie in lists on nodes
	PaymentCheck *PaymentCheck `json:"paymentCheck,omitempty"` // of a sale whose payment service is asked; nil: there is nothing to tell

	Nodes  []Node  `json:"nodes,omitzero"`  // in the order of the sale's file; nil: they are not told
	Shards []Shard `json:"shards,omitzero"` // those that stall; nil: they are not told

	Processes []Process   `json:"processes,omitempty"` // that share the sale, as far as the one that answers knows
	Owners    []Ownership `json:"owners,omitempty"`    // by shard
	Moves     []Move      `json:"moves,omitempty"`     // of shards from process to process

	Problems []SaleProblem `json:"problems,omitempty"` // of the process that answers
}

// Sales is the answer to GET /v1/sales: the sales that a process serves, by name.
type Sales struct {
	Sales      []SaleSummary `json:"sales"`
	ServerTime time.Time     `json:"serverTime"`
}

// SaleSummary is the most important of a Sale. Where a process cannot tell how a sale stands,
// the Phase is unknown, and Outcome is what a GET of the sale is answered with; then there is
// nothing else.
type SaleSummary struct {
	Sale       string    `json:"sale"`
	UID        string    `json:"uid,omitempty"`
	Generation uint64    `json:"generation,omitempty"`
	Phase      string    `json:"phase"`
	Outcome    Outcome   `json:"outcome,omitempty"`
	SoldOut    bool      `json:"soldOut"`
	Stock      int64     `json:"stock"`
	Available  int64     `json:"available"`
	Held       int64     `json:"held"`
	Sold       int64     `json:"sold"`
	OpensAt    time.Time `json:"opensAt,omitzero"`
	ClosesAt   time.Time `json:"closesAt,omitzero"`
}

// PaymentCheck is how it goes to ask a payment service about claims that are held.
type PaymentCheck struct {
	Watched      int       `json:"watched"`               // claims that it is asked about
	FailingSince time.Time `json:"failingSince,omitzero"` // since when it gives no answer that can be used; zero: it does
	Error        string    `json:"error,omitempty"`       // why; told at the admin address alone
}

// WebhookAnswer is what the sender of a payment service's message is told that needs not
// be sent again.
type WebhookAnswer struct {
	Outcome   Outcome `json:"outcome"` // for the claim; "ignored": the message is about none
	Sale      string  `json:"sale"`
	Claim     string  `json:"claim,omitempty"`
	RefundDue bool    `json:"refundDue,omitempty"` // the payment bought nothing
}

// Packets is what the units of a red packet hold together, all of them, whoever
// has them.
type Packets struct {
	Currency string `json:"currency"`
	Total    string `json:"total"` // an exact decimal

	// Commitment fixes the amounts and tells nothing of them: 64 hex digits, as
	// ledger.RedPacket.Commitment has them.
	Commitment string `json:"commitment"`
}

// Holds is what has become of the claims that were held.
type Holds struct {
	Open        int64     `json:"open"`                 // claims that are held
	NextRelease time.Time `json:"nextRelease,omitzero"` // when the next of them ends, unless it is paid
	Confirmed   int64     `json:"confirmed"`
	Expired     int64     `json:"expired"`
	Cancelled   int64     `json:"cancelled"`
	Refunded    int64     `json:"refunded"`   // claims that were sold
	Resold      int64     `json:"resold"`     // claims sold to late payments
	RefundsDue  int64     `json:"refundsDue"` // payments that bought nothing
}

// Lists is how the lists stand that the units lie in.
type Lists struct {
	On        int   `json:"on"`        // that give units
	Off       int   `json:"off"`       // that give none now
	Undrained int64 `json:"undrained"` // claims that they gave and the ledger lacks
}

// Node is a lock node as the server sees it. Its name, which is its address, and errors are
// told at the admin address alone.
type Node struct {
	Name  string    `json:"name,omitempty"`
	Up    bool      `json:"up"`
	Since time.Time `json:"since"` // when that began
	Error string    `json:"error,omitempty"`
	// VotesFrom is set while the node abstains, because it lost its memory.
	VotesFrom time.Time `json:"votesFrom,omitzero"`
}

// Shard is a shard that takes no claims for the moment.
type Shard struct {
	Shard int       `json:"shard"`
	Since time.Time `json:"since"`
	Error string    `json:"error,omitempty"` // told at the admin address alone
}

// SaleProblem is a problem of the process that answers.
type SaleProblem struct {
	Kind    string    `json:"kind"`              // such as shards_stalled: docs/metrics.md has a table
	Level   string    `json:"level"`             // warn or error
	Subject string    `json:"subject,omitempty"` // what Where names, such as node or shards; "": the problem is the process's, or the sale's
	Where   string    `json:"where,omitempty"`   // a name, or numbers such as 0-3,7; the names of lock nodes are told at the admin address alone
	Since   time.Time `json:"since,omitzero"`
	Message string    `json:"message"`
	Error   string    `json:"error,omitempty"` // told at the admin address alone
	Remedy  string    `json:"remedy,omitempty"`
}

// Readiness is the answer to GET /readyz at the admin address: 200 while Ready is
// true, else 503.
type Readiness struct {
	Ready bool            `json:"ready"` // every sale that has not ended for good can be sold on every shard
	Sales []SaleReadiness `json:"sales"`
}

// SaleReadiness is Readiness of one sale.
type SaleReadiness struct {
	Sale   string `json:"sale"`
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"` // why it is not
}
