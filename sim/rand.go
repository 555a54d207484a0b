package sim

import (
	"math"
	"math/rand/v2"
	"time"
)

// purpose names a stream of random numbers. Each is drawn from the seed by
// itself, so that a world with fewer clients or faults still is much like the
// one that it was shrunk from.
type purpose uint64

const (
	forScenario purpose = iota + 1
	forNetwork
	forStore
	forSchedule
	forFaults
	forCrashes
	forOperators
	forClients // and the client
	forTokens  // and the process
	forLists
	forPages
	forSizes
	forHours
	forClocks
	forDoubts
	forNags
	forPayments // and the client
	forRules
	forParts
	forPeers
	forWork
	forChoice
	forDraws
	forPhases
	forFeeds // and the consumer
	forFolders
	forStrangers
	forSources
	forJoint
	forPlans
	forReports
	forReturns // and the client
)

// random is one stream.
type random struct{ *rand.Rand }

func (o Options) random(p purpose, n int) random {
	return random{rand.New(rand.NewPCG(o.Seed, uint64(p)<<24+uint64(n)))}
}

// chance returns true with a probability.
func (r random) chance(p float64) bool { return r.Float64() < p }

// between returns a time from low to high, all alike.
func (r random) between(low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)+1))
}

// spread returns a time from low to high, each order of magnitude alike.
func (r random) spread(low, high time.Duration) time.Duration {
	return time.Duration(float64(low) * math.Exp(r.Float64()*math.Log(float64(high)/float64(low))))
}

// pick returns one of several.
func pick[T any](r random, of ...T) T { return of[r.IntN(len(of))] }

// letters returns a random word, for tokens and keys.
func (r random) letters(n int) string {
	const digits = "0123456789abcdefghijklmnopqrstuv"
	word := make([]byte, n)
	for i := range word {
		word[i] = digits[r.IntN(len(digits))]
	}
	return string(word)
}

// Read fills a buffer: a planner draws the uid of a new sale from it.
func (r random) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return len(b), nil
}
