package planner

import (
	"fmt"
	"strconv"

	"salectl/spec"
)

// Ends is how many units are what when a sale is destroyed, by the heads that can be read;
// of a red packet by the whole ledger, if that can be read.
type Ends struct {
	Sold      int64  `json:"sold"`
	Held      int64  `json:"held"`
	HeldUntil string `json:"heldUntil,omitempty"` // when the last hold is released, RFC 3339, UTC
	Available int64  `json:"available"`
	InFlight  int64  `json:"inFlight"`          // on their way from one shard to another
	Entries   int64  `json:"entries,omitempty"` // of a draw
	Unread    int64  `json:"unread,omitempty"`  // shards that cannot be read, which the sums leave out
	// Of a red packet, what is to be given back if nobody takes any more; what is on its way
	// is part of it. Nil: the units are no packets, or their amounts are not known.
	Refund *Refund `json:"refund,omitempty"`
	Claims int64   `json:"claims,omitempty"` // accepted, beside Refund
}

// Fields lists those that are not 0, and how many units are sold; of a red packet, what
// was granted and what is left.
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
