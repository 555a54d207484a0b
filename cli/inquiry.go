package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"salectl/api"
	"salectl/executor/httpd/access"
)

// inquiry is a query or request to a server about a sale, repeated until the server has
// decided.
type inquiry struct {
	secrets
	server  *url.URL
	flag    string // flag that names the server
	sale    string
	timeout time.Duration
	json    bool
}

// defaultInquiryTimeout is the time for which a command retries while a server is overloaded
// or no owner. A takeover after a crash takes about one lock's ttl.
const defaultInquiryTimeout = 10 * time.Second

// serverFlag and adminFlag name a server: by its address for buyers, and by that for
// operators.
func serverFlag() *urfave.StringFlag {
	return &urfave.StringFlag{Name: "server", EnvVars: []string{environment("server")}, Usage: "`URL` of a server, like http://" + defaultListen}
}

func adminFlag() *urfave.StringFlag {
	return &urfave.StringFlag{Name: "admin", EnvVars: []string{environment("admin")}, Usage: "`URL` of the admin address of a server, like http://" + defaultAdmin}
}

// inquiryFlags returns the flags of an inquiry, with more between them.
func inquiryFlags(server *urfave.StringFlag, more ...urfave.Flag) []urfave.Flag {
	flags := []urfave.Flag{required(server), required(valueFlag("sale", "`NAME` of the sale"))}
	flags = append(append(flags, more...), tokenFlag())
	return append(append(flags, tlsFlags()...), boundFlag(defaultInquiryTimeout), onFlag("json", "print JSON"))
}

func tokenFlag() urfave.Flag {
	return valueFlag("token-file", "send the first bearer token in `FILE`")
}

func boundFlag(ifAbsent time.Duration) urfave.Flag {
	return valueFlag("timeout", fmt.Sprintf("time out after `DURATION` (default: %s)", ifAbsent))
}

func parseInquiry(f *flags, server string) inquiry {
	return inquiry{
		secrets: f.secrets(),
		server:  f.server(server),
		flag:    server,
		sale:    f.text("sale"),
		timeout: f.duration("timeout", defaultInquiryTimeout),
		json:    f.on("json"),
	}
}

// server parses the URL of a server, which the environment may have; nil: there is none. Flags
// of TLS are refused beside a URL without TLS.
func (f *flags) server(name string) *url.URL {
	text := f.c.String(name)
	if text == "" {
		if !f.absent(name) {
			f.refuse("%s is empty", dashed(name))
		}
		return nil
	}
	u, err := api.ParseServer(text)
	switch {
	case err != nil:
		example := map[string]string{"server": defaultListen, "admin": defaultAdmin}
		f.refuse("%s must be a URL like http://%s, not %q", dashed(name), example[name], text)
		return nil
	case u.Scheme == "http" && f.tlsFiles() != (access.TLSFiles{}):
		f.refuse("--tls-ca, --tls-cert and --tls-key need a URL that begins with https, not %s", u)
	}
	return u
}

// environment returns the variable of a flag. An empty one counts as absent.
func environment(flag string) string { return "SALECTL_" + strings.ToUpper(flag) }

// command formats a command on the sale with its flags, given those of its own, each followed by
// its value. It omits flags whose value is "".
func (o inquiry) command(format string, flags ...string) string {
	var words []string
	flags = append([]string{o.flag, o.server.String(), "sale", o.sale}, flags...)
	flags = append(flags, "token-file", o.tokenFile, "tls-ca", o.tls.CA, "tls-cert", o.tls.Cert, "tls-key", o.tls.Key)
	for flag := range slices.Chunk(flags, 2) {
		if flag[1] != "" {
			words = append(words, "--"+flag[0], quoted(flag[1]))
		}
	}
	return fmt.Sprintf(format, strings.Join(words, " "))
}

// connection is a client of the server of an inquiry.
type connection struct {
	*api.Client
	inquiry
	token string
}

// connect returns a client of the server. attempted is api.Config's.
func (o inquiry) connect(attempted func(api.Attempt) bool) (*connection, error) {
	token, over, err := o.secrets.read()
	if err != nil {
		return nil, err
	}
	client, err := api.NewClient(api.Config{
		Servers: []string{o.server.String()}, Sale: o.sale, Token: token, TLS: over, Attempted: attempted,
	})
	return &connection{client, o, token}, err
}

// inquire sends requests until the server has decided or the time is up. It reports the reason
// of retries, once for consecutive equal reasons.
func (p *program) inquire(ctx context.Context, o inquiry, send func(context.Context, *api.Client) (api.Answer, error)) (api.Answer, error) {
	reported := ""
	server, err := o.connect(func(a api.Attempt) bool {
		if why := whyAgain(o.server.String(), a); a.Again && why != reported {
			p.logf("%s; retrying.", why)
			reported = why
		}
		return true
	})
	if err != nil {
		return api.Answer{}, err
	}
	defer server.Close()
	bounded, cancel := context.WithTimeoutCause(ctx, o.timeout, timedOut(o.timeout))
	defer cancel()
	a, err := send(bounded, server.Client)
	if a.Outcome != "" && errors.Is(err, errTimeout) {
		return a, nil
	}
	return a, server.explain(err)
}

// explain converts an error of the server to one for people.
func (s *connection) explain(err error) error {
	request, failed := errors.AsType[*url.Error](err)
	problem, refused := errors.AsType[*api.Problem](err)
	unexpected, is := errors.AsType[*api.UnexpectedError](err)
	switch {
	case failed && errors.Is(request.Err, errTimeout):
		return fmt.Errorf("%w: no answer from %s", request.Err, s.server)
	case failed && errors.Is(err, errTimeout):
		return fmt.Errorf("%w: %w", timedOut(s.timeout), unreachable(s.server.String(), request))
	case failed:
		return unreachable(s.server.String(), request)
	case refused:
		return &outcomeError{problem.Outcome, problem.Detail}
	case !is || errors.Is(err, errTimeout):
		return err
	case unexpected.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("%s refuses the request: %s", s.server, unauthorized(s.token))
	case unexpected.StatusCode == http.StatusForbidden && unexpected.Detail != "":
		return fmt.Errorf("%s refuses the request: %s", s.server, unexpected.Detail)
	case s.flag == "admin":
		return fmt.Errorf("%w; check %s", err, adminHint)
	}
	return fmt.Errorf("%w; check %s", err, dashed(s.flag))
}

// adminHint describes the address that --admin needs.
const adminHint = "--admin: it must be the URL of --admin-listen of 'salectl serve', http://" + defaultAdmin + " by default, not that of --listen"

// whyAgain describes the result of an attempt in a line.
func whyAgain(server string, a api.Attempt) string {
	var request *url.Error
	switch {
	case errors.As(a.Err, &request):
		return unreachable(server, request).Error()
	case a.Err != nil:
		return a.Err.Error()
	}
	return string(a.Answer.Outcome) + ": " + a.Answer.Problem().Detail
}

// unreachable describes the failure of a request without the request itself.
func unreachable(server string, failed *url.Error) error {
	var dial *net.OpError
	if !errors.As(failed, &dial) || dial.Op != "dial" {
		return fmt.Errorf("%s: %w", server, failed.Err)
	}
	why := dial.Err
	if call := new(os.SyscallError); errors.As(why, &call) {
		why = call.Err
	}
	return fmt.Errorf("no server answers at %s: %w", server, why)
}

// tlsFlags returns the flags of TLS for a command that sends requests to servers.
func tlsFlags() []urfave.Flag {
	return []urfave.Flag{
		valueFlag("tls-ca", "trust servers whose certificates are signed by a CA in `FILE` (default: those of the system)"),
		valueFlag("tls-cert", "client certificate in `FILE`, for servers that require one"),
		valueFlag("tls-key", "private key of --tls-cert in `FILE`"),
	}
}

// tlsFiles parses the flags of TLS.
func (f *flags) tlsFiles() access.TLSFiles {
	files := access.TLSFiles{Cert: f.text("tls-cert"), Key: f.text("tls-key"), CA: f.text("tls-ca")}
	if (files.Cert == "") != (files.Key == "") {
		f.refuse("--tls-cert and --tls-key require each other: name both files or none")
	}
	return files
}

// secrets are the credentials of a command for servers.
type secrets struct {
	tokenFile string
	tls       access.TLSFiles
}

// secrets parses the flags of token and TLS.
func (f *flags) secrets() secrets { return secrets{f.text("token-file"), f.tlsFiles()} }

// read reads the files.
func (s secrets) read() (token string, over *tls.Config, err error) {
	if token, err = access.ReadToken(s.tokenFile); err != nil {
		return "", nil, err
	}
	certificates, err := access.ReadCertificates(s.tls)
	return token, certificates.Client(), err
}
