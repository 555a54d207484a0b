// Package services starts real servers on this machine: Redis, HBase in one
// process, HBase over HDFS with a process for each part, and PostgreSQL. Tests use it,
// examples use it, and "go run ./internal/services/run up" gives a newcomer the servers
// that a sale needs.
//
// A server listens on 127.0.0.1 only. It is ready when Start returns, can be
// killed, paused and started again, and dies with the process that started it.
//
//	redis, err := services.StartRedis(ctx, services.RedisOptions{Dir: t.TempDir()})
//	services.Require(t, err)
//	t.Cleanup(redis.Stop)
package services

import (
	"errors"
	"os"
	"testing"
)

// ErrMissing means that a program or a jar that a server needs is not
// installed. The wrapping error names the program and how to get it.
var ErrMissing = errors.New("not installed")

// Require ends a test that needs a server which could not be started; a nil
// error lets it go on. Where the server is not installed, the test is skipped,
// so that a contributor can run the others. With CI=true in the environment
// it fails instead: there a test that is not run is a fault of the setup.
func Require(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, ErrMissing) && os.Getenv("CI") != "true":
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}
