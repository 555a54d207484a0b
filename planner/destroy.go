package planner

import (
	"fmt"
	"strconv"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// MakeDestroy plans the end of a sale: close, export, delete. For a sealed sale it plans only
// the remaining deletions; the plan is empty if there are none.
func MakeDestroy(actual *Actual) (*Plan, error) {
	sale := actual.Sale
	p := newPlan(KindDestroy, actual)
	if sale.UID() == "" {
		return p.Plan, p.complete()
	}
	old, err := Declared(sale.Newest())
	if err != nil {
		return nil, fmt.Errorf("sale %s: %w", actual.Name, err)
	}
	if i, is := actual.Damaged(); is {
		return nil, fmt.Errorf("sale %s: %w", actual.Name, DamagedError(sale, i, actual.Shards[i].Head))
	}
	if sale.Live() {
		if err := protected(old, actual.Name, "it is not destroyed"); err != nil {
			return nil, err
		}
		if err := actual.CheckLists(); err != nil {
			return nil, err
		}
	}
	p.deletions()
	if !sale.Destroyed() {
		kept := "requested; its own log is kept"
		if actual.Table != nil {
			kept += ", and so is the table " + actual.Table.Name + ", where other sales may be"
		}
		before := saleAttributes(old, old.Stock, sale.Phase(), sale.Generation())
		if sale.Live() {
			before.Ends = actual.ends()
			p.holds(before.Ends)
			p.packets(before)
		}
		why, reason := deleteReason(sale, kept)
		p.add(Action{Address: SaleAddress(p.Sale), Action: Delete, ActionReason: why, Reason: reason, Before: before})
	}
	p.warnings(withPhase(sale.Newest().GetSettings(), pb.Phase_CLOSED))
	if sale.Newest().GetSettings().GetPhase() == pb.Phase_CLOSED { // as every sealed sale is
		return p.Plan, p.complete()
	}
	return p.Plan, p.setPlanned(follow(sale, withPhase(sale.Newest().GetSettings(), pb.Phase_CLOSED)))
}

// deletions plans the deletion of shards and of the nodes' keys. For a destroyed sale these
// are only late writes.
func (p *planning) deletions() {
	sale := p.actual.Sale
	for i, s := range p.actual.Shards {
		if s.Head == nil && s.Err == nil && !sale.Live() {
			continue // deleted already
		}
		why, reason := deleteReason(sale, "its log is sealed, exported and deleted")
		p.add(Action{Address: ShardAddress(i), Action: Delete, ActionReason: why, Reason: reason, Before: shardAttributes(s.Head)})
	}
	p.forgottenLists()
	for _, n := range p.actual.Nodes {
		if has := n.Marker.Good || len(n.Leases) > 0; sale.Destroyed() && !has {
			continue
		}
		why, _ := deleteReason(sale, "")
		p.add(Action{
			Address: NodeAddress(n.Name), Action: Delete, Before: &Attributes{Marker: n.MarkerState()},
			ActionReason: why, Reason: "leases and marker of the sale are removed",
		})
	}
}

// LedgerActual is the whole ledger of a sale.
type LedgerActual struct {
	Shards []*ledger.State
	Err    error // why it is unknown
}

// EndsByLedger reports whether a plan to destroy the sale depends on the whole ledger: units are held,
// or they are packets of money.
func (a *Actual) EndsByLedger() bool {
	t, _ := a.Totals()
	return a.Sale.Live() && (t.Held > 0 || a.hasPackets())
}

// HoldTimes returns when the first and the last open hold are released, in microseconds since
// 1970, and the number of open holds.
func HoldTimes(shards []*ledger.State) (first, last int64, n int) {
	for _, s := range shards {
		for _, hold := range s.Holds() {
			at := hold.ReleaseUs()
			if n++; n == 1 {
				first = at
			}
			first, last = min(first, at), max(last, at)
		}
	}
	return first, last, n
}

// holds adds a warning that states how a destroy treats holds.
func (p *planning) holds(ends *Ends) {
	held, last := spec.Subject(ends.Held, "unit", "is", "are")+" held for payments", int64(0)
	if is := p.actual.Ledger; is != nil && is.Err == nil {
		_, last, _ = HoldTimes(is.Shards)
	}
	switch {
	case ends.Held == 0:
	case p.actual.CancelHolds:
		p.warn("%s: these claims are cancelled, and payments that come for them must be paid back", held)
	case last == 0:
		p.warn("%s: destroy closes the sale, then waits until each of these claims is paid, cancelled or released; --cancel-holds cancels them instead", held)
	default:
		ends.HeldUntil = TimeText(time.UnixMicro(last).Truncate(time.Second).Add(time.Second))
		p.warn("%s: destroy closes the sale, then waits until each of these claims is paid, cancelled or released, at the latest at %s unless some are extended; --cancel-holds cancels them instead",
			held, ends.HeldUntil)
	}
}

// ends returns the units of all heads.
func (a *Actual) ends() *Ends {
	t, unread := a.Totals()
	return &Ends{Sold: t.Sold, Held: t.Held, Available: t.Available, InFlight: t.InFlight, Entries: t.Entries, Unread: int64(unread)}
}

// Ends counts the units of a sale to be destroyed by state, from the heads that can be read.
// For a red packet it uses the whole ledger, if that can be read.
type Ends struct {
	Sold      int64  `json:"sold"`
	Held      int64  `json:"held"`
	HeldUntil string `json:"heldUntil,omitempty"` // release of the last hold, RFC 3339, UTC
	Available int64  `json:"available"`
	InFlight  int64  `json:"inFlight"`          // in transit between shards
	Entries   int64  `json:"entries,omitempty"` // of a draw
	Unread    int64  `json:"unread,omitempty"`  // shards that cannot be read; the sums omit them
	// Refund is the part of a red packet to be given back if no more is taken, including units
	// in transit. It is nil for other units and if the amounts are unknown.
	Refund *Refund `json:"refund,omitempty"`
	Claims int64   `json:"claims,omitempty"` // accepted, beside Refund
}

// Fields returns the counts that are not 0, and always the sold units; of a red packet also
// the granted and remaining amounts.
func (e *Ends) Fields() (fields []Field) {
	type number struct {
		name  string
		units int64
	}
	var numbers []number
	switch {
	case e == nil:
		return nil
	case e.Refund != nil:
		r := e.Refund
		worth := func(amount string, packets int64) string {
			return fmt.Sprintf("%s %s in %s", amount, r.Currency, spec.Count(packets, "packet"))
		}
		fields = []Field{
			{Name: "granted", After: worth(r.GrantedAmount, r.Granted)}, {Name: "refund", After: worth(r.Amount, r.Packets)},
		}
		numbers = []number{{"claims", e.Claims}, {"inFlight", e.InFlight}}
	default:
		numbers = []number{{"sold", e.Sold}, {"held", e.Held}, {"available", e.Available}, {"inFlight", e.InFlight}, {"entries", e.Entries}, {"shards unread", e.Unread}}
	}
	for _, f := range numbers {
		if f.units > 0 || f.name == "sold" {
			fields = append(fields, Field{Name: f.name, After: strconv.FormatInt(f.units, 10)})
		}
	}
	if e.HeldUntil != "" {
		fields = append(fields, Field{Name: "heldUntil", After: e.HeldUntil})
	}
	return fields
}
