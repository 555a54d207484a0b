// Package servers serves HTTP on loopback, by whatever is to be compared.
package servers

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"salectl/executor"
	"salectl/executor/httpd"
	"salectl/testdata/peers/internal/processor"
	"salectl/testdata/peers/internal/sales"
	"salectl/testdata/peers/internal/shop"
)

// Most is more connections than anything here opens to one server.
const Most = 1 << 16

// Shards is how many shards, or locks, every sale has.
const Shards = 5

// Site is where the servers' stores are.
type Site struct {
	Dir      string // a folder for embedded stores, on a disk
	Postgres string // the address of a database
}

// Server takes claims over HTTP.
type Server struct {
	Address, Path string
	Serving       *sales.Serving // the sale of salectl that it serves; nil: it serves none
	others        []int          // the processes that work for it
}

// Used is what the server, its store and this process have used of the processors so far.
func (s Server) Used() (time.Duration, error) { return processor.Used(s.others...) }

// Load makes claims on a server and returns the number of claims reported sold.
type Load func(Server) (sold int64, err error)

// Side is one of those that are compared: it makes a sale with so many units, serves it
// while load runs, and fails unless the sale's books have exactly the claims that were
// sold.
type Side func(ctx context.Context, stock int64, load Load) error

// Salectl serves a sale on an embedded store.
func (s Site) Salectl(ctx context.Context, stock int64, load Load) error {
	return sales.Embedded(s.Dir, func(site *sales.Site) error {
		var sold int64
		sale, err := site.Selling(ctx, stock, Shards, func(e *sales.Serving) error {
			server := httpd.New(httpd.Config{Sales: []executor.Service{e}, Connections: Most, Log: slog.New(slog.DiscardHandler)})
			return serve(ctx, server.Serve, func(address string) (err error) {
				sold, err = load(Server{Address: address, Path: "/v1/sales/" + e.Sale() + "/claims", Serving: e})
				return err
			})
		})
		if err != nil {
			return err
		}
		return site.Audit(ctx, sale, sold)
	})
}

// Shop serves a sale on PostgreSQL with that many connections to it. Each shard has the
// same stock.
func (s Site) Shop(connections int) Side {
	return func(ctx context.Context, stock int64, load Load) (err error) {
		o := shop.Options{Stock: stock / Shards, Shards: Shards, Connections: connections}
		sale, err := shop.Open(ctx, s.Postgres, o)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, sale.Close()) }()
		var sold int64
		err = serve(ctx, handled(sale), func(address string) error {
			others, err := sale.Processes(ctx)
			if err != nil {
				return err
			}
			sold, err = load(Server{Address: address, Path: shop.Path, others: others})
			return err
		})
		if err != nil {
			return err
		}
		return sale.Check(ctx, sold)
	}
}

// Echo serves no sale.
func (s Site) Echo(ctx context.Context, _ int64, load Load) error {
	return serve(ctx, handled(http.HandlerFunc(shop.Echo)), func(address string) error {
		_, err := load(Server{Address: address, Path: shop.Path})
		return err
	})
}

// handled serves by a net/http server as it comes.
func handled(h http.Handler) func(context.Context, net.Listener) error {
	return func(ctx context.Context, l net.Listener) error {
		server := &http.Server{Handler: h}
		stop := context.AfterFunc(ctx, func() { _ = server.Close() })
		defer stop()
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}
}

// serve serves on a free port while do runs.
func serve(ctx context.Context, by func(context.Context, net.Listener) error, do func(address string) error) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- by(serving, l) }()
	err = do(l.Addr().String())
	stop()
	return errors.Join(err, <-ended)
}
