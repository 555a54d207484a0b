package quorum

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Config configures a Machine. It must not change afterwards.
type Config struct {
	Nodes     []string      // names of the nodes; Call.Node is an index into it
	Marker    string        // key of the sale's marker, which shows a node that it lost its memory (see Node)
	TTL       time.Duration // MinTTL to MaxTTL
	Address   string        // address of the holder, for its notes; without spaces
	Once      bool          // end after the first refusal; otherwise retry until released
	Waiter    string        // ID under which nodes list this machine after a refusal; "": not listed, and never woken
	Hedge     time.Duration // how long a first try queries only a majority of the nodes; 0: it queries all at once
	LateNodes *LateNodes    // nodes to leave out of that majority; nil: the machine keeps its own record

	// Token returns a new random text without spaces, with which the tokens of a machine begin.
	Token func() string
	// Jitter returns random numbers in [0, 1). They spread the retries of machines that were
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
