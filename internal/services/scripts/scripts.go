// Package scripts has what all test scripts of this module share: free addresses,
// and commands that wait for a state or compare an exit code.
package scripts

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"salectl/api"
	"salectl/internal/services"
	"salectl/internal/wait"
)

// FreeAddress returns an address of services.FreeAddress.
func FreeAddress(t testing.TB) string {
	t.Helper()
	free, err := services.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return free
}

// Listen starts a server of this process at an address of FreeAddress, or starts it again. A child that another
// test is forking may have a closed listener of the address until it executes its program, so start is repeated.
func Listen(t testing.TB, start func() error) {
	t.Helper()
	if err := wait.Poll(wait.Limit, start); err != nil {
		t.Fatal(err)
	}
}

// Eventually polls until poll returns nil, and fails the script after wait.Limit.
func Eventually(ts *testscript.TestScript, poll func() error) {
	if err := wait.Poll(wait.Limit, poll); err != nil {
		ts.Fatalf("waited %v: %v", wait.Limit, err)
	}
}

// Await is "[!] await PATTERN PROGRAM [ARGS...]": runs the program until its output, standard
// output followed by standard error, matches the pattern, or with ! does not match it. The exit
// code does not count. The commands stdout and stderr see the last run.
func Await(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: [!] await PATTERN PROGRAM [ARGS...]")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	Eventually(ts, func() error {
		err := ts.Exec(args[1], args[2:]...)
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			ts.Check(err) // the program cannot be run
		}
		output := ts.ReadFile("stdout") + ts.ReadFile("stderr")
		if pattern.MatchString(output) == neg {
			return fmt.Errorf("%v: the output matches %q: %v; it is\n%s", args[1:], args[0], neg, output)
		}
		return nil
	})
}

// Code is "code N program args...": the program must exit with N.
func Code(ts *testscript.TestScript, neg bool, args []string) {
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

// Ready is "[!] ready ADMIN": waits until the process is ready, or is not. One that speaks TLS
// is named with https://, and its certificate is not verified.
func Ready(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] ready ADMIN")
	}
	client, err := api.NewClient(api.Config{Servers: []string{api.BaseURL(args[0])}, TLS: &tls.Config{InsecureSkipVerify: true}})
	ts.Check(err)
	defer client.Close()
	Eventually(ts, func() error {
		readiness, err := client.Ready(context.Background())
		if err == nil && readiness.Ready == neg {
			err = fmt.Errorf("%s: %+v", args[0], readiness)
		}
		return err
	})
}
