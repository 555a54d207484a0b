package quorum

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// What a Failure comes down to.
var (
	ErrRefused  = errors.New("the lease was refused")
	ErrLost     = errors.New("the lease was lost")
	ErrReleased = errors.New("the lease was given back")
	ErrClosed   = errors.New("the locks are closed")
)

// ErrorKind is a word for what an error of a node comes down to, for metrics:
// what a driver's errors call their Kind, else timeout, canceled or other.
func ErrorKind(err error) string {
	var known interface{ Kind() string }
	switch {
	case errors.As(err, &known):
		return known.Kind()
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "other"
}

// NotPermitted reports whether so many nodes do not permit what they were asked
// (fs.ErrPermission) that the others are no majority: to ask again does not help then. errs
// has what came of asking each node, nil if it did what it was asked.
func NotPermitted(errs []error) bool {
	denied := 0
	for _, err := range errs {
		if errors.Is(err, fs.ErrPermission) {
			denied++
		}
	}
	return denied > 0 && 2*denied >= len(errs)
}

// Answer is what a node makes of a key.
type Answer int

// The answers of a node.
const (
	NotAsked  Answer = iota // it was busy with what it was asked before
	Silent                  // it was asked and has not answered
	Failed                  // it answered with an error, or not in time
	Yes                     // it has promised the key to us
	No                      // it has not: it may have promised it to another
	Abstained               // it lost its memory and does not vote yet
)

// Said is one node's part in a Failure.
type Said struct {
	Node      string
	Answer    Answer
	Holder    Holding   // of No; zero if nobody has the key there
	VotesFrom time.Time // of Abstained, by the node's clock
	Err       error     // of Failed
}

func (s Said) String() string {
	switch {
	case s.Answer == NotAsked:
		return s.Node + " still has an earlier call to answer"
	case s.Answer == Silent:
		return s.Node + " has not answered"
	case s.Answer == Failed:
		return fmt.Sprintf("%s failed: %v", s.Node, s.Err)
	case s.Answer == Yes:
		return s.Node + " granted it"
	case s.Answer == Abstained:
		return fmt.Sprintf("%s lost its memory and votes again at %s", s.Node, s.VotesFrom.Format(time.RFC3339))
	case s.Holder.Token == "":
		return s.Node + " does not have it"
	}
	return fmt.Sprintf("%s has promised it to %s for another %v", s.Node, s.Holder.who(), s.Holder.Left)
}

// who names a holder for people.
func (h Holding) who() string {
	if note, ok := ParseNote(h.Note); ok && note.Address != "" {
		return note.Address
	}
	return "token " + h.Token
}

// Failure is why keys were refused or lost: it wraps ErrRefused or ErrLost, and
// the errors of the nodes.
type Failure struct {
	Key   string // the one that it failed for, or the first of them
	Kind  error  // ErrRefused or ErrLost
	Why   string
	Votes int    // what a majority takes
	Said  []Said // an element for each node; none if it was not for them to say
}

func (f *Failure) Error() string { return fmt.Sprintf("%v: %s: %s", f.Kind, f.Key, f.Reason()) }

// Reason is the error without its kind and key, for those who name the key
// otherwise.
func (f *Failure) Reason() string {
	if len(f.Said) == 0 {
		return f.Why
	}
	said := make([]string, len(f.Said))
	for i, s := range f.Said {
		said[i] = s.String()
	}
	return fmt.Sprintf("%s (%d of %d nodes must have it): %s", f.Why, f.Votes, len(f.Said), strings.Join(said, "; "))
}

// Unwrap returns the kind and the errors of the nodes.
func (f *Failure) Unwrap() []error {
	errs := []error{f.Kind}
	for _, s := range f.Said {
		if s.Err != nil {
			errs = append(errs, s.Err)
		}
	}
	return errs
}

// Holder returns who has the key on most of the nodes that named a holder, the
// first named of equals; false if none did.
func (f *Failure) Holder() (Holding, bool) {
	var best Holding
	most := 0
	for _, s := range f.Said {
		votes := 0
		for _, other := range f.Said {
			if s.Holder.Token != "" && s.Holder.Token == other.Holder.Token {
				votes++
			}
		}
		if votes > most {
			best, most = s.Holder, votes
		}
	}
	return best, most > 0
}

// failure tells what each node last said about a key.
func (m *Machine) failure(l *lease, kind error, why string) *Failure {
	f := &Failure{Key: l.key, Kind: kind, Why: why, Votes: m.majority(), Said: make([]Said, len(m.nodes))}
	for i := range m.nodes {
		n, st := &m.nodes[i], l.at[i]
		s := Said{Node: m.cfg.Nodes[i], Answer: st.answer}
		asking := n.call != nil && n.call.frees == 0
		switch {
		case asking && st.answer == Yes:
			s.Answer = Silent // about extending what it had granted
		case !asking && n.seen.err != nil && (st.answer == NotAsked || st.answer == Silent || st.answer == Yes):
			s.Answer, s.Err = Failed, n.seen.err
		case st.answer == No:
			s.Holder = *st.holder
		case st.answer == Abstained:
			s.VotesFrom = n.seen.votesFrom
		}
		f.Said[i] = s
	}
	return f
}
