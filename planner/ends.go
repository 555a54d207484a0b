package planner

import (
	"fmt"
	"strconv"

	"salectl/spec"
)

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
