package spec

import (
	"errors"

	"github.com/invopop/jsonschema"
)

// Queue configures who gets the last units if demand exceeds stock.
type Queue struct {
	Order Order `yaml:"order,omitempty" json:"order" words:"arrival priority draw" default:"arrival" doc:"Order in which waiting claims are decided."`
	// Priority is a CEL expression of type int or double.
	Priority string `yaml:"priority,omitempty" json:"priority,omitempty" form:"text" example:"user.level == 'gold' ? 1 : 0" doc:"With order priority: CEL number; highest first, equal ones by arrival."`
	// Depth is the maximum number of claims that wait for one shard; further
	// ones are overloaded.
	Depth int64 `yaml:"depth,omitempty" json:"depth" max:"1000000" default:"10000" doc:"Maximum number of waiting claims per shard. Further claims are refused as overloaded."`
}

// Order is the order in which waiting claims are decided.
type Order string

// Orders of a queue.
const (
	OrderArrival  Order = "arrival"  // the default
	OrderPriority Order = "priority" // by priority, then by arrival
	OrderDraw     Order = "draw"     // claims are entries, which are drawn after the close; see Draw
)

// DefaultDepth is the default of Queue.Depth.
const DefaultDepth = 10_000

func (Queue) constrain(s *jsonschema.Schema) {
	byPriority := &jsonschema.Schema{Properties: jsonschema.NewProperties(), Required: []string{"order", "priority"}}
	byPriority.Properties.Set("order", &jsonschema.Schema{Const: OrderPriority})
	byArrival := &jsonschema.Schema{Properties: jsonschema.NewProperties(), Not: &jsonschema.Schema{Required: []string{"priority"}}}
	byArrival.Properties.Set("order", &jsonschema.Schema{Enum: []any{OrderArrival, OrderDraw}})
	s.OneOf = []*jsonschema.Schema{byArrival, byPriority}
}

// queue checks the order in which claims are decided.
func (d *decoder) queue(q *Queue) {
	o, ok := d.objects["spec.queue"]
	switch priority := o.keys["priority"]; {
	case !ok || q.Order == "":
	case q.Order == OrderPriority && priority == nil:
		d.refuse(o.values["order"], `Add priority: "user.level == 'gold' ? 1 : 0", or remove order.`, "%s is priority, but %s has no priority", join(o.path, "order"), o.path)
	case q.Order != OrderPriority && priority != nil:
		d.refuse(priority, "Add order: priority, or remove priority.", "%s needs order: priority", join(o.path, "priority"))
	}
}

// sane checks what the rest of the program assumes about a queue.
func (q *Queue) sane() error {
	if q != nil && (q.Order == OrderPriority) != (q.Priority != "") {
		return errors.New("the queue has a priority and no order by it, or the other way round")
	}
	return nil
}
