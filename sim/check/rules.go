package check

import (
	"encoding/json"
	"fmt"
	"time"
)

// Users is what was known of users when, in a sale that has rules.
type Users struct {
	Moved []time.Duration // when it changed, in order
	// Known returns what is known of a user after so many changes: the level, -1 if nothing
	// is, and what names that in a claim.
	Known func(user string, moves int) (level int64, digest string)
}

// levels yields what was known of a user at some time within a span.
func (u *Users) levels(user string, from, to time.Duration) func(yield func(level int64, digest string) bool) {
	return func(yield func(int64, string) bool) {
		for moves := range len(u.Moved) + 1 {
			began, ended := time.Duration(0), to+1
			if moves > 0 {
				began = u.Moved[moves-1]
			}
			if moves < len(u.Moved) {
				ended = u.Moved[moves]
			}
			if began <= to && ended > from && !yield(u.Known(user, moves)) {
				return
			}
		}
	}
}

// least returns the level that a generation asks of users; -1: it has no rules, or its
// declaration cannot be read, which others report.
func (p *planned) least() (int64, error) {
	var said struct{ Rules []struct{ Require string } }
	if len(p.GetSpec()) == 0 || json.Unmarshal(p.GetSpec(), &said) != nil || len(said.Rules) == 0 {
		return -1, nil
	}
	var level int64
	_, err := fmt.Sscanf(said.Rules[0].Require, "user.level >= %d", &level)
	return level, err
}

// ruleSets holds the rule set of each generation against its declaration: equal ones have
// one name, others another, and where no rules are declared there is none.
func ruleSets(e *evidence, bad fault) {
	for _, r := range e.runs {
		names := make(map[int64]string)
		for _, p := range r.planned {
			least, err := p.least()
			name := string(p.GetSettings().GetRules())
			switch had, known := names[least]; {
			case err != nil:
				bad("%v has rules that cannot be read: %v", p.at, err)
			case (least < 0) != (name == ""):
				bad("%v has the rule set %x, and declares the level %d", p.at, name, least)
			case known && had != name:
				bad("%v names a rule set %x that was %x before", p.at, name, had)
			}
			names[least] = name
		}
	}
}

// eligible holds each claim against the rules of the generation that its shard was at: by
// what was known of its user when it was asked for, they let it in.
func eligible(e *evidence, bad fault) {
	asked := e.firstAsked()
	for _, c := range e.claims {
		rules := c.settings.GetRules()
		if c.again {
			continue
		}
		if len(rules) == 0 || e.h.Users == nil {
			if len(c.attributes) > 0 || len(rules) > 0 {
				bad("%v is by the rule set %x on %x, and there are no rules", c, rules, c.attributes)
			}
			continue
		}
		least, ok := c.at.log.run.leastOf(rules)
		from := asked[request{c.user, c.key}] // 0: nobody knows the key of one that was made for it
		let := false
		for level, digest := range e.h.Users.levels(c.user, from, c.at.At) {
			let = let || ok && level >= least && digest == string(c.attributes)
		}
		if !let {
			bad("%v is by rules that ask for level %d, on %x; that was not so of its user from %v on", c, least, c.attributes, from)
		}
	}
}

// leastOf returns the level that a rule set asks for.
func (r *run) leastOf(rules []byte) (int64, bool) {
	for _, p := range r.planned {
		if least, err := p.least(); err == nil && string(p.GetSettings().GetRules()) == string(rules) {
			return least, true
		}
	}
	return 0, false
}

// ineligible says whether rules that a process may have known refuse a request, at some
// time while it ran. It hears of a generation when it reads the sale's log.
func (e *evidence) ineligible(o *operation) bool {
	if e.h.Users == nil {
		return false
	}
	for _, r := range e.runs {
		for i, p := range r.planned {
			if p.at.Seq > o.returned.Seq || i+1 < len(r.planned) && e.longOver(r.planned[i+1].at, o.invoked.Place) {
				continue
			}
			least, err := p.least()
			if err != nil || least < 0 {
				continue
			}
			for level := range e.h.Users.levels(o.invoked.User, o.invoked.At, o.returned.At) {
				if level < least {
					return true
				}
			}
		}
	}
	return false
}
