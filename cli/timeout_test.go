package cli

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// deaf listens and never answers. It returns its address.
func deaf(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// Whoever gives up says for how long it has waited, for what, and where to look.
func TestTimeoutsSayWhatWasAwaited(t *testing.T) {
	silent := deaf(t)
	path := filepath.Join(t.TempDir(), "sale.yaml")
	text := fmt.Sprintf("apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: tickets}\n"+
		"spec: {stock: 10, lockCount: 2, redis: {nodes: [%q]}, hbase: {zookeeper: [%[1]q], table: sales}}\n", silent)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const look = "(ZooKeeper "
	for command, want := range map[string][]string{
		"plan -f " + path:                                                {"sale tickets: timed out after 200ms (read: the sale's log)\n", look, "If they are up, use a longer --timeout.\n"},
		"pause -f " + path:                                               {"sale tickets: timed out after 200ms (read: the sale's log)\n", look},
		"audit -f " + path:                                               {"reading log sale/tickets: timed out after 200ms\n", look},
		"status --wait-for open -f " + path:                              {"timed out after 200ms: it is unknown whether sale tickets is open: sale tickets: access to the ledger failed: it was not read in 100ms\n", look},
		"drain --admin http://" + silent:                                 {"timed out after 200ms: no answer from http://" + silent + "\n"},
		"claims list --user u --sale s --server http://" + silent:        {"timed out after 200ms: no answer from http://" + silent + "\n"},
		"claims extend --claim 1-2-3 --sale s --server http://" + silent: {"timed out after 200ms: no answer from http://" + silent + ": it is unknown whether it was done\n"},
	} {
		c := newCapture()
		args := append([]string{"salectl"}, strings.Fields(command)...)
		if code := c.run(append(args, "--timeout", "200ms"), nil); code != 7 {
			t.Errorf("%s: exit code %d, want 7", command, code)
		}
		for _, part := range want {
			if !strings.Contains(c.err.String(), part) {
				t.Errorf("%s says\n%s, not %s", command, &c.err, part)
			}
		}
	}
}
