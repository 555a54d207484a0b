// Package httpload makes claims over HTTP/1.1 by keep-alive connections that each wait for
// an answer before the next request.
//
// It writes and reads sockets itself, as the benchmarks of package httpd do: a client that
// takes longer than the server would make all servers appear equal. It still shares the
// processors with the server, whose figures compare with each other only.
package httpload

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Load is some connections to one server.
type Load struct {
	request   []byte
	conns     []*connection
	each      int64         // requests of each user
	pause     time.Duration // before a retry
	requested atomic.Int64
}

// connection is one caller.
type connection struct {
	address string
	net.Conn
	in      *bufio.Reader
	request []byte
	key     []byte // the part of request that is the number of the claim, in its key
	user    []byte // the part that is the number of the user
	took    []time.Duration
}

// Result is what became of the claims of one run.
type Result struct {
	Rate    float64 // answers a second, while all were asking
	Sold    int64   // in all, with those that were under way at the end
	Refused int64
	Again   int64                   // answers that required a retry, which followed
	Took    *hdrhistogram.Histogram // in microseconds
}

// P is the wait in milliseconds that a percentage of the answers did not exceed.
func (r Result) P(percent float64) float64 { return float64(r.Took.ValueAtQuantile(percent)) / 1e3 }

// serial is overwritten with a number.
const serial = "000000000000"

// Dial opens connections to a server of the sale that is at a path. Every claim is another
// user's, with another key.
func Dial(address, path string, connections int) (*Load, error) {
	return dial(address, path, connections, 1)
}

// DialTwice is Dial where every user sends two claims, each time with another key.
func DialTwice(address, path string, connections int) (*Load, error) {
	return dial(address, path, connections, 2)
}

func dial(address, path string, connections int, each int64) (*Load, error) {
	body := `{"user": "u-` + serial + `", "quantity": 1}`
	l := &Load{each: each, pause: time.Second, request: fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Idempotency-Key: k-%s\r\nContent-Length: %d\r\n\r\n%s", path, serial, len(body), body)}
	for range connections {
		request := bytes.Clone(l.request)
		key, user := bytes.Index(request, []byte(serial)), bytes.LastIndex(request, []byte(serial))
		c := &connection{
			address: address, request: request,
			key: request[key : key+len(serial)], user: request[user : user+len(serial)],
		}
		if err := c.dial(); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.conns = append(l.conns, c)
	}
	return l, nil
}

func (c *connection) dial() (err error) {
	if c.Conn, err = net.Dial("tcp", c.address); err != nil {
		return err
	}
	c.in = bufio.NewReaderSize(c.Conn, 1024)
	return nil
}

// Close closes the connections.
func (l *Load) Close() error {
	var errs []error
	for _, c := range l.conns {
		errs = append(errs, c.Conn.Close())
	}
	return errors.Join(errs...)
}

// Run makes claims for a time, or until n were made. Where a server has not decided, which
// 429 and 503 require, the claim is sent again with the same key after a second, as salectl's
// Retry-After requires, and has taken as long as until it was decided. So it is where the server
// has closed the connection, as it may one that was idle for long. Any other answer that is
// neither 201 nor 409, or the end of ctx, ends Run with an error.
func (l *Load) Run(ctx context.Context, d time.Duration, n int64) (Result, error) {
	runtime.GC() // what others left behind is not its burden
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	last := l.requested.Load() + n
	if last < n {
		last = n // it would be more than a number can hold
	}
	var sold, refused, again atomic.Int64
	var over atomic.Bool
	var all sync.WaitGroup
	begin := time.Now()
	for _, c := range l.conns {
		c.took = c.took[:0]
		all.Go(func() {
			for !over.Load() {
				number := l.requested.Add(1)
				if number > last {
					return
				}
				granted, more, err := c.claim(ctx, number, (number-1)/l.each, l.pause)
				again.Add(more)
				switch {
				case err != nil:
					cancel(err)
					return
				case granted:
					sold.Add(1)
				default:
					refused.Add(1)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(d):
	case <-ctx.Done():
	}
	rate := float64(sold.Load()+refused.Load()) / time.Since(begin).Seconds()
	over.Store(true)
	if ctx.Err() != nil { // servers may never answer those who wait
		for _, c := range l.conns {
			_ = c.SetDeadline(time.Now())
		}
	}
	<-done
	l.requested.Store(min(l.requested.Load(), last)) // those who found that all were made have counted on
	return Result{rate, sold.Load(), refused.Load(), again.Load(), l.histogram()}, context.Cause(ctx)
}

// longest is what a longer wait counts for.
const longest = time.Minute

func (l *Load) histogram() *hdrhistogram.Histogram {
	h := hdrhistogram.New(1, longest.Microseconds(), 3)
	for _, c := range l.conns {
		for _, d := range c.took {
			_ = h.RecordValue(min(d, longest).Microseconds()) // it has room for these
		}
	}
	return h
}

// mostAgain is how often in a row a server may close a connection.
const mostAgain = 10

// claim makes one claim and reports whether it was granted, and how often it was required to try
// again.
func (c *connection) claim(ctx context.Context, key, user int64, pause time.Duration) (granted bool, again int64, err error) {
	putDecimal(c.key, key)
	putDecimal(c.user, user)
	for began := time.Now(); ; again++ {
		_, err := c.Write(c.request)
		if err == nil {
			_, err = c.in.Peek(1)
		}
		closed := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
		if closed && again < mostAgain { // before there was any answer
			if err := errors.Join(c.Conn.Close(), c.dial()); err != nil {
				return false, again, err
			}
			continue
		}
		if err != nil {
			return false, again, err
		}
		status, err := readAnswer(c.in)
		if err != nil {
			return false, again, err
		}
		switch status {
		case http.StatusCreated, http.StatusOK, http.StatusConflict:
			c.took = append(c.took, time.Since(began))
			if status == http.StatusOK && again == 0 {
				return false, again, errors.New("a claim that nobody had made was accepted before")
			}
			return status != http.StatusConflict, again, nil
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		default:
			return false, again, fmt.Errorf("the answer has the status %d", status)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false, again, context.Cause(ctx)
		}
	}
}

func putDecimal(to []byte, n int64) {
	for i := len(to) - 1; i >= 0; i-- {
		to[i] = byte('0' + n%10)
		n /= 10
	}
}

var contentLength = []byte("Content-Length: ")

// readAnswer reads an answer and returns its status.
func readAnswer(in *bufio.Reader) (status int, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	const before, after = len("HTTP/1.1 "), len("HTTP/1.1 201")
	if len(line) < after {
		return 0, fmt.Errorf("an answer begins with %q", line)
	}
	if status, err = strconv.Atoi(string(line[before:after])); err != nil {
		return 0, err
	}
	length := 0
	for len(line) > len("\r\n") {
		if line, err = in.ReadSlice('\n'); err != nil {
			return 0, err
		}
		if value, ok := bytes.CutPrefix(line, contentLength); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		}
	}
	_, err = io.CopyN(io.Discard, in, int64(length))
	return status, err
}
