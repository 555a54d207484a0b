package api

import (
	"fmt"
	"slices"
	"time"

	"salectl/draw"
)

// Request is one claim. The key is sent in a header and is not part of the body.
type Request struct {
	User     string `json:"user"`
	Quantity int64  `json:"quantity"` // all or nothing unless the sale has partial; 1 if a body, or a Go program, does not set it
	Key      string `json:"-"`

	// If the sale lets buyers choose: names of the requested units, all or none, whose number
	// is the quantity; or a request for adjacent units.
	Units    []string `json:"units,omitempty"`
	Adjacent bool     `json:"adjacent,omitempty"`
}

// Claim is an accepted claim: the answer to a claim (201, or 200 if it had been accepted
// before) and to GET /v1/sales/{sale}/claims/{claim}, and an element of User.
type Claim struct {
	Outcome   Outcome `json:"outcome"` // Sold, Held, Expired, Cancelled or Refunded
	ID        string  `json:"claim"`
	Sale      string  `json:"sale"`
	User      string  `json:"user"`
	Units     []int64 `json:"units"`
	Requested int64   `json:"requested,omitempty"` // requested units, if fewer were granted

	// Of a red packet: the amount of each unit, an exact decimal, and the currency by ISO
	// 4217.
	Amounts  []string `json:"amounts,omitempty"`
	Currency string   `json:"currency,omitempty"`

	// The payload of each unit by attribute names, if units are more than numbers; secrets
	// only once the claim is sold. Undelivered reports that it could not be read now and is
	// returned by a later query.
	Payloads    []map[string]string `json:"payloads,omitempty"`
	Undelivered bool                `json:"undelivered,omitempty"`

	At time.Time `json:"at"`

	// Deadline for the payment of a held claim.
	HeldUntil time.Time `json:"heldUntil,omitzero"`

	// Only in queries of a claim that was held or refunded.
	Books
}

// Books is what the ledger has of a claim that was held or refunded, beyond the answer to it.
type Books struct {
	SettledAt time.Time `json:"settledAt,omitzero"` // when it came to its state; zero: it is as it was made
	Who       string    `json:"who,omitempty"`      // of a cancel or refund
	Why       string    `json:"why,omitempty"`
	Payment   string    `json:"payment,omitempty"`  // that bought it
	Extended  bool      `json:"extended,omitempty"` // the deadline was extended
	Retired   bool      `json:"retired,omitempty"`  // its units were retired by the refund
	// RefundDue are the newest payments that bought nothing or whose purchase was refunded,
	// RefundsDue is the number of all, and RefundDueNext the Page.Before of older ones; "": there
	// are none. Returned are those of RefundDue that were paid back.
	RefundDue     []string        `json:"refundDue,omitempty"`
	RefundsDue    int             `json:"refundsDue,omitempty"`
	RefundDueNext string          `json:"refundDueNext,omitempty"`
	Returned      []PaymentReturn `json:"returned,omitempty"`
}

// PaymentReturn is the record that a payment was paid back.
type PaymentReturn struct {
	Payment string    `json:"payment"`
	At      time.Time `json:"at"`
	Who     string    `json:"who,omitempty"`
	Why     string    `json:"why,omitempty"`
}

// Owed returns those of RefundDue that are still to be paid back.
func (b Books) Owed() []string {
	return slices.DeleteFunc(slices.Clone(b.RefundDue), func(payment string) bool {
		return slices.ContainsFunc(b.Returned, func(r PaymentReturn) bool { return r.Payment == payment })
	})
}

// Page selects the part of a list that a query returns: the newest entries, or the newest of
// those older than the cursor Before. A page has the order of the list. It has fewer than
// Limit entries if more would be too many bytes.
type Page struct {
	Before string // cursor from the previous page; "": none
	Limit  int    // 1 to MaxPage; 0: DefaultClaims or DefaultRefunds
}

// Settlement confirms, cancels, extends or refunds an accepted claim, or records the return of a
// payment. It is the body of POST /v1/sales/{sale}/claims/{claim}/{how}, whose answer is 200 with
// the resulting Claim, or a Problem.
type Settlement struct {
	Payment string `json:"payment,omitempty"` // of a confirm or return: reference of the payment, 1 to MaxPayment bytes
	Who     string `json:"who,omitempty"`     // of a cancel, refund or return, for the records; at most MaxWho bytes
	Reason  string `json:"reason,omitempty"`  // the same; at most MaxReason bytes
	Retire  bool   `json:"retire,omitempty"`  // of a refund: the units are not sold again
}

// Problem is every answer other than 200 and 201: a problem document of RFC 9457.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`

	// Outcome is that of a claim; empty if the server did not examine a sale, such as for want
	// of a token.
	Outcome Outcome `json:"outcome,omitempty"`

	ServerTime time.Time `json:"serverTime,omitzero"` // if Row.Timed
	OpensAt    time.Time `json:"opensAt,omitzero"`    // with NotOpen
	// Rule and Reason are, with NotEligible, the name of the refusing rule and the reason:
	// denied, or missing_attribute, too_costly or evaluation_failed if it could not be
	// evaluated.
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Claims are the user's newest with LimitReached, and Count is their total. Otherwise
	// Claims has the one claim that the outcome is about, if any.
	Claims []Claim `json:"claims,omitempty"`
	Count  int     `json:"count,omitempty"`
	// RefundDue reports that a payment bought nothing; the ledger records it.
	RefundDue bool `json:"refundDue,omitempty"`
	// ExportDigest is the SHA-256 in hex of the export that contains the rest of a feed, if
	// that is deleted.
	ExportDigest string `json:"exportDigest,omitempty"`
	// Known is, with 503 if a process cannot read the state of a sale, the part known to it;
	// only for operators.
	Known *Known `json:"known,omitempty"`
}

func (p *Problem) Error() string {
	if p.Outcome == "" {
		return fmt.Sprintf("%d %s: %s", p.Status, p.Title, p.Detail)
	}
	return fmt.Sprintf("%s: %s", p.Outcome, p.Detail)
}

// User is the answer to GET /v1/sales/{sale}/users/{user}: a page of a user's claims, in order
// of acceptance.
type User struct {
	Sale   string  `json:"sale"`
	User   string  `json:"user"`
	Claims []Claim `json:"claims"`
	Next   string  `json:"next,omitempty"` // Page.Before of older claims; "": there are none
}

// Sale is the answer to GET /v1/sales/{sale}.
type Sale struct {
	SaleSummary
	PerUserLimit int64     `json:"perUserLimit"`
	Partial      bool      `json:"partial,omitempty"` // a claim for more units than available gets those available
	ServerTime   time.Time `json:"serverTime"`

	Packets *Packets `json:"packets,omitempty"` // of a red packet
	Holds   *Holds   `json:"holds,omitempty"`   // if claims are or were held until paid

	Known
}

// SaleSummary is a summary of a Sale. If a process cannot read the state of a sale, Outcome is
// that of a GET of the sale, phase and hours are those of the sale's log, or unknown, and the
// units are zero.
type SaleSummary struct {
	Sale       string       `json:"sale"`
	UID        string       `json:"uid"` // of the run
	Generation uint64       `json:"generation"`
	Phase      string       `json:"phase"` // planned, scheduled, open, stalled, paused, ended, closed, sealed, destroyed, unknown
	Outcome    Outcome      `json:"outcome,omitempty"`
	SoldOut    bool         `json:"soldOut"` // every unit is sold: none is available, held or in transit
	Stock      int64        `json:"stock"`   // units added minus removed, over all shards
	Available  int64        `json:"available"`
	Held       int64        `json:"held"`
	Sold       int64        `json:"sold"`
	InFlight   int64        `json:"inFlight"` // in transit between shards
	OpensAt    time.Time    `json:"opensAt,omitzero"`
	ClosesAt   time.Time    `json:"closesAt,omitzero"`
	Draw       *draw.Status `json:"draw,omitempty"` // of a draw
}

// Known is the part of a Sale about its processes and what they depend on. A process also
// has it while it cannot read the state of the sale. It is only for operators.
type Known struct {
	Lists        *Lists        `json:"lists,omitempty"`        // if units are in lists on nodes
	PaymentCheck *PaymentCheck `json:"paymentCheck,omitempty"` // of a sale that queries its payment service; nil: nothing to report

	Nodes  []Node  `json:"nodes,omitzero"`  // in the order of the sale's file; nil: not reported
	Shards []Shard `json:"shards,omitzero"` // by number, those of which anything is known; nil: not reported

	Processes []Process `json:"processes,omitempty"` // that share the sale, as known to the answering process
	Moves     []Move    `json:"moves,omitempty"`     // of shards between processes

	Problems []SaleProblem `json:"problems,omitempty"` // of the answering process
}

// Process is one process of a sale.
type Process struct {
	Address string `json:"address"` // address for claims
	Version string `json:"version,omitempty"`
	// State is serving, or why the process should own no shard: standby, draining, or unable
	// if its clock is wrong.
	State string `json:"state"`
	Self  bool   `json:"here,omitempty"` // the answering process
	Up    bool   `json:"up"`             // the answering process has received a message of it within a second
	// Shards is the number of owned shards, nil if unknown; Assigned that of assigned ones.
	Shards   *int `json:"shards,omitempty"`
	Assigned int  `json:"assigned"`
	// Requests is the recent rate per second of claims and settlements from clients, Forwarded
	// the rate of those passed on to other processes. nil: unknown.
	Requests  *float64 `json:"requests,omitempty"`
	Forwarded *float64 `json:"forwarded,omitempty"`

	ID    string `json:"id"`              // of this start of the process, in hex
	Admin string `json:"admin,omitempty"` // address for operators
}

// States of a process.
const (
	ProcessServing  = "serving"
	ProcessStandby  = "standby"
	ProcessDraining = "draining"
	ProcessUnable   = "unable"
)

// Move is a shard assigned to another reachable process than its owner, or about to move.
type Move struct {
	Shard int    `json:"shard"`
	From  string `json:"from,omitempty"` // address; "": no owner is known
	To    string `json:"to"`
	// Stage is the progress at the answering process: it follows the shard's log, takes the
	// shard, or releases it; otherwise due.
	Stage string `json:"stage"`
}

// Stages of a move.
const (
	MoveDue     = "due"
	MoveFollows = "follows"
	MoveTakes   = "takes"
	MoveGives   = "gives"
)

// Sales is the answer to GET /v1/sales: the sales that a process serves, by name.
type Sales struct {
	Sales      []SaleSummary `json:"sales"`
	ServerTime time.Time     `json:"serverTime"`
}

// PaymentCheck is the state of the queries to a payment service about held claims.
type PaymentCheck struct {
	Watched      int       `json:"watched"`               // number of claims that are queried
	FailingSince time.Time `json:"failingSince,omitzero"` // begin of the time without a usable answer; zero: the service answers
	Error        string    `json:"error,omitempty"`       // reason; only at the admin address
}

// WebhookAnswer is the answer to a payment service's message that need not be sent again.
type WebhookAnswer struct {
	Outcome   Outcome `json:"outcome"` // of the claim; "ignored": the message is about none
	Sale      string  `json:"sale"`
	Claim     string  `json:"claim,omitempty"`
	RefundDue bool    `json:"refundDue,omitempty"` // the payment bought nothing
}

// Packets describes all units of a red packet together.
type Packets struct {
	Currency string `json:"currency"`
	Total    string `json:"total"` // an exact decimal

	// Commitment fixes the amounts without revealing them: 64 hex digits, as
	// ledger.RedPacket.Commitment.
	Commitment string `json:"commitment"`
}

// Holds counts the claims that are or were held.
type Holds struct {
	Open        int64     `json:"open"`                 // held claims
	NextRelease time.Time `json:"nextRelease,omitzero"` // end of the next hold, unless it is paid
	Confirmed   int64     `json:"confirmed"`
	Expired     int64     `json:"expired"`
	Cancelled   int64     `json:"cancelled"`
	Refunded    int64     `json:"refunded"`   // of sold claims
	Resold      int64     `json:"resold"`     // claims sold to late payments
	RefundsDue  int64     `json:"refundsDue"` // payments that bought nothing, or whose purchase was refunded
	Returned    int64     `json:"returned"`   // of RefundsDue: paid back
}

// Owed returns the number of payments that are still to be paid back.
func (h Holds) Owed() int64 { return h.RefundsDue - h.Returned }

// Lists is the state of the lists of units.
type Lists struct {
	On        int   `json:"on"`        // lists that grant units
	Off       int   `json:"off"`       // lists that grant none now
	Undrained int64 `json:"undrained"` // claims granted by lists that the ledger lacks
}

// Node is a lock node as seen by the server. Its name, which is its address, and errors are
// reported only at the admin address.
type Node struct {
	Name  string    `json:"name,omitempty"`
	Up    bool      `json:"up"`
	Since time.Time `json:"since,omitzero"` // begin of the state Up
	Error string    `json:"error,omitempty"`
	// VotesFrom is set while the node abstains, because it lost its memory.
	VotesFrom time.Time `json:"votesFrom,omitzero"`
}

// Shard is a shard as known to the answering process. Without units its state is unknown, or a
// fault.
type Shard struct {
	Shard     int      `json:"shard"`
	State     string   `json:"state"`
	Owner     string   `json:"owner,omitempty"` // address of the process; "": unknown
	Available int64    `json:"available,omitempty"`
	Held      int64    `json:"held,omitempty"`
	Sold      int64    `json:"sold,omitempty"`
	Entries   int64    `json:"entries,omitempty"` // of a draw
	Load      *float64 `json:"load,omitempty"`    // recent rate of decided requests per second; nil: unknown
	Waiting   int      `json:"waiting,omitempty"` // number of waiting requests
	Busy      bool     `json:"busy,omitempty"`    // it decides far more than the other shards

	// Since is the time since which it is stalled, if the answering process owns it.
	Since time.Time `json:"since,omitzero"`
	Error string    `json:"error,omitempty"` // the cause; only at the admin address
}

// States of a shard.
const (
	ShardUnknown = "unknown"  // not reported by any process
	ShardStalled = "stalled"  // its log cannot be read or written
	ShardNoLease = "no-lease" // its owner, or last owner, must not write now
	ShardMoving  = "moving"   // moving to another process
	ShardSelling = "selling"  // it has units for sale
	ShardNone    = "none"     // no unit is for sale now; some are held or in transit
	ShardSoldOut = "sold-out" // all its units are sold
	ShardDrawing = "drawing"  // it accepts entries of a draw
)

// SaleProblem is a problem of the answering process.
type SaleProblem struct {
	Kind    string    `json:"kind"`              // such as shards_stalled: docs/metrics.md has a table
	Level   string    `json:"level"`             // warn or error
	Subject string    `json:"subject,omitempty"` // type of the names in Where, such as node or shards; "": the process, or the sale
	Where   string    `json:"where,omitempty"`   // a name, or numbers such as 0-3,7; names of lock nodes only at the admin address
	Since   time.Time `json:"since,omitzero"`
	Message string    `json:"message"`
	Error   string    `json:"error,omitempty"` // only at the admin address
	Remedy  string    `json:"remedy,omitempty"`
}

// Readiness is the answer to GET /readyz at the admin address: 200 if Ready, else 503.
type Readiness struct {
	Ready bool            `json:"ready"` // every sale that has not ended for good can be sold on every shard
	Sales []SaleReadiness `json:"sales"`
}

// SaleReadiness is the Readiness of one sale.
type SaleReadiness struct {
	Sale   string `json:"sale"`
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"` // why it is not ready
}
