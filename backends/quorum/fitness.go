package quorum

import (
	"context"
	"fmt"
	"slices"
	"time"

	"salectl/backends/clock"
)

// Asked is what a node said of itself.
type Asked struct {
	Name string
	Info Info
	Err  error         // why it could not be asked, or not for all; then Info may be empty
	Off  time.Duration // how far the asker's clock is ahead of the node's
}

// AskInfo asks a node who it is.
func AskInfo(ctx context.Context, n Node, now clock.Clock) Asked {
	sent := now()
	info, err := n.Info(ctx)
	return Asked{Name: n.Name(), Info: info, Err: err, Off: ClockOff(sent, now(), info)}
}

// ClockOff is how far the asker's clock is ahead of a node's, known to half the time that the
// answer took.
func ClockOff(sent, got clock.Now, info Info) time.Duration {
	return got.Wall.Sub(info.Time) - (got.Mono-sent.Mono)/2
}

// Fault is what speaks against relying on a node.
type Fault struct {
	Node  string
	Why   string // in sentences, with the remedy
	Clock bool   // its clock is wrong, which the others outvote
}

// Judge returns what speaks against each node; one without a Fault may still be out of reach. All
// commands judge nodes by it. Two names of one server are as bad as one server less: it votes
// twice, and fails twice.
func Judge(nodes []Asked) (faults []Fault) {
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

// aheadOrBehind says how far a clock is from another.
func aheadOrBehind(by time.Duration) string {
	if by < 0 {
		return fmt.Sprintf("%v behind", -by.Round(time.Second))
	}
	return fmt.Sprintf("%v ahead of", by.Round(time.Second))
}

// MedianOff returns how far the asker's clock is ahead of the median of the nodes' clocks.
// false: no node answers.
func MedianOff(nodes []Asked) (time.Duration, bool) {
	var off []time.Duration
	for _, n := range nodes {
		if n.Err == nil {
			off = append(off, n.Off)
		}
	}
	if len(off) == 0 {
		return 0, false
	}
	slices.Sort(off)
	low, high := off[(len(off)-1)/2], off[len(off)/2]
	return low + (high-low)/2, true
}

// String is how commands tell of a fault.
func (f Fault) String() string {
	return fmt.Sprintf("lock node %s is not set up as it must be: %s", f.Node, f.Why)
}
