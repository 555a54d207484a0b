package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"salectl/spec"
	"salectl/testdata/peers/internal/crowd"
	"salectl/testdata/peers/internal/sales"
)

const (
	callers = 2000
	shards  = 5
)

// task is the first message to a process that sells. It answers with a rate when the sale
// has its claims.
type task struct {
	Declared spec.Sale
	HBase    bool // otherwise it makes an embedded store, in a folder in that of Declared
	Claims   int64
}

// rate is what it answers to each number of units that it is to sell then.
type rate struct {
	Sold float64 // claims a second
	P99  float64 // of the wait for an answer, in milliseconds
	Used float64 // of the processors, in microseconds a claim
}

// seller is such a process, as the one sees it that measures.
type seller struct {
	claims int64
	*exec.Cmd
	in  io.WriteCloser
	out io.Reader

	encoder *json.Encoder
	decoder *json.Decoder
}

// start starts a process and waits until its sale has its claims.
func start(ctx context.Context, t task) (*seller, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &seller{claims: t.Claims, Cmd: exec.CommandContext(ctx, self, "-seller")}
	s.Stderr = os.Stderr
	if s.in, err = s.StdinPipe(); err != nil {
		return nil, err
	}
	if s.out, err = s.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := s.Start(); err != nil {
		return nil, err
	}
	s.encoder, s.decoder = json.NewEncoder(s.in), json.NewDecoder(s.out)
	if _, err := s.request(t); err != nil {
		return nil, errors.Join(err, s.end())
	}
	return s, nil
}

func (s *seller) request(what any) (r rate, err error) {
	if err := s.encoder.Encode(what); err != nil {
		return r, err
	}
	return r, s.decoder.Decode(&r)
}

// measure has it sell so many units.
func (s *seller) measure(units int64) (rate, error) { return s.request(units) }

// end has it audit its sale, and end.
func (s *seller) end() error { return errors.Join(s.in.Close(), s.Wait()) }

// sell is such a process, until nothing more comes by its standard input.
func sell(ctx context.Context, _ options) error {
	decoder := json.NewDecoder(os.Stdin)
	var t task
	if err := decoder.Decode(&t); err != nil {
		return err
	}
	do := func(site *sales.Site) error {
		var sold int64
		sale, err := site.Selling(ctx, sales.Plenty, shards, func(e *sales.Serving) (err error) {
			sold, err = sellOnRequest(ctx, e, t.Claims, decoder)
			return err
		})
		if err != nil {
			return err
		}
		return site.Audit(ctx, sale, sold)
	}
	if !t.HBase {
		return sales.Embedded(t.Declared.Embedded.Dir, do)
	}
	site, err := sales.Open(t.Declared)
	if err != nil {
		return err
	}
	return errors.Join(do(site), site.Close())
}

// sellOnRequest sells so many units, and then as many as each request has. It returns how many
// it has sold.
func sellOnRequest(ctx context.Context, e *sales.Serving, units int64, decoder *json.Decoder) (sold int64, err error) {
	encoder := json.NewEncoder(os.Stdout)
	for {
		r, err := sellUnits(ctx, e, sold, units)
		sold += units
		if err == nil {
			err = encoder.Encode(r)
		}
		if err != nil {
			return sold, err
		}
		switch err := decoder.Decode(&units); {
		case errors.Is(err, io.EOF):
			return sold, nil
		case err != nil:
			return sold, err
		}
	}
}

// sellUnits sells units to as many users, behind those who have one.
func sellUnits(ctx context.Context, e *sales.Serving, first, units int64) (r rate, err error) {
	o := crowd.Options{Callers: callers, For: time.Hour, Most: units, Timed: 8}
	c, err := crowd.Call(ctx, o, e.Claimer(func(i int64) string { return crowd.User(first + i) }))
	if err != nil {
		return r, err
	}
	if c.Sold != units {
		return r, fmt.Errorf("%d of %d claims were sold", c.Sold, units)
	}
	return rate{c.Rate, float64(c.Took.ValueAtQuantile(99)) / 1e3, float64(c.Used.Nanoseconds()) / 1e3 / float64(units)}, nil
}
