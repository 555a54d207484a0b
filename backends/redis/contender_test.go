package redis

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"salectl/backends/quorum"
)

// A contender is a process of its own that wants leaseKey. The test binary
// becomes one where contenderNodes names the lock nodes.
const (
	contenderNodes = "SALECTL_TEST_CONTENDER_NODES"
	contenderHolds = "SALECTL_TEST_CONTENDER_HOLDS" // for how long it keeps each lease; unset: until it is requested to
)

// contend takes the lease again and again until its input ends. Each line is a request
// with a reply of one line: to "valid?" the number of the lease that is valid now, 0 if
// none is; to "release" an acknowledgement.
func contend(addresses string) int {
	fail := func(err error) int { fmt.Fprintln(os.Stderr, err); return 1 }
	var nodes []quorum.Node
	for _, address := range strings.Split(addresses, ",") {
		n, err := Open(Options{Address: address})
		if err != nil {
			return fail(err)
		}
		nodes = append(nodes, n)
	}
	holds := time.Hour
	if s := os.Getenv(contenderHolds); s != "" {
		var err error
		if holds, err = time.ParseDuration(s); err != nil {
			return fail(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex // guards lease and number
	var lease *quorum.Lease
	number := 0
	var holding sync.WaitGroup
	holding.Go(func() {
		for {
			l, err := quorum.Hold(ctx, nodes, quorum.Config{Marker: marker, TTL: contenderTTL}, leaseKey, quorum.Forever)
			if err != nil {
				return // its input has ended
			}
			mu.Lock()
			lease = l
			number++
			mu.Unlock()
			select {
			case <-time.After(holds):
				l.Release(ctx)
			case <-l.Done():
			}
			<-l.Done()
		}
	})
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		mu.Lock()
		l, n := lease, number
		mu.Unlock()
		answer := 0
		switch {
		case l == nil:
		case in.Text() == "release":
			l.Release(ctx)
		case l.Valid():
			answer = n
		}
		fmt.Println(answer)
	}
	cancel()
	holding.Wait()
	return 0
}

const contenderTTL = quorum.DefaultTTL

// contender is such a process, seen from the test.
type contender struct {
	process *os.Process
	in      io.WriteCloser
	out     *bufio.Reader
	ended   chan struct{}
}

// startContender starts one that the test's end kills.
func startContender(t testing.TB, addresses []string, holds string) (*contender, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), contenderNodes+"="+strings.Join(addresses, ","), contenderHolds+"="+holds)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &contender{process: cmd.Process, in: in, out: bufio.NewReader(out), ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		cmd.Process.Wait()
	}()
	t.Cleanup(func() {
		c.kill()
		in.Close()
		out.Close()
	})
	return c, nil
}

// kill ends it as it stands, and returns when it is gone.
func (c *contender) kill() {
	c.process.Kill()
	<-c.ended
}

// write sends a question, and read takes the answer to the oldest.
func (c *contender) write(question string) error {
	_, err := io.WriteString(c.in, question+"\n")
	return err
}

func (c *contender) read() (lease int, err error) {
	line, err := c.out.ReadString('\n')
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(line, &lease)
	return lease, err
}

func (c *contender) mustRequest(t *testing.T, question string) (lease int) {
	t.Helper()
	if err := c.write(question); err != nil {
		t.Fatal(err)
	}
	lease, err := c.read()
	if err != nil {
		t.Fatal(err)
	}
	return lease
}
