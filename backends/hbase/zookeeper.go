package hbase

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/tsuna/gohbase/zk"
	"golang.org/x/sync/singleflight"
)

// zookeeperPatience is the timeout of one host's answer, and the length of a session.
const zookeeperPatience = 2 * time.Second

// zookeeper finds the two servers registered in ZooKeeper: the one with hbase:meta, and the
// master. It connects for each lookup, since lookups are rare.
type zookeeper struct {
	hosts   []string
	root    string
	servers *servers
	logger  *slog.Logger
	lookups singleflight.Group // by resource
}

// find returns the address of a server.
func (z *zookeeper) find(ctx context.Context, what zk.ResourceName) (string, error) {
	return share(ctx, z.servers, &z.lookups, string(what), "waiting for ZooKeeper", func() (string, error) { return z.query(what) })
}

// query queries all hosts and returns the first answer. The library accepts the whole quorum, but
// stays with the first host that accepts its connection, even a frozen one, and tries no host
// if one name cannot be resolved.
func (z *zookeeper) query(what zk.ResourceName) (string, error) {
	type answer struct {
		addr string
		err  error
	}
	answers := make(chan answer, len(z.hosts))
	for _, host := range z.hosts {
		z.servers.start(func() {
			addr, err := z.queryHost(host, what)
			answers <- answer{addr, err}
		})
	}
	var errs []string
	for range z.hosts {
		select {
		case a := <-answers:
			if a.err == nil {
				return a.addr, nil
			}
			errs = append(errs, a.err.Error())
		case <-z.servers.life.Done():
			return "", errClosed
		}
	}
	return "", errors.New(strings.Join(errs, "; "))
}

// queryHost queries one host. The library panics if the data in ZooKeeper is too short, and the
// data may be anything.
func (z *zookeeper) queryHost(host string, what zk.ResourceName) (addr string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("ZooKeeper %s has something under %s that is not HBase's: %v", host, what, p)
		}
	}()
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		return z.servers.wrap(ctx, new(net.Dialer).DialContext, network, addr, zookeeperPatience, 0, func(error) {})
	}
	addr, err = zk.NewClient(host, zookeeperPatience, dial, z.logger).LocateResource(what.Prepend(z.root))
	switch {
	case err == nil:
		return addr, nil
	case strings.Contains(err.Error(), "node does not exist") && what == zk.Master:
		return "", fmt.Errorf("ZooKeeper %s has no HBase master under %s: start it, or correct zookeeperRoot", host, z.root)
	case strings.Contains(err.Error(), "node does not exist"):
		return "", fmt.Errorf("ZooKeeper %s has no HBase under %s: start HBase, or correct zookeeperRoot", host, z.root)
	}
	return "", fmt.Errorf("ZooKeeper %s: %w", host, err)
}
