// Package status lists what is wrong with the service of a sale at one process.
//
// The process compiles the list of its problems about once a second. Metrics, the status for operators
// and the dashboard show that list. Log lines derive from two lists that follow each other: a Reporter
// writes one when a problem begins, and one when it ends. Readiness is computed when it is requested,
// and returns the same problems. A Kind declares the name, the messages, the severity and the remedy of a problem
// once.
//
// The package decides nothing: its callers find the problems, and serve no request differently
// because of one.
package status

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"salectl/backends/clock"
	"salectl/internal/text"
)

// Kind is a kind of problem.
type Kind struct {
	Name    string // in metrics and statuses
	Part    string // failed part of the sale, because of which the process is not ready; "": the process may be ready
	Subject string // names Where in a log line, or shards; "": the problem concerns the process or the sale
	Level   slog.Level
	Began   string // the message of the log line when a problem begins
	Ended   string // the message when it ends; "": it cannot end, and each new Why is logged
	Past    bool   // an event that is over when it is reported, only in log lines
	Remedy  string // for an operator; "": Began or Why names it
}

// Problem is one occurrence of a Kind.
type Problem struct {
	*Kind
	Where  string    // what fails, as Subject calls it
	Shards []int     // ascending; of kinds whose subject is shards
	Since  time.Time // when it began; zero: it is not known
	Why    string    // in one line; "": Began is complete
}

// OfShard returns a problem of one shard.
func OfShard(k *Kind, shard int, since time.Time, why string) Problem {
	return Problem{Kind: k, Shards: []int{shard}, Since: since, Why: why}
}

// Quiet is the least time between two lines that a problem of one kind and subject has begun, if it can
// end: what comes and goes all the time would fill the log.
const Quiet = 10 * time.Second

// Reporter writes to a log which problems have begun and which have ended. The zero value has
// reported none.
type Reporter struct {
	open map[identity]Problem       // reported, and not ended
	last map[identity]time.Duration // when a problem of a kind and subject was reported, monotonic
}

// identity distinguishes problems.
type identity struct {
	kind  *Kind
	where string
	shard int // -1: of no shard
}

func (p *Problem) identity() identity {
	if len(p.Shards) > 0 {
		return identity{p.Kind, p.Where, p.Shards[0]}
	}
	return identity{p.Kind, p.Where, -1}
}

// Report takes in all problems that there are now; each is of one shard at most. The problems of
// shards that begin, or end, in the same call share lines: a store that fails takes many shards with
// it.
func (r *Reporter) Report(now clock.Now, problems []Problem, log *slog.Logger) {
	if r.open == nil {
		r.open, r.last = make(map[identity]Problem), make(map[identity]time.Duration)
	}
	present := make(map[identity]bool, len(problems))
	var began, ended []Problem
	for _, p := range problems {
		id := p.identity()
		present[id] = true
		before, open := r.open[id]
		if open && (p.Ended != "" || p.Why == before.Why) {
			continue
		}
		topic := identity{p.Kind, p.Where, -1}
		if last, reported := r.last[topic]; p.Ended != "" && reported && last != now.Mono && now.Mono < last+Quiet {
			continue
		}
		r.open[id], r.last[topic] = p, now.Mono
		began = append(began, p)
	}
	for id, p := range r.open {
		if !present[id] {
			delete(r.open, id)
			ended = append(ended, p)
		}
	}
	slices.SortFunc(ended, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Ended, b.Ended), cmp.Compare(a.Where, b.Where), slices.Compare(a.Shards, b.Shards))
	})
	for _, p := range Merge(ended) {
		if p.Ended == "" {
			continue
		}
		attrs := p.subject()
		if !p.Since.IsZero() {
			attrs = append(attrs, "after", now.Wall.Sub(p.Since).Round(time.Millisecond))
		}
		log.Info(p.Ended, attrs...)
	}
	for _, p := range Merge(began) {
		attrs := p.subject()
		if !p.Since.IsZero() {
			attrs = append(attrs, "since", p.Since.UTC())
		}
		if p.Why != "" {
			attrs = append(attrs, "why", p.Why)
		}
		if p.Remedy != "" {
			attrs = append(attrs, "remedy", p.Remedy)
		}
		log.Log(context.Background(), p.Level, p.Began, attrs...)
	}
}

// Error returns the problem as the reason for which a process is not ready.
func (p Problem) Error() string {
	text := p.Part + ": " + p.Began
	if p.Why != "" {
		text += ": " + p.Why
	}
	return text
}

// Location returns Where, or the numbers of Shards.
func (p *Problem) Location() string {
	if len(p.Shards) > 0 {
		return text.Ranges(p.Shards)
	}
	return p.Where
}

// subject returns the attribute of a log line that names what fails.
func (p *Problem) subject() []any {
	if p.Subject == "" {
		return nil
	}
	return []any{p.Subject, p.Location()}
}

// Merge returns the problems with one for all shards that have a kind of problem, since the earliest
// time and with the cause of that. Shards with a problem that cannot end share one only if they share
// the cause too, which is reported once. The order is that of the first problem of each.
func Merge(problems []Problem) (merged []Problem) {
	type cause struct {
		kind *Kind
		why  string
	}
	at := make(map[cause]int)
	for _, p := range problems {
		of := cause{kind: p.Kind}
		if p.Ended == "" {
			of.why = p.Why
		}
		i, known := at[of]
		switch {
		case len(p.Shards) == 0:
			merged = append(merged, p)
		case !known:
			at[of] = len(merged)
			p.Shards = slices.Clone(p.Shards)
			merged = append(merged, p)
		default:
			m := &merged[i]
			m.Shards = append(m.Shards, p.Shards...)
			if p.Since.Before(m.Since) {
				m.Since, m.Why = p.Since, p.Why
			}
		}
	}
	for i := range merged {
		slices.Sort(merged[i].Shards)
	}
	return merged
}
