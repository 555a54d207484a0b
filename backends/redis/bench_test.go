package redis

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"salectl/backends/quorum"
	"salectl/internal/services"
)

// BenchmarkVote is a round of votes beside what one lease costs without a
// protocol, over the same client. Both take the lease anew, or for its token
// again, in the time of a round trip.
func BenchmarkVote(b *testing.B) {
	server := mustStart(b, services.RedisOptions{})
	n := mustOpen(b, Options{Address: server.Addr()})
	mustMark(b, n)
	b.Run("bare SET NX PX", func(b *testing.B) {
		c := goredis.NewClient(&goredis.Options{Addr: server.Addr(), Protocol: 2})
		closeLater(b, c)
		for b.Loop() {
			if err := c.SetNX(b.Context(), "bare", "token note", quorum.MaxTTL).Err(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, leases := range []int{1, 5, 64, 1024} {
		b.Run(fmt.Sprintf("leases=%d", leases), func(b *testing.B) {
			ballot := quorum.Ballot{Marker: marker, TTL: quorum.MaxTTL}
			for i := range leases {
				ballot.Requests = append(ballot.Requests, quorum.LeaseRequest{Key: fmt.Sprintf("salectl:uid:shard:%d", i), Token: quorum.RandomToken(), Note: "127.0.0.1:8080 12345"})
			}
			for b.Loop() {
				count, err := n.Vote(b.Context(), ballot)
				if err != nil || !count.Yes[leases-1] {
					b.Fatal(count, err)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*leases), "ns/lease")
			b.ReportMetric(onServer(b, n, server, ballot), "server-µs/op")
			if _, err := n.Release(b.Context(), ballot.Requests); err != nil {
				b.Fatal(err)
			}
		})
	}
}

var usecPerCall = regexp.MustCompile(`cmdstat_evalsha:.*usec_per_call=([\d.]+)`)

// onServer returns the microseconds for which a vote keeps the server from
// answering others.
func onServer(b *testing.B, n *Node, server *services.Redis, ballot quorum.Ballot) float64 {
	do(b, server, "CONFIG", "RESETSTAT")
	for range 100 {
		if _, err := n.Vote(b.Context(), ballot); err != nil {
			b.Fatal(err)
		}
	}
	stats := do(b, server, "INFO", "commandstats").(string)
	found := usecPerCall.FindStringSubmatch(stats)
	if found == nil {
		b.Fatalf("no vote in %s", stats)
	}
	usec, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return usec
}
