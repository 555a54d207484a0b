package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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

// inquiryFlags returns the flags of an inquiry, with more between them.
func inquiryFlags(server string, more ...urfave.Flag) []urfave.Flag {
	usage := map[string]string{
		"server": "`URL` of a serving salectl, like http://127.0.0.1:8080",
		"admin":  "`URL` of the admin address of a serving salectl, like http://127.0.0.1:8081",
	}
	flags := []urfave.Flag{valueFlag(server, usage[server]), valueFlag("sale", "`NAME` of the sale")}
	flags = append(append(flags, more...), valueFlag("token-file", "send the first bearer token in `FILE`"))
	return append(append(flags, tlsFlags()...),
		valueFlag("timeout", fmt.Sprintf("give up after `DURATION` (default: %s)", defaultInquiryTimeout)),
		onFlag("json", "answer in JSON"),
	)
}

func parseInquiry(f *flags, server string) inquiry {
	o := inquiry{
		secrets: f.secrets(),
		server:  f.server(server),
		flag:    server,
		sale:    f.need("sale"),
		timeout: f.duration("timeout", defaultInquiryTimeout),
		json:    f.on("json"),
	}
	f.speaksTLS(o.server, o.secrets)
	return o
}

// speaksTLS refuses flags of TLS beside a URL without TLS; nil: there is no URL.
func (f *flags) speaksTLS(server *url.URL, by secrets) {
	if server != nil && server.Scheme == "http" && by.tls != (access.TLSFiles{}) {
		f.refuse("--tls-ca, --tls-cert and --tls-key go with a URL that begins with https, not with %s", server)
	}
}

// server parses the base URL of a server.
func (f *flags) server(name string) *url.URL {
	text := f.need(name)
	if text == "" {
		return nil
	}
	u, err := api.ParseServer(text)
	if err != nil {
		f.refuse("%s must be a URL like http://127.0.0.1:8080, not %q", dashed(name), text)
		return nil
	}
	return u
}

// inquire sends requests until the server has decided or the time is up. It reports the reason
// of a retry, once for consecutive equal reasons.
func (p *program) inquire(ctx context.Context, o inquiry, ask func(context.Context, *api.Client) (api.Answer, error)) (api.Answer, error) {
	token, over, err := o.secrets.read()
	if err != nil {
		return api.Answer{}, err
	}
	said := ""
	client, err := api.NewClient(api.Config{
		Servers: []string{o.server.String()}, Sale: o.sale, Token: token, TLS: over,
		Attempted: func(a api.Attempt) bool {
			if why := whyAgain(a); a.Again && why != said {
				p.say("%s; asking again.", why)
				said = why
			}
			return true
		},
	})
	if err != nil {
		return api.Answer{}, err
	}
	defer client.Close()
	bounded, cancel := context.WithTimeoutCause(ctx, o.timeout, timedOut(o.timeout))
	defer cancel()
	a, err := ask(bounded, client)
	var unexpected *api.UnexpectedError
	var request *url.Error
	switch {
	case a.Outcome != "" && errors.Is(err, errTimeout):
		err = nil
	case errors.As(err, &request) && errors.Is(request.Err, errTimeout):
		err = fmt.Errorf("%w: no answer from %s", request.Err, o.server)
	case errors.Is(err, errTimeout), !errors.As(err, &unexpected):
	case unexpected.StatusCode == http.StatusUnauthorized:
		err = fmt.Errorf("%s refuses the request: %s", o.server, unauthorized(token))
	case unexpected.StatusCode == http.StatusForbidden && unexpected.Detail != "":
		err = fmt.Errorf("%s refuses the request: %s", o.server, unexpected.Detail)
	default:
		err = fmt.Errorf("%w; check %s", err, dashed(o.flag))
	}
	return a, err
}

// whyAgain describes the result of an attempt in a line.
func whyAgain(a api.Attempt) string {
	if a.Err != nil {
		return a.Err.Error()
	}
	return string(a.Answer.Outcome) + ": " + a.Answer.Problem().Detail
}
