package replicas

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"salectl/api"
)

// books ends all processes, has the sale audited and destroyed, and holds the export
// against what the crowds were told: each claim once, and none else.
func (s *sale) books(crowds ...*crowd) {
	s.Helper()
	s.booksWith(nil, crowds...)
}

// booksWith is books where wrk claimed, too, which was told of those claims by user, and had
// the answers to others cut off.
func (s *sale) booksWith(wrks map[string]string, crowds ...*crowd) {
	s.Helper()
	alive := s.alive()
	for _, r := range alive {
		r.signal(syscall.SIGTERM)
	}
	for _, r := range alive {
		r.await()
		if code := r.cmd.ProcessState.ExitCode(); code != 0 {
			s.Errorf("%s ended with %d, want 0", r.name, code)
		}
	}
	if said := s.well("audit"); !strings.Contains(said, "ok") {
		s.Errorf("audit says:\n%s", said)
	}
	s.well("destroy", "--yes", "--out", "end.ndjson")
	exported := s.exported()
	told := make(map[string]*asked)
	units := make(map[int64]string)
	for _, c := range crowds {
		for _, a := range c.answered() {
			if a.undecided {
				s.Errorf("%s has no decision in %v", a.user, patience)
			}
			if a.answer.Outcome.Accepted() {
				told[a.user] = a
			}
		}
	}
	for user, a := range told {
		e, ok := exported[user]
		if !ok || e.Claim != a.answer.Claim.ID || !slices.Equal(e.Units, a.answer.Claim.Units) {
			s.Errorf("%s was told of claim %s, units %v; the export has %+v", user, a.answer.Claim.ID, a.answer.Claim.Units, e)
		}
	}
	for user, claim := range wrks {
		if e := exported[user]; e.Claim != claim {
			s.Errorf("wrk was told of claim %s of %s; the export has %+v", claim, user, e)
		}
	}
	for user, e := range exported {
		if told[user] == nil && !(wrks != nil && strings.HasPrefix(user, "wrk-")) {
			s.Errorf("the export has %+v, of which nobody was told", e)
		}
		for _, unit := range e.Units {
			if other := units[unit]; other != "" {
				s.Errorf("unit %d is in claims %s and %s", unit, other, e.Claim)
			}
			units[unit] = e.Claim
		}
	}
	s.Logf("the export has the %d claims that clients were told of, each once", len(exported))
}

// exportedClaim is a claim as the export has it.
type exportedClaim struct {
	Claim, User, State string
	Units              []int64
	Payment            string
}

// exported reads what destroy has written, by user.
func (s *sale) exported() map[string]exportedClaim {
	s.Helper()
	f, err := os.Open(filepath.Join(s.dir, "end.ndjson"))
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	all := make(map[string]exportedClaim)
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e exportedClaim
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			s.Fatalf("%v: %s", err, lines.Text())
		}
		if e.Claim == "" {
			continue
		}
		if other, twice := all[e.User]; twice {
			s.Errorf("%s has claims %s and %s", e.User, e.Claim, other.Claim)
		}
		all[e.User] = e
	}
	if err := lines.Err(); err != nil {
		s.Fatal(err)
	}
	return all
}

// wellTold wants no claim to have failed, and all to be sold or truly refused.
func (c *crowd) wellTold() {
	c.s.Helper()
	broken, sold := 0, 0
	outcomes := make(map[api.Outcome]int)
	for _, a := range c.answered() {
		broken += a.broken
		if a.answer.Outcome == "" {
			continue
		}
		outcomes[a.answer.Outcome]++
		if a.answer.Outcome.Accepted() {
			sold++
		}
	}
	if n, what := c.failed(); n > 0 {
		c.s.Errorf("%d claims of %d failed over %s:\n%s", n, len(c.answered()), c.over, what)
	}
	if len(outcomes) != 1 || sold == 0 {
		c.s.Errorf("claims over %s came to %v, want all sold", c.over, outcomes)
	}
	c.s.Logf("over %s: %s, connections lost %d", c.over, fmt.Sprint(outcomes), broken)
}

// failedOnlyOn wants no claim to have failed but on those shards, or at those processes.
func (c *crowd) failedOnlyOn(shards map[int]bool, at ...*replica) {
	c.s.Helper()
	n, wrong := 0, 0
	for _, a := range c.answered() {
		if len(a.failures) > 0 {
			n++
		}
		for _, f := range a.failures {
			excused := shards[a.shard]
			for _, r := range at {
				excused = excused || f.server == c.s.url(r.listen)
			}
			if !excused {
				if wrong++; wrong <= 5 {
					c.s.Errorf("a claim of shard %d failed over %s at %s, %s: %s", a.shard, c.over, f.server, f.at.UTC().Format("15:04:05.000"), f.said)
				}
			}
		}
	}
	_, what := c.failed()
	c.s.Logf("over %s %d claims of %d were put off, %d of them wrongly:\n%s", c.over, n, len(c.answered()), wrong, what)
}
