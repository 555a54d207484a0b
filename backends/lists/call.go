package lists

import (
	"context"

	"salectl/backends/ledger"
)

// Call is a call of a Node that the caller of a Machine makes.
type Call struct {
	Kind    CallKind
	List    List
	Fill    uint64
	RunID   string
	After   string
	Drained string
	Max     int
	Part    Part
	Start   Start
	Units   ledger.Units
}

// CallKind is the kind of a Call.
type CallKind int

// The kinds of calls.
const (
	RunIDCall CallKind = iota + 1
	StopCall
	ReadCall
	PutCall
	StartCall
	TakeCall
	AddCall
	InspectCall
)

func (k CallKind) String() string {
	return [...]string{"", "run id", "stop", "read", "put", "start", "take", "add", "inspect"}[k]
}

// Reply is the result of a Call.
type Reply struct {
	RunID   string
	Entries []Entry
	Units   ledger.Units // taken from the list
	State   State
	Err     error
}

// Do makes the call.
func (c *Call) Do(ctx context.Context, node Node) (r Reply) {
	switch c.Kind {
	case RunIDCall:
		r.RunID, r.Err = node.RunID(ctx)
	case StopCall:
		r.Err = node.Stop(ctx, c.List, c.Fill, c.RunID)
	case ReadCall:
		r.Entries, r.Err = node.Read(ctx, c.List, c.Fill, c.After, c.Drained, c.Max)
	case PutCall:
		r.Err = node.Put(ctx, c.List, c.Fill, c.RunID, c.Part)
	case StartCall:
		r.Err = node.Start(ctx, c.List, c.Fill, c.RunID, c.Start)
	case TakeCall:
		r.Units, r.Err = node.Take(ctx, c.List, c.Fill, c.Max)
	case AddCall:
		r.Err = node.Add(ctx, c.List, c.Fill, c.Units)
	case InspectCall:
		r.State, r.Err = node.Inspect(ctx, c.List)
	}
	return r
}
