package services

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"salectl/internal/wait"
)

// PostgresOptions describes a PostgreSQL server. The zero value is one on a free port.
type PostgresOptions struct {
	Port int // 0: a free one
	// Args are further arguments of postgres, one word each, and win over the
	// launcher's own: "-c", "max_connections=10".
	Args []string
}

// Postgres is a PostgreSQL server with an empty database of the name postgres. It
// lets every user on this machine in, without a password. Its data lies in a
// temporary folder, which Stop removes; as installed it syncs each commit, so that
// one that is killed and started again has each commit that it acknowledged.
type Postgres struct {
	server
	port int
}

// StartPostgres makes a database and returns when its server takes connections.
func StartPostgres(ctx context.Context, o PostgresOptions) (*Postgres, error) {
	return startNew(ctx, o.Port != 0, func() (*Postgres, error) { return newPostgres(ctx, o) })
}

// newPostgres makes the database of a server that does not run yet.
func newPostgres(ctx context.Context, o PostgresOptions) (*Postgres, error) {
	program, err := postgres.path()
	if err != nil {
		return nil, err
	}
	port, err := portOr(o.Port)
	if err != nil {
		return nil, err
	}
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, _, err := folder("", "postgres")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := initdb(ctx, filepath.Join(filepath.Dir(program), "initdb"), data, as); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	command := []string{
		program, "-D", data, "-p", strconv.Itoa(port), "-c", "listen_addresses=" + loopback, "-c", "unix_socket_directories=",
	}
	return &Postgres{port: port, server: server{
		name:      "PostgreSQL on " + address(port),
		command:   append(command, o.Args...),
		log:       filepath.Join(dir, "postgres.log"),
		as:        as,
		ready:     logged("database system is ready to accept connections"),
		limit:     startLimit,
		grace:     5 * time.Second,
		bye:       syscall.SIGINT, // to SIGTERM it would wait for its clients
		temporary: dir,
	}}, nil
}

// account is a user of this machine.
type account struct{ uid, gid uint32 }

// unprivileged returns whom to run PostgreSQL as, which refuses to run as root; nil:
// as whoever runs this process.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres") // the package makes it
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, fmt.Errorf("PostgreSQL does not run as root, and there is nobody else to run it as: %w", err)
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("the user %s: %w", u.Username, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("the user %s: %w", u.Username, err)
	}
	return &account{uint32(uid), uint32(gid)}, nil
}

// initdb makes a database in a folder that does not exist yet. It is thrown away if
// the machine loses power meanwhile, so it need not be synced.
func initdb(ctx context.Context, program, data string, as *account) error {
	dir := filepath.Dir(data)
	if as != nil {
		if err := os.Chown(dir, int(as.uid), int(as.gid)); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, program, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale", "C", "--no-sync")
	cmd.Dir = dir
	cmd.SysProcAttr = childAttributes(false, as)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, lastLines(string(out)))
	}
	return nil
}

// Start starts the server again after Kill, on the same port and data, and returns
// when it takes connections. The processes that Kill left over end by themselves, and
// no new server begins beside them: Start tries until they are gone.
func (p *Postgres) Start(ctx context.Context) error {
	var failed error // for good
	err := wait.Poll(p.limit, func() error {
		err := p.server.Start(ctx)
		if err == nil || !strings.Contains(err.Error(), "is still in use") || ctx.Err() != nil {
			failed = err
			return nil
		}
		return err
	})
	return errors.Join(failed, err)
}

// URL names the database to clients, also in Go: postgres://postgres@127.0.0.1:20000/postgres?sslmode=disable.
func (p *Postgres) URL() string {
	return "postgres://postgres@" + address(p.port) + "/postgres?sslmode=disable"
}

// Query queries the database by psql and returns the rows, a line each,
// with | between columns.
func (p *Postgres) Query(ctx context.Context, sql string) (string, error) {
	psql := filepath.Join(filepath.Dir(p.command[0]), "psql")
	out, err := exec.CommandContext(ctx, psql, "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", p.URL(), "-c", sql).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", sql, err, lastLines(string(out)))
	}
	return string(out), nil
}
