package quorum

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Config is what a machine is made of. All of it is fixed for its life.
type Config struct {
	Nodes     []string      // names of the nodes; Call.Node counts in this order
	Marker    string        // by which nodes know what they forgot; where it is new they abstain for MaxTTL
	TTL       time.Duration // MinTTL to MaxTTL
	Address   string        // where the holder answers, for the notes; without spaces
	Once      bool          // give up when refused; otherwise try again until released
	Waiter    string        // under which nodes list this machine while it is refused; "": they do not, and Woken is of no use
	Hedge     time.Duration // how long a first try waits for just a majority of the nodes before it asks the others; 0: it asks all at once
	LateNodes *LateNodes    // which nodes that majority is made of; nil: the machine remembers by itself
	Faulty    Faulty        // when to remove a holder that shows no sign of life

	// Token returns a new random token, without spaces, at each call.
	Token func() string
	// Jitter returns numbers from [0, 1) at random. It keeps those who were
	// refused together from coming back together.
	Jitter func() float64
}

// check says what is wrong with a Config.
func (c Config) check() error {
	switch {
	case len(c.Nodes) == 0:
		return errors.New("a lease needs at least one lock node")
	case c.TTL < MinTTL || c.TTL > MaxTTL:
		// A node that lost its memory sits out MaxTTL: a longer promise could
		// outlast its silence.
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
