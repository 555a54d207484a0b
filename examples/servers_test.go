package examples

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
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"

	"salectl/api"
	"salectl/internal/services"
	"salectl/internal/services/scripts"
	"salectl/internal/wait"
)

// servers are what one script runs on: lock nodes of its own, and an HBase that
// it shares with those that do not break it.
type servers struct {
	t     *testing.T
	redis []*services.Redis
	hbase *services.HBase
	table string
	serve map[string]*exec.Cmd

	orders follower // of the sale

	appends map[string]string // what processes had appended at the last call of a script, by admin address
}

type serversKey struct{}

func serversOf(ts *testscript.TestScript) *servers { return ts.Value(serversKey{}).(*servers) }

// shared is the HBase of all scripts that break nothing, from the first of them
// to the end of the tests.
var (
	shared = sync.OnceValues(func() (h *services.HBase, err error) {
		h, err = services.StartHBase(context.Background(), services.HBaseOptions{})
		if err == nil {
			stopShared = h.Stop
		}
		return h, err
	})
	stopShared = func() {}

	// sharedTables counts the tables there, each of which has a number of its own: a test that is
	// run again does not find what it left.
	sharedTables atomic.Int64
)

// scriptCluster is "cluster N [own]": N Redis and an HBase, of the script's own
// if it says so, and sale.yaml, the cluster's example, which names them.
func scriptCluster(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: cluster N [own]")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	s := serversOf(ts)
	s.startRedis(ts, n)
	s.startHBase(ts, len(args) > 1)
	s.example(ts, "movie-tickets-cluster", append(s.places(), change{threeNodes, s.nodes()})...)
}

// scriptDraws is "draws N": starts so many Redis, and names an HBase, for the draw on servers.
func scriptDraws(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: draws N")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	s := serversOf(ts)
	s.startRedis(ts, n)
	s.startHBase(ts, false)
	s.example(ts, "sneaker-draw-cluster", append(s.places(), change{threeNodes, s.nodes()})...)
}

// threeNodes are the Redis that examples name.
const threeNodes = `["127.0.0.1:16379", "127.0.0.1:16380", "127.0.0.1:16381"]`

// startRedis starts so many, each with the given arguments.
func (s *servers) startRedis(ts *testscript.TestScript, n int, args ...string) {
	for i := range n {
		node, err := services.StartRedis(context.Background(), services.RedisOptions{
			Dir: filepath.Join(s.t.TempDir(), fmt.Sprint(i)), Args: args,
		})
		services.Require(s.t, err)
		ts.Defer(func() { node.Stop() })
		s.redis = append(s.redis, node)
		ts.Setenv(fmt.Sprint("REDIS", i+1), node.Addr())
	}
}

// startHBase starts one for the script alone, or names the shared one.
func (s *servers) startHBase(ts *testscript.TestScript, own bool) {
	var err error
	if own {
		s.hbase, err = services.StartHBase(context.Background(), services.HBaseOptions{Dir: s.t.TempDir()})
		services.Require(s.t, err)
		ts.Defer(func() { s.hbase.Stop() })
	} else {
		s.hbase, err = shared()
		services.Require(s.t, err)
	}
	s.table = fmt.Sprint("sales_", strings.ReplaceAll(filepath.Base(ts.Getenv("WORK")), "-", "_"), "_", sharedTables.Add(1))
}

// change is what a script has otherwise than an example.
type change struct{ from, to string }

// nodes are the script's Redis as a file names them.
func (s *servers) nodes() string {
	var all []string
	for _, node := range s.redis {
		all = append(all, strconv.Quote(node.Addr()))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// places are where the script has its ledger, instead of where an example has it.
func (s *servers) places() []change {
	return []change{{`"127.0.0.1:12181"`, strconv.Quote(s.hbase.Zookeeper())}, {"table: sales", "table: " + s.table}}
}

// example writes sale.yaml, the example of that name with changes.
func (s *servers) example(ts *testscript.TestScript, name string, changes ...change) {
	example, err := os.ReadFile(filepath.Join(ts.Getenv("EXAMPLES"), name, "sale.yaml"))
	ts.Check(err)
	text := string(example)
	for _, c := range changes {
		if !strings.Contains(text, c.from) {
			ts.Fatalf("the example does not have %s any more", c.from)
		}
		text = strings.Replace(text, c.from, c.to, 1)
	}
	ts.Check(os.WriteFile(ts.MkAbs("sale.yaml"), []byte(text), 0o600))
}

// scriptServer is "server kill|pause|continue|start redis-N|hbase".
func scriptServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: server kill|pause|continue|start redis-N|hbase")
	}
	s := serversOf(ts)
	var server interface {
		Kill() error
		Pause() error
		Continue() error
		Start(context.Context) error
	} = s.hbase
	if n, ok := strings.CutPrefix(args[1], "redis-"); ok {
		i, err := strconv.Atoi(n)
		ts.Check(err)
		server = s.redis[i-1]
	}
	switch args[0] {
	case "kill":
		ts.Check(server.Kill())
	case "pause":
		ts.Check(server.Pause())
	case "continue":
		ts.Check(server.Continue())
	case "start":
		ts.Check(server.Start(context.Background()))
	default:
		ts.Fatalf("no such action: %s", args[0])
	}
}

// scriptServe is "serve NAME LISTEN ADMIN": a process that serves sale.yaml.
// Its output is in the file NAME.log.
func scriptServe(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: serve NAME LISTEN ADMIN")
	}
	s := serversOf(ts)
	program, err := exec.LookPath("salectl")
	ts.Check(err)
	log, err := os.Create(ts.MkAbs(args[0] + ".log"))
	ts.Check(err)
	cmd := exec.Command(program, "serve", "--listen", args[1], "--admin-listen", args[2])
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = ts.MkAbs("."), log, log, append(os.Environ(), secretsFor(ts)...)
	ts.Check(cmd.Start())
	if s.serve == nil {
		s.serve = map[string]*exec.Cmd{}
	}
	s.serve[args[0]] = cmd
	ts.Defer(func() {
		cmd.Process.Signal(syscall.SIGCONT)
		cmd.Process.Kill()
		cmd.Wait()
		log.Close()
		output, _ := os.ReadFile(log.Name())
		ts.Logf("output of %s at its end:\n%s", args[0], output[max(0, len(output)-4_000):]) // is shown of a script that failed
	})
}

// scriptSignal is "signal NAME KILL|TERM|STOP|CONT": to a process of "serve".
// It waits for the end of one that it ends.
func scriptSignal(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]syscall.Signal{"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT}
	if neg || len(args) != 2 || signals[args[1]] == 0 {
		ts.Fatalf("usage: signal NAME KILL|TERM|STOP|CONT")
	}
	cmd := serversOf(ts).serve[args[0]]
	ts.Check(services.Signal(cmd.Process, signals[args[1]]))
	switch args[1] {
	case "KILL":
		cmd.Wait()
	case "TERM":
		ts.Check(cmd.Wait())
	}
}

// scriptAppends is "[!] appends ADMIN": the process has appended to logs, or tried to, since
// the last call of the script; with ! it has not. The first time it only takes note.
func scriptAppends(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] appends ADMIN")
	}
	response, err := http.Get("http://" + args[0] + "/metrics")
	ts.Check(err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	ts.Check(err)
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "salectl_appends_total{") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		ts.Fatalf("%s reports nothing of its appends", args[0])
	}
	slices.Sort(lines)
	s, now := serversOf(ts), strings.Join(lines, "")
	before, known := s.appends[args[0]]
	if known && (before == now) != neg {
		ts.Fatalf("the appends of %s were\n%sand are\n%s", args[0], before, now)
	}
	if s.appends == nil {
		s.appends = map[string]string{}
	}
	s.appends[args[0]] = now
}

// scriptOutcome is "outcome CLAIMS,CLAIMS USER OUTCOME...": the user claims a unit again
// and again with one key, until the outcome is one of those.
func scriptOutcome(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: outcome CLAIMS USER OUTCOME...")
	}
	urls, sale := salesAt(args[0])
	scripts.Eventually(ts, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), wait.Limit)
		defer cancel()
		client, err := api.NewClient(api.Config{
			Servers: urls, Sale: sale, Timeout: 15 * time.Second, MaxWait: 80 * time.Millisecond, Later: true,
			Attempted: func(a api.Attempt) bool {
				return a.Answer == nil || !slices.Contains(args[2:], string(a.Answer.Outcome))
			},
		})
		if err != nil {
			return err
		}
		a, err := client.Claim(ctx, request(args[1]))
		if !slices.Contains(args[2:], string(a.Outcome)) {
			return fmt.Errorf("%s at %s: %q, %v; want %q", args[1], args[0], a.Outcome, err, args[2:])
		}
		return nil
	})
}

// scriptKeys is "keys N": so many keys are on all Redis together.
func scriptKeys(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: keys N")
	}
	var keys []string
	for _, node := range serversOf(ts).redis {
		client := redis.NewClient(&redis.Options{Addr: node.Addr()})
		found, err := client.Keys(context.Background(), "*").Result()
		ts.Check(errors.Join(err, client.Close()))
		keys = append(keys, found...)
	}
	if fmt.Sprint(len(keys)) != args[0] {
		ts.Fatalf("the Redis have the keys %q, want %s", keys, args[0])
	}
}

// scriptRows is "rows ROW...": those rows are in the sale's table and no others.
func scriptRows(ts *testscript.TestScript, neg bool, args []string) {
	s := serversOf(ts)
	var rows []string
	s.scan(ts, func(row *hrpc.Result) { rows = append(rows, string(row.Cells[0].Row)) })
	if !slices.Equal(rows, args) {
		ts.Fatalf("the table has the rows %q, want %q", rows, args)
	}
}

// scriptCells is "[!] cells TEXT": some cell of the table has the text in it.
func scriptCells(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] cells TEXT")
	}
	found := ""
	serversOf(ts).scan(ts, func(row *hrpc.Result) {
		for _, cell := range row.Cells {
			if bytes.Contains(cell.Value, []byte(args[0])) {
				found = string(cell.Row)
			}
		}
	})
	if (found == "") != neg {
		ts.Fatalf("%q is in row %q", args[0], found)
	}
}

// scriptLose is "lose SUFFIX [head]": the row of the sale's table whose name ends so is deleted, or
// its head alone. $LOST is its name then.
func scriptLose(ts *testscript.TestScript, neg bool, args []string) {
	var cells map[string]map[string][]byte // nil: all
	switch {
	case !neg && len(args) == 1:
	case !neg && len(args) == 2 && args[1] == "head":
		cells = map[string]map[string][]byte{"s": {"h": nil}}
	default:
		ts.Fatalf("usage: lose SUFFIX [head]")
	}
	s, row := serversOf(ts), ""
	s.scan(ts, func(r *hrpc.Result) {
		if name := string(r.Cells[0].Row); strings.HasSuffix(name, args[0]) {
			row = name
		}
	})
	ts.Setenv("LOST", row)
	client := gohbase.NewClient(s.hbase.Zookeeper())
	defer client.Close()
	del, err := hrpc.NewDelStr(context.Background(), s.table, row, cells)
	ts.Check(err)
	_, err = client.Delete(del)
	ts.Check(err)
}

// scriptSnapshot is "snapshot NAME": of the sale's table, as 'snapshot' of the HBase shell. HBase
// writes what it has of the table in memory to files for it, and forgets what was deleted there.
func scriptSnapshot(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: snapshot NAME")
	}
	s := serversOf(ts)
	snapshot, err := hrpc.NewSnapshot(context.Background(), s.table+"_"+args[0], s.table)
	ts.Check(err)
	ts.Check(gohbase.NewAdminClient(s.hbase.Zookeeper()).CreateSnapshot(snapshot))
}

// scriptRestore is "[!] restore SNAPSHOT": the row that was lost is put back by the example's
// program, in a command that fails if ! says so.
func scriptRestore(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] restore SNAPSHOT")
	}
	s := serversOf(ts)
	command, err := s.hbase.Java(filepath.Join(ts.Getenv("EXAMPLES"), "restore-row", "RestoreRow.java"), s.table, ts.Getenv("LOST"), s.table+"_"+args[0])
	services.Require(s.t, err)
	if err := ts.Exec(command[0], command[1:]...); (err != nil) != neg {
		ts.Fatalf("%v: %v", command, err)
	}
}

// scriptDisable is "disable": the sale's table is.
func scriptDisable(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: disable")
	}
	s := serversOf(ts)
	ts.Check(gohbase.NewAdminClient(s.hbase.Zookeeper()).DisableTable(hrpc.NewDisableTable(context.Background(), []byte(s.table))))
}

// scan reads the whole table.
func (s *servers) scan(ts *testscript.TestScript, each func(*hrpc.Result)) {
	client := gohbase.NewClient(s.hbase.Zookeeper())
	defer client.Close()
	scan, err := hrpc.NewScanStr(context.Background(), s.table)
	ts.Check(err)
	for scanner := client.Scan(scan); ; {
		row, err := scanner.Next()
		if err == io.EOF {
			return
		}
		ts.Check(err)
		each(row)
	}
}

// scriptSold is "sold N EXPORT CLAIMS...": the export has N claims, among them all
// that the buyers received.
func scriptSold(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: sold N EXPORT CLAIMS...")
	}
	var received []string
	for _, file := range args[2:] {
		received = append(received, ts.MkAbs(file))
	}
	n, err := compare(ts.MkAbs(args[1]), received...)
	ts.Check(err)
	if fmt.Sprint(n) != args[0] {
		ts.Fatalf("%s has %d claims, want %s", args[1], n, args[0])
	}
}
