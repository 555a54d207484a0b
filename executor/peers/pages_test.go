package peers_test

import (
	"fmt"
	"slices"
	"testing"

	"salectl/api"
	"salectl/backends/ledger/ledgerpb"
	"salectl/executor"
	"salectl/executor/request"
)

// TestPages reads a user's claims page by page at the owner and at another process, while claims are
// added: each page has the claims before the last, in the order of acceptance.
func TestPages(t *testing.T) {
	p := newPairAs(t, &ledgerpb.Settings{PerUserLimit: 1 << 20, Phase: ledgerpb.Phase_OPEN})
	for _, c := range []struct {
		name     string
		claims   int
		quantity int64
		limit    int
		page     int // claims of each page but the last
	}{
		{"by default", 230, 1, 0, 100},
		{"by a limit", 25, 1, 10, 10},
		{"of one claim", 3, 1, 1, 1},
		{"all", 25, 1, 1000, 25},
		{"by more than the default", 250, 1, 130, 130},
		{"by bytes", 50, 1000, 0, 42}, // of 24,512
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, asked := range []*executor.Executor{p.a, p.b} {
				user := p.userOf(p.b)
				add := func(i int) request.ClaimID {
					t.Helper()
					a := p.b.Do(t.Context(), executor.Request{User: user, Key: fmt.Sprint(i), Quantity: c.quantity})
					if a.Outcome != api.Sold {
						t.Fatalf("claim %d: %+v", i, a)
					}
					return a.Claim.ID
				}
				var want []request.ClaimID
				for i := range c.claims {
					want = append(want, add(i))
				}
				var got []request.ClaimID
				page := api.Page{Limit: c.limit}
				for n := 0; ; n++ {
					claims, next, why := lookupUser(t.Context(), asked, user, page)
					if why != "" {
						t.Fatalf("page %d: %s", n, why)
					}
					var ids []request.ClaimID
					var size int64
					for _, c := range claims {
						ids, size = append(ids, c.ID), size+c.Size()
					}
					if more := len(want) - len(got) - len(ids); len(ids) != c.page && more > 0 || (next != "") != (more > 0) || size > request.PageBytes {
						t.Fatalf("page %d has %d claims of %d bytes and next %q, %d are left", n, len(ids), size, next, more)
					}
					got = append(ids, got...)
					if next == "" {
						break
					}
					page.Before = next
					add(c.claims + n) // newer than all that are still to come
				}
				if !slices.Equal(got, want) {
					t.Errorf("the pages have %v, want %v", got, want)
				}
				other := p.userOf(p.b)
				p.b.Do(t.Context(), executor.Request{User: other, Quantity: 1})
				for _, user := range []string{other, "nobody-" + other} {
					if _, _, why := lookupUser(t.Context(), asked, user, api.Page{Before: want[0].String()}); why != api.BadRequest {
						t.Errorf("a cursor of another user: %q", why)
					}
				}
				for _, cursor := range []string{"x", "0-0-0", "1-0-0", "77-1-0"} {
					if _, _, why := lookupUser(t.Context(), asked, user, api.Page{Before: cursor}); why != api.BadRequest {
						t.Errorf("the cursor %q: %q", cursor, why)
					}
				}
			}
		})
	}
}

// TestPagesOfRefundsDue reads what is owed back for a claim page by page, at the owner and at
// another process.
func TestPagesOfRefundsDue(t *testing.T) {
	p := newPair(t)
	for _, asked := range []*executor.Executor{p.a, p.b} {
		sold := p.b.Do(t.Context(), executor.Request{User: p.userOf(p.b), Quantity: 1})
		var want []string
		pay := func(i int) {
			t.Helper()
			x := executor.Settlement{Claim: sold.Claim.ID, How: api.Confirm, Settlement: api.Settlement{Payment: fmt.Sprint("p", i)}}
			if a := settle(t.Context(), p.b, x); !a.RefundDue {
				t.Fatalf("payment %d: %+v", i, a)
			}
		}
		if c, why := lookupClaim(t.Context(), asked, sold.Claim.ID, api.Page{Before: "p0"}); why != api.BadRequest {
			t.Errorf("a cursor of a claim without refunds due: %+v %q", c, why)
		}
		for i := range 25 {
			pay(i)
			want = append(want, fmt.Sprint("p", i))
		}
		for limit, size := range map[int]int{0: 10, 4: 4, 1000: 25} {
			var got []string
			for page := (api.Page{Limit: limit}); ; {
				c, why := lookupClaim(t.Context(), asked, sold.Claim.ID, page)
				if why != "" || c.Books == nil || c.Books.RefundsDue != len(want) {
					t.Fatalf("limit %d: %+v %s", limit, c.Books, why)
				}
				if left := len(want) - len(got); len(c.Books.RefundDue) != min(size, left) || (c.Books.RefundDueNext != "") != (left > size) {
					t.Fatalf("limit %d, %d left: %+v", limit, left, c.Books)
				}
				got = append(slices.Clone(c.Books.RefundDue), got...)
				if page.Before = c.Books.RefundDueNext; page.Before == "" {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("limit %d: the pages have %v", limit, got)
			}
		}
		if c, why := lookupClaim(t.Context(), asked, sold.Claim.ID, api.Page{Before: "p0"}); why != "" || len(c.Books.RefundDue) != 0 || c.Books.RefundDueNext != "" {
			t.Errorf("before the first: %+v %s", c.Books, why)
		}
		if _, why := lookupClaim(t.Context(), asked, sold.Claim.ID, api.Page{Before: "q"}); why != api.BadRequest {
			t.Errorf("a cursor of another claim: %q", why)
		}
	}
}
