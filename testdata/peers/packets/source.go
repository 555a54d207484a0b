package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// source hands packets out as 利用redis + lua解决抢红包高并发的问题 (a blog post of
// 2016) does: one call of a script for each user. The thread that moves claimed
// packets into a database is left out.
type source struct {
	client *redis.Client
	script string // its hash, once prepare has loaded it
}

//go:embed grab.lua
var grabSource string

// The keys, in the order in which the script has them.
const (
	unclaimed = "packets:unclaimed"
	claimed   = "packets:claimed"
	owners    = "packets:users"
)

var grabKeys = []string{unclaimed, claimed, owners}

// newSource returns the source's way on a Redis of its own, with a connection for
// each of so many callers.
func newSource(address string, connections int) contender {
	return &source{client: newClient(address, connections)}
}

// newClient sets a client up as salectl's own are, so that no side is slower for
// its client's sake.
func newClient(address string, connections int) *redis.Client {
	const patience = 10 * time.Second
	return redis.NewClient(&redis.Options{
		Addr:                     address,
		Protocol:                 2,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		MaxRetries:               -1, // a second try would be another user's
		DialTimeout:              patience,
		ReadTimeout:              patience,
		WriteTimeout:             patience,
		PoolTimeout:              patience,
		ContextTimeoutEnabled:    true,
		PoolSize:                 connections,
		PipelinePoolSize:         -1,
	})
}

func (s *source) prepare(ctx context.Context, packets []packet) (err error) {
	if s.script, err = s.client.ScriptLoad(ctx, grabSource).Result(); err != nil {
		return err
	}
	const atATime = 1000
	var some []any
	for i, p := range packets {
		encoded, err := json.Marshal(p)
		if err != nil {
			return err
		}
		if some = append(some, encoded); len(some) < atATime && i < len(packets)-1 {
			continue
		}
		if err := s.client.LPush(ctx, unclaimed, some...).Err(); err != nil {
			return err
		}
		some = some[:0]
	}
	return nil
}

func (s *source) run(ctx context.Context, callers int) (int, time.Duration, error) {
	return untilEmpty(ctx, callers, 1, func(ctx context.Context, users []string) (int, bool, error) {
		switch got, err := s.grab(ctx, users[0]); {
		case err != nil:
			return 0, false, err
		case got:
			return 1, false, nil
		}
		over, err := s.empty(ctx)
		return 0, over, err
	})
}

func (s *source) grab(ctx context.Context, user string) (bool, error) {
	return granted(s.client.EvalSha(ctx, s.script, grabKeys, user))
}

// granted decodes the reply of the script.
func granted(answer *redis.Cmd) (bool, error) {
	switch err := answer.Err(); {
	case errors.Is(err, redis.Nil):
		return false, nil
	default:
		return err == nil, err
	}
}

// empty reports whether nobody can get anything any more.
func (s *source) empty(ctx context.Context) (bool, error) {
	left, err := s.client.LLen(ctx, unclaimed).Result()
	return left == 0, err
}

func (s *source) taken(ctx context.Context) ([]packet, error) {
	const atATime = 10_000
	var all []packet
	for {
		some, err := s.client.LRange(ctx, claimed, int64(len(all)), int64(len(all)+atATime-1)).Result()
		if err != nil || len(some) == 0 {
			return all, err
		}
		for _, encoded := range some {
			var p packet
			if err := json.Unmarshal([]byte(encoded), &p); err != nil {
				return nil, err
			}
			all = append(all, p)
		}
	}
}

func (s *source) close() error { return s.client.Close() }
