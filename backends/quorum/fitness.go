package quorum

import (
	"context"
	"fmt"
	"time"

	"salectl/backends/clock"
)

// NodeInfo is the result of Node.Info for one node.
type NodeInfo struct {
	Name string
	Info Info
	Err  error         // why Info failed, entirely or in part; Info may then be empty
	Off  time.Duration // how far this process's clock is ahead of the node's
}

// QueryInfo queries a node's Info.
func QueryInfo(ctx context.Context, n Node, now clock.Clock) NodeInfo {
	sent := now()
	info, err := n.Info(ctx)
	return NodeInfo{Name: n.Name(), Info: info, Err: err, Off: ClockOff(sent, now(), info)}
}

// ClockOff returns how far this process's clock is ahead of a node's, accurate to half of the
// round-trip time.
func ClockOff(sent, got clock.Now, info Info) time.Duration {
	return got.Wall.Sub(info.Time) - (got.Mono-sent.Mono)/2
}

// Fault is a reason not to rely on a node.
type Fault struct {
	Node  string
	Why   string // whole sentences, with the remedy
	Clock bool   // the node's clock is wrong, which the other nodes outvote
}

// Judge returns the faults of nodes. A node without a Fault may still be unreachable. All
// commands judge nodes by it. Two names of one server are a fault: that server votes twice, and
// fails twice.
func Judge(nodes []NodeInfo) (faults []Fault) {
	names := make(map[string]string) // by run id
	median, _ := MedianOff(nodes)
	for _, n := range nodes {
		wrong := median - n.Off // our clock is ahead of the median by median, of the node by n.Off
		switch twin, twice := names[n.Info.RunID]; {
		case n.Info.Unfit != "":
			faults = append(faults, Fault{Node: n.Name, Why: n.Info.Unfit})
		case n.Err != nil:
			continue
		case twice:
			faults = append(faults, Fault{Node: n.Name, Why: "It is the same server as " + twin + ". Name each server once."})
		case wrong.Abs() > MaxTTL:
			why := fmt.Sprintf("Its clock is %s the median of the nodes' clocks. Set it right.", aheadOrBehind(wrong))
			faults = append(faults, Fault{Node: n.Name, Why: why, Clock: true})
		}
		names[n.Info.RunID] = n.Name
	}
	return faults
}

// aheadOrBehind formats how far one clock is ahead of another.
func aheadOrBehind(by time.Duration) string {
	if by < 0 {
		return fmt.Sprintf("%v behind", -by.Round(time.Second))
	}
	return fmt.Sprintf("%v ahead of", by.Round(time.Second))
}

// MedianOff returns how far this process's clock is ahead of the median of the nodes' clocks.
// It returns false if no node answered.
func MedianOff(nodes []NodeInfo) (time.Duration, bool) {
	var off []time.Duration
	for _, n := range nodes {
		if n.Err == nil {
			off = append(off, n.Off)
		}
	}
	if len(off) == 0 {
		return 0, false
	}
	return median(off), true
}

// String returns the fault as commands print it.
func (f Fault) String() string {
	return fmt.Sprintf("lock node %s is misconfigured: %s", f.Node, f.Why)
}
