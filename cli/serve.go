package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/hashicorp/go-multierror"
	urfave "github.com/urfave/cli/v2"

	"salectl/backends"
	"salectl/executor/httpd"
	"salectl/spec"
)

// Where serve listens unless it is told.
const (
	defaultListen = "127.0.0.1:8080"
	defaultAdmin  = "127.0.0.1:8081"
)

type serveOptions struct {
	source
	listen    string
	admin     string
	tokenFile string
	insecure  bool
	buyers    int    // connections at a time; 0: as many as can be
	logFormat string // text, json
	logLevel  slog.Level
}

func (p *program) serveCommand() *urfave.Command {
	return &urfave.Command{
		Name: "serve", Category: groupSale, Usage: "answer claims over HTTP",
		Description: "Serves all sales of the files from one process. The files say which sales and where\n" +
			"they are kept; everything else comes from what was applied. Where another process\n" +
			"serves a sale, this one stands by and takes over when it ends.\n" +
			"SIGTERM or SIGINT: answers what was accepted, then exits with 0. A second one: at once.",
		Flags: []urfave.Flag{
			fileFlag(),
			valueFlag("listen", "answer buyers at `ADDRESS`; port 0 takes a free one (default: "+defaultListen+")"),
			valueFlag("admin", "answer /healthz, /readyz, /metrics and refunds at `ADDRESS` (default: "+defaultAdmin+")"),
			valueFlag("token-file", "ask buyers for the bearer token in `FILE`"),
			onFlag("insecure", "let other machines in without a token"),
			valueFlag("connections", fmt.Sprintf("keep at most `N` connections of buyers; one more closes the one that has been idle for longest "+
				"(default: as many as may be open files, less what the rest needs, at most %d)", httpd.MostConnections)),
			valueFlag("log-format", "log as `FORMAT`: text or json (default: text)"),
			valueFlag("log-level", "log from `LEVEL` on: debug, info, warn or error (default: info)"),
		},
		Action: action(parseServe, p.serve),
	}
}

func parseServe(f *flags) serveOptions {
	o := serveOptions{
		source: source{files: f.files()}, listen: defaultListen, admin: defaultAdmin,
		tokenFile: f.text("token-file"), insecure: f.on("insecure"), buyers: int(f.number("connections", 1, 1<<20, 0)),
		logFormat: f.oneOf("log-format", "text", "json"),
	}
	level := f.oneOf("log-level", "info", "debug", "warn", "error")
	if err := o.logLevel.UnmarshalText([]byte(level)); err != nil {
		f.refuse("--log-level: %v", err)
	}
	for name, address := range map[string]*string{"listen": &o.listen, "admin": &o.admin} {
		if f.c.IsSet(name) {
			*address = f.text(name)
		}
		// The admin address asks nobody who only looks for a token, so one does not open it.
		hasToken := name == "listen" && o.tokenFile != ""
		if err := httpd.CheckListen(*address, hasToken, o.insecure); err != nil && *address != "" {
			f.refuse("--%s: %v", name, err)
		}
	}
	return o
}

// hosts are the names in the addresses that serve was told to listen at.
func (o serveOptions) hosts() (names []string) {
	for _, address := range []string{o.listen, o.admin} {
		if host, _, err := net.SplitHostPort(address); err == nil && host != "" {
			names = append(names, host)
		}
	}
	return names
}

func (p *program) serve(ctx context.Context, o serveOptions) (err error) {
	sales, err := p.load(ctx, o.source)
	if err != nil {
		return err
	}
	token, err := httpd.ReadToken(o.tokenFile)
	if err != nil {
		return err
	}
	most, err := p.connections(o.buyers, sales)
	if err != nil {
		return err
	}
	buyers, err := listen("listen", o.listen)
	if err != nil {
		return err
	}
	defer buyers.Close()
	admin, err := listen("admin", o.admin)
	if err != nil {
		return err
	}
	defer admin.Close()

	log := p.serveLog(o)
	s := &server{log: log, address: buyers.Addr().String(), hosts: o.hosts(), most: most, token: token, env: p.env, stores: backends.Stores{Logger: log, Opener: p.open}}
	defer func() { err = errors.Join(err, s.stores.Close()) }()
	failures := p.eachSale(ctx, o.source, sales, func(sale spec.Sale) error { return s.add(ctx, p, sale) })
	switch {
	case ctx.Err() != nil:
		return nil // ended before it began, which is good order too
	case len(s.sales) == 0:
		return failures
	}
	if err := s.run(ctx, buyers, admin); err != nil {
		failures = multierror.Append(failures, err)
	}
	return failures
}

func (p *program) serveLog(o serveOptions) *slog.Logger {
	options := &slog.HandlerOptions{Level: o.logLevel}
	if o.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(p.err, options))
	}
	return slog.New(slog.NewTextHandler(p.err, options))
}

func listen(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w; choose another address, or port 0 for any free one", flag, err)
	}
	return l, nil
}

// reach is where a listener is reached, as people type it.
func reach(l net.Listener) string {
	address := l.Addr().String()
	// An address that means all of them is no place to go to.
	if host, port, err := net.SplitHostPort(address); err == nil && net.ParseIP(host).IsUnspecified() {
		name, err := os.Hostname()
		if err != nil || strings.ContainsAny(name, ": ") {
			name = "localhost"
		}
		address = net.JoinHostPort(name, port)
	}
	return "http://" + address
}
