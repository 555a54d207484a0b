package redis

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"salectl/backends/quorum"
)

// reply is an error that a server answers with.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

var _ goredis.Error = reply("")

// Replies of states that a test cannot easily put a server in.
func TestExplain(t *testing.T) {
	n := mustOpen(t, Options{Address: "redis.example:6379", Password: "secret"})
	for words, want := range map[string]error{
		"LOADING Redis is loading the dataset in memory":                                               ErrLoading,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":             ErrReplica,
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist":      ErrUnsaved,
		"DENIED Redis is running in protected mode because protected mode is enabled":                  ErrProtected,
		"ERR max number of clients reached":                                                            ErrCrowded,
		"MOVED 3999 127.0.0.1:6381":                                                                    ErrCluster,
		"CROSSSLOT Keys in request don't hash to the same slot":                                        ErrCluster,
		"CLUSTERDOWN Hash slot not served":                                                             ErrCluster,
		"NOPERM ACL failure in script: User has no permissions to run the 'get' command":               ErrForbidden,
		"ERR AUTH <password> called without any password configured for the default user.":             ErrLogin,
		"ERR Client sent AUTH, but no password is set":                                                 ErrLogin,
		"WRONGPASS invalid username-password pair or user is disabled.":                                ErrLogin,
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.":       ErrBusy,
		"OOM command not allowed when used memory > 'maxmemory'. script: 01b5, on @user_script:1.":     ErrFull,
		"READONLY You can't write against a read only replica. script: 01b5, on @user_script:1.":       ErrReplica,
		"WRONGTYPE Operation against a key holding the wrong kind of value script: 01b5":               ErrForeign,
		"ERR The user executing the script can't run this command or subcommand script: 01b5, on @x:1": ErrForbidden,
	} {
		for _, err := range []error{reply(words), fmt.Errorf("wrapped: %w", reply(words))} {
			got := n.explain(err)
			if !errors.Is(got, want) || !strings.HasPrefix(got.Error(), "lock node redis.example:6379: ") || !strings.Contains(got.Error(), words) {
				t.Errorf("%v becomes %v; want %v, the address and the server's words", err, got, want)
			}
		}
	}
	if got := n.explain(reply("ERR something new")); got.Error() != "lock node redis.example:6379: ERR something new" {
		t.Errorf("what is not known becomes %v", got)
	}
	if got := n.explain(nil); got != nil {
		t.Errorf("no error becomes %v", got)
	}
}

// What a node does not permit is the same kind of error as in every store.
func TestDenials(t *testing.T) {
	for _, err := range []error{ErrLogin, ErrForbidden, ErrProtected} {
		if !errors.Is(fmt.Errorf("wrapped: %w", err), fs.ErrPermission) || quorum.ErrorKind(err) == "other" {
			t.Errorf("%v is no fs.ErrPermission, or of no kind", err)
		}
	}
	for _, err := range []error{ErrAway, ErrSilent, ErrHungUp, ErrTLS, ErrCrowded, ErrLoading, ErrReplica, ErrCluster, ErrBusy, ErrFull, ErrUnsaved, ErrForeign, ErrUnset, ErrClosed} {
		if errors.Is(err, fs.ErrPermission) {
			t.Errorf("%v is a fs.ErrPermission, and a retry may help", err)
		}
	}
}

// An answer that our scripts never give is an error, not a panic or a yes.
func TestStrangeAnswers(t *testing.T) {
	for name, items := range map[string][]any{
		"empty":            {},
		"short":            {int64(1), int64(0), int64(0)},
		"long":             {int64(1), int64(0), int64(0), int64(1), int64(1)},
		"a text for times": {"1", int64(0), int64(0), int64(1)},
		"a text for many":  {int64(1), int64(0), "none", int64(1)},
		"a text for a key": {int64(1), int64(0), int64(0), "yes"},
		"a short lease":    {int64(1), int64(0), int64(0), []any{"token note"}},
		"a long lease":     {int64(1), int64(0), int64(0), []any{"token note", int64(1), int64(1)}},
		"nothing":          {int64(1), int64(0), int64(0), nil},
	} {
		a := answer{items: items}
		if count := countOf(&a, []quorum.LeaseRequest{{Key: "key"}}); !errors.Is(a.end(), errAnswer) {
			t.Errorf("%s: %+v, %v; want an error", name, count, a.end())
		}
	}
}
