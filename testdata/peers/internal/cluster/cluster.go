// Package cluster is servers for sales that are kept in HBase, with their locks on three Redis.
package cluster

import (
	"context"

	"github.com/redis/go-redis/v9"
	"github.com/tsuna/gohbase"

	"salectl/backends/ledger"
	"salectl/internal/services"
	"salectl/spec"
	"salectl/testdata/peers/internal/sales"
)

// Cluster is three Redis and an HBase of our own, and the clients of both sides.
type Cluster struct {
	*sales.Site
	Redis []*redis.Client // the naive protocol's
	HBase gohbase.Client  // the naive protocol's

	stops []func()
}

// Open starts the servers.
func Open(ctx context.Context) (_ *Cluster, err error) {
	s, declared := &Cluster{}, sales.Declared()
	declared.Redis = &spec.Redis{}
	defer func() {
		if err != nil {
			s.Stop()
		}
	}()
	for range 3 {
		server, err := services.StartRedis(ctx, services.RedisOptions{})
		if err != nil {
			return nil, err
		}
		s.stops = append(s.stops, server.Stop)
		declared.Redis.Nodes = append(declared.Redis.Nodes, server.Addr())
		// A pool smaller than the callers would be what the naive protocol waits for.
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: 256})
		s.stops = append(s.stops, func() { _ = client.Close() })
		s.Redis = append(s.Redis, client)
	}
	server, err := services.StartHBase(ctx, services.HBaseOptions{})
	if err != nil {
		return nil, err
	}
	s.stops = append(s.stops, server.Stop)
	declared.HBase = &spec.HBase{
		Zookeeper: []string{server.Zookeeper()}, ZookeeperRoot: spec.DefaultZookeeperRoot, Table: "sales",
	}
	s.HBase = gohbase.NewClient(server.Zookeeper(), gohbase.Logger(sales.Quiet))
	s.stops = append(s.stops, s.HBase.Close)
	if s.Site, err = sales.Open(declared); err != nil {
		return nil, err
	}
	s.stops = append(s.stops, func() { _ = s.Close() })
	return s, s.Store.Logs.(ledger.Table).CreateTable(ctx)
}

// Stop gives everything back, the last first.
func (s *Cluster) Stop() {
	for i := len(s.stops) - 1; i >= 0; i-- {
		s.stops[i]()
	}
}
