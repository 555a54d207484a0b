package ledger_test

import (
	"slices"
	"strings"
	"testing"

	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	pb "salectl/backends/ledger/ledgerpb"
)

// booked returns the account of a sale of one shard that has some commits, which are stored
// even if the reducer rejects them.
func booked(t *testing.T, commits []*pb.Commit) *audit.Recount {
	t.Helper()
	r, _ := audit.NewRecount("test", "0123456789abcdef", 1, ledger.NewState)
	b := r.Books[0]
	written := ledger.NewTail(b.Log())
	for _, c := range commits {
		e, err := written.Entry(c)
		if err == nil {
			_, err = written.Take(e.Bytes)
		}
		if err == nil {
			err = b.Fold(e.Bytes)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r.Account(nil)
	return r
}

// TestBookSettles books what each op does to a claim: the book agrees with the reducer.
func TestBookSettles(t *testing.T) {
	for name, commits := range ledger.SettledCommits() {
		if r := booked(t, commits); len(r.Problems) > 0 {
			t.Errorf("%s: %q", name, r.Problems)
		}
	}
}

// unbooked are refusals that do not concern the totals: a book does not check them.
var unbooked = []string{"a resale by a stranger", "a resale of others for nothing", "a payment of many bytes", "a name of many bytes",
	"a reason of many bytes", "a way of the future", "a grace without a hold"}

// TestBookRefuses books what the reducer refuses: the book finds the fault by itself.
func TestBookRefuses(t *testing.T) {
	for name, commits := range ledger.RefusedCommits() {
		r := booked(t, commits)
		refused := slices.ContainsFunc(r.Problems, func(p string) bool { return strings.Contains(p, "the ledger is damaged") })
		found := slices.ContainsFunc(r.Problems, func(p string) bool { return strings.HasPrefix(p, "shard 0: slot ") })
		if !refused || found == slices.Contains(unbooked, name) {
			t.Errorf("%s: %q", name, r.Problems)
		}
	}
}
