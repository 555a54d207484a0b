package executor

import (
	"context"
	"strings"
	"testing"
	"time"

	"salectl/backends/backendtest"
	"salectl/backends/quorum"
)

// A process may not begin where too few lock nodes would ever let it have a lease.
func TestPermitted(t *testing.T) {
	for name, test := range map[string]struct {
		faults []backendtest.Kind // of a node each
		want   []string           // of the error; none: it may begin
	}{
		"all do":                             {[]backendtest.Kind{0, 0, 0}, nil},
		"none does":                          {[]backendtest.Kind{backendtest.Denied, backendtest.Denied, backendtest.Denied}, []string{"node-0: ", "node-1: ", "node-2: "}},
		"a majority does":                    {[]backendtest.Kind{0, backendtest.Denied, 0}, nil},
		"a minority does":                    {[]backendtest.Kind{backendtest.Denied, 0, backendtest.Denied}, []string{"node-0: ", "node-2: "}},
		"the others may be back":             {[]backendtest.Kind{backendtest.ErrorBefore, backendtest.Denied, backendtest.ErrorBefore}, nil},
		"the other is away, and no majority": {[]backendtest.Kind{backendtest.Denied, backendtest.Denied, backendtest.ErrorBefore}, []string{"node-0: ", "node-1: ", "node-2: "}},
		"the only one does not":              {[]backendtest.Kind{backendtest.Denied}, []string{"node-0: "}},
	} {
		t.Run(name, func(t *testing.T) {
			var nodes []quorum.Node
			for i, kind := range test.faults {
				n := backendtest.NewNode("node-"+string(rune('0'+i)), time.Unix(1_800_000_000, 0))
				n.SetFaults(func(backendtest.Call) backendtest.Fault { return backendtest.Fault{Kind: kind} })
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
	a, b := backendtest.NewNode("node-0", began), backendtest.NewNode("node-1", began)
	other := quorum.Member{ID: "other"}
	if _, err := a.Meet(t.Context(), roomOf("uid"), other, time.Second); err != nil {
		t.Fatal(err)
	}
	hangs := &hangingNode{Node: backendtest.NewNode("node-2", began)}
	if err := Permitted(t.Context(), []quorum.Node{hangs, a, b}, "uid"); err != nil || !hangs.canceled {
		t.Errorf("%v; the call of the node that hangs was ended: %v", err, hangs.canceled)
	}
	there, err := a.Meet(t.Context(), roomOf("uid"), other, time.Second)
	if err != nil || len(there) != 1 {
		t.Errorf("in the room are %+v, %v", there, err)
	}
}

// hangingNode answers no meeting before its context ends.
type hangingNode struct {
	quorum.Node
	canceled bool
}

func (n *hangingNode) Meet(ctx context.Context, _ string, _ quorum.Member, _ time.Duration) ([]quorum.Member, error) {
	<-ctx.Done()
	n.canceled = ctx.Err() == context.Canceled
	return nil, ctx.Err()
}
