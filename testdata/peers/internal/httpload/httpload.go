// Package httpload makes claims over HTTP/1.1 by keep-alive connections that each wait for
// an answer before they ask again.
//
// It writes and reads sockets itself, as the benchmarks of package httpd do: a client that
// takes longer than the server would make every server look alike. It still shares the
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
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Load is some connections to one server.
type Load struct {
	request []byte
	conns   []*connection
	each    int64 // how often each user asks
	asked   atomic.Int64
}

// connection is one caller.
type connection struct {
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

// DialTwice is Dial where every user asks twice, each time with another key.
func DialTwice(address, path string, connections int) (*Load, error) {
	return dial(address, path, connections, 2)
}

func dial(address, path string, connections int, each int64) (*Load, error) {
	body := `{"user": "u-` + serial + `", "quantity": 1}`
	l := &Load{each: each, request: fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Idempotency-Key: k-%s\r\nContent-Length: %d\r\n\r\n%s", path, serial, len(body), body)}
	for range connections {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		request := bytes.Clone(l.request)
		key, user := bytes.Index(request, []byte(serial)), bytes.LastIndex(request, []byte(serial))
		l.conns = append(l.conns, &connection{
			Conn: conn, in: bufio.NewReaderSize(conn, 1024), request: request,
			key: request[key : key+len(serial)], user: request[user : user+len(serial)],
		})
	}
	return l, nil
}

// Close closes the connections.
func (l *Load) Close() error {
	var errs []error
	for _, c := range l.conns {
		errs = append(errs, c.Conn.Close())
	}
	return errors.Join(errs...)
}

// Run makes claims for a time, or until n were made. An answer that is neither 201 nor 409,
// or the end of ctx, ends it with an error.
func (l *Load) Run(ctx context.Context, d time.Duration, n int64) (Result, error) {
	runtime.GC() // what others left behind is not its burden
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	last := l.asked.Load() + n
	if last < n {
		last = n // it would be more than a number can say
	}
	var sold, refused atomic.Int64
	var over atomic.Bool
	var all sync.WaitGroup
	begin := time.Now()
	for _, c := range l.conns {
		c.took = c.took[:0]
		all.Go(func() {
			for !over.Load() {
				number := l.asked.Add(1)
				if number > last {
					return
				}
				granted, err := c.claim(number, (number-1)/l.each)
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
	l.asked.Store(min(l.asked.Load(), last)) // those who found that all were made have counted on
	return Result{rate, sold.Load(), refused.Load(), l.histogram()}, context.Cause(ctx)
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

// claim makes one claim and says whether it was granted.
func (c *connection) claim(key, user int64) (bool, error) {
	putDecimal(c.key, key)
	putDecimal(c.user, user)
	began := time.Now()
	if _, err := c.Write(c.request); err != nil {
		return false, err
	}
	granted, err := readAnswer(c.in)
	c.took = append(c.took, time.Since(began))
	return granted, err
}

func putDecimal(to []byte, n int64) {
	for i := len(to) - 1; i >= 0; i-- {
		to[i] = byte('0' + n%10)
		n /= 10
	}
}

var contentLength = []byte("Content-Length: ")

// readAnswer says whether an answer is 201. It is an error if it is not 409 either.
func readAnswer(in *bufio.Reader) (granted bool, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return false, err
	}
	granted = bytes.HasPrefix(line, []byte("HTTP/1.1 201"))
	if !granted && !bytes.HasPrefix(line, []byte("HTTP/1.1 409")) {
		rest, _ := in.Peek(in.Buffered())
		return false, fmt.Errorf("answer %q %q", line, rest)
	}
	length := 0
	for len(line) > len("\r\n") {
		if line, err = in.ReadSlice('\n'); err != nil {
			return false, err
		}
		if value, ok := bytes.CutPrefix(line, contentLength); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return false, err
			}
		}
	}
	_, err = io.CopyN(io.Discard, in, int64(length))
	return granted, err
}
