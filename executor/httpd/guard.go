package httpd

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
)

// ErrExposed says that strangers could reach the server and nothing would stop
// them.
var ErrExposed = errors.New("listening beyond loopback needs a token")

// ErrBadToken says that a token file is not fit for use.
var ErrBadToken = errors.New("unusable token file")

// CheckListen refuses an address that other machines can reach, unless buyers
// need a token or the user has said that all is open on purpose. A host name
// other than localhost counts as reachable: what it means may change.
func CheckListen(addr string, hasToken, insecure bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("listen address %q: %w; write host:port, like 127.0.0.1:8080", addr, err)
	}
	ip := net.ParseIP(host)
	if hasToken || insecure || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("%w: other machines can reach %s; listen on 127.0.0.1 or [::1], "+
		"give a bearer-token file, or say --insecure if everyone may claim", ErrExposed, addr)
}

// maxToken keeps out files that are something else.
const maxToken = 4096

// ReadToken reads a bearer token from a file: one line of visible ASCII. It
// refuses a file that everyone on the machine can read. Without a path there is none.
func ReadToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	if mode := info.Mode(); mode.IsRegular() && mode.Perm()&0o004 != 0 {
		return "", fmt.Errorf("%w: everyone can read %s (mode %04o); run: chmod o-rwx %s", ErrBadToken, path, mode.Perm(), path)
	}
	content, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	token := strings.TrimSpace(string(content))
	switch {
	case token == "":
		return "", fmt.Errorf("%w: %s is empty; write a random token into it, for instance by: openssl rand -hex 32 > %s", ErrBadToken, path, path)
	case len(content) > maxToken:
		return "", fmt.Errorf("%w: %s has more than %d bytes", ErrBadToken, path, maxToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", fmt.Errorf("%w: the token in %s must be one line of visible ASCII characters", ErrBadToken, path)
	}
	return token, nil
}
