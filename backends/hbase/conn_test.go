package hbase

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// frame is an answer of n bytes with its length before it.
func frame(n int) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(n)), make([]byte, n)...)
}

// trial is a conn whose server is played by a test. All of it runs in a bubble
// where time is the test's.
type trial struct {
	*conn
	server net.Conn
	lost   chan error // gets the error with which the conn was closed
	ended  chan error // gets what ended the reading
}

const patience = 3 * time.Second

func newTrial(t *testing.T, silent int) *trial {
	client, server := net.Pipe()
	tr := &trial{server: server, lost: make(chan error, 1), ended: make(chan error, 1)}
	tr.conn = newConn(client, patience, silent, func(lost error) { tr.lost <- lost })
	go func() {
		_, err := io.Copy(io.Discard, tr.conn)
		tr.ended <- err
	}()
	t.Cleanup(func() { tr.Close(); server.Close() })
	return tr
}

// discard makes the server take requests without a word.
func (tr *trial) discard() { go io.Copy(io.Discard, tr.server) }

// open fails the test if the conn has ended.
func (tr *trial) open(t *testing.T) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-tr.ended:
		t.Fatalf("the connection ended: %v", err)
	default:
	}
}

// endsAfter fails the test unless the conn ends of its deadline within what.
func (tr *trial) endsAfter(t *testing.T, what time.Duration) {
	t.Helper()
	begin := time.Now()
	err := <-tr.ended
	if after := time.Since(begin); !errors.Is(err, os.ErrDeadlineExceeded) || after != what {
		t.Errorf("it ended after %v: %v, want a deadline after %v", after, err, what)
	}
	tr.Close()
	if lost := <-tr.lost; !errors.Is(lost, os.ErrDeadlineExceeded) {
		t.Errorf("it was closed with %v, want the deadline", lost)
	}
}

func TestConnEndsThoughRequestsKeepComing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, 0)
		tr.discard()
		var sending sync.WaitGroup
		sending.Go(func() {
			for range 100 {
				if _, err := tr.Write([]byte("request")); err != nil {
					return
				}
				// What gohbase does with each request.
				tr.SetReadDeadline(time.Now().Add(time.Hour))
				time.Sleep(100 * time.Millisecond)
			}
		})
		tr.endsAfter(t, patience)
		sending.Wait()
	})
}

func TestConnMayBeIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, 1)
		tr.discard()
		tr.Write([]byte("a greeting, which gets no answer"))
		time.Sleep(time.Hour)
		tr.open(t)
		tr.Write([]byte("request"))
		tr.server.Write(frame(10))
		time.Sleep(time.Hour)
		tr.open(t)
		tr.Close()
		if lost := <-tr.lost; lost != nil {
			t.Errorf("a connection without pending answers was reported as lost: %v", lost)
		}
	})
}

func TestConnCountsAnswers(t *testing.T) {
	two := append(frame(5), frame(70_000)...)
	for name, answers := range map[string][][]byte{
		"one by one":      {frame(1), frame(2)},
		"at once":         {two},
		"byte by byte":    split(append(frame(5), frame(9)...), 1),
		"in odd pieces":   split(two, 4093),
		"empty ones":      {frame(0), frame(0)},
		"a cut in a size": {two[:2], two[2:11], two[11:]},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := newTrial(t, 0)
				tr.discard()
				tr.Write([]byte("request"))
				tr.Write([]byte("request"))
				for _, b := range answers {
					tr.server.Write(b)
				}
				time.Sleep(time.Hour)
				tr.open(t)
				tr.Write([]byte("one more"))
				tr.endsAfter(t, patience)
			})
		})
	}
}

func split(b []byte, size int) (pieces [][]byte) {
	for ; len(b) > size; b = b[size:] {
		pieces = append(pieces, b[:size])
	}
	return append(pieces, b)
}

// A server that sends is alive, however long it takes. One that answers others
// is too, but then goes silent.
func TestConnGivesNewPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, 0)
		tr.discard()
		tr.Write([]byte("request"))
		tr.Write([]byte("request"))
		for _, b := range split(frame(100), 10) {
			time.Sleep(patience - time.Millisecond)
			tr.server.Write(b)
		}
		tr.open(t)
		tr.endsAfter(t, patience) // the second was not answered
	})
}

// More writers come all the time, as they do in real life, and none may push the
// deadline of the first one out. They wait for a mutex, which the time of a
// bubble does not pass by: this test takes real time.
func TestConnEndsBlockedWrites(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	c := newConn(client, 100*time.Millisecond, 0, func(error) {})
	var writers sync.WaitGroup
	defer writers.Wait()
	defer c.Close()
	ended := make(chan error, 1)
	more := time.NewTicker(10 * time.Millisecond)
	defer more.Stop()
	for begin := time.Now(); time.Since(begin) < 20*time.Second; {
		writers.Go(func() {
			_, err := c.Write(bytes.Repeat([]byte("x"), 1000))
			select {
			case ended <- err:
			default:
			}
		})
		select {
		case err := <-ended:
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a write ended by %v, want its deadline", err)
			}
			return
		case <-more.C:
		}
	}
	t.Error("writers to a server that takes nothing still wait")
}
