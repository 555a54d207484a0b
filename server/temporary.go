package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"salectl/executor"
	"salectl/executor/httpd"
)

// readyTimeout bounds the time until a temporary server owns its sale.
const readyTimeout = 30 * time.Second

// Temporarily serves one sale on loopback while use runs, without payment services. use
// receives the URLs for buyers and for operators. cfg needs no address.
func Temporarily(ctx context.Context, cfg executor.Config, use func(url, admin string) error) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	admin, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.Close()
		return err
	}
	cfg.Address = l.Addr().String()
	e := executor.New(cfg)
	h := httpd.New(httpd.Config{Sales: []executor.Service{e}, Log: cfg.Logger})

	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	owned, served := make(chan error, 1), make(chan error, 2)
	go func() { owned <- e.Run(running) }()
	// Requests end before the leases are released.
	serving, drain := context.WithCancel(running)
	defer drain()
	go func() { served <- h.Serve(serving, l) }()
	go func() { served <- h.ServeAdmin(serving, admin) }()
	bound, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("timed out after %v: %w", readyTimeout, context.DeadlineExceeded))
	defer cancel()
	if err = awaitReady(bound, e); err == nil {
		err = use("http://"+l.Addr().String(), "http://"+admin.Addr().String())
	} else {
		err = fmt.Errorf("%w: the copy could not be served: %w", context.Cause(bound), err)
	}
	drain()
	err = errors.Join(err, <-served, <-served)
	stop()
	return errors.Join(err, <-owned)
}
