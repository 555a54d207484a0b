package check

import (
	"encoding/json"
	"fmt"
	"time"
)

// Users is what was known of users when, in a sale that has rules.
type Users struct {
	Moved []time.Duration // when it changed, in order
	// Known returns what the sources of a generation have of a user after so many changes, those
	// of users and those of purchases: the level, -1 if nothing is known; the units bought in
	// ended sales; and what names both in a claim.
	Known func(user string, from Sources, users, purchases int) (level, bought int64, digest string)
	Old   time.Duration // how old what a process decides by may be
}

// Sources are the tables that a generation reads users and purchases from; "": none, or a file.
type Sources struct{ Users, History string }

// terms are the requirements of a generation for users; -1: nothing.
type terms struct {
	level, bought int64
	from          Sources
}

// allow reports whether some versions of the sources within a span, and all of them, let a user
// claim. digest is what names them, "": any do.
func (t terms) allow(u *Users, user string, from, to time.Duration, digest string) (some, all bool) {
	all = true
	for _, users := range u.versions(from, to) {
		for _, purchases := range u.versions(from, to) {
			level, bought, named := u.Known(user, t.from, users, purchases)
			allowed := (t.level < 0 || level >= t.level) && (t.bought < 0 || bought <= t.bought)
			some = some || allowed && (digest == "" || digest == named)
			all = all && allowed
		}
	}
	return some, all
}

// versions are those, by the number of changes before, that a process may go by within a span.
func (u *Users) versions(from, to time.Duration) (all []int) {
	for moves := range len(u.Moved) + 1 {
		began, ended := time.Duration(0), to+1
		if moves > 0 {
			began = u.Moved[moves-1]
		}
		if moves < len(u.Moved) {
			ended = u.Moved[moves]
		}
		if began <= to && ended > from-u.Old {
			all = append(all, moves)
		}
	}
	return all
}

// terms returns the requirements of a generation for users. Where its declaration cannot be read, which
// others report, it has none.
func (p *planned) terms() (terms, error) {
	t := terms{level: -1, bought: -1}
	type source struct{ HBase struct{ Table string } }
	var declaration struct {
		Rules          []struct{ Require string }
		Users, History source
	}
	if len(p.GetSpec()) == 0 || json.Unmarshal(p.GetSpec(), &declaration) != nil {
		return t, nil
	}
	for _, r := range declaration.Rules {
		_, err := fmt.Sscanf(r.Require, "user.level >= %d", &t.level)
		if err != nil {
			_, err = fmt.Sscanf(r.Require, "history.filter(p, p.sale == 'first').units() <= %d", &t.bought)
		}
		if err != nil {
			return t, err
		}
	}
	t.from = Sources{declaration.Users.HBase.Table, declaration.History.HBase.Table}
	return t, nil
}

// ruleSets holds the rule set of each generation against its declaration: equal ones have
// one name, others another, and where no rules are declared there is none.
func ruleSets(e *evidence, bad fault) {
	for _, r := range e.runs {
		names := make(map[terms]string)
		for _, p := range r.planned {
			requested, err := p.terms()
			name := string(p.GetSettings().GetRules())
			switch had, known := names[requested]; {
			case err != nil:
				bad("%v has rules that cannot be read: %v", p.at, err)
			case (requested.level < 0 && requested.bought < 0) != (name == ""):
				bad("%v has the rule set %x, and declares %+v", p.at, name, requested)
			case known && had != name:
				bad("%v names a rule set %x that was %x before", p.at, name, had)
			}
			names[requested] = name
		}
	}
}

// eligible holds each claim against the rules of the generation that its shard was at: by
// what was known of its user when it was requested, they let it in.
func eligible(e *evidence, bad fault) {
	requested := e.firstInvoked()
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
		from := requested[request{c.user, c.key}] // 0: nobody knows the key of one that was made for it
		p := c.at.log.run.planned[c.generation-1]
		t, err := p.terms()
		if let, _ := t.allow(e.h.Users, c.user, from, c.at.At, string(c.attributes)); err != nil || !let {
			bad("%v is by rules that ask for %+v, on %x; that was not so of its user from %v on", c, t, c.attributes, from)
		}
	}
}

// ineligible reports whether rules that a process may have known refuse a request, at some
// time while it ran. It learns of a generation when it reads the sale's log.
func (e *evidence) ineligible(o *operation) bool {
	if e.h.Users == nil {
		return false
	}
	for _, r := range e.runs {
		for i, p := range r.planned {
			if p.at.Seq > o.returned.Seq || i+1 < len(r.planned) && e.longOver(r.planned[i+1].at, o.invoked.Place) {
				continue
			}
			t, err := p.terms()
			if err != nil || t.level < 0 && t.bought < 0 {
				continue
			}
			if _, all := t.allow(e.h.Users, o.invoked.User, o.invoked.At, o.returned.At, ""); !all {
				return true
			}
		}
	}
	return false
}
