package main

import (
	"context"
	"errors"
	"os"

	"salectl/internal/services"
)

// persistence is the way a Redis stores its writes.
type persistence struct {
	name string
	args []string // of redis-server
}

var (
	inMemory = persistence{name: "in memory"}
	// Rewriting the file would come at a time of its own, in some measurements and
	// not in others.
	synced = persistence{name: "every write synced", args: []string{
		"--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0",
	}}
)

// onRedis does something with a fresh Redis, whose files are in a folder of their
// own under dir and gone afterwards.
func onRedis(ctx context.Context, dir string, keeps persistence, do func(address string) error) error {
	own, err := os.MkdirTemp(dir, "packets-")
	if err != nil {
		return err
	}
	server, err := services.StartRedis(ctx, services.RedisOptions{Dir: own, Args: keeps.args})
	if err != nil {
		return errors.Join(err, os.RemoveAll(own))
	}
	err = do(server.Addr())
	server.Stop()
	return errors.Join(err, os.RemoveAll(own))
}
