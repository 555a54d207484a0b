package quorum_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"salectl/backends/quorum"
)

// What speaks against a node, and against which of those that are judged together.
func TestJudge(t *testing.T) {
	const unfit = "It evicts keys. Set maxmemory-policy noeviction."
	node := func(name string, off time.Duration) quorum.NodeInfo {
		return quorum.NodeInfo{Name: name, Info: quorum.Info{RunID: "run of " + name}, Off: off}
	}
	a, b, c := node("a", 0), node("b", 0), node("c", 0)
	with := func(n quorum.NodeInfo, change func(*quorum.NodeInfo)) quorum.NodeInfo { change(&n); return n }
	evicts := func(n *quorum.NodeInfo) { n.Info.Unfit = unfit }
	fails := func(n *quorum.NodeInfo) { n.Err = errors.New("gone") }
	for name, test := range map[string]struct {
		nodes []quorum.NodeInfo
		want  []string
	}{
		"all is well":        {[]quorum.NodeInfo{a, b, c}, nil},
		"none answers":       {[]quorum.NodeInfo{with(a, fails), with(b, fails)}, nil},
		"one evicts":         {[]quorum.NodeInfo{a, with(b, evicts), c}, []string{"lock node b is misconfigured: " + unfit}},
		"one evicts, failed": {[]quorum.NodeInfo{with(a, evicts), with(a, fails), with(b, func(n *quorum.NodeInfo) { evicts(n); fails(n) })}, []string{"lock node a is misconfigured: " + unfit, "lock node b is misconfigured: " + unfit}},
		"one server twice":   {[]quorum.NodeInfo{a, b, with(c, func(n *quorum.NodeInfo) { n.Info.RunID = b.Info.RunID })}, []string{"lock node c is misconfigured: It is the same server as b. Name each server once."}},
		"as far as may be":   {[]quorum.NodeInfo{a, node("b", quorum.MaxTTL), node("c", 0), node("d", -quorum.MaxTTL)}, nil},
		"ahead":              {[]quorum.NodeInfo{a, node("b", -quorum.MaxTTL-time.Millisecond), c}, []string{"lock node b is misconfigured: Its clock is 10s ahead of the median of the nodes' clocks. Set it right."}},
		"behind":             {[]quorum.NodeInfo{a, b, node("c", 90*time.Second+400*time.Millisecond)}, []string{"lock node c is misconfigured: Its clock is 1m30s behind the median of the nodes' clocks. Set it right."}},
		"a clock not known":  {[]quorum.NodeInfo{a, with(node("b", time.Hour), fails), c}, nil},
	} {
		var got []string
		for _, f := range quorum.Judge(test.nodes) {
			got = append(got, f.String())
			if clock := name == "ahead" || name == "behind"; f.Clock != clock {
				t.Errorf("%s: of the clock: %v", name, f.Clock)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
