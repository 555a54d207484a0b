package examples

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"salectl/cli"
	"salectl/internal/services/scripts"
)

// The scripts run the examples as their readers do, with salectl as a process,
// on real servers that they stop, kill and start again.
func TestMain(m *testing.M) {
	testscript.Main(tidy{m}, map[string]func(){
		"salectl": func() { os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr, os.LookupEnv)) },
		"buyers":  buyers,
	})
}

// tidy stops the servers that tests share, and removes what was built, when all have run.
type tidy struct{ *testing.M }

func (m tidy) Run() int {
	code := m.M.Run()
	stopShared()
	stopDatabase()
	removeBuilt()
	return code
}

// buildDir is where the examples' own programs are built.
var (
	buildDir = sync.OnceValues(func() (string, error) {
		dir, err := os.MkdirTemp("", "examples")
		if err == nil {
			removeBuilt = func() { os.RemoveAll(dir) }
		}
		return dir, err
	})
	removeBuilt = func() {}
)

// built returns the path of an example's program, which is built once, when it is first used.
func built(pkg string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		dir, err := buildDir()
		if err != nil {
			return "", err
		}
		from, err := filepath.Abs(pkg)
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, filepath.Base(from))
		build := exec.Command("go", "build", "-o", path, ".")
		build.Dir = pkg // which may be a module of its own
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("go build: %w\n%s", err, out)
		}
		return path, nil
	})
}

func TestExamples(t *testing.T) {
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("EXAMPLES", here)
			for _, n := range []string{"", "2"} {
				listen := scripts.FreeAddress(t)
				e.Setenv("LISTEN"+n, listen)
				e.Setenv("CLAIMS"+n, "http://"+listen+"/v1/sales/movie-tickets/claims")
				e.Setenv("SEATS"+n, "http://"+listen+"/v1/sales/hold-and-pay")
				e.Setenv("PACKETS"+n, "http://"+listen+"/v1/sales/red-packet")
				e.Setenv("ADMIN"+n, scripts.FreeAddress(t))
			}
			e.Values[serversKey{}] = &servers{t: t}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"cluster": scriptCluster, "draws": scriptDraws, "server": scriptServer, "serve": scriptServe, "ready": scripts.Ready, "await": scripts.Await,
			"outcome": scriptOutcome, "keys": scriptKeys, "rows": scriptRows, "sold": scriptSold,
			"signal": scriptSignal, "appends": scriptAppends, "code": scripts.Code,
			"payments": scriptPayments, "pay": scriptPay("pay"), "fail": scriptPay("fail"), "claimed": scriptClaimed, "books": scriptBooks,
			"members": scriptMembers, "tables": scriptTables, "units": scriptUnits, "cells": scriptCells, "lose": scriptLose, "snapshot": scriptSnapshot, "restore": scriptRestore, "disable": scriptDisable,
			"packets": scriptPackets, "flush": scriptFlush, "has": scriptHas, "money": scriptMoney,
			"orders": scriptOrders,
		},
	})
}
