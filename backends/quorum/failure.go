package quorum

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// The errors of leases and locks.
var (
	ErrRefused  = errors.New("the lease was refused")
	ErrLost     = errors.New("the lease was lost")
	ErrReleased = errors.New("the lease was given back")
	ErrClosed   = errors.New("the locks are closed")
)

// ErrorKind returns the kind of a node's error, for metrics: the result of a driver error's
// Kind method, or timeout, canceled or other.
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

// NodeError is the error of a lock node's call.
type NodeError struct {
	Node   string // name
	Err    error
	Detail string // text of the driver or server; "": none
}

func (e *NodeError) Error() string { return "lock node " + e.Node + ": " + e.Text() }
func (e *NodeError) Unwrap() error { return e.Err }

// Text returns the text of the error without the node's name.
func (e *NodeError) Text() string {
	if e.Detail == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("%v (%s)", e.Err, e.Detail)
}

// ErrorText returns the text of a node's error without the node's name and without the text of the
// driver or server.
func ErrorText(err error) string {
	if e, is := errors.AsType[*NodeError](err); is {
		return e.Err.Error()
	}
	return err.Error()
}

// NotPermitted reports whether so many nodes denied the request (fs.ErrPermission) that the
// others are no majority. Retrying is then useless. errs has each node's error, nil for
// success.
func NotPermitted(errs []error) bool {
	denied := 0
	for _, err := range errs {
		if errors.Is(err, fs.ErrPermission) {
			denied++
		}
	}
	return denied > 0 && 2*denied >= len(errs)
}

// Answer is a node's latest answer for a key.
type Answer int

// The answers of a node.
const (
	NotQueried Answer = iota // not queried yet: the node is busy with an earlier call
	Silent                   // queried, without an answer yet
	Failed                   // the node answered with an error or timed out
	Yes                      // the key is promised to this group
	No                       // the key is not promised to this group, and may be promised to another
	Abstained                // the node lost its memory and does not vote yet
)

// NodeAnswer is one node's part in a Failure.
type NodeAnswer struct {
	Node      string
	Answer    Answer
	Holder    Holding   // for No; zero if the node has no holder for the key
	VotesFrom time.Time // for Abstained, by the node's clock
	Err       error     // for Failed
}

func (s NodeAnswer) String() string {
	switch {
	case s.Answer == NotQueried:
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

// who returns the holder's address, or its token if the note has none.
func (h Holding) who() string {
	if note, ok := ParseNote(h.Note); ok && note.Address != "" {
		return note.Address
	}
	return "token " + h.Token
}

// Failure is the reason why a key was refused or lost. It wraps ErrRefused or ErrLost, and the
// errors of the nodes.
type Failure struct {
	Key     string
	Kind    error // ErrRefused or ErrLost
	Why     string
	Votes   int          // size of a majority
	Answers []NodeAnswer // by node; empty if no node caused it
}

func (f *Failure) Error() string { return fmt.Sprintf("%v: %s: %s", f.Kind, f.Key, f.Reason()) }

// Reason returns the error's text without its kind and key.
func (f *Failure) Reason() string {
	if len(f.Answers) == 0 {
		return f.Why
	}
	granted, answers := 0, make([]string, len(f.Answers))
	for i, a := range f.Answers {
		answers[i] = a.String()
		if a.Answer == Yes {
			granted++
		}
	}
	if f.Kind == ErrLost && granted >= f.Votes {
		return f.Why + ": the lock nodes granted it, but this process was too slow"
	}
	return fmt.Sprintf("%s (%d of %d nodes must have it): %s", f.Why, f.Votes, len(f.Answers), strings.Join(answers, "; "))
}

// Unwrap returns the kind and the errors of the nodes.
func (f *Failure) Unwrap() []error {
	errs := []error{f.Kind}
	for _, s := range f.Answers {
		if s.Err != nil {
			errs = append(errs, s.Err)
		}
	}
	return errs
}

// Denied reports whether so many nodes denied the request that a retry is useless: see
// NotPermitted.
func (f *Failure) Denied() bool {
	errs := make([]error, len(f.Answers))
	for i, s := range f.Answers {
		errs[i] = s.Err
	}
	return NotPermitted(errs)
}

// Holder returns the holder that most nodes named, the first one among equals. It returns false
// if no node named a holder.
func (f *Failure) Holder() (Holding, bool) {
	var best Holding
	most := 0
	for _, s := range f.Answers {
		votes := 0
		for _, other := range f.Answers {
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

// failure builds a Failure from each node's last answer about the key.
func (k *key) failure(kind error, why string) *Failure {
	g := k.g
	f := &Failure{Key: k.name, Kind: kind, Why: why, Votes: g.majority(), Answers: make([]NodeAnswer, len(k.nodes))}
	for i, st := range k.lease.at {
		s := NodeAnswer{Node: g.cfg.Nodes[i], Answer: st.answer}
		pending, seen := k.nodes[i].inFlight == dueBallot, &g.nodes[i].seen
		switch {
		case pending && st.answer == Yes:
			s.Answer = Silent // the extension has no answer yet
		case !pending && seen.err != nil && (st.answer == NotQueried || st.answer == Silent || st.answer == Yes):
			s.Answer, s.Err = Failed, seen.err
		case st.answer == No:
			s.Holder = *st.holder
		case st.answer == Abstained:
			s.VotesFrom = seen.votesFrom
		}
		f.Answers[i] = s
	}
	return f
}
