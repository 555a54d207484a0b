package spec

import (
	"errors"
	"fmt"
	"reflect"
)

// Queue says who gets the last units where more is asked for than there is.
type Queue struct {
	Order    Order
	Priority string // with OrderPriority: an expression in CEL, an int or double, the highest first
	Depth    int64  // most claims that wait for one shard; the others are told overloaded. 1 to MaxDepth
	// At is where Priority stands in its file. It is no part of the declaration.
	At Place
}

// Order is the order in which claims that wait are decided.
type Order string

// The orders of a queue.
const (
	OrderArrival  Order = "arrival"  // the default
	OrderPriority Order = "priority" // by the priority, those of one priority by arrival
	OrderDraw     Order = "draw"     // claims are entries, which are drawn when the sale has closed; see Draw
)

// MaxDepth is the most claims that may wait for one shard, and DefaultDepth how many do
// where a document says nothing.
const (
	MaxDepth     = 1_000_000
	DefaultDepth = 10_000
)

// queue takes the order in which claims are decided.
func (d *decoder) queue(v value) *Queue {
	o, ok := d.object(v, reflect.TypeFor[queuePart]())
	if !ok {
		return nil
	}
	q := &Queue{Depth: DefaultDepth}
	order, ok := choice(d, o, "order", OrderArrival, OrderPriority, OrderDraw)
	q.Order = order
	q.Priority, q.At = d.prose(o, "priority", `"user.level == 'gold' ? 1 : 0"`)
	switch priority := o.keys["priority"]; {
	case !ok:
	case order == OrderPriority && priority == nil:
		d.refuse(o.values["order"], `Add priority: "user.level == 'gold' ? 1 : 0", or remove order.`, "%s is priority, and %s has no priority", join(o.path, "order"), o.path)
	case order != OrderPriority && priority != nil:
		d.refuse(priority, "Add order: priority, or remove priority.", "%s stands without order: priority", join(o.path, "priority"))
	}
	if v, ok := d.value(o, "depth"); ok {
		q.Depth, _ = d.number(v, 1, MaxDepth)
	}
	return q
}

// check holds a queue to what the rest of the program takes for granted.
func (q Queue) check() error {
	switch {
	case q.Order != OrderArrival && q.Order != OrderPriority && q.Order != OrderDraw:
		return fmt.Errorf("the queue's order %q is not known to this program: use a newer one", q.Order)
	case (q.Order == OrderPriority) != (q.Priority != ""):
		return errors.New("the queue has a priority and no order by it, or the other way round")
	case q.Depth < 1:
		return errors.New("the queue's depth must be at least 1")
	}
	return nil
}
