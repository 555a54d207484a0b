package quorum

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// notListed is the LeaseRequest.Waited of a waiter that nodes must not list: see Config.Listed.
const notListed = time.Duration(-1)

// pace has the times of renewals and retries, and the tokens, of all keys of a Group.
type pace struct {
	tokens tokens
	single bool          // each key has its own times
	every  time.Duration // from one renewal to the next
	phase  time.Duration // of the renewals, random in each process
	jitter func() float64
	tries  []time.Duration // future times of retries, on the time base of aged
}

func newPace(cfg Config) pace {
	p := pace{single: cfg.Listed, every: timesOf(cfg.TTL).renew, jitter: cfg.Jitter}
	if !p.single {
		p.phase = time.Duration(p.jitter() * float64(p.every))
	}
	p.tokens.prefix = cfg.Token() + "."
	return p
}

// renewal returns the next time at which all held keys are renewed. The first renewal of a key
// comes early, and so needs no call of its own.
func (p *pace) renewal(aged time.Duration) time.Duration {
	if p.single {
		return aged + p.every
	}
	return aged + p.every - (aged+p.every-p.phase)%p.every
}

// pause returns a delay of least to most. It ends with another key's retry if possible;
// otherwise it is random, and other keys may join it. So the calls of keys that were refused or
// not renewed at different times become one.
func (p *pace) pause(aged, least, most time.Duration) time.Duration {
	p.tries = slices.DeleteFunc(p.tries, func(at time.Duration) bool { return at <= aged })
	joins := func(at time.Duration) bool { return !p.single && at >= aged+least && at <= aged+most }
	if at := p.renewal(aged); joins(at) {
		return at - aged
	}
	if i := slices.IndexFunc(p.tries, joins); i >= 0 {
		return p.tries[i] - aged
	}
	d := least + time.Duration(p.jitter()*float64(most-least))
	p.tries = append(p.tries, aged+d)
	return d
}

// tokens issues the tokens of a Group: a random prefix, and a number.
type tokens struct {
	prefix string
	count  uint64
}

// next returns a new token.
func (t *tokens) next() string {
	t.count++
	return t.prefix + strconv.FormatUint(t.count, 36)
}

func (t *tokens) issued(token string) bool { return strings.HasPrefix(token, t.prefix) }
