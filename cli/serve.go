package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/hashicorp/go-multierror"
	urfave "github.com/urfave/cli/v2"

	"salectl/executor/httpd"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/events"
	"salectl/server"
	"salectl/spec"
)

// Default addresses of serve.
const (
	defaultListen = "127.0.0.1:8080"
	defaultAdmin  = "127.0.0.1:8081"
)

// Values of --log-format and --log-level, the default first.
var (
	logFormats = []string{"text", "json"}
	logLevels  = []string{"info", "debug", "warn", "error"}
)

type serveOptions struct {
	source
	listen    string
	admin     string
	tokenFile string
	tls       access.TLSFiles
	insecure  bool
	advertise string // "": the address of the listener
	standby   bool
	buyers    int // maximum number of connections; 0: as many as possible
	followers int // maximum number of followers of feeds; 0: the default
	idle      time.Duration
	logFormat string // text, json
	logLevel  slog.Level
}

func (p *program) serveCommand() *urfave.Command {
	return &urfave.Command{
		Name: "serve", Category: groupSale, Usage: "serve sales over HTTP",
		Description: "Serves all sales of the files. The files name the sales and their ledgers; " +
			"the applied declaration determines everything else. Any number of processes may serve a sale: " +
			"they find each other through its lock nodes, each owns some shards, and each answers " +
			"requests for all. A claim is a POST to /v1/sales/SALE/claims; see docs/http.md.\n\n" +
			"The files of a folder are read again every second, and all files at SIGHUP: a sale that " +
			"is declared and applied later is served from then on. With -f FOLDER the process also " +
			"starts while none of its sales is applied, but the folder must declare one; without -f it ends.\n\n" +
			"At SIGTERM or SIGINT the process hands its shards over to others, or answers the pending " +
			"requests if there are none, and exits with 0. A second signal ends it at once.",
		Flags: salesFlags(
			valueFlag("listen", "listen for buyers at `ADDRESS`; port 0 is any free port (default: "+defaultListen+")"),
			valueFlag("admin-listen", "listen for operators at `ADDRESS`: health, metrics, dashboard, refunds and drains (default: "+defaultAdmin+")"),
			valueFlag("token-file", "require a bearer token of `FILE`: one per line, followed by its rights (claim, confirm, follow, operate; none: all); read again when it changes"),
			valueFlag("tls-cert", "use TLS at both addresses, with the certificate chain in `FILE`; read again when it changes"),
			valueFlag("tls-key", "private key of --tls-cert in `FILE`"),
			valueFlag("tls-client-ca", "require client certificates signed by a CA in `FILE`"),
			valueFlag("tls-ca", "trust other processes whose certificates are signed by a CA in `FILE` (default: those of the system)"),
			onFlag("insecure", "accept requests of other machines without a token"),
			valueFlag("advertise", "publish `ADDRESS`, host:port, to other processes as the address of this one (default: that of --listen)"),
			onFlag("standby", "own no shard and forward all requests, until the process is started without this flag"),
			valueFlag("connections", fmt.Sprintf("accept at most `N` connections of buyers; beyond it, the longest idle one is closed "+
				"(default: the limit of open files less those that the process needs itself, at most %d)", httpd.MostConnections)),
			valueFlag("followers", fmt.Sprintf("accept at most `N` followers of feeds at a time (default: %d)", events.DefaultLimit)),
			valueFlag("idle-timeout", fmt.Sprintf("close idle connections after `DURATION`; it must exceed that of the load balancer "+
				"(default: %.0fs)", httpd.DefaultIdleTimeout.Seconds())),
			valueFlag("log-format", "log in `FORMAT`: text or json (default: text)"),
			valueFlag("log-level", "log messages of `LEVEL` and above: debug, info, warn or error (default: info)"),
		),
		Action: action(parseServe, p.serve),
	}
}

func parseServe(f *flags) serveOptions {
	o := serveOptions{
		source: parseSource(f), listen: defaultListen, admin: defaultAdmin,
		tokenFile: f.text("token-file"), insecure: f.on("insecure"), standby: f.on("standby"), buyers: int(f.number("connections", 1, 1<<20, 0)),
		followers: int(f.number("followers", 1, 1000, 0)),
		idle:      f.duration("idle-timeout", httpd.DefaultIdleTimeout),
		logFormat: f.oneOf("log-format", logFormats...),
	}
	o.tls = f.tlsFiles()
	if o.tls.ClientCA = f.text("tls-client-ca"); o.tls.ClientCA != "" && o.tls.Cert == "" {
		f.refuse("--tls-client-ca needs --tls-cert and --tls-key: clients show certificates over TLS alone")
	}
	if f.c.IsSet("advertise") {
		o.advertise = f.text("advertise")
		address, err := spec.ParseAddress(o.advertise)
		if host, _, _ := net.SplitHostPort(address); err != nil || net.ParseIP(host).IsUnspecified() {
			f.refuse("--advertise: %q is not an address that other hosts can reach; write it as host:port, such as 10.0.0.7:8080", o.advertise)
		}
	}
	level := f.oneOf("log-level", logLevels...)
	if err := o.logLevel.UnmarshalText([]byte(level)); err != nil {
		f.refuse("--log-level: %v", err)
	}
	for name, address := range map[string]*string{"listen": &o.listen, "admin-listen": &o.admin} {
		if f.c.IsSet(name) {
			*address = f.text(name)
		}
		// On the admin address requests that only read need no token, so a token does not
		// protect it.
		guarded := o.tokenFile != ""
		if name == "admin-listen" {
			guarded = o.tls.ClientCA != ""
		}
		if err := access.CheckListen(*address, guarded, o.insecure); err != nil && *address != "" {
			f.refuse("--%s: %v", name, err)
		}
	}
	return o
}

// hosts returns the names in the addresses of the command line.
func (o serveOptions) hosts() (names []string) {
	for _, address := range []string{o.listen, o.admin, o.advertise} {
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
	tokens, err := access.ReadTokens(o.tokenFile, access.Reachable(o.listen) || access.Reachable(o.admin))
	if err != nil {
		return err
	}
	certificates, err := access.ReadCertificates(o.tls)
	if err != nil {
		return err
	}
	most, err := server.Connections(o.buyers, sales, p.drivers.files)
	if err != nil {
		return err
	}
	buyers, err := listen("listen", o.listen)
	if err != nil {
		return err
	}
	defer func() { buyers.Close() }()
	admin, err := listen("admin-listen", o.admin)
	if err != nil {
		return err
	}
	defer admin.Close()

	s := server.New(server.Config{
		HTTP: httpd.Config{
			Log: p.serveLog(o), Address: o.address(buyers), Hosts: o.hosts(), Connections: most, Followers: o.followers,
			IdleTimeout: o.idle, Tokens: tokens, Certificates: certificates,
		},
		Admin: o.scheme() + server.Reached(admin), Standby: o.standby, Build: builtFrom(), Env: p.env, Open: p.open, Planning: p.planning,
		Read: func() ([]spec.Sale, error) { return p.reread(o.source) }, Watch: slices.ContainsFunc(o.files, isFolder), Complete: p.withFlags,
	})
	defer func() { err = errors.Join(err, s.Close()) }()
	// The address is free; the listener is closed again until the sales are read. A refused
	// connection makes buyers try another process at once instead of waiting for this one.
	at := buyers.Addr().String()
	buyers.Close()
	failures := p.eachSale(ctx, o.source, sales, func(sale spec.Sale) error { return s.Add(ctx, sale) })
	switch {
	case ctx.Err() != nil:
		return nil // ended before it began, which is no error
	case s.Sales() == 0 && !(o.named && s.Watch):
		if s.Watch {
			p.logf("Without -f, serve does not wait for an apply; 'salectl serve -f .' does.")
		}
		return failures
	case s.Watch:
		failures = nil // the server tries again
	}
	again, err := listen("listen", at)
	if err != nil {
		return err
	}
	buyers = again
	if err := s.Run(ctx, buyers, admin); err != nil {
		failures = multierror.Append(failures, err)
	}
	return failures
}

// reread reads the files as load does, without reporting problems.
func (p *program) reread(from source) ([]spec.Sale, error) {
	sales, _, err := p.read(from.files, bytes.NewReader(nil))
	if err := withExpressions(sales, err); err != nil {
		return nil, err
	}
	return from.chosen(sales)
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

// address returns the address of a listener for other processes and people; api.BaseURL
// converts it to a URL.
func (o serveOptions) address(l net.Listener) string {
	return o.scheme() + cmp.Or(o.advertise, server.Reached(l))
}

// scheme returns the prefix of the addresses of this process.
func (o serveOptions) scheme() string {
	if o.tls.Cert != "" {
		return "https://"
	}
	return ""
}
