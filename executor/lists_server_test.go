package executor

import (
	"net"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	goredis "github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"salectl/internal/services"
	"salectl/internal/services/scripts"
)

// always are the arguments of a server that syncs all that it is told.
var always = []string{"--appendonly", "yes", "--appendfsync", "always"}

// tell makes a server do something as redis-cli would.
func tell(t testing.TB, server *services.Redis, args ...any) any {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: server.Addr(), Protocol: 2, MaxRetries: -1})
	defer c.Close()
	value, err := c.Do(t.Context(), args...).Result()
	if err != nil && err != goredis.Nil {
		t.Fatalf("%v: %v", args, err)
	}
	return value
}

// restart kills a server and starts it again, from what is on its disk.
func restart(t testing.TB, server *services.Redis) {
	t.Helper()
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// switchTo returns the address of a way to a server, and what leads it to another.
func switchTo(t testing.TB, server *services.Redis) (address string, step func(*services.Redis)) {
	t.Helper()
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	way := toxiproxy.NewProxy(api, t.Name(), scripts.FreeAddress(t), server.Addr())
	scripts.Listen(t, way.Start)
	t.Cleanup(func() { way.Stop() })
	return way.Listen, func(other *services.Redis) {
		way.Stop()
		way.Upstream = other.Addr()
		scripts.Listen(t, way.Start)
	}
}

// follow makes a server the replica of another, which lags for as long as paused.
func follow(t testing.TB, replica, master *services.Redis) {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	tell(t, replica, "REPLICAOF", host, port)
}
