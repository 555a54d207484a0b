package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
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
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("EXAMPLES", examples)
			for _, n := range []string{"", "2"} {
				listen := freePort(t)
				e.Setenv("LISTEN"+n, listen)
				e.Setenv("URL"+n, "http://"+listen)
				e.Setenv("ADMIN"+n, freePort(t))
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": scriptCode, "ready": scriptReady, "crowd": scriptCrowd, "term": scriptTerm, "sql": scriptSQL,
			"lines": scriptLines,
		},
	})
}

func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// scriptCode is "code N program args...": the program must exit with N.
func scriptCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N program [args...]")
	}
	got, err := 0, ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("%v: exit code %d, want %s", args[1:], got, args[0])
	}
}

// scriptReady is "ready URL": waits until it answers with 200.
func scriptReady(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ready URL")
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		response, err := http.Get(args[0])
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
			err = errors.New(response.Status)
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s is not ready: %v", args[0], err)
		}
	}
}

// scriptCrowd is "crowd URL USERS SOLD": so many users claim one unit each, and
// exactly SOLD of them get 201. The client is not salectl's.
func scriptCrowd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: crowd URL USERS SOLD")
	}
	users, err := strconv.Atoi(args[1])
	ts.Check(err)
	var next, sold atomic.Int64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(users); i = next.Add(1) {
				body := fmt.Appendf(nil, `{"user":"user-%d","quantity":1}`, i)
				response, err := http.Post(args[0], "application/json", bytes.NewReader(body))
				if err != nil {
					continue
				}
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
				if response.StatusCode == http.StatusCreated {
					sold.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if fmt.Sprint(sold.Load()) != args[2] {
		ts.Fatalf("%d of %d users got a unit, want %s", sold.Load(), users, args[2])
	}
}

// scriptTerm is "term": sends SIGTERM to all that runs in the background.
func scriptTerm(ts *testscript.TestScript, neg bool, args []string) {
	for _, c := range ts.BackgroundCmds() {
		ts.Check(c.Process.Signal(syscall.SIGTERM))
	}
}

// scriptSQL is "sql FILE STATEMENT": what a person with bad intent would do.
func scriptSQL(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sql FILE STATEMENT")
	}
	conn, err := sqlite.OpenConn(ts.MkAbs(args[0]), sqlite.OpenReadWrite)
	ts.Check(err)
	defer conn.Close()
	ts.Check(sqlitex.ExecuteTransient(conn, args[1], nil))
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
