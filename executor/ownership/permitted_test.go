package ownership

import (
	"context"
	"strings"
	"testing"
	"time"

	"salectl/backends/memory"
	"salectl/backends/quorum"
)

// A process may not begin where too few lock nodes would ever let it have a lease.
func TestPermitted(t *testing.T) {
	for name, test := range map[string]struct {
		faults []memory.Kind // of a node each
		want   []string      // of the error; none: it may begin
	}{
		"all do":                             {[]memory.Kind{0, 0, 0}, nil},
		"none does":                          {[]memory.Kind{memory.Denied, memory.Denied, memory.Denied}, []string{"node-0: ", "node-1: ", "node-2: "}},
		"a majority does":                    {[]memory.Kind{0, memory.Denied, 0}, nil},
		"a minority does":                    {[]memory.Kind{memory.Denied, 0, memory.Denied}, []string{"node-0: ", "node-2: "}},
		"the others may be back":             {[]memory.Kind{memory.ErrorBefore, memory.Denied, memory.ErrorBefore}, nil},
		"the other is away, and no majority": {[]memory.Kind{memory.Denied, memory.Denied, memory.ErrorBefore}, []string{"node-0: ", "node-1: ", "node-2: "}},
		"the only one does not":              {[]memory.Kind{memory.Denied}, []string{"node-0: "}},
	} {
		t.Run(name, func(t *testing.T) {
			var nodes []quorum.Node
			for i, kind := range test.faults {
				n := memory.NewNode("node-"+string(rune('0'+i)), time.Unix(1_800_000_000, 0))
				n.SetFaults(func(memory.Call) memory.Fault { return memory.Fault{Kind: kind} })
				nodes = append(nodes, n)
			}
			err := Permitted(t.Context(), nodes, "uid")
			if (err == nil) != (test.want == nil) {
				t.Fatalf("%v, want an error with %q", err, test.want)
			}
			for _, text := range test.want {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%v; want %q in it", err, text)
				}
			}
		})
	}
}

// A node that hangs keeps nobody waiting whom a majority permits to begin, and who asks is
// not taken for one who is there.
func TestPermittedBesideANodeThatHangs(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	a, b := memory.NewNode("node-0", began), memory.NewNode("node-1", began)
	other := quorum.Member{ID: "other"}
	if _, err := a.Announce(t.Context(), registryOf("uid"), other, time.Second); err != nil {
		t.Fatal(err)
	}
	hangs := &hangingNode{Node: memory.NewNode("node-2", began)}
	if err := Permitted(t.Context(), []quorum.Node{hangs, a, b}, "uid"); err != nil || !hangs.canceled {
		t.Errorf("%v; the call of the node that hangs was ended: %v", err, hangs.canceled)
	}
	there, err := a.Announce(t.Context(), registryOf("uid"), other, time.Second)
	if err != nil || len(there) != 1 {
		t.Errorf("in the room are %+v, %v", there, err)
	}
}

// hangingNode answers no meeting before its context ends.
type hangingNode struct {
	quorum.Node
	canceled bool
}

func (n *hangingNode) Announce(ctx context.Context, _ string, _ quorum.Member, _ time.Duration) ([]quorum.Member, error) {
	<-ctx.Done()
	n.canceled = ctx.Err() == context.Canceled
	return nil, ctx.Err()
}
