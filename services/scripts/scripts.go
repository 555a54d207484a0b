// Package scripts has what all test scripts of this module share: free addresses,
// and commands that wait for a server or look at an exit code.
package scripts

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"salectl/api"
	"salectl/services"
)

// Patience is how long a script waits for what must happen at some time.
const Patience = 2 * time.Minute

// FreeAddress returns an address of services.FreeAddress.
func FreeAddress(t testing.TB) string {
	t.Helper()
	free, err := services.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return free
}

// Eventually tries until it works.
func Eventually(ts *testscript.TestScript, try func() error) {
	deadline := time.Now().Add(Patience)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("after %v: %v", Patience, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
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
// is named with https://, and its certificate is not looked at.
func Ready(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] ready ADMIN")
	}
	admin(ts, args[0], func(ctx context.Context, c *api.Client) error {
		readiness, err := c.Ready(ctx)
		if err == nil && readiness.Ready == neg {
			err = fmt.Errorf("%s: %+v", args[0], readiness)
		}
		return err
	})
}

// Alive is "alive ADMIN": waits until the process answers.
func Alive(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: alive ADMIN")
	}
	admin(ts, args[0], func(ctx context.Context, c *api.Client) error { return c.Alive(ctx) })
}

func admin(ts *testscript.TestScript, address string, ask func(context.Context, *api.Client) error) {
	client, err := api.NewClient(api.Config{Servers: []string{api.BaseURL(address)}, TLS: &tls.Config{InsecureSkipVerify: true}})
	ts.Check(err)
	defer client.Close()
	Eventually(ts, func() error { return ask(context.Background(), client) })
}
