package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"salectl/backends/quorum"
	lockredis "salectl/backends/redis"
	"salectl/internal/services"
	"salectl/spec"
	"salectl/testdata/peers/internal/commandstats"
)

// servers is how many Redis a site has. Figures over fewer take the first.
const servers = 5

// site is Redis servers of our own, and a client of each for all but salectl's
// locks, which bring their own.
type site struct {
	servers []*services.Redis
	clients []*redis.Client // set up as salectl's own
	plain   []*redis.Client // as go-redis sets them up by itself
	names   int             // given so far

	stops []func()
}

func openSite(ctx context.Context) (_ *site, err error) {
	s := &site{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	progress("starting %d Redis", servers)
	for range servers {
		server, err := services.StartRedis(ctx, services.RedisOptions{})
		if err != nil {
			return nil, err
		}
		s.stops = append(s.stops, server.Stop)
		s.servers = append(s.servers, server)
		client, plain := redis.NewClient(clientOptions(server.Addr())), redis.NewClient(&redis.Options{Addr: server.Addr()})
		s.stops = append(s.stops, func() { _, _ = client.Close(), plain.Close() })
		s.clients, s.plain = append(s.clients, client), append(s.plain, plain)
	}
	return s, s.mark(ctx)
}

// clientOptions are those of salectl's own nodes, so that no side is slower for
// its client's sake. But there are connections for 64 contenders at once.
func clientOptions(address string) *redis.Options {
	const patience = 3 * time.Second
	return &redis.Options{
		Addr:                     address,
		Protocol:                 2,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		MaxRetries:               -1,
		DialTimeout:              patience,
		ReadTimeout:              patience,
		WriteTimeout:             patience,
		PoolTimeout:              patience,
		ContextTimeoutEnabled:    true,
		PoolSize:                 256,
		PipelinePoolSize:         -1,
	}
}

// mark writes the marker on each server, as whoever set them up may: without, they
// would sit out the longest ttl first.
func (s *site) mark(ctx context.Context) error {
	nodes, closeNodes, err := s.nodes(servers)
	if err != nil {
		return err
	}
	defer closeNodes()
	for _, n := range nodes {
		info, err := n.Info(ctx)
		if err != nil {
			return err
		}
		if err := n.Mark(ctx, spec.NamedLockMarker, info.RunID); err != nil {
			return err
		}
	}
	return nil
}

// nodes opens the first n servers as lock nodes, on connections of their own.
func (s *site) nodes(n int) (_ []quorum.Node, closeNodes func(), err error) {
	var nodes []quorum.Node
	var stops []func() error
	closeNodes = func() {
		for _, stop := range stops {
			_ = stop()
		}
	}
	for _, server := range s.servers[:n] {
		node, err := lockredis.Open(lockredis.Options{Address: server.Addr()})
		if err != nil {
			closeNodes()
			return nil, nil, err
		}
		stops = append(stops, node.Close)
		nodes = append(nodes, node)
	}
	return nodes, closeNodes, nil
}

// close gives everything back, the last first.
func (s *site) close() {
	for i := len(s.stops) - 1; i >= 0; i-- {
		s.stops[i]()
	}
}

// fresh returns a name that nothing here had before, for locks or a part of it.
func (s *site) fresh(what string) string {
	s.names++
	return fmt.Sprintf("%s-%d", what, s.names)
}

// counts returns the number of commands to the first n servers.
func (s *site) counts(ctx context.Context, n int) (commandstats.Counts, error) {
	return commandstats.Of(ctx, s.clients[:n])
}

// gone fails unless no server has anything under a name any more, or will have
// soon: what was measured did unlock. A release that a node has confirmed has
// happened there, and one that it has not may yet do so within a ttl. The servers
// are not to be queried before the slowest of them has answered: an unlock returns
// when most have confirmed it.
func (s *site) gone(ctx context.Context, name string, within time.Duration) error {
	deadline := time.Now().Add(within)
	for _, c := range s.clients {
		for ; ; time.Sleep(10 * time.Millisecond) {
			keys, err := c.Keys(ctx, "*"+name+"*").Result()
			switch {
			case err != nil:
				return err
			case len(keys) > 0 && time.Now().Before(deadline):
				continue
			case len(keys) > 0:
				return fmt.Errorf("%w: %s was not given back on %s, which has %d keys of it, the first %s",
					errWrong, name, c.Options().Addr, len(keys), keys[0])
			}
			break
		}
	}
	return nil
}

// stopped does something while one server hangs, stopped by SIGSTOP.
func (s *site) stopped(ctx context.Context, server int, do func() error) error {
	if err := s.servers[server].Pause(); err != nil {
		return err
	}
	err := errors.Join(do(), s.servers[server].Continue())
	if err != nil {
		return err
	}
	return s.clients[server].Ping(ctx).Err()
}
