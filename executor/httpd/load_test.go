package httpd

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// load sends claims over a number of keep-alive connections, each waiting for
// its answer before it sends the next. It writes and reads sockets itself,
// because a client that takes longer than the server would make every server
// look alike.
type load struct {
	request []byte
	status  string // what every answer must begin with
	conns   []net.Conn

	sent atomic.Int64 // makes every claim another user's, with another key
	end  int64        // of sent, for the run under way
}

func newLoad(tb testing.TB, addr string, conns int, request []byte, status string) *load {
	tb.Helper()
	l := &load{request: request, status: "HTTP/1.1 " + status}
	for range conns {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { conn.Close() })
		l.conns = append(l.conns, conn)
	}
	return l
}

// secure has the connections of a load speak TLS from here on.
func (l *load) secure(tb testing.TB, c *tls.Config) *load {
	tb.Helper()
	for i, conn := range l.conns {
		over := tls.Client(conn, c)
		if err := over.HandshakeContext(tb.Context()); err != nil {
			tb.Fatal(err)
		}
		l.conns[i] = over
	}
	return l
}

// serial is overwritten with a number that no other claim of the load has.
const serial = "000000000000"

// claimRequest is a claim as a small client would send it.
func claimRequest(path string) []byte {
	body := `{"user": "u-` + serial + `", "quantity": 1}`
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Idempotency-Key: k-%s\r\nContent-Length: %d\r\n\r\n%s", path, serial, len(body), body)
}

// run sends total requests and returns what went wrong.
func (l *load) run(total int) error {
	l.end = l.sent.Load() + int64(total)
	errs := make([]error, len(l.conns))
	var wg sync.WaitGroup
	for i, conn := range l.conns {
		wg.Go(func() { errs[i] = l.one(conn) })
	}
	wg.Wait()
	l.sent.Store(l.end)
	return errors.Join(errs...)
}

func (l *load) one(conn net.Conn) error {
	in := bufio.NewReader(conn)
	request := bytes.Clone(l.request)
	key := bytes.Index(request, []byte(serial))
	user := bytes.LastIndex(request, []byte(serial))
	for {
		number := l.sent.Add(1)
		if number > l.end {
			return nil
		}
		putDecimal(request[key:key+len(serial)], number)
		putDecimal(request[user:user+len(serial)], number)
		if _, err := conn.Write(request); err != nil {
			return err
		}
		if err := readAnswer(in, l.status); err != nil {
			return err
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

func readAnswer(in *bufio.Reader, status string) error {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(line, []byte(status)) {
		return fmt.Errorf("answer %q, want %q", line, status)
	}
	length := 0
	for len(line) > len("\r\n") {
		if line, err = in.ReadSlice('\n'); err != nil {
			return err
		}
		if value, ok := bytes.CutPrefix(line, contentLength); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
	}
	_, err = io.CopyN(io.Discard, in, int64(length))
	return err
}

// start serves with f on a free loopback port until the test ends.
func start(tb testing.TB, f func(context.Context, net.Listener) error) (addr string) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx, l) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Errorf("serve: %v", err)
		}
	})
	return l.Addr().String()
}
