package replicas

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"salectl/api"
	"salectl/internal/services"
	"salectl/internal/services/scripts"
	"salectl/internal/wait"
)

// patience is how long a test waits for what must happen at some time.
const patience = 2 * time.Minute

// sale is one that is applied in a folder of its own, and the processes that serve it.
type sale struct {
	testing.TB
	name   string
	dir    string
	shards int
	began  time.Time
	env    []string // of its processes and commands
	all    []*replica

	// Of all processes: how they are asked.
	transport *http.Transport
	secure    bool                   // over TLS
	token     atomic.Pointer[string] // nil: none is sent

	mu      sync.Mutex
	history []string
}

// terms are what a test wants of a sale.
type terms struct {
	stock, shards int
	ttl           time.Duration
	spec          string   // more lines of the file's spec
	env           []string // as sale has it
}

// applied counts sales, so that a test that runs again has another.
var applied atomic.Int64

// apply applies a sale with the name of the test.
func apply(t testing.TB, where store, o terms) *sale {
	t.Helper()
	name := strings.ToLower(strings.Trim(regexp.MustCompile(`[^A-Za-z]+`).ReplaceAllString(strings.TrimPrefix(t.Name(), "Test"), "-"), "-"))
	return applyAs(t, fmt.Sprintf("%s-%d", name[:min(len(name), 36)], applied.Add(1)), where, o)
}

func applyAs(t testing.TB, name string, where store, o terms) *sale {
	t.Helper()
	s := &sale{TB: t, name: name, shards: o.shards, env: o.env, dir: folder(t), began: time.Now(), transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	t.Cleanup(s.transport.CloseIdleConnections)
	text := fmt.Sprintf("apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: %s}\nspec:\n  stock: %d\n  lockCount: %d\n  lock: {ttl: %v}\n%s%s",
		s.name, o.stock, o.shards, o.ttl, o.spec, where(t, s.name))
	if err := os.WriteFile(filepath.Join(s.dir, "sale.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.tell)
	s.well("apply", "--yes")
	return s
}

// newFolder makes a folder, in memory where the system has one for files: a disk that other tests
// keep busy would hold up the appends of a store for seconds, and claims with them.
func newFolder() (string, error) {
	dir, err := os.MkdirTemp("/dev/shm", "salectl-replicas-")
	if err != nil {
		dir, err = os.MkdirTemp("", "salectl-replicas-")
	}
	return dir, err
}

// folder returns a folder of newFolder that the test's end removes.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := newFolder()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// bearer is the token that is sent; "": none.
func (s *sale) bearer() string {
	if token := s.token.Load(); token != nil {
		return *token
	}
	return ""
}

// get asks a process for something below the sale, with a token.
func (s *sale) get(address, path, token string) (*http.Response, error) {
	r, err := http.NewRequest(http.MethodGet, s.url(address)+"/v1/sales/"+s.name+path, nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := s.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response, errors.Join(err, response.Body.Close())
}

// url is how an address is asked.
func (s *sale) url(address string) string {
	if s.secure {
		return "https://" + address
	}
	return "http://" + address
}

// note keeps what has happened. It is told if the test fails.
func (s *sale) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history = append(s.history, fmt.Sprintf("%6d ms %s: %s", time.Since(s.began).Milliseconds(), time.Now().UTC().Format("15:04:05.000"), fmt.Sprintf(format, args...)))
}

func (s *sale) tell() {
	if !s.Failed() && !testing.Verbose() {
		return
	}
	s.mu.Lock()
	s.Logf("what has happened:\n%s", strings.Join(s.history, "\n"))
	s.mu.Unlock()
	if s.Failed() || os.Getenv("SALECTL_TEST_LOGS") != "" {
		for _, r := range s.all {
			s.Logf("%s said:\n%s", r.name, r.said())
		}
	}
}

// well runs a command that must end well, and returns what it has printed.
func (s *sale) well(args ...string) string {
	s.Helper()
	cmd := exec.Command("salectl", append(args, "-f", "sale.yaml")...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), s.env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// replica is one of the processes of a sale, start after start at the same address.
type replica struct {
	sale          *sale
	name          string
	listen, admin string
	called        string // where its peers reach it
	args          []string
	env           []string
	cmd           *exec.Cmd
	ended         chan struct{} // closed when the process is gone

	mu   sync.Mutex
	text bytes.Buffer
}

// add starts one more process, and does not wait for it.
func (s *sale) add(args ...string) *replica {
	s.Helper()
	r := s.prepare(args...)
	r.start()
	return r
}

// prepare makes room for a process.
func (s *sale) prepare(args ...string) *replica {
	s.Helper()
	r := &replica{sale: s, name: fmt.Sprint("replica ", len(s.all)+1), listen: scripts.FreeAddress(s), admin: scripts.FreeAddress(s), args: args}
	r.called = r.listen
	s.all = append(s.all, r)
	s.Cleanup(func() {
		if r.cmd != nil {
			r.signal(syscall.SIGCONT)
			if profiles != "" { // which are written at the end
				r.signal(syscall.SIGTERM)
				<-r.ended
			}
			r.cmd.Process.Kill()
			<-r.ended
		}
	})
	return r
}

// start starts the process.
func (r *replica) start() {
	r.sale.Helper()
	r.cmd = exec.Command("salectl", append([]string{"serve", "-f", "sale.yaml", "--listen", r.listen, "--admin-listen", r.admin}, r.args...)...)
	r.cmd.Dir, r.cmd.Stdout, r.cmd.Stderr, r.cmd.Env = r.sale.dir, r, r, slices.Concat(os.Environ(), r.sale.env, r.env)
	if err := r.cmd.Start(); err != nil {
		r.sale.Fatal(err)
	}
	r.sale.note("%s starts: process %d at %s", r.name, r.cmd.Process.Pid, r.listen)
	cmd, ended := r.cmd, make(chan struct{})
	r.ended = ended
	go func() { cmd.Wait(); close(ended) }()
}

func (r *replica) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *replica) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func (r *replica) signal(s syscall.Signal) {
	r.sale.note("%s gets %v", r.name, s)
	_ = services.Signal(r.cmd.Process, s)
}

// stop ends the process in good order.
func (r *replica) stop() {
	r.sale.Helper()
	r.signal(syscall.SIGTERM)
	r.await()
	if code := r.cmd.ProcessState.ExitCode(); code != 0 {
		r.sale.Errorf("%s ended with %d, want 0", r.name, code)
	}
}

// kill ends it with SIGKILL.
func (r *replica) kill() {
	r.signal(syscall.SIGKILL)
	r.await()
}

// shards are those that a process owns.
func (r *replica) shards() map[int]bool {
	r.sale.Helper()
	by, err := r.owners()
	if err != nil {
		r.sale.Fatal(err)
	}
	mine := make(map[int]bool)
	for i, owner := range by {
		if owner == r.called {
			mine[i] = true
		}
	}
	return mine
}

func (r *replica) await() {
	r.sale.Helper()
	select {
	case <-r.ended:
		r.sale.note("%s is gone", r.name)
	case <-time.After(patience):
		r.sale.Fatalf("%s has not ended in %v", r.name, patience)
	}
}

// ready waits until the process answers for every shard, its own or a peer's.
func (r *replica) ready() {
	r.sale.Helper()
	client, err := api.NewClient(api.Config{Servers: []string{r.sale.url(r.admin)}, Transport: r.sale.transport, Timeout: 2 * time.Second})
	if err != nil {
		r.sale.Fatal(err)
	}
	r.sale.eventually(func() error {
		select {
		case <-r.ended:
			r.sale.Fatalf("%s has ended", r.name)
		default:
		}
		ready, err := client.Ready(context.Background())
		if err == nil && !ready.Ready {
			err = fmt.Errorf("%s is not ready: %+v", r.name, ready)
		}
		return err
	})
	r.sale.note("%s is ready", r.name)
}

// eventually tries until it works.
func (s *sale) eventually(try func() error) {
	s.Helper()
	if err := wait.Poll(patience, try); err != nil {
		s.Fatal(err)
	}
}

// three starts three processes, and returns when each owns its share and answers for all.
func (s *sale) three() []*replica {
	s.Helper()
	for range 3 {
		s.add()
	}
	s.settled()
	for _, r := range s.all {
		r.ready()
	}
	return s.all
}

// owners asks a process who owns each shard.
func (r *replica) owners() (by []string, err error) {
	by = make([]string, r.sale.shards)
	known := 0
	for i := 0; known < len(by) && i < 64*len(by); i++ {
		user := fmt.Sprint("nobody-", i)
		shard := homeShard(user, len(by))
		if by[shard] != "" {
			continue
		}
		response, err := r.sale.get(r.listen, "/users/"+user, r.sale.bearer())
		if err != nil {
			return nil, err
		}
		if by[shard] = response.Header.Get(api.OwnerHeader); by[shard] == "" {
			return nil, fmt.Errorf("%s knows no owner of shard %d: %s", r.name, shard, response.Status)
		}
		known++
	}
	return by, nil
}

// alive are the processes that run.
func (s *sale) alive() (all []*replica) {
	for _, r := range s.all {
		if r.cmd == nil {
			continue
		}
		select {
		case <-r.ended:
		default:
			all = append(all, r)
		}
	}
	return all
}

// ownsAll reports whether those own all shards, by what the process knows; nil: they do.
func (r *replica) ownsAll(those []*replica) error {
	by, err := r.owners()
	if err != nil {
		return err
	}
	for i, owner := range by {
		if !slices.ContainsFunc(those, func(r *replica) bool { return r.called == owner }) {
			return fmt.Errorf("%s says that %s owns shard %d", r.name, owner, i)
		}
	}
	return nil
}

// settled waits until all processes agree who owns what, and nobody has more than the
// ceiling.
func (s *sale) settled() {
	s.Helper()
	s.eventually(func() error {
		alive := s.alive()
		var first []string
		for _, r := range alive {
			by, err := r.owners()
			if err != nil {
				return err
			}
			count := make(map[string]int)
			for i, owner := range by {
				if first != nil && first[i] != owner {
					return fmt.Errorf("%s says that %s owns shard %d, another one says %s", r.name, owner, i, first[i])
				}
				count[owner]++
			}
			first = by
			for owner, n := range count {
				if most := (s.shards + len(alive) - 1) / len(alive); n > most || len(count) != min(len(alive), s.shards) {
					return fmt.Errorf("%s owns %d shards of %d; there are %d processes, and %d of them own any", owner, n, s.shards, len(alive), len(count))
				}
			}
		}
		return nil
	})
	s.note("%d processes have their shares", len(s.alive()))
}
