package replicas

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A bare server is what a process of a sale costs at the least: net/http, a message to a
// store and back, and for a request that belongs to another process a message to that one
// and back. It decides nothing, keeps nothing, and tells its peers nothing else.

// messageSize is how long each message is, in bytes: about a commit of one claim. The first
// eight are its number, which the answer repeats.
const messageSize = 300

// line is a connection that carries many messages at once.
type line struct {
	mu      sync.Mutex
	conn    net.Conn
	sent    uint64
	waiting map[uint64]chan struct{} // for the answer to a message
}

func openLine(address string) *line {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		panic(err)
	}
	l := &line{conn: conn, waiting: make(map[uint64]chan struct{})}
	go l.receive()
	return l
}

func (l *line) receive() {
	message := make([]byte, messageSize)
	for r := bufio.NewReader(l.conn); ; {
		if _, err := io.ReadFull(r, message); err != nil {
			return
		}
		number := binary.BigEndian.Uint64(message)
		l.mu.Lock()
		answered := l.waiting[number]
		delete(l.waiting, number)
		l.mu.Unlock()
		close(answered)
	}
}

// ask returns when a message is answered.
func (l *line) ask() {
	message, answered := make([]byte, messageSize), make(chan struct{})
	l.mu.Lock()
	l.sent++
	binary.BigEndian.PutUint64(message, l.sent)
	l.waiting[l.sent] = answered
	_, err := l.conn.Write(message)
	l.mu.Unlock()
	if err != nil {
		panic(err)
	}
	<-answered
}

// answerLines answers each message that comes when do has returned.
func answerLines(at net.Listener, do func()) {
	for {
		conn, err := at.Accept()
		if err != nil {
			return
		}
		go func() {
			var mu sync.Mutex
			for r := bufio.NewReader(conn); ; {
				message := make([]byte, messageSize)
				if _, err := io.ReadFull(r, message); err != nil {
					return
				}
				go func() {
					do()
					mu.Lock()
					defer mu.Unlock()
					_, _ = conn.Write(message)
				}()
			}
		}()
	}
}

// inherited is the listener that a bare program was started with as a descriptor.
func inherited(descriptor uintptr) net.Listener {
	l, err := net.FileListener(os.NewFile(descriptor, ""))
	if err != nil {
		panic(err)
	}
	return l
}

// bareStore is a program that answers each message after a millisecond, which is what a store's
// answer takes.
func bareStore() { answerLines(inherited(3), func() { time.Sleep(time.Millisecond) }) }

// bareServer is a program: its arguments are which of the processes it is, the store's
// address, and where each of the processes takes messages. A request's path names the
// process that it belongs to.
func bareServer() {
	me := os.Args[1]
	store, peers := openLine(os.Args[2]), make(map[string]*line)
	for i, address := range os.Args[3:] {
		peers[strconv.Itoa(i)] = openLine(address)
	}
	peers[me] = store
	go answerLines(inherited(4), store.ask)
	_ = http.Serve(inherited(3), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		peers[strings.TrimPrefix(r.URL.Path, "/")].ask()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"outcome":"sold","claim":{"id":"1-2-3","user":"ada","quantity":1}}`)
	}))
}

// bareServers are processes of which each answers for an equal part of the requests.
type bareServers struct {
	urls []string
	pids []int
}

func startBareServers(t *testing.T, n int) (s bareServers) {
	t.Helper()
	storeAt, store := listenFor(t)
	startBare(t, []*os.File{store}, "bare-store")
	var http, messages []*os.File
	var at []string
	for range n {
		address, file := listenFor(t)
		s.urls, http = append(s.urls, "http://"+address), append(http, file)
		address, file = listenFor(t)
		at, messages = append(at, address), append(messages, file)
	}
	for i := range n {
		args := append([]string{"bare-server", strconv.Itoa(i), storeAt}, at...)
		s.pids = append(s.pids, startBare(t, []*os.File{http[i], messages[i]}, args...))
	}
	return s
}

// listenFor listens for a program that is started later.
func listenFor(t *testing.T) (address string, file *os.File) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if file, err = l.(*net.TCPListener).File(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return l.Addr().String(), file
}

func startBare(t *testing.T, listeners []*os.File, args ...string) (pid int) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr, cmd.ExtraFiles = os.Stderr, listeners
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// ask sends a request that belongs to one of the processes to another, or to the same.
func (s bareServers) ask(transport *http.Transport, owner, at int) error {
	r, err := http.NewRequest(http.MethodPost, fmt.Sprint(s.urls[at], "/", owner), strings.NewReader(`{"user":"ada","key":"key"}`))
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err = io.Copy(io.Discard, response.Body); err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the answer is %s", response.Status)
	}
	return err
}

// TestBareServers: each answers what belongs to any.
func TestBareServers(t *testing.T) {
	s, transport := startBareServers(t, 2), new(http.Transport)
	defer transport.CloseIdleConnections()
	for at := range s.urls {
		for owner := range s.urls {
			if err := s.ask(transport, owner, at); err != nil {
				t.Errorf("process %d on what belongs to %d: %v", at, owner, err)
			}
		}
	}
}

// TestFiguresOfBareServers prints what a request costs one bare server and three, and one
// that gets as many requests as each of the three.
func TestFiguresOfBareServers(t *testing.T) {
	figures(t)
	const rounds, span, rate = 5, 4 * time.Second, 1000
	one, three := startBareServers(t, 1), startBareServers(t, 3)
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	defer transport.CloseIdleConnections()
	kinds := []struct {
		name string
		of   bareServers
		rate int
		know bool // clients know whom a request belongs to
	}{
		{"one", one, rate, true},
		{"three, clients that know nothing", three, rate, false},
		{"three, clients that know", three, rate, true},
		{"one, a third of the requests", one, rate / 3, true},
	}
	costs, ratios := make([][]float64, len(kinds)), make([][]float64, len(kinds))
	for round := range rounds {
		for i, k := range kinds {
			var answered atomic.Int64
			var all sync.WaitGroup
			next, stop := time.NewTimer(0), time.After(span+time.Second/2)
			measures := time.After(time.Second / 2)
			var before int64
			var spent time.Duration
		come:
			for due := time.Now(); ; {
				select {
				case <-measures:
					before, spent = answered.Load(), processor(t, k.of.pids...)
				case <-stop:
					break come
				case <-next.C:
					due = due.Add(time.Duration(rand.ExpFloat64() * float64(time.Second) / float64(k.rate)))
					next.Reset(time.Until(due))
					owner := rand.IntN(len(k.of.urls))
					at := owner
					if !k.know {
						at = rand.IntN(len(k.of.urls))
					}
					all.Go(func() {
						if err := k.of.ask(transport, owner, at); err != nil {
							t.Error(err)
						}
						answered.Add(1)
					})
				}
			}
			n, used := answered.Load()-before, processor(t, k.of.pids...)-spent
			all.Wait()
			costs[i] = append(costs[i], float64(used.Microseconds())/float64(n))
			ratios[i] = append(ratios[i], costs[i][round]/costs[0][round])
		}
	}
	for i, k := range kinds {
		slices.Sort(costs[i])
		slices.Sort(ratios[i])
		t.Logf("%-34s %4.0f µs of processor a request (%.0f to %.0f), %.2f of one process's (%.2f to %.2f)", k.name,
			costs[i][rounds/2], costs[i][0], costs[i][rounds-1], ratios[i][rounds/2], ratios[i][0], ratios[i][rounds-1])
	}
}
