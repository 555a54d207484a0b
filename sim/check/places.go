package check

import (
	"fmt"
	"strconv"

	pb "salectl/backends/ledger/ledgerpb"
)

// moment is what a shard's slots have come to.
type moment struct {
	generation uint64
	settings   *pb.Settings
	epoch      uint64
	owner      string // address
	writer     string // the owner's id
	limit      int64  // units added minus removed
	available  int64
	held       int64
	sold       int64
	inFlight   int64 // sent and not acknowledged
	fill       uint64
	entries    int64 // of a draw
	closed     bool  // and its log has their number and root
	sealed     bool

	outcomes
}

// outcomes count claims by what became of them, as heads and exports have them.
type outcomes struct {
	OpenHolds  int64 `json:"openHolds,omitempty"`
	Confirmed  int64 `json:"confirmed,omitempty"`
	Expired    int64 `json:"expired,omitempty"`
	Cancelled  int64 `json:"cancelled,omitempty"`
	Refunded   int64 `json:"refunded,omitempty"`
	Resold     int64 `json:"resold,omitempty"`
	RefundsDue int64 `json:"refundsDue,omitempty"`
	Returned   int64 `json:"returned,omitempty"`
}

func (o *outcomes) add(other outcomes) {
	o.OpenHolds += other.OpenHolds
	o.Confirmed += other.Confirmed
	o.Expired += other.Expired
	o.Cancelled += other.Cancelled
	o.Refunded += other.Refunded
	o.Resold += other.Resold
	o.RefundsDue += other.RefundsDue
	o.Returned += other.Returned
}

// claim is one Claim op, and what became of it.
type claim struct {
	at         *slot
	index      int
	user       string
	key        string
	units      []int64
	requested  int64        // quantity of the request, if fewer were granted
	left       int64        // units that the shard had available after it
	deadline   int64        // 0: never held
	grace      int64        // from there to the release
	extended   bool         // the deadline is not the first
	settled    int64        // when its state changed last; 0: it is as it was made
	state      string       // entered, sold, held, cancelled, expired, refunded
	entry      bool         // of a draw
	states     []stateFrom  // all that it was, in order
	who, why   string       // of a cancel or refund
	payment    string       // that bought it
	retired    bool         // its units went out of the sale
	owed       []string     // payments that bought nothing
	debts      []debt       // those, and that of its refund, in order
	first      []int64      // the units that it was made with, or awarded
	settings   *pb.Settings // in force
	generation uint64       // that has them
	had        int64        // units of the user before
	unpaid     int64        // claims of the user that were cancelled or had expired before
	again      bool         // the request had a claim before

	bookings  []booking // all its payments, in order
	cancelled *slot     // nil: it was not

	heldFrom, heldTo int64 // microseconds; heldTo 0: it is held, or never was

	fill, under uint64 // that a list gave it under, and that the shard was at; 0: no list
	grantedUs   int64  // by the clock of the list's node

	attributes []byte // what names what was known of the user; none: there were no rules
}

// debt is a payment that is owed back.
type debt struct {
	payment  string
	from     uint64 // the place of the slot that has it
	returned *paidBack
	back     uint64 // the place of the slot that has returned
}

// paidBack is what the ledger has of a payment that was paid back.
type paidBack struct {
	Payment string `json:"payment"`
	At      string `json:"at"`
	Who     string `json:"who,omitempty"`
	Why     string `json:"why,omitempty"`
}

// debt returns the debt of a payment; nil: it is not owed back.
func (c *claim) debt(payment string) *debt {
	for i := range c.debts {
		if c.debts[i].payment == payment {
			return &c.debts[i]
		}
	}
	return nil
}

// owe books a payment that is owed back.
func (sh *shard) owe(c *claim, payment string, s *slot) {
	c.debts = append(c.debts, debt{payment: payment, from: s.Seq})
	sh.RefundsDue++
}

// stateFrom is a state of a claim, from a slot on.
type stateFrom struct {
	state string
	seq   uint64
}

// become puts a claim into a state.
func (c *claim) become(state string, at *slot) {
	c.state = state
	c.states = append(c.states, stateFrom{state, at.Seq})
}

// was reports whether a claim was in a state at some time between two places, as far as its
// shard's owner may have known.
func (c *claim) was(state string, from, to uint64) bool {
	from = c.at.log.known(from)
	for i, s := range c.states {
		ended := i+1 < len(c.states) && c.states[i+1].seq < from
		if s.state == state && s.seq < to && !ended {
			return true
		}
	}
	return false
}

// stateAt is the state of a claim at a place.
func (c *claim) stateAt(seq uint64) (state string) {
	for _, s := range c.states {
		if s.seq < seq {
			state = s.state
		}
	}
	return state
}

// has reports whether its user has the units of a claim, in a state.
func has(state string) bool { return state == "sold" || state == "held" }

func (c *claim) id() string {
	if c.fill != 0 && len(c.units) > 0 { // such a claim keeps its unit
		return strconv.Itoa(c.at.log.shard) + "-u" + strconv.FormatInt(c.units[0], 10)
	}
	return strconv.Itoa(c.at.log.shard) + "-" + strconv.FormatUint(c.at.n, 10) + "-" + strconv.Itoa(c.index)
}

func (c *claim) String() string {
	return fmt.Sprintf("claim %s of user %q, key %q (%v)", c.id(), c.user, c.key, c.at)
}

// timeUs is when the claim was accepted.
func (c *claim) timeUs() int64 {
	if c.fill != 0 {
		return c.grantedUs
	}
	return c.at.commit.GetTimeUs()
}

// place is where a unit is.
type place struct {
	kind  placeKind
	shard int    // where it is, or came from
	to    int    // of units in flight
	k     uint64 // of units in flight: the transfer
}

// moved is a place to which a unit came.
type moved struct {
	seq uint64
	to  place
}

type placeKind uint8

const (
	nowhere placeKind = iota
	free
	flying
	held
	sold
	removed
)

func (p place) String() string {
	switch p.kind {
	case nowhere:
		return "not dealt"
	case free:
		return fmt.Sprintf("available in shard %d", p.shard)
	case flying:
		return fmt.Sprintf("on its way from shard %d to %d (%d)", p.shard, p.to, p.k)
	case held:
		return fmt.Sprintf("held in shard %d", p.shard)
	case sold:
		return fmt.Sprintf("sold in shard %d", p.shard)
	}
	return fmt.Sprintf("removed from shard %d", p.shard)
}
