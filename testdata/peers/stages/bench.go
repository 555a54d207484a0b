package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/google/pprof/profile"

	"salectl/testdata/peers/internal/appends"
	"salectl/testdata/peers/internal/cluster"
	"salectl/testdata/peers/internal/crowd"
	"salectl/testdata/peers/internal/httpload"
	"salectl/testdata/peers/internal/processor"
	"salectl/testdata/peers/internal/sales"
	"salectl/testdata/peers/internal/servers"
)

// What is measured, in the order of the tables.
const (
	onEmbedded = "embedded"
	onHBase    = "HBase"
	overHTTP   = "HTTP, embedded"
)

// bench makes the measurements.
type bench struct {
	*cluster.Cluster
	dir     string // for embedded stores
	each    time.Duration
	servers []int // the processes of Redis and HBase
	kernel  kernel
	raw     limits
}

// column is one number of callers of one kind, with all that was seen of it.
type column struct {
	of      string
	callers int
	observe func(ctx context.Context, callers int) (observation, error)
	rounds  []observation
	divided *divider
}

// observation is what was seen of a column in one round.
type observation struct {
	reading
	sold    int64
	rate    float64 // claims a second
	batch   float64 // claims in a commit, on average
	appends float64 // a second, of commits of the same size with nothing to sell
	append  time.Duration
}

// columns are all that is measured.
func (b *bench) columns() (all []*column) {
	for _, kind := range []struct {
		of      string
		crowds  []int
		observe func(ctx context.Context, callers int) (observation, error)
	}{
		{onEmbedded, []int{1, 200, 2000, 20_000}, b.embedded},
		{onHBase, []int{1, 200, 2000, 20_000}, func(ctx context.Context, callers int) (observation, error) {
			return b.within(ctx, b.Site, b.servers, callers)
		}},
		{overHTTP, []int{200, 2000}, b.http},
	} {
		for _, callers := range kind.crowds {
			all = append(all, &column{of: kind.of, callers: callers, observe: kind.observe, divided: newDivider()})
		}
	}
	return all
}

func (b *bench) embedded(ctx context.Context, callers int) (o observation, err error) {
	err = sales.Embedded(b.dir, func(site *sales.Site) error {
		o, err = b.within(ctx, site, nil, callers)
		return err
	})
	return o, err
}

// crowdOf has callers make claims for a time, each of another user, and returns how many were
// sold, and how many a second.
type crowdOf func(d time.Duration) (sold int64, rate float64, err error)

// within has callers in this process claim from a sale of salectl's. servers are the
// processes that work for the store.
func (b *bench) within(ctx context.Context, site *sales.Site, servers []int, callers int) (o observation, err error) {
	var sold int64
	var size int
	sale, err := site.Selling(ctx, sales.Plenty, shards, func(e *sales.Serving) (err error) {
		first := int64(0)
		o, sold, size, err = b.watch(e, servers, func(d time.Duration) (int64, float64, error) {
			first += 1 << 32 // users without a claim
			claim := e.Claimer(func(i int64) string { return crowd.User(first + i) })
			r, err := crowd.Call(ctx, crowd.Options{Callers: callers, For: d, Most: math.MaxInt64}, claim)
			return r.Sold, r.Rate, err
		})
		return err
	})
	if err != nil {
		return o, err
	}
	if err := site.Audit(ctx, sale, sold); err != nil {
		return o, err
	}
	return b.beside(ctx, o, site, size)
}

// http has connections claim from a server of salectl's.
func (b *bench) http(ctx context.Context, connections int) (o observation, err error) {
	err = servers.Site{Dir: b.dir}.Salectl(ctx, sales.Plenty, func(s servers.Server) (sold int64, err error) {
		l, err := httpload.Dial(s.Address, s.Path, connections)
		if err != nil {
			return 0, err
		}
		o, sold, _, err = b.watch(s.Serving, nil, func(d time.Duration) (int64, float64, error) {
			r, err := l.Run(ctx, d, math.MaxInt64)
			if err == nil && r.Refused > 0 {
				err = fmt.Errorf("%d claims were refused", r.Refused)
			}
			return r.Sold, r.Rate, err
		})
		return sold, errors.Join(err, l.Close())
	})
	return o, err
}

// watch lets a crowd claim for a while, and then counts what its claims cost. It returns also
// how many were sold in all, and the bytes of a commit.
func (b *bench) watch(e *sales.Serving, servers []int, claims crowdOf) (o observation, sold int64, size int, err error) {
	warm, _, err := claims(b.each / 4)
	if err != nil {
		return o, warm, 0, err
	}
	slotsBefore, bytesBefore := e.Written()
	seen, err := during(servers, b.kernel, func() (err error) {
		o.sold, o.rate, err = claims(b.each)
		return err
	})
	slots, bytes := e.Written()
	slots, bytes = slots-slotsBefore, bytes-bytesBefore
	o.reading, o.batch = seen, float64(o.sold)/float64(max(slots, 1))
	return o, warm + o.sold, int(bytes / max(slots, 1)), err
}

// beside adds what the store takes from a loop for each shard, with entries of a size.
func (b *bench) beside(ctx context.Context, o observation, site *sales.Site, size int) (observation, error) {
	before, err := processor.Used()
	if err != nil {
		return o, err
	}
	began := time.Now()
	n, err := appends.Raw(ctx, site.Store.Logs, site.Fresh("raw"), shards, size, b.each/4)
	if err != nil {
		return o, err
	}
	o.appends = float64(n) / time.Since(began).Seconds()
	after, err := processor.Used()
	o.append = (after - before) / time.Duration(max(n, 1))
	return o, err
}

// add takes in what was seen in one more round.
func (c *column) add(o observation) {
	c.rounds = append(c.rounds, o)
	c.divided.add(o.profile)
}

// keep writes the column's profile, of all rounds.
func (c *column) keep(dir string) error {
	var profiles []*profile.Profile
	for _, o := range c.rounds {
		profiles = append(profiles, o.profile)
	}
	all, err := profile.Merge(profiles)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%.4s-%d.pprof", c.of, c.callers)))
	if err != nil {
		return err
	}
	return errors.Join(all.Write(f), f.Close())
}
