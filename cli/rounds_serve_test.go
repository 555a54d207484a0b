package cli

import (
	"math/rand/v2"
	"regexp"
	"sync"
	"syscall"
	"time"
)

// shop is one of the two places that serve a round's sale, whatever process does.
type shop struct {
	// mu guards the rest.
	mu      sync.Mutex
	process *process
	url     string // of the process; "" until it is known
}

var listeningAt = regexp.MustCompile(`msg=listening url=(\S+)`)

// serve starts both.
func (r *round) serve() {
	for _, s := range r.shops {
		s.open(r)
	}
}

// open starts a process, on a port that nobody else has.
func (s *shop) open(r *round) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.url = ""
	s.process = r.start("serve", "-f", "sale.yaml", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
}

// at returns where buyers ask, or "" when the process is not there yet.
func (s *shop) at() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.url == "" {
		if found := listeningAt.FindStringSubmatch(s.process.said()); found != nil {
			s.url = found[1]
		}
	}
	return s.url
}

// killServers kills the processes that serve at random moments, or while they answer,
// now the one that owns the sale, now the one that stands by, and now both,
// and starts others.
func (r *round) killServers(chance *rand.Rand) {
	for range 1 + chance.IntN(3) {
		if chance.IntN(2) == 0 {
			moment(r.Context(), chance, roundSpan)
		} else {
			r.crowd.midst(r.Context(), chance)
		}
		victims := r.shops[:]
		if chance.IntN(4) > 0 {
			i := chance.IntN(len(r.shops))
			victims = r.shops[i : i+1]
		}
		r.killServing(victims)
		moment(r.Context(), chance, 300*time.Millisecond)
		for _, s := range victims {
			s.open(r)
		}
	}
}

func (r *round) killServing(victims []*shop) {
	for _, s := range victims {
		if s.process.kill() {
			r.note("serve killed", s.process.said())
			continue
		}
		// Whoever could not reach a Redis at its start is started again.
		if code := s.process.code(); code != exitError && code != exitTimeout || r.outage == 0 {
			r.Errorf("serve ended by itself with %d; it said:\n%s", code, s.process.said())
		}
		r.note("serve ended by itself", s.process.said())
	}
}

// endServers ends both in good order.
func (r *round) endServers() {
	for _, s := range r.shops {
		s.process.Process.Signal(syscall.SIGTERM)
		if !s.process.await() {
			r.Errorf("serve has not ended in %v; it said:\n%s", roundPatience, s.process.said())
		}
		r.note("serve ended", s.process.said())
	}
}
