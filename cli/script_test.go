package cli

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"salectl/api"
	"salectl/internal/services"
	"salectl/internal/services/certs"
	"salectl/internal/services/scripts"
)

// The scripts run salectl as its users do: as a process, from its arguments to
// its exit code.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"salectl": func() { os.Exit(Main(os.Args, os.Stdin, os.Stdout, os.Stderr, os.LookupEnv)) },
		"listen":  listener,
	})
}

// listener is "listen", a command to run under a lock. It tells which signals it
// gets and ends at SIGTERM, unless it is called with "stubborn".
func listener() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	fmt.Println("pid", os.Getpid())
	for s := range signals {
		fmt.Println("got", s)
		if s == syscall.SIGTERM && len(os.Args) < 2 {
			os.Exit(0)
		}
	}
}

func TestScripts(t *testing.T) {
	examples, err := filepath.Abs("../examples")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	suggested := newSuggestions(t)
	t.Cleanup(func() { suggested.check(t, len(files)) }) // when all scripts have ended
	testscript.Run(t, testscript.Params{
		Dir:       "testdata",
		Condition: suggested.condition,
		Setup: func(e *testscript.Env) error {
			e.Setenv("EXAMPLES", examples)
			for _, n := range []string{"", "2", "3"} {
				listen := scripts.FreeAddress(t)
				e.Setenv("LISTEN"+n, listen)
				e.Setenv("URL"+n, "http://"+listen)
				e.Setenv("ADMIN"+n, scripts.FreeAddress(t))
			}
			e.Defer(suggested.ended)
			e.Values[redisKey{}] = make(map[string]*services.Redis)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await": scripts.Await, "code": scripts.Code, "ready": scripts.Ready, "crowd": scriptCrowd, "term": scriptTerm, "sql": scriptSQL,
			"putback": scriptPutBack, "lines": scriptLines, "message": scriptMessage, "metric": scriptMetric, "certs": scriptCerts, "paste": suggested.paste, "redis": scriptRedis,
		},
	})
}

// scriptCrowd is "crowd URL SALE USERS SOLD": so many users claim one unit each, once,
// and exactly SOLD of them get it.
func scriptCrowd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: crowd URL SALE USERS SOLD")
	}
	users, err := strconv.Atoi(args[2])
	ts.Check(err)
	client, err := api.NewClient(api.Config{
		Servers: args[:1], Sale: args[1], Attempted: func(api.Attempt) bool { return false },
	})
	ts.Check(err)
	defer client.Close()
	var next, sold atomic.Int64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(users); i = next.Add(1) {
				a, err := client.Claim(context.Background(), api.Request{User: fmt.Sprint("user-", i), Quantity: 1})
				if err == nil && a.Outcome == api.Sold && !a.Replayed {
					sold.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if fmt.Sprint(sold.Load()) != args[3] {
		ts.Fatalf("%d of %d users got a unit, want %s", sold.Load(), users, args[3])
	}
}

// scriptTerm is "term": sends SIGTERM to all that runs in the background.
func scriptTerm(ts *testscript.TestScript, neg bool, args []string) {
	for _, c := range ts.BackgroundCmds() {
		ts.Check(c.Process.Signal(syscall.SIGTERM))
	}
}

// scriptSQL is "sql FILE STATEMENT...": what a person with bad intent would do.
func scriptSQL(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: sql FILE STATEMENT...")
	}
	conn, err := sqlite.OpenConn(ts.MkAbs(args[0]), sqlite.OpenReadWrite)
	ts.Check(err)
	defer conn.Close()
	for _, statement := range args[1:] {
		ts.Check(sqlitex.ExecuteTransient(conn, statement, nil))
	}
}

// scriptPutBack is "putback LOG COPY": the log whose name ends so is put back into the ledger of
// .salectl from a copy, by the commands of docs/gitops.md.
func scriptPutBack(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] putback LOG COPY")
	}
	page, err := os.ReadFile("../docs/gitops.md")
	ts.Check(err)
	_, commands, found := strings.Cut(string(page), "```console\n$ sqlite3 ")
	commands, _, closed := strings.Cut(commands, "```")
	conn, err := sqlite.OpenConn(ts.MkAbs(args[1]), sqlite.OpenReadOnly)
	ts.Check(err)
	defer conn.Close()
	name, err := sqlitex.ResultText(conn.Prep("SELECT name FROM logs WHERE name LIKE '%" + args[0] + "'"))
	ts.Check(err)
	shown := regexp.MustCompile(`name = '[^']*'`)
	if !found || !closed || len(shown.FindAllString(commands, -1)) != 1 || !strings.Contains(commands, "'monday.db'") {
		ts.Fatalf("docs/gitops.md has no such commands: %s", commands)
	}
	commands = shown.ReplaceAllString("sqlite3 "+strings.ReplaceAll(commands, "\n$ ", "\n"), "name = '"+name+"'")
	commands = strings.ReplaceAll(commands, "'monday.db'", "'"+args[1]+"'")
	if err := ts.Exec("sh", "-ec", commands); (err != nil) != neg {
		ts.Fatalf("%v: %s", err, commands)
	}
}

// scriptMetric is "metric ADMIN SERIES VALUE": waits until the value of a series at a process
// begins with the regular expression.
func scriptMetric(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: metric ADMIN SERIES VALUE")
	}
	want := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(args[1]) + " " + args[2])
	scripts.Eventually(ts, func() error {
		r, err := http.Get("http://" + args[0] + "/metrics")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err == nil && !want.Match(body) {
			err = fmt.Errorf("no %s %s in\n%s", args[1], args[2], body)
		}
		return err
	})
}

// scriptCerts is "certs CA NAME...": a new authority, whose certificate is CA.pem, issues
// certificates for 127.0.0.1, which are NAME.pem, with their keys in NAME.key.
func scriptCerts(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: certs CA NAME...")
	}
	ca, err := certs.New(args[0])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".pem"), ca.PEM, 0o600))
	for _, name := range args[1:] {
		ts.Check(ca.Write(ts.MkAbs("."), name, certs.Leaf{Hosts: []string{"127.0.0.1"}, Client: true}))
	}
}

// scriptLines is "lines N FILE": the file, or stdout, has N lines.
func scriptLines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: lines N FILE")
	}
	if got := bytes.Count([]byte(ts.ReadFile(args[1])), []byte("\n")); fmt.Sprint(got) != args[0] {
		ts.Fatalf("%s has %d lines, want %s", args[1], got, args[0])
	}
}

// scriptMessage is "message STATUS KEY AGE BODY": sends a payment service's message to the
// sale "tickets" at $URL, signed by the key and so old, and prints the answer, whose status
// must be that. Without a key it has no headers.
func scriptMessage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: message STATUS KEY AGE BODY")
	}
	r, err := http.NewRequest(http.MethodPost, ts.Getenv("URL")+"/v1/sales/tickets/webhooks/payment", strings.NewReader(args[3]))
	ts.Check(err)
	if args[1] != "" {
		age, err := time.ParseDuration(args[2])
		ts.Check(err)
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(args[1], "whsec_"))
		ts.Check(err)
		timestamp := strconv.FormatInt(time.Now().Add(age).Unix(), 10)
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "msg_1.%s.%s", timestamp, args[3])
		r.Header.Set("webhook-id", "msg_1")
		r.Header.Set("webhook-timestamp", timestamp)
		r.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	response, err := http.DefaultClient.Do(r)
	ts.Check(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	ts.Check(err)
	ts.Check(ts.Exec("printf", "%s\n", string(body)))
	if strconv.Itoa(response.StatusCode) != args[0] {
		ts.Fatalf("%s %s, want %s", response.Status, body, args[0])
	}
}

// redisKey is of the Redis servers of a script, by name.
type redisKey struct{}

// scriptRedis is "redis start|kill NAME [ARGUMENT...]": starts a redis-server, whose address is
// $NAME and stays the same, or kills it.
func scriptRedis(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || args[0] != "start" && args[0] != "kill" {
		ts.Fatalf("usage: redis start|kill NAME [ARGUMENT...]")
	}
	nodes := ts.Value(redisKey{}).(map[string]*services.Redis)
	switch node := nodes[args[1]]; {
	case args[0] == "kill":
		ts.Check(node.Kill())
	case node != nil:
		ts.Check(node.Start(context.Background()))
	default:
		node, err := services.StartRedis(context.Background(), services.RedisOptions{Dir: ts.MkAbs(args[1]), Args: args[2:]})
		ts.Check(err)
		ts.Defer(node.Stop)
		nodes[args[1]] = node
		ts.Setenv(args[1], node.Addr())
	}
}
