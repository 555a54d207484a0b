package quorum

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Config configures a Group. It must not change afterwards.
type Config struct {
	Nodes     []string      // names of the nodes; Call.Node is an index into it
	Marker    string        // key of the sale's marker, which shows a node that it lost its memory (see Node)
	TTL       time.Duration // MinTTL to MaxTTL
	Address   string        // address of the holder, for its notes; without spaces
	Waiter    string        // ID by which others hand keys over to this group, and nodes list it; "": neither
	Hedge     time.Duration // how long a first try queries only a majority of the nodes; 0: it queries all at once
	LateNodes *LateNodes    // nodes to leave out of that majority; nil: the group keeps its own record

	// Listed makes nodes list Waiter after a refusal, and gives each key renewals and retries of
	// its own. Otherwise the group polls, for all keys at once: notifications would take a call
	// of Watch for each key, and leaving the lists a release for each key won.
	Listed bool

	// Token returns a new random text without spaces, with which the tokens of a group begin.
	Token func() string
	// Jitter returns random numbers in [0, 1). They spread the retries of groups that were
	// refused together.
	Jitter func() float64
}

// check returns an error if the Config is invalid.
func (c Config) check() error {
	switch {
	case len(c.Nodes) == 0:
		return errors.New("a lease needs at least one lock node")
	case c.TTL < MinTTL || c.TTL > MaxTTL:
		// A node that lost its memory abstains for MaxTTL: a longer lease could outlast that.
		return fmt.Errorf("the ttl of a lease is %v to %v, not %v", MinTTL, MaxTTL, c.TTL)
	case strings.Contains(c.Address, " "):
		return fmt.Errorf("the address %q has a space in it", c.Address)
	case c.Token == nil || c.Jitter == nil:
		return errors.New("a lease needs sources of tokens and of jitter")
	}
	for i, name := range c.Nodes {
		if slices.Contains(c.Nodes[:i], name) {
			return fmt.Errorf("lock node %s is named twice: it would have two votes", name)
		}
	}
	return nil
}
