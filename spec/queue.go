package spec

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/invopop/jsonschema"
)

// Queue configures who gets the last units if demand exceeds stock.
type Queue struct {
	Order Order `yaml:"order,omitempty" json:"order" jsonschema_description:"Order in which waiting claims are decided."`
	// Priority is a CEL expression of type int or double.
	Priority string `yaml:"priority,omitempty" json:"priority,omitempty" jsonschema:"example=user.level == 'gold' ? 1 : 0" jsonschema_description:"With order priority: CEL number; highest first, equal ones by arrival."`
	// Depth is the maximum number of claims that wait for one shard, 1 to MaxDepth; further
	// ones are overloaded.
	Depth int64 `yaml:"depth,omitempty" json:"depth" jsonschema_description:"Maximum number of waiting claims per shard. Further claims are refused as overloaded."`
	// At is the place of Priority in its file. It is no part of the declaration.
	At Place `yaml:"-" json:"-"`
}

// Order is the order in which waiting claims are decided.
type Order string

// Orders of a queue.
const (
	OrderArrival  Order = "arrival"  // the default
	OrderPriority Order = "priority" // by priority, then by arrival
	OrderDraw     Order = "draw"     // claims are entries, which are drawn after the close; see Draw
)

// MaxDepth is the maximum, and DefaultDepth the default, of Queue.Depth.
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

// queue decodes the order in which claims are decided.
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

// part converts a queue to its part of a document.
func (q *Queue) part() *Queue {
	if q == nil {
		return nil
	}
	return &Queue{Order: unless(OrderArrival, q.Order), Priority: q.Priority, Depth: unless(DefaultDepth, q.Depth)}
}

// sane checks what the rest of the program assumes about a queue.
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
