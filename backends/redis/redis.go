// Package redis implements a lock node on a standalone Redis server, and a node for the lists
// of the Redis engine.
//
// A lease is a string with an expiry: its holder's token and note, separated by a space. A
// marker is a hash of the server's run id and the time, in microseconds since 1970 by the
// server's clock, from which it votes. Each call is one Lua script, so what it reads, run id
// and time included, cannot change before it writes. The exceptions are Forget, a plain DEL,
// and List, one script per page.
//
// A marker written by a vote expires an hour after the last vote under it. A marker written by
// Mark, for an apply, stays until Forget: its sale may open in a week.
//
// A list is four keys, which lists.lua describes. A list grants units only in the server run in
// which it was filled. What a server has of it after a restart or failover is granted to no
// one, and is read to rebuild the list. Store lists in an append-only file that is synced
// always; otherwise a server failure loses the grants that the ledger does not have yet.
// Settings returns the server's settings for this.
//
// # What the server needs
//
// Redis 6 or newer (the tests run 7.0), standalone, not a replica, with maxmemory-policy
// noeviction. Info reports a cluster member, a replica and any other policy as unfit. Lock
// nodes need no persistence. A dedicated user needs no more than Rights:
//
//	ACL SETUSER salectl on >secret ~salectl:* &salectl:* +eval +evalsha +info
//	  +time +get +set +del +exists +pttl +pexpire +persist +hmget +hgetall +hset +hdel
//	  +scan +zadd +zrem +zpopmin +publish +subscribe
//
// Lists need Redis 6.2 or newer, and ListRights for the user as well:
//
//	ACL SETUSER salectl +lrange +ltrim +llen +rpush +hlen +xadd +xrange +xtrim
//	  +xlen +unlink +config|get
package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"salectl/spec"
)

// Rights are the rights that a lock node's user needs, in the form of ACL SETUSER.
// docs/security.md lists them too, and those of a user who only reads.
const Rights = "~salectl:* &salectl:* +eval +evalsha +info +time +get +set +del +exists +pttl +pexpire +persist +hmget +hgetall +hset +hdel +scan" +
	" +zadd +zrem +zpopmin +publish +subscribe"

// ListRights are the additional rights that lists need. Without +config|get, Settings is incomplete.
const ListRights = "+lrange +ltrim +llen +rpush +hlen +xadd +xrange +xtrim +xlen +unlink +config|get"

// Options describe the server of a Node.
type Options struct {
	Address  string // host:port; also the node's name
	Username string // empty: the server's default user
	Password string // empty: no login
	// TLS configures the connections; nil means no TLS. ServerName defaults to the host of
	// Address.
	TLS *tls.Config

	patience time.Duration // for tests; 0: the constant patience
}

// Node implements quorum.Node on one Redis server.
//
// A Node never sends a call twice. The caller decides whether there is time for a retry,
// and a repeated release would return a wrong count.
type Node struct {
	address string
	secret  string // kept out of errors
	client  *goredis.Client

	// life ends when Close begins; its end cancels all calls.
	life context.Context
	end  context.CancelFunc

	calls   sync.RWMutex // read-locked by each call; Close locks it for good
	closing sync.Once
}

func init() {
	// go-redis has one logger per process, which writes to standard error. All that it logs is
	// also returned as the error of a call.
	logging.Disable()
}

// Open returns a handle on a server. It connects on the first call, so an unreachable server is
// no error before that. Close releases the connections.
func Open(o Options) (*Node, error) {
	host, _, err := net.SplitHostPort(o.Address)
	if err != nil {
		return nil, fmt.Errorf("the address of a lock node is host:port, not %q", o.Address)
	}
	if o.Username != "" && o.Password == "" {
		return nil, fmt.Errorf("lock node %s: a username needs a password", o.Address)
	}
	if o.TLS != nil && o.TLS.ServerName == "" {
		o.TLS = o.TLS.Clone()
		o.TLS.ServerName = host
	}
	n := &Node{address: o.Address, secret: o.Password}
	n.life, n.end = context.WithCancel(context.Background())
	n.client = goredis.NewClient(clientOptions(o, &dialer{life: n.life, tls: o.TLS}))
	return n, nil
}

// Nodes returns a handle on each lock node of a sale, in the order of its file. Username and
// password come from the environment variables that the file names. With TLS, the servers'
// certificates must be signed by an authority that this machine trusts; SSL_CERT_FILE can name
// others.
func Nodes(r spec.Redis) ([]*Node, error) {
	username, err := variable("spec.redis.usernameEnv", r.UsernameEnv)
	if err != nil {
		return nil, err
	}
	password, err := variable("spec.redis.passwordEnv", r.PasswordEnv)
	if err != nil {
		return nil, err
	}
	var secure *tls.Config
	if r.TLS {
		secure = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	var nodes []*Node
	for _, address := range r.Nodes {
		n, err := Open(Options{Address: address, Username: username, Password: password, TLS: secure})
		if err != nil {
			for _, n := range nodes {
				err = errors.Join(err, n.Close())
			}
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// variable returns the environment variable that a field of the file names. An empty variable
// is an error like a missing one: it would log in without credentials.
func variable(field, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	value := strings.TrimRight(os.Getenv(name), "\r\n") // a secret read from a file may end with a newline
	if value == "" {
		return "", fmt.Errorf("%w: %s, which %s names; export it, or take %s out of the file", ErrUnset, name, field, field)
	}
	return value, nil
}

// Close cancels the calls under way, which return ErrClosed like later ones, and releases the
// connections. Leases stay until they expire.
func (n *Node) Close() error {
	var err error
	n.closing.Do(func() {
		n.end()
		err = n.client.Close() // wakes calls that wait for an answer
		n.calls.Lock()
	})
	return n.explain(err)
}

// await makes one call, and returns when it has its reply or ctx ends.
//
// go-redis obeys a deadline while it waits for an answer, but not the cancellation of a
// context. So a call that may take long runs in its own goroutine. If it is abandoned, it ends
// at its deadline or after patience, and occupies its connection until then. A call with a near
// deadline runs directly, which is faster, and returns by that deadline.
func await[T any](ctx context.Context, n *Node, call func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, n.explain(err)
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= near {
		if !n.calls.TryRLock() {
			return none, n.explain(ErrClosed)
		}
		defer n.calls.RUnlock()
		value, err := call(ctx)
		if err != nil {
			return none, n.explain(ended(ctx, err))
		}
		return value, nil
	}
	answered := make(chan answer, 1)
	begun := n.begin(func() {
		value, err := call(ctx)
		answered <- answer{value, err}
	})
	if !begun {
		return none, n.explain(ErrClosed)
	}
	select {
	case a := <-answered:
		if a.err != nil {
			return none, n.explain(ended(ctx, a.err))
		}
		return a.value, nil
	case <-ctx.Done():
		return none, n.explain(ctx.Err())
	}
}

// near is the longest time to a deadline for which cancellation of a call may be ignored.
const near = time.Second

// ended returns the reason why a call was not answered: the connection has the deadline of its
// context, and may reach it first.
func ended(ctx context.Context, err error) error {
	deadline, ok := ctx.Deadline()
	if ok && cause(err) == ErrSilent && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return err
}

// begin runs call in a goroutine that Close waits for; it returns false after Close.
func (n *Node) begin(call func()) bool {
	if !n.calls.TryRLock() {
		return false
	}
	go func() {
		defer n.calls.RUnlock()
		call()
	}()
	return true
}
