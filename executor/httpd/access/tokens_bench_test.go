package access

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// BenchmarkAccess is what it costs to find out what a request may do, by the number of tokens
// and the last of them, and for a request of a stream, which is known since it was opened.
func BenchmarkAccess(b *testing.B) {
	for _, n := range []int{1, 4, mostTokens} {
		var lines strings.Builder
		for i := range n {
			fmt.Fprintf(&lines, "6dd0b1e3d4f8b0a5a3a96dd0b1e3d4f8b0a5a3a96dd0b1e3d4f8b0a5a3a9%04d\n", i)
		}
		tokens := tokensOf(b, lines.String())
		last := tokens.set.Load().all[n-1].text
		r := &http.Request{Header: http.Header{"Authorization": {"Bearer " + last}}}
		b.Run(fmt.Sprintf("request/tokens=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if by := tokens.OfRequest(r); by.May(MayOperate) != nil {
					b.Fatal("it may not")
				}
			}
		})
		b.Run(fmt.Sprintf("stream/tokens=%d", n), func(b *testing.B) {
			by := tokens.OfRequest(r)
			b.ReportAllocs()
			for b.Loop() {
				if by.May(MayOperate) != nil {
					b.Fatal("it may not")
				}
			}
		})
	}
}
