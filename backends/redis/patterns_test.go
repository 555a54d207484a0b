package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"salectl/backends/quorum"
	"salectl/internal/services"
	"salectl/internal/wait"
)

// A node is up, down (killed) or hanging (stopped, with its connections open).
const states = "udh"

// pattern has the state of each node, as one letter.
type pattern string

func (p pattern) key() string { return "salectl:test:pattern:" + string(p) }

// had reports whether a lease can be had, which is all that it may depend on.
func (p pattern) had() bool { return strings.Count(string(p), "u") > len(p)/2 }

// patterns returns all of them for three nodes, and those that are in order for more.
func patterns(size int) []pattern {
	all := []pattern{""}
	for range size {
		var longer []pattern
		for _, p := range all {
			for _, s := range states {
				longer = append(longer, p+pattern(s))
			}
		}
		all = longer
	}
	if size == 3 {
		return all
	}
	return slices.DeleteFunc(all, func(p pattern) bool {
		up := slices.IsSorted([]byte(p))
		states := []byte(p)
		slices.Reverse(states)
		return !up && !slices.IsSorted(states)
	})
}

// patternTTL makes a call's timeout as long as it gets.
const patternTTL = quorum.MaxTTL

// stage is servers in each state for each place in a pattern. All patterns use
// them at once, each for a key of its own and by connections of its own, which
// were made when all servers were up.
type stage struct {
	*testing.T
	servers map[byte][]*services.Redis // by state, then by place
	nodes   map[pattern][2][]quorum.Node

	mu      sync.Mutex    // guards what follows
	leases  int           // that were had and kept until a second try
	had     time.Duration // the fastest answer with a lease, by nodes of which one hangs
	refused time.Duration // the fastest refusal
}

func newStage(t *testing.T, size int) *stage {
	s := &stage{T: t, servers: map[byte][]*services.Redis{}, nodes: map[pattern][2][]quorum.Node{}, had: wait.Limit, refused: wait.Limit}
	for _, state := range []byte(states) {
		for range size {
			n, server := mustServe(t)
			mustMark(t, n)
			s.servers[state] = append(s.servers[state], server)
		}
	}
	for _, p := range patterns(size) {
		var both [2][]quorum.Node
		for i := range both {
			for place := range size {
				n := mustOpen(t, Options{Address: s.servers[p[place]][place].Addr()})
				if _, err := n.Info(t.Context()); err != nil {
					t.Fatal(err)
				}
				both[i] = append(both[i], n)
			}
		}
		s.nodes[p] = both
	}
	for place := range size {
		if err := errors.Join(s.servers['d'][place].Kill(), s.servers['h'][place].Pause()); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// hold makes one try, as the first or the second contender, and returns its duration.
func (s *stage) hold(p pattern, contender int) (*quorum.Lease, time.Duration, error) {
	cfg := quorum.Config{Marker: marker, TTL: patternTTL, Address: fmt.Sprint("contender:", contender)}
	begin := time.Now()
	l, err := quorum.Hold(s.Context(), s.nodes[p][contender], cfg, p.key(), 0)
	return l, time.Since(begin), err
}

// together calls do for each pattern, some of them at a time.
func together(some int, all []pattern, do func(pattern)) {
	var running sync.WaitGroup
	slots := make(chan struct{}, some)
	for _, p := range all {
		slots <- struct{}{}
		running.Go(func() { do(p); <-slots })
	}
	running.Wait()
}

// A refused try returns once the reachable nodes have confirmed its release, and the calls to
// the others have timed out: that takes the timeout of the ballot, and of the calls that a
// release may take.
const toRefuse = 4

// wantRefused checks that a try was refused.
func (s *stage) wantRefused(p pattern, l *quorum.Lease, took time.Duration, err error) *quorum.Failure {
	if l != nil {
		s.Errorf("%s: had; want ErrRefused", p)
		return nil
	}
	if !errors.Is(err, quorum.ErrRefused) {
		s.Errorf("%s: %v; want ErrRefused", p, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = min(s.refused, took)
	var f *quorum.Failure
	errors.As(err, &f)
	return f
}

// wantSlow checks that a lease was not had, or lost, because a node that is up did
// not answer in time, as on a machine that is busy.
func (s *stage) wantSlow(p pattern, err error) {
	var f *quorum.Failure
	if errors.As(err, &f) {
		for i, answer := range f.Answers {
			if p[i] == 'u' && errors.Is(answer.Err, ErrSilent) {
				return
			}
		}
	}
	s.Errorf("%s: %v", p, err)
}

// Whether a lease is had depends on nothing but whether a majority of the nodes
// is up, and a node that hangs delays nobody who has one.
func TestEveryPattern(t *testing.T) {
	for _, size := range []int{3, 5} {
		t.Run(fmt.Sprint(size, " nodes"), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, size)
			together(16, patterns(size), func(p pattern) {
				first, took, err := s.hold(p, 0)
				if !p.had() {
					s.wantRefused(p, first, took, err)
					return
				}
				if err != nil {
					s.wantSlow(p, err)
					return
				}
				s.mu.Lock()
				if strings.Contains(string(p), "h") {
					s.had = min(s.had, took)
				}
				s.mu.Unlock()
				l, took, err := s.hold(p, 1)
				if !first.Valid() {
					<-first.Done()
					s.wantSlow(p, context.Cause(first.Context()))
					if l != nil {
						l.Release(t.Context())
						<-l.Done()
					}
					return
				}
				if f := s.wantRefused(p, l, took, err); f != nil {
					if h, found := f.Holder(); !found {
						s.wantSlow(p, err)
					} else if !strings.HasPrefix(h.Note, "contender:0 ") {
						t.Errorf("%s: refused because of %+v, want the first contender", p, h)
					}
				}
				s.mu.Lock()
				s.leases++
				s.mu.Unlock()
				go first.Release(t.Context())
				<-first.Done()
			})
			if s.leases == 0 {
				t.Error("no lease was kept")
			}
			// A busy machine delays some. To wait for a node would delay all.
			if most := quorum.CallTimeout(patternTTL); s.had >= most {
				t.Errorf("no lease was had within %v, as if nodes that hang were waited for", most)
			}
			if most := toRefuse*quorum.CallTimeout(patternTTL) + time.Second; s.refused > most {
				t.Errorf("no try was refused within %v", most)
			}
			s.giveBack()
		})
	}
}

// giveBack checks that no node keeps anything, those that were stopped included
// when they go on.
func (s *stage) giveBack() {
	for place, server := range s.servers['h'] {
		if err := server.Continue(); err != nil {
			s.Fatal(err)
		}
		for _, server := range []*services.Redis{server, s.servers['u'][place]} {
			n := mustOpen(s, Options{Address: server.Addr()})
			wait.Until(s, "the node to have no lease", func() bool {
				found, err := n.List(s.Context(), "salectl:")
				return err == nil && len(found) == 0
			})
		}
	}
}
