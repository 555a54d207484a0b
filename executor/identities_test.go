package executor

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/quorum"
	"salectl/executor/saletest"
	"salectl/spec"
)

// identitiesChild makes the test binary print what a process mints, and end.
const identitiesChild = "SALECTL_TEST_IDENTITIES"

// TestIdentities has processes mint keys of requests and tokens of leases: no two
// are alike, within a process and between two. The simulation draws its own, so
// nothing else would notice.
func TestIdentities(t *testing.T) {
	if os.Getenv(identitiesChild) != "" {
		for range 100 {
			os.Stdout.WriteString("minted key " + randomKey() + "\nminted token " + quorum.RandomToken() + "\n")
		}
		return
	}
	seen := make(map[string]bool)
	for range 3 {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestIdentities$")
		cmd.Env = append(os.Environ(), identitiesChild+"=1")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			if what, is := strings.CutPrefix(strings.TrimSpace(line), "minted "); is {
				if _, word, _ := strings.Cut(what, " "); len(word) < 16 || seen[what] {
					t.Errorf("%s is too short, or was minted before", what)
				}
				seen[what] = true
			}
		}
	}
	if len(seen) != 600 {
		t.Errorf("three processes minted %d different words, want 600", len(seen))
	}
}

// TestWriters starts two processes one after the other at one site: the owners that
// the log names differ, or a process would take the commits of the other for its own.
func TestWriters(t *testing.T) {
	inSite(t, 1, []int64{50}, func(t *testing.T, s *site) {
		writers := make(map[string]bool)
		for range 3 {
			p := s.serve(nil)
			if err := p.stop(); err != nil {
				t.Fatal(err)
			}
			_, entries, err := s.logs.Read(t.Context(), spec.ShardLog(saletest.UID, 0, 1), 0, 10)
			if err != nil {
				t.Fatal(err)
			}
			var newest pb.Commit
			if err := proto.Unmarshal(entries[len(entries)-1], &newest); err != nil {
				t.Fatal(err)
			}
			writers[string(newest.GetWriter())] = true
		}
		for w := range writers {
			if len(w) != 8 || w == strings.Repeat("\x00", 8) {
				t.Errorf("a writer calls itself %q", w)
			}
		}
		if len(writers) != 3 {
			t.Errorf("three processes call themselves by %d names", len(writers))
		}
	})
}
