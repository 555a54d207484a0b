package main

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"salectl/testdata/peers/internal/processor"
	"salectl/testdata/peers/internal/servers"
	"salectl/testdata/peers/internal/table"
)

// shards is the number of locks of every sale here.
const shards = servers.Shards

// limits are what a claim could not be without, each by itself, in µs, by round.
type limits struct {
	sockets []float64 // of the processors: a request and an answer, each written and read once
	echo    []float64 // of the processors: a request to a bare net/http server, with its caller
	ping    []float64 // until one Redis answers PING
}

func (b *bench) limits(ctx context.Context) error {
	used, err := sockets(5000)
	if err != nil {
		return err
	}
	b.raw.sockets = append(b.raw.sockets, micros(used))
	r, err := servers.Measure(ctx, servers.Site{Dir: b.dir}.Echo, 200, b.each/2)
	if err != nil {
		return err
	}
	b.raw.echo = append(b.raw.echo, micros(r.Used))
	ping, err := b.ping(ctx, 2000)
	b.raw.ping = append(b.raw.ping, micros(ping))
	return err
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// sockets has a goroutine write a request on one end of a loopback connection, read it on the
// other, and send an answer back, n times: four system calls, none of which has to wait. It
// returns the processors' time of one round.
func sockets(n int) (used time.Duration, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return 0, err
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		return 0, err
	}
	defer server.Close()
	request, answer := make([]byte, 200), make([]byte, 400) // about as long as those of a claim
	before, err := processor.Used()
	if err != nil {
		return 0, err
	}
	for range n {
		if err := errors.Join(move(client, server, request), move(server, client, answer)); err != nil {
			return 0, err
		}
	}
	after, err := processor.Used()
	return (after - before) / time.Duration(n), err
}

func move(from, to net.Conn, b []byte) error {
	if _, err := from.Write(b); err != nil {
		return err
	}
	_, err := io.ReadFull(to, b)
	return err
}

// ping is how long one Redis takes to answer PING, the median of n.
func (b *bench) ping(ctx context.Context, n int) (time.Duration, error) {
	var took []time.Duration
	for range n {
		began := time.Now()
		if err := b.Redis[0].Ping(ctx).Err(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	return table.Median(took), nil
}
