package quorum

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// notListed is the Ask.Waited of who does not stand on a node's list. A Group polls:
// to be told of a key would take a call of Watch for each, and to leave the lists a
// release for each key that is won.
const notListed = time.Duration(-1)

// pace is what the machines of a Group have in common: when they renew, when they
// try again, and what their tokens begin with.
type pace struct {
	every  time.Duration // from one renewal to the next
	phase  time.Duration // of the renewals: another one in each process
	jitter func() float64
	tries  []time.Duration // instants to come at which some machine goes on, on the time base of aged

	prefix string // of all tokens
	tokens uint64 // handed out
}

func newPace(cfg Config) *pace {
	every := timesOf(cfg.TTL).renew
	return &pace{
		every: every, phase: time.Duration(cfg.Jitter() * float64(every)),
		jitter: cfg.Jitter, prefix: cfg.Token() + ".",
	}
}

// token returns a new token.
func (p *pace) token() string {
	p.tokens++
	return p.prefix + strconv.FormatUint(p.tokens, 36)
}

// issued reports whether a token is one of the group's.
func (p *pace) issued(token string) bool { return strings.HasPrefix(token, p.prefix) }

// renewal returns the next instant at which all held keys are renewed. A key that was
// won in between is renewed early the first time: that costs no call of its own.
func (p *pace) renewal(aged time.Duration) time.Duration {
	return aged + p.every - (aged+p.every-p.phase)%p.every
}

// pause returns how long to wait, within bounds: until another machine goes on, or
// else for a time drawn at random at which others will. So the calls of keys that are
// refused, or not renewed, at different times become one.
func (p *pace) pause(aged, least, most time.Duration) time.Duration {
	p.tries = slices.DeleteFunc(p.tries, func(at time.Duration) bool { return at <= aged })
	if at := p.renewal(aged); at >= aged+least && at <= aged+most {
		return at - aged
	}
	for _, at := range p.tries {
		if at >= aged+least && at <= aged+most {
			return at - aged
		}
	}
	d := least + time.Duration(p.jitter()*float64(most-least))
	p.tries = append(p.tries, aged+d)
	return d
}
