package main

import (
	"context"
	"math"
	"syscall"
	"time"

	"salectl/testdata/peers/internal/cluster"
	"salectl/testdata/peers/internal/crowd"
	"salectl/testdata/peers/internal/naive"
	"salectl/testdata/peers/internal/sales"
	"salectl/testdata/peers/internal/servers"
)

// bench makes the measurements.
type bench struct {
	*cluster.Cluster
	servers servers.Site
	each    time.Duration // one measurement
}

// point is what one contender did with some callers.
type point struct {
	callers int     // fewer than requested, where the machine does not let so many connect
	rate    float64 // claims a second
	p99     float64 // ms
	atLeast bool    // of p99: more than one claim of a hundred was cut short
}

// contender is one line of the plot.
type contender struct {
	name    string
	measure func(ctx context.Context, callers int) (point, error)
}

// The names of the contenders, in the order of the table.
const (
	inProcess      = "salectl in one process, embedded"
	inProcessHBase = "salectl in one process, HBase"
	overHTTP       = "salectl over HTTP, embedded"
	naiveProtocol  = "naive protocol, HBase"
	postgres       = "PostgreSQL over HTTP"
	echo           = "echo over HTTP"
)

var names = []string{inProcess, inProcessHBase, overHTTP, naiveProtocol, postgres, echo}

func (b *bench) contenders() []contender {
	return []contender{
		{inProcess, b.embedded},
		{inProcessHBase, func(ctx context.Context, callers int) (point, error) { return b.within(ctx, b.Site, callers) }},
		{naiveProtocol, b.naive},
		{echo, b.server(b.servers.Echo)},
		{overHTTP, b.server(b.servers.Salectl)},
		{postgres, b.server(b.servers.Shop(1))}, // with more connections it was slower
	}
}

func (b *bench) embedded(ctx context.Context, callers int) (p point, err error) {
	err = sales.Embedded(b.servers.Dir, func(site *sales.Site) error {
		p, err = b.within(ctx, site, callers)
		return err
	})
	return p, err
}

// within has callers in this process claim from a sale of salectl's. One claim of eight is
// timed: to time them all would take a part of what a claim takes.
func (b *bench) within(ctx context.Context, site *sales.Site, callers int) (point, error) {
	var r crowd.Result
	o := crowd.Options{Callers: callers, For: b.each, Most: math.MaxInt64, Timed: 8}
	sale, err := site.Selling(ctx, sales.Plenty, servers.Shards, func(e *sales.Serving) (err error) {
		r, err = crowd.Call(ctx, o, e.Claimer(crowd.User))
		return err
	})
	if err != nil {
		return point{}, err
	}
	return pointOf(callers, r), site.Audit(ctx, sale, r.Sold)
}

// naive has them claim by the naive protocol.
func (b *bench) naive(ctx context.Context, callers int) (point, error) {
	n := naive.New(b.HBase, b.Redis, b.Declared.HBase.Table, b.Fresh("naive"), servers.Shards, sales.Plenty)
	o := crowd.Options{Callers: callers, For: b.each, Most: math.MaxInt64, Timed: 1}
	r, err := crowd.Call(ctx, o, func(ctx context.Context, i int64) (bool, error) { return n.Claim(ctx, crowd.User(i)) })
	if err != nil {
		return point{}, err
	}
	return pointOf(callers, r), n.Check(ctx, r.Sold)
}

func pointOf(callers int, r crowd.Result) point {
	return point{callers, r.Rate, float64(r.Took.ValueAtQuantile(99)) / 1e3, 100*r.Cut > r.Took.TotalCount()}
}

// server has them claim over HTTP.
func (b *bench) server(side servers.Side) func(context.Context, int) (point, error) {
	return func(ctx context.Context, callers int) (point, error) {
		most, err := mostConnections()
		if err != nil {
			return point{}, err
		}
		callers = min(callers, most)
		r, err := servers.Measure(ctx, side, callers, b.each)
		if err != nil {
			return point{}, err
		}
		if r.Again > 0 {
			progress("%d answers to %d callers required a retry", r.Again, callers)
		}
		return point{callers, r.Rate, r.P(99), false}, nil
	}
}

// mostConnections is how many this process may have with both ends in it. It leaves a
// thousand files to others.
func mostConnections() (int, error) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 0, err
	}
	most := (int64(min(files.Cur, math.MaxInt32)) - 1000) / 2
	return int(max(most/100*100, 1)), nil
}
