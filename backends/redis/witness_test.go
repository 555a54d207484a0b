package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"salectl/backends/quorum"
)

// witness records the requests of all contenders of this process, the nodes' answers, and
// when the contenders took their leases for valid. It checks by one monotonic clock, with
// separate code, whether that was right.
type witness struct {
	majority int
	ttl      time.Duration

	mu     sync.Mutex
	rounds map[string]map[uint64]*votes // by token, then by the beat in the note
	spans  map[string]*span             // by lease
	acts   int
}

// votes is one round of ballots: when the first was handed to a node, and when
// each yes had come.
type votes struct {
	sent time.Time
	yes  []time.Time
}

// span is a time in which a lease was valid to its holder beyond doubt.
type span struct {
	lease       string
	from, until time.Time
}

func newWitness(nodes int, ttl time.Duration) *witness {
	return &witness{majority: nodes/2 + 1, ttl: ttl, rounds: map[string]map[uint64]*votes{}, spans: map[string]*span{}}
}

// seen is a node whose votes a witness sees.
type seen struct {
	quorum.Node
	by    *witness
	token *atomic.Pointer[string] // of the last ballot
}

func (s seen) Vote(ctx context.Context, b quorum.Ballot) (quorum.BallotReply, error) {
	s.token.Store(&b.Requests[0].Token)
	round := s.by.recordBallot(b)
	count, err := s.Node.Vote(ctx, b)
	if err == nil && len(count.Yes) == 1 && count.Yes[0] {
		s.by.granted(round)
	}
	return count, err
}

func (w *witness) recordBallot(b quorum.Ballot) *votes {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	token := b.Requests[0].Token
	note, _ := quorum.ParseNote(b.Requests[0].Note)
	if w.rounds[token] == nil {
		w.rounds[token] = map[uint64]*votes{}
	}
	if w.rounds[token][note.Beats] == nil {
		w.rounds[token][note.Beats] = &votes{sent: now}
	}
	return w.rounds[token][note.Beats]
}

func (w *witness) granted(v *votes) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v.yes = append(v.yes, time.Now())
}

// acted notes that the holder of a token has begun a guarded action at a time,
// and returns an error if nothing that the nodes had promised by then covers it.
func (w *witness) acted(token string, at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acts++
	latest := time.Duration(-1)
	for _, v := range w.rounds[token] {
		if len(v.yes) >= w.majority {
			if at.Before(v.sent.Add(w.ttl)) {
				return nil
			}
			latest = max(latest, at.Sub(v.sent))
		}
	}
	return fmt.Errorf("an action began %v after the last ballot that a majority granted was sent; the ttl is %v", latest, w.ttl)
}

// valid notes that a lease was valid at two instants, or between them.
func (w *witness) valid(lease string, from, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.spans[lease]
	if s == nil {
		s = &span{lease: lease, from: from, until: from}
		w.spans[lease] = s
	}
	if until.After(s.until) {
		s.until = until
	}
}

// leases returns how many leases were seen.
func (w *witness) leases() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.spans)
}

// overlaps returns the pairs of leases that were valid at once.
func (w *witness) overlaps() (found []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*span
	for _, s := range w.spans {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *span) int { return a.from.Compare(b.from) })
	var last *span // the one that lasts longest so far
	for _, s := range all {
		if last != nil && s.from.Before(last.until) {
			found = append(found, fmt.Sprintf("%s became valid %v before %s ended", s.lease, last.until.Sub(s.from), last.lease))
		}
		if last == nil || s.until.After(last.until) {
			last = s
		}
	}
	return found
}

// A witness that finds nothing would let everything pass.
func TestWitness(t *testing.T) {
	begin := time.Now()
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	w := newWitness(3, time.Second)
	w.valid("a", at(0), at(500))
	w.valid("b", at(501), at(501))
	w.valid("b", at(600), at(900))
	if found := w.overlaps(); len(found) > 0 {
		t.Errorf("one lease after the other: %q", found)
	}
	w.valid("c", at(100), at(110))
	if found := w.overlaps(); len(found) != 1 || !strings.Contains(found[0], "c became valid 400ms before a ended") {
		t.Errorf("one lease within another: %q", found)
	}

	ballot := quorum.Ballot{Requests: []quorum.LeaseRequest{{Token: "one", Note: "here 7 1000"}}}
	v := w.recordBallot(ballot)
	w.granted(v)
	if err := w.acted("one", time.Now()); err == nil {
		t.Error("an action with one vote of three is covered")
	}
	w.granted(v)
	if err := w.acted("one", v.sent.Add(999*time.Millisecond)); err != nil {
		t.Error(err)
	}
	if err := w.acted("one", v.sent.Add(time.Second)); err == nil {
		t.Error("an action after the ttl is covered")
	}
	if err := w.acted("two", time.Now()); err == nil {
		t.Error("an action without a vote is covered")
	}
}
