package redis

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"

	goredis "github.com/redis/go-redis/v9"

	"salectl/backends/quorum"
)

// The faults of a node. The errors that wrap them name its address. After one of them the node
// may have executed the call. ErrLogin, ErrForbidden and ErrProtected are also
// fs.ErrPermission: a retry is useless.
var (
	ErrAway      error = trouble{"away", "nothing answers at this address; start the server, or correct spec.redis.nodes"}
	ErrSilent    error = trouble{"timeout", "it did not answer in time; it may be stopped, overloaded or cut off"}
	ErrHungUp    error = trouble{"hung_up", "the connection broke; if it always does, check whether spec.redis.tls fits the server"}
	ErrTLS       error = trouble{"tls", "the TLS handshake failed; check spec.redis.tls, and that this machine trusts the server's certificate (SSL_CERT_FILE names further authorities)"}
	ErrLogin     error = denial{trouble{"login", "it refuses the username or password; check the variables that spec.redis.usernameEnv and spec.redis.passwordEnv name"}}
	ErrForbidden error = denial{trouble{"forbidden", "the Redis user lacks a right; grant those of docs/security.md with ACL SETUSER (" + Rights + "; for lists also " + ListRights + ")"}}
	ErrProtected error = denial{trouble{"protected", "it accepts connections from its own host only; set a password, or turn off protected-mode"}}
	ErrCrowded   error = trouble{"crowded", "it has no free connection; raise maxclients, or find clients that do not close theirs"}
	ErrLoading   error = trouble{"loading", "it is still loading its data from disk; wait until it has finished"}
	ErrReplica   error = trouble{"replica", "it is a replica and cannot be written; name a standalone server in spec.redis.nodes"}
	ErrCluster   error = trouble{"cluster", "it belongs to a Redis Cluster; name standalone servers in spec.redis.nodes"}
	ErrBusy      error = trouble{"busy", "a long script of another client blocks it; end that with SCRIPT KILL"}
	ErrFull      error = trouble{"full", "it has reached maxmemory; raise that, or use a separate server for locks and lists"}
	ErrUnsaved   error = trouble{"unsaved", "it refuses writes because it could not save its data; check its log, or turn off its snapshots (CONFIG SET save \"\")"}
	ErrForeign   error = trouble{"foreign", "another program stores other data under a key of salectl; use a separate server for locks and lists"}
	ErrUnset     error = trouble{"unset", "an environment variable is not set"}
	ErrClosed    error = trouble{"closed", "the handle is closed"}
)

// trouble is an error with a kind, for metrics.
type trouble struct{ kind, text string }

func (t trouble) Error() string { return t.text }

// Kind returns the kind, for quorum.ErrorKind.
func (t trouble) Kind() string { return t.kind }

// denial is the trouble of a node that does not permit the call.
type denial struct{ trouble }

func (denial) Is(target error) bool { return target == fs.ErrPermission }

// replies maps prefixes of a server's error replies to errors. In scripts, Redis 7.0 words a
// missing right differently from 7.2.
var replies = []struct {
	prefix string
	means  error
}{
	{"WRONGPASS", ErrLogin},
	{"NOAUTH", ErrLogin},
	{"ERR Protocol error: unauthenticated", ErrLogin}, // of a command with more than ten words
	{"ERR AUTH", ErrLogin},                            // "called without any password configured"
	{"ERR Client sent AUTH", ErrLogin},
	{"NOPERM", ErrForbidden},
	{"ERR The user executing the script can't", ErrForbidden},
	{"DENIED", ErrProtected},
	{"ERR max number of clients", ErrCrowded},
	{"LOADING", ErrLoading},
	{"READONLY", ErrReplica},
	{"MASTERDOWN", ErrReplica},
	{"MOVED", ErrCluster},
	{"CROSSSLOT", ErrCluster},
	{"CLUSTERDOWN", ErrCluster},
	{"BUSY", ErrBusy},
	{"OOM", ErrFull},
	{"MISCONF", ErrUnsaved},
	{"WRONGTYPE", ErrForeign},
}

// explain converts an error of go-redis, the network or the server to one of the errors above,
// with the original text. An unknown error keeps only its text.
func (n *Node) explain(err error) error {
	if errors.Is(err, quorum.ErrUnsent) {
		return unsent{n.translate(err)}
	}
	return n.translate(err)
}

// unsent is the error of a call that was not sent.
type unsent struct{ error }

func (u unsent) Unwrap() error { return u.error }

func (unsent) Is(target error) bool { return target == quorum.ErrUnsent }

// silence is ErrSilent of a call whose deadline has passed.
type silence struct{}

func (silence) Error() string   { return ErrSilent.Error() }
func (silence) Unwrap() []error { return []error{ErrSilent, context.DeadlineExceeded} }

// translate is explain without ErrUnsent.
func (n *Node) translate(err error) error {
	switch known := cause(err); {
	case err == nil:
		return nil
	case err == ErrClosed, err == errAnswer, err == quorum.ErrOtherRun, err == quorum.ErrRegistryFull, refused(err), errors.Is(err, ErrForeign):
		return &quorum.NodeError{Node: n.address, Err: err}
	case errors.Is(err, context.Canceled) && n.life.Err() != nil:
		return &quorum.NodeError{Node: n.address, Err: ErrClosed}
	case errors.Is(err, context.Canceled):
		return &quorum.NodeError{Node: n.address, Err: context.Canceled}
	case errors.Is(err, context.DeadlineExceeded):
		return &quorum.NodeError{Node: n.address, Err: silence{}}
	case known != nil:
		return &quorum.NodeError{Node: n.address, Err: known, Detail: n.words(err)}
	default:
		return &quorum.NodeError{Node: n.address, Err: errors.New(n.words(err))}
	}
}

// words returns the text of an error without the command: a server or proxy without
// AUTH may repeat its arguments.
func (n *Node) words(err error) string {
	words, _, _ := strings.Cut(err.Error(), ", with args beginning with")
	if n.secret != "" && strings.Contains(words, n.secret) {
		return "its message contains the password"
	}
	return words
}

// cause returns which of the errors above err is; nil if none.
func cause(err error) error {
	var reply goredis.Error
	if errors.As(err, &reply) {
		for _, r := range replies {
			if strings.HasPrefix(reply.Error(), r.prefix) {
				return r.means
			}
		}
		return nil
	}
	var wait net.Error
	var name *net.DNSError
	switch {
	case errors.Is(err, goredis.ErrClosed), errors.Is(err, net.ErrClosed):
		return ErrClosed
	case errors.Is(err, ErrTLS):
		return ErrTLS
	case errors.Is(err, goredis.ErrPoolTimeout), errors.As(err, &wait) && wait.Timeout():
		return ErrSilent
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.As(err, &name):
		return ErrAway
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return ErrHungUp
	}
	return nil
}
