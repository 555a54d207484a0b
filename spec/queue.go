package spec

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/invopop/jsonschema"
)

// Queue says who gets the last units where more is asked for than there is.
type Queue struct {
	Order Order `yaml:"order,omitempty" json:"order" jsonschema_description:"Order in which claims that wait are decided."`
	// Priority is an expression in CEL, an int or double.
	Priority string `yaml:"priority,omitempty" json:"priority,omitempty" jsonschema:"example=user.level == 'gold' ? 1 : 0" jsonschema_description:"With order priority: expression in CEL, a number, the highest first. Those of one priority go by arrival."`
	// Depth is the most claims that wait for one shard; the others are told overloaded. 1 to MaxDepth.
	Depth int64 `yaml:"depth,omitempty" json:"depth" jsonschema_description:"Claims that may wait for one shard. Beyond it, claims are refused as overloaded."`
	// At is where Priority stands in its file. It is no part of the declaration.
	At Place `yaml:"-" json:"-"`
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

func (Queue) JSONSchemaExtend(s *jsonschema.Schema) {
	choices(s, "order", OrderArrival, OrderPriority, OrderDraw)
	notBlank(s, "priority")
	bound(s, "depth", MaxDepth, DefaultDepth)
	byPriority := &jsonschema.Schema{Properties: jsonschema.NewProperties(), Required: []string{"order", "priority"}}
	byPriority.Properties.Set("order", &jsonschema.Schema{Const: OrderPriority})
	byArrival := &jsonschema.Schema{Properties: jsonschema.NewProperties(), Not: &jsonschema.Schema{Required: []string{"priority"}}}
	byArrival.Properties.Set("order", &jsonschema.Schema{Enum: []any{OrderArrival, OrderDraw}})
	s.OneOf = []*jsonschema.Schema{byArrival, byPriority}
}

// queue takes the order in which claims are decided.
func (d *decoder) queue(spec object) *Queue {
	o, ok := d.part(spec, "queue", reflect.TypeFor[Queue]())
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

// part writes a queue for a document.
func (q *Queue) part() *Queue {
	if q == nil {
		return nil
	}
	return &Queue{Order: unless(OrderArrival, q.Order), Priority: q.Priority, Depth: unless(DefaultDepth, q.Depth)}
}

// sane holds a queue to what the rest of the program takes for granted.
func (q *Queue) sane() error {
	switch {
	case q == nil:
	case q.Order != OrderArrival && q.Order != OrderPriority && q.Order != OrderDraw:
		return fmt.Errorf("the queue's order %q is not known to this program: use a newer one", q.Order)
	case (q.Order == OrderPriority) != (q.Priority != ""):
		return errors.New("the queue has a priority and no order by it, or the other way round")
	case q.Depth < 1:
		return errors.New("the queue's depth must be at least 1")
	}
	return nil
}
