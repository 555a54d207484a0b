package quorum

import (
	"slices"
	"time"
)

// notListed is the Ask.Waited of an asker that nodes must not list. A Group polls:
// notifications would take a call of Watch for each key, and leaving the lists a release for
// each key won.
const notListed = time.Duration(-1)

// pace is shared by the machines of a Group: the times of renewals and retries, and the tokens.
type pace struct {
	tokens *tokens
	every  time.Duration // from one renewal to the next
	phase  time.Duration // of the renewals, random in each process
	jitter func() float64
	tries  []time.Duration // future times of retries, on the time base of aged
}

func newPace(cfg Config) *pace {
	every := timesOf(cfg.TTL).renew
	return &pace{
		every: every, phase: time.Duration(cfg.Jitter() * float64(every)),
		jitter: cfg.Jitter, tokens: newTokens(cfg),
	}
}

// renewal returns the next time at which all held keys are renewed. The first renewal of a key
// comes early, and so needs no call of its own.
func (p *pace) renewal(aged time.Duration) time.Duration {
	return aged + p.every - (aged+p.every-p.phase)%p.every
}

// pause returns a delay of least to most. It ends with another machine's retry if possible;
// otherwise it is random, and other machines may join it. So the calls of keys that were
// refused or not renewed at different times become one.
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
