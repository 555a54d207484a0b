package services

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// RedisOptions describes a redis-server. The zero value is a server on a free
// port with a temporary folder.
type RedisOptions struct {
	Dir  string // for its log and data; empty: a temporary one, removed by Stop
	Port int    // 0: a free one
	// Args are further arguments of redis-server, one word each, and win over
	// the launcher's own: "--maxmemory-policy", "allkeys-lru" or "--user",
	// "alice", "on", ">secret", "~*", "+@all". They must leave its log on
	// standard output.
	Args []string
	// TLS makes an authority and a certificate for 127.0.0.1 and localhost in
	// Dir, and serves nothing but TLS.
	TLS bool
}

// Redis is a redis-server. It keeps nothing on disk unless Args configure it,
// so that one that is killed and started again is empty.
type Redis struct {
	server
	port        int
	certificate *certificate // nil without TLS
}

// StartRedis starts a redis-server and returns when it answers PING.
func StartRedis(ctx context.Context, o RedisOptions) (*Redis, error) {
	return startNew(ctx, o.Port != 0, func() (*Redis, error) { return newRedis(o) })
}

// newRedis prepares a redis-server that does not run yet.
func newRedis(o RedisOptions) (*Redis, error) {
	program, err := redisServer.path()
	if err != nil {
		return nil, err
	}
	port, err := portOr(o.Port)
	if err != nil {
		return nil, err
	}
	dir, temporary, err := folder(o.Dir, "redis")
	if err != nil {
		return nil, err
	}
	r := &Redis{port: port}
	command := []string{program, "--bind", loopback, "--dir", dir, "--save", "", "--appendonly", "no"}
	if o.TLS {
		if r.certificate, err = makeCertificate(dir); err != nil {
			return nil, err
		}
		command = append(command, "--port", "0", "--tls-port", strconv.Itoa(port), "--tls-auth-clients", "no",
			"--tls-cert-file", r.certificate.server, "--tls-key-file", r.certificate.key, "--tls-ca-cert-file", r.certificate.authority)
	} else {
		command = append(command, "--port", strconv.Itoa(port))
	}
	r.server = server{
		name:    "redis-server on " + address(port),
		command: append(command, o.Args...),
		log:     filepath.Join(dir, "redis.log"),
		// The answer alone would not do: whoever had the port before could give
		// it while our server is about to fail. The log alone would, but a
		// client wants an answer.
		ready: func(ctx context.Context, log string) bool {
			return strings.Contains(log, "Ready to accept connections") && r.answers(ctx)
		},
		limit:     startLimit,
		grace:     5 * time.Second,
		temporary: temporary,
	}
	return r, nil
}

// Addr returns the server's address, host:port.
func (r *Redis) Addr() string { return address(r.port) }

// CAFile returns the PEM file of the authority that signed the server's
// certificate, or "" without TLS.
func (r *Redis) CAFile() string {
	if r.certificate == nil {
		return ""
	}
	return r.certificate.authority
}

// CertPool returns a pool with that authority alone, or nil without TLS.
func (r *Redis) CertPool() *x509.CertPool {
	if r.certificate == nil {
		return nil
	}
	return r.certificate.pool
}

// answers reports whether the server answers. "Not before you authenticate" is an
// answer too.
func (r *Redis) answers(ctx context.Context) bool {
	var config *tls.Config
	if r.certificate != nil {
		config = &tls.Config{RootCAs: r.certificate.pool}
	}
	answer := query(ctx, r.Addr(), config, redisRequest)
	return strings.HasPrefix(answer, redisReply) || strings.HasPrefix(answer, "-NOAUTH")
}
