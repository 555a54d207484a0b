package redis

import (
	"net"
	"strings"
	"testing"

	"salectl/internal/services"
)

func hostPort(t *testing.T, server *services.Redis) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}

func TestUnfit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want []string // parts of it, in this order
	}{
		"plain":    {nil, nil},
		"eviction": {[]string{"--maxmemory-policy", "allkeys-lru"}, []string{"allkeys-lru", "set noeviction"}},
		"replica":  {[]string{"--replicaof", "127.0.0.1 1"}, []string{"replica of 127.0.0.1:1", "name a standalone server"}},
		"cluster":  {[]string{"--cluster-enabled", "yes"}, []string{"Redis Cluster", "name a standalone server"}},
		"both": {[]string{"--replicaof", "127.0.0.1 1", "--maxmemory-policy", "volatile-ttl"},
			[]string{"replica of", "volatile-ttl"}},
	} {
		t.Run(name, func(t *testing.T) {
			n, _ := mustServe(t, test.args...)
			info, err := n.Info(t.Context())
			if err != nil || info.RunID == "" || info.Time.IsZero() {
				t.Fatalf("info: %+v, %v", info, err)
			}
			rest, found := info.Unfit, true
			for _, part := range test.want {
				_, rest, found = strings.Cut(rest, part)
				if !found {
					t.Errorf("unfit is %q, want %q in it", info.Unfit, test.want)
				}
			}
			if (info.Unfit == "") != (test.want == nil) {
				t.Errorf("unfit is %q, want %q", info.Unfit, test.want)
			}
		})
	}
}
