package rehearse

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"salectl/api"
)

// click is one planned claim of a buyer.
type click struct {
	user     string
	key      string
	quantity int64
	choice
	story story // of the claim if it is held
}

// visit is a sequence of claims that one worker sends for one buyer, each after the answer to the
// previous one. Two visits of one buyer run concurrently.
type visit []click

// Mix of buyers, in thousandths. The remaining buyers claim once.
const (
	sameKeyAtOnce   = 50 // a double click: two concurrent requests with one key
	sameKeyAfter    = 50 // a client that repeats a request despite its answer
	otherKeyAtOnce  = 50 // two windows
	otherKeyAfter   = 50 // claims again after the answer
	beyondLimit     = 20 // claims one more than the limit
	moreThanOneUnit = 500
)

// planned returns the visits for a seed, in the order in which workers take them. Equal configs
// yield equal plans. Only the answers differ, since they depend on timing.
func planned(c Config) []visit {
	random := rand.New(rand.NewPCG(c.Seed, 0))
	buyers := make([][]visit, c.Users)
	for i := range buyers {
		buyers[i] = buyer(c, random, i)
	}
	// Buyers are shuffled, but the visits of one buyer stay adjacent. Otherwise the first would
	// have its answer long before the second begins.
	random.Shuffle(len(buyers), func(i, j int) { buyers[i], buyers[j] = buyers[j], buyers[i] })
	return slices.Concat(buyers...)
}

// buyer returns the visits of one buyer.
func buyer(c Config, random *rand.Rand, number int) []visit {
	one := click{user: Name(number), key: Name(number) + "-1", quantity: quantity(c, random)}
	if len(c.Names) > 0 {
		one.user = c.Names[number%len(c.Names)]
	}
	one.choose(c, random)
	again := one
	one.story = drawStory(c, random)
	more := one
	more.key, more.story = Name(number)+"-2", drawStory(c, random)

	kind := random.IntN(1000)
	is := func(share int) bool {
		kind -= share
		return kind < 0
	}
	switch {
	case is(sameKeyAtOnce):
		return []visit{{one}, {again}}
	case is(sameKeyAfter):
		return []visit{{one, again}}
	case is(otherKeyAtOnce):
		return []visit{{one}, {more}}
	case is(otherKeyAfter):
		return []visit{{one, more}}
	case is(beyondLimit) && c.PerUserLimit < api.MaxQuantity:
		one.quantity, one.choice = c.PerUserLimit+1, choice{}
	}
	return []visit{{one}}
}

// Name returns the made-up name of a buyer, by its number from 0. Keys begin with it even if the
// buyer has another name.
func Name(number int) string { return fmt.Sprintf("buyer-%06d", number) }

// quantity returns 1 for half of the buyers, so that a stock can sell to the last unit, and up to
// the limit for the others.
func quantity(c Config, random *rand.Rand) int64 {
	most := min(c.PerUserLimit, c.Stock, api.MaxQuantity)
	if most <= 1 || random.IntN(1000) >= moreThanOneUnit {
		return 1
	}
	return 1 + random.Int64N(most)
}

// DefaultUsers returns the default number of buyers for a stock: 20 per unit, at least 1,000, at
// most 100,000.
func DefaultUsers(stock int64) int {
	const each, least, most = 20, 1_000, 100_000
	if stock >= most/each {
		return most
	}
	return max(least, int(stock)*each)
}
