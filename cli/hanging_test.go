package cli

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"salectl/backends"
	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/spec"
)

// hanging counts the calls of a store or of lock nodes. From a call on, none is answered.
type hanging struct {
	made atomic.Int64
	from int64 // 0: all are answered
}

// call counts a call, and waits for the end of ctx if it is not answered.
func (h *hanging) call(ctx context.Context) error {
	if n := h.made.Add(1); h.from == 0 || n < h.from {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

type hangingLogs struct {
	ledger.Lister
	*hanging
}

func (l hangingLogs) List(ctx context.Context, prefix string) ([]string, error) {
	if err := l.call(ctx); err != nil {
		return nil, err
	}
	return l.Lister.List(ctx, prefix)
}

func (l hangingLogs) Append(ctx context.Context, log string, slot uint64, prev, head, entry []byte) error {
	if err := l.call(ctx); err != nil {
		return err
	}
	return l.Lister.Append(ctx, log, slot, prev, head, entry)
}

func (l hangingLogs) Read(ctx context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	if err := l.call(ctx); err != nil {
		return nil, nil, err
	}
	return l.Lister.Read(ctx, log, from, max)
}

func (l hangingLogs) Heads(ctx context.Context, logs []string) ([][]byte, error) {
	if err := l.call(ctx); err != nil {
		return nil, err
	}
	return l.Lister.Heads(ctx, logs)
}

func (l hangingLogs) Delete(ctx context.Context, log string, upTo uint64) error {
	if err := l.call(ctx); err != nil {
		return err
	}
	return l.Lister.Delete(ctx, log, upTo)
}

// hangingNode is one of all lock nodes, which hang together.
type hangingNode struct {
	quorum.Node
	*hanging
}

func (n hangingNode) Info(ctx context.Context) (quorum.Info, error) {
	if err := n.call(ctx); err != nil {
		return quorum.Info{}, err
	}
	return n.Node.Info(ctx)
}

func (n hangingNode) Mark(ctx context.Context, marker, runID string) error {
	if err := n.call(ctx); err != nil {
		return err
	}
	return n.Node.Mark(ctx, marker, runID)
}

func (n hangingNode) Vote(ctx context.Context, b quorum.Ballot) (quorum.BallotReply, error) {
	if err := n.call(ctx); err != nil {
		return quorum.BallotReply{}, err
	}
	return n.Node.Vote(ctx, b)
}

func (n hangingNode) Release(ctx context.Context, asks []quorum.LeaseRequest) (int, error) {
	if err := n.call(ctx); err != nil {
		return 0, err
	}
	return n.Node.Release(ctx, asks)
}

func (n hangingNode) List(ctx context.Context, prefix string) ([]quorum.Holding, error) {
	if err := n.call(ctx); err != nil {
		return nil, err
	}
	return n.Node.List(ctx, prefix)
}

func (n hangingNode) ReadMarker(ctx context.Context, marker string) (quorum.Marker, error) {
	if err := n.call(ctx); err != nil {
		return quorum.Marker{}, err
	}
	return n.Node.ReadMarker(ctx, marker)
}

func (n hangingNode) Forget(ctx context.Context, marker string) error {
	if err := n.call(ctx); err != nil {
		return err
	}
	return n.Node.Forget(ctx, marker)
}

func (n hangingNode) Meet(ctx context.Context, room string, m quorum.Member, ttl time.Duration) ([]quorum.Member, error) {
	if err := n.call(ctx); err != nil {
		return nil, err
	}
	return n.Node.Announce(ctx, room, m, ttl)
}

// hangingHome is a home in memory with its store and nodes behind calls that may hang.
type hangingHome struct {
	*memoryHome
	store, locks hanging
}

func (h *hangingHome) drivers() drivers {
	d := h.memoryHome.drivers()
	openNodes := d.nodes
	d.nodes = func(sale spec.Sale) ([]quorum.Node, func() error, error) {
		nodes, closeNodes, err := openNodes(sale)
		for i, n := range nodes {
			nodes[i] = hangingNode{n, &h.locks}
		}
		return nodes, closeNodes, err
	}
	d.open = func(sale spec.Sale, _ *slog.Logger) (*backends.Store, error) {
		nodes, _, _ := d.nodes(sale) // never fails
		return &backends.Store{
			Name: "memory", Remedy: "Look at the memory.", Logs: hangingLogs{h.logs.Handle(nil), &h.store}, Nodes: nodes,
		}, nil
	}
	return d
}

// hangTimeout is what the commands are given, and hangSlack how much later they may end: what is
// under way then may be given up only after a while of its own.
const (
	hangTimeout = time.Second
	hangSlack   = time.Second
)

// hangs runs a command of a sale that earlier commands have brought to where it is to be, with all
// calls of the store (or of the lock nodes) unanswered from one on; 0: all are answered. It returns how
// many were made.
func hangs(t *testing.T, before []string, command string, locks bool, from int64, check func(code int, took time.Duration, said string)) (made int64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "sale.yaml")
		text := "apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: tickets}\nspec: {stock: 10, lockCount: 2, lock: {ttl: 2s}, embedded: {}}\n"
		if strings.HasPrefix(command, "draw") {
			text = strings.Replace(text, "embedded: {}", `embedded: {}, queue: {order: draw}, closesAt: "2000-01-01T00:00:30Z", draw: {keyEnv: DRAW_KEY}`, 1)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		h := &hangingHome{memoryHome: newMemoryHome(t)}
		run := func(line string) (int, string) {
			line = strings.ReplaceAll(strings.ReplaceAll(line, "FILE", path), "DIR", dir)
			c := newCapture()
			c.drivers = h.drivers()
			code := c.run(append([]string{"salectl"}, strings.Fields(line)...), nil)
			return code, c.out.String() + c.err.String()
		}
		for _, line := range before {
			if line == "wait" {
				time.Sleep(31 * time.Second) // the draw closes
				continue
			}
			if code, said := run(line); code != 0 {
				t.Fatalf("%s: exit code %d\n%s", line, code, said)
			}
		}
		which := &h.store
		if locks {
			which = &h.locks
		}
		which.made.Store(0)
		which.from = from
		began := time.Now()
		code, said := run(command)
		check(code, time.Since(began), said)
		made = which.made.Load()
	})
	return made
}

// Each command ends in its time whichever call of the store, or of the lock nodes, is the first that
// nobody answers any more, and says what did not answer.
func TestWhicheverCallHangs(t *testing.T) {
	t.Setenv("DRAW_KEY", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	applied := []string{"apply -f FILE --yes"}
	closed := append(applied, "wait")
	const (
		in      = hangTimeout + hangSlack
		what    = `(the sale's log|log (sale|[0-9a-f]{2}/[0-9a-f]{16})/|the heads of the shards|appending|shards|deleting|prefix)`
		store   = `(?s)timed out after 1s.*` + what + `|` + what + `.*timed out after 1s`
		nodes   = `(?s)timed out after 1s.*(read: the lock nodes|(reading|marking|cleaning|for) the lock nodes)`
		outage  = `access to the ledger failed: it was not read in 500ms`
		unheard = `lock node memory-\d: context deadline exceeded`
	)
	for name, c := range map[string]struct {
		before  []string
		command string
		codes   []int
		in      time.Duration
		store   string // what is said when the store hangs, as a regular expression
		nodes   string // and when the lock nodes do
		noBound bool   // the command has a bound of its own
	}{
		"plan of a new sale": {command: "plan -f FILE"},
		"plan":               {before: applied, command: "plan -f FILE"},
		"apply":              {command: "apply -f FILE --yes", codes: []int{exitTimeout, exitPartly}},
		"apply again":        {before: applied, command: "apply -f FILE --yes"},
		"pause":              {before: applied, command: "pause -f FILE", codes: []int{exitTimeout, exitPartly}},
		"close":              {before: applied, command: "close -f FILE --yes", codes: []int{exitTimeout, exitPartly}},
		"destroy":            {before: applied, command: "destroy -f FILE --yes --out DIR/x.ndjson", codes: []int{exitTimeout, exitPartly}},
		"audit":              {before: applied, command: "audit -f FILE"},
		"audit of a user":    {before: applied, command: "audit -f FILE --user u"},
		"export":             {before: applied, command: "export -f FILE --out DIR/x.ndjson"},
		"export as CSV":      {before: applied, command: "export -f FILE --csv --out DIR/x.csv"},
		"list":               {before: applied, command: "list -f FILE", store: `the memory of a test: timed out after 1s|timed out after 1s: sale tickets|sale tickets: .*timed out after 1s`},
		"history":            {before: applied, command: "history -f FILE"},
		"draw close":         {before: closed, command: "draw close -f FILE", codes: []int{exitTimeout, exitPartly}},
		"draw reveal":        {before: closed, command: "draw reveal -f FILE --yes", codes: []int{exitTimeout, exitPartly}},
		// It asks the lock nodes and a server when the ledger does not answer, and then it is no timeout.
		"status":    {before: applied, command: "status -f FILE", codes: []int{exitError, exitTimeout}, in: hangTimeout/2 + outageTimeout, store: outage},
		"processes": {before: applied, command: "processes -f FILE", codes: []int{exitError, exitTimeout}, in: hangTimeout/2 + outageTimeout, store: outage},
		// It tells what it could read.
		"lock list": {before: applied, command: "lock list -f FILE", codes: []int{exitOK, exitTimeout}, in: 8 * time.Second, noBound: true,
			store: `the ledger of tickets cannot be read \(no answer in time\)`, nodes: unheard},
	} {
		for end, said := range map[string]string{"the store": cmp.Or(c.store, store), "the lock nodes": cmp.Or(c.nodes, nodes)} {
			t.Run(name+", "+end, func(t *testing.T) {
				command, locks := c.command, end == "the lock nodes"
				if !c.noBound {
					command += " --timeout " + hangTimeout.String()
				}
				codes := c.codes
				if codes == nil {
					codes = []int{exitTimeout}
				}
				calls := hangs(t, c.before, command, locks, 0, func(code int, _ time.Duration, said string) {
					if code != exitOK {
						t.Fatalf("exit code %d\n%s", code, said)
					}
				})
				if calls == 0 && !locks {
					t.Error("the store was not called")
				}
				for k := int64(1); k <= calls; k++ {
					hangs(t, c.before, command, locks, k, func(code int, took time.Duration, text string) {
						if !slices.Contains(codes, code) || took > cmp.Or(c.in, in) || !regexp.MustCompile(said).MatchString(text) {
							t.Errorf("call %d of %d hangs: exit code %d after %v\n%s", k, calls, code, took, text)
						}
					})
				}
			})
		}
	}
}

// Status waits for the ledger for half of its time, and for silent lock nodes as long as these may take: it
// shows what the ledger has.
func TestStatusOfSilentLockNodes(t *testing.T) {
	for command, c := range map[string]struct {
		code int
		want string
	}{
		"status -f FILE --timeout 3s": {exitOK, `(?s)^tickets: stalled.*memory-0 .*down .*no answer in time`},
		"status -f FILE --timeout 1s": {exitTimeout, `^Error: sale tickets: timed out after 1s \(read: the lock nodes\)\n`},
		"status -f FILE --timeout 1s --wait-for open": {exitTimeout,
			`^Error: timed out after 1s: it is unknown whether sale tickets is open: sale tickets: .*\(read: the lock nodes\)\n`},
	} {
		hangs(t, []string{"apply -f FILE --yes"}, command, true, 1, func(code int, _ time.Duration, said string) {
			if code != c.code || !regexp.MustCompile(c.want).MatchString(said) {
				t.Errorf("%s: exit code %d\n%s", command, code, said)
			}
		})
	}
}
