package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// pipelined is the source with the proposal of its outlook: the same script, called
// for a hundred users in one round trip.
type pipelined struct{ source }

const (
	inPipeline = 100
	// pipelines is how many connections there are, whatever the number of callers:
	// of 1 to 8, none was clearly faster on two processors.
	pipelines = 4
)

func newPipelined(address string, _ int) contender {
	return &pipelined{source{client: newClient(address, pipelines)}}
}

// run has callers' users on its pipelines without anybody having handed them over:
// what that costs would only make it slower.
func (p *pipelined) run(ctx context.Context, _ int) (int, time.Duration, error) {
	return untilEmpty(ctx, pipelines, inPipeline, p.grabAll)
}

// grabAll requests a packet for each user, and whether nothing is left if somebody
// got none.
func (p *pipelined) grabAll(ctx context.Context, users []string) (got int, over bool, err error) {
	// Its error is that of the first answer that is one; each is checked below.
	answers, _ := p.client.Pipelined(ctx, func(line redis.Pipeliner) error {
		for _, u := range users {
			line.EvalSha(ctx, p.script, grabKeys, u)
		}
		return nil
	})
	for _, a := range answers {
		ok, err := granted(a.(*redis.Cmd))
		if err != nil {
			return got, false, err
		}
		if ok {
			got++
		}
	}
	if got < len(users) {
		over, err = p.empty(ctx)
	}
	return got, over, err
}
