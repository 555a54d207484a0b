// Package redis is a lock node on a standalone Redis server, and a node of the
// Redis engine's lists.
//
// A lease is a string with an expiry, its holder's token and note with a space
// between them. A marker is a hash of the server's run id and of the time, in
// microseconds since 1970 by the server's clock, from which it votes. A call
// is one Lua script: nothing comes between what it reads and what it writes, run
// id and time included. Only Forget is a plain DEL, and List a script for each
// page.
//
// A marker that a vote wrote expires an hour after the last vote under it. One
// that Mark wrote, on behalf of an apply, stays until Forget: its sale may open
// in a week.
//
// A list is four keys, which lists.lua tells of. It gives only in the run of the
// server in which it was filled, so that what a server has of it after a restart
// or a failover is given to nobody, and read to rebuild it. Keep lists on an
// append-only file that is synced always, or lose with the server what the ledger
// does not have yet; Settings says how it is.
//
// # What the server needs
//
// Redis 6 or newer (the tests run 7.0), standalone, not a replica, with
// maxmemory-policy noeviction: Info says so where it is not. Persistence is not
// needed. A user of its own needs no more than Rights:
//
//	ACL SETUSER salectl on >secret ~salectl:* &salectl:* +eval +evalsha +info
//	  +time +get +set +del +exists +pttl +pexpire +persist +hmget +hgetall +hset +hdel
//	  +scan +zadd +zrem +zpopmin +publish +subscribe +unsubscribe
//
// Lists need Redis 6.2 or newer, and of their user ListRights as well:
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

// Rights is what the user of a server with an ACL needs, as ACL SETUSER takes
// it; docs/security.md has it too, and what a user needs who only reads.
const Rights = "~salectl:* &salectl:* +eval +evalsha +info +time +get +set +del +exists +pttl +pexpire +persist +hmget +hgetall +hset +hdel +scan" +
	" +zadd +zrem +zpopmin +publish +subscribe +unsubscribe"

// ListRights is what it needs beside Rights where the server has lists. Without
// +config|get, Settings does not know all.
const ListRights = "+lrange +ltrim +llen +rpush +hlen +xadd +xrange +xtrim +xlen +unlink +config|get"

// Options say which server a Node is.
type Options struct {
	Address  string // host:port, also the node's name
	Username string // empty: the server's default user
	Password string // empty: no login
	// TLS is used for connections, nil for none. Its ServerName is the host of
	// Address unless it is set.
	TLS *tls.Config

	patience time.Duration // of tests; 0: the constant
}

// Node is quorum.Node on one Redis server.
//
// Nothing is ever sent twice: whoever asks knows better than this package
// whether there is time to ask again, and a count of released leases would be
// wrong the second time.
type Node struct {
	address string
	secret  string // kept out of errors
	client  *goredis.Client

	// life ends when Close begins, and all calls with it.
	life context.Context
	end  context.CancelFunc

	// mu guards closed, and that no call begins once it is set.
	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup

	watches watches
}

func init() {
	// The logger of go-redis is one for the whole process and writes to standard
	// error. What it has to say comes back as the error of a call as well.
	logging.Disable()
}

// Open returns a handle on a server. It connects when it is first asked
// something; a server that is away is no error before. Close it to give the
// connections back.
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

// Nodes returns a handle on each lock node of a sale, in the order of its
// file. Username and password come from the environment variables that the
// file names. With TLS, the servers' certificates must come from an authority
// that this machine trusts; SSL_CERT_FILE can name others.
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

// variable reads the environment variable that a field of the file names. An
// empty one is as bad as none: it would log in as nobody.
func variable(field, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	value := strings.TrimRight(os.Getenv(name), "\r\n") // as a file ends that a secret was read from
	if value == "" {
		return "", fmt.Errorf("%w: %s, which %s names; export it, or take %s out of the file", ErrUnset, name, field, field)
	}
	return value, nil
}

// Close ends the calls under way, which get ErrClosed like those that come
// later, and gives the connections back. Leases stay until they run out.
func (n *Node) Close() error {
	n.mu.Lock()
	already := n.closed
	n.closed = true
	n.mu.Unlock()
	if already {
		return nil
	}
	n.end()
	err := n.client.Close() // what waits for an answer is woken by this
	n.calls.Wait()
	return n.explain(err)
}

// ask makes one call, and returns when it is answered or ctx ends.
//
// go-redis heeds a deadline while it waits for an answer, but not the end of a
// context. So a call that may take long is made by another goroutine. One that is
// left behind ends at its deadline, or when patience is over, and has its
// connection until then. A call whose deadline is near is made here, which is
// faster, and returns by then.
func ask[T any](ctx context.Context, n *Node, call func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, n.explain(err)
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= near {
		if !n.enter() {
			return none, n.explain(ErrClosed)
		}
		defer n.calls.Done()
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

// near is how soon a call may end that is not called off before its deadline.
const near = time.Second

// ended returns why a call that was not answered failed: a connection has the
// deadline of its context and may notice it first.
func ended(ctx context.Context, err error) error {
	deadline, ok := ctx.Deadline()
	if ok && cause(err) == ErrSilent && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return err
}

// begin runs call in a goroutine that Close waits for; false after Close.
func (n *Node) begin(call func()) bool {
	if !n.enter() {
		return false
	}
	go func() {
		defer n.calls.Done()
		call()
	}()
	return true
}

// enter counts a call that Close waits for; false after Close.
func (n *Node) enter() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	n.calls.Add(1)
	return true
}
