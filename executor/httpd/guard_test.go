package httpd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckListen(t *testing.T) {
	for name, c := range map[string]struct {
		addr               string
		hasToken, insecure bool
		want               error // nil: allowed
	}{
		"IPv4 loopback":    {addr: "127.0.0.1:8080"},
		"all of 127":       {addr: "127.8.9.1:0"},
		"IPv6 loopback":    {addr: "[::1]:8080"},
		"mapped loopback":  {addr: "[::ffff:127.0.0.1]:8080"},
		"localhost":        {addr: "localhost:8080"},
		"everywhere":       {addr: ":8080", want: ErrExposed},
		"IPv4 everywhere":  {addr: "0.0.0.0:8080", want: ErrExposed},
		"IPv6 everywhere":  {addr: "[::]:8080", want: ErrExposed},
		"a network":        {addr: "192.168.1.5:8080", want: ErrExposed},
		"a name":           {addr: "tickets.example.com:8080", want: ErrExposed},
		"like localhost":   {addr: "localhost.example.com:8080", want: ErrExposed},
		"with a token":     {addr: ":8080", hasToken: true},
		"said on purpose":  {addr: ":8080", insecure: true},
		"token, no port":   {addr: "127.0.0.1", hasToken: true, want: errAny},
		"insecure, no sep": {addr: "8080", insecure: true, want: errAny},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckListen(c.addr, c.hasToken, c.insecure)
			if (err == nil) != (c.want == nil) || c.want != errAny && !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if errors.Is(err, ErrExposed) && !strings.Contains(err.Error(), "--insecure") {
				t.Errorf("no remedy in %q", err)
			}
		})
	}
}

// errAny stands for an error that is no decision of its own.
var errAny = errors.New("any")

func TestReadToken(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		mode    os.FileMode
		token   string
		remedy  string // "": no error
	}{
		"one line":         {content: "s3cret\n", mode: 0o600, token: "s3cret"},
		"for a group":      {content: "s3cret", mode: 0o640, token: "s3cret"},
		"Windows line end": {content: "s3cret\r\n", mode: 0o600, token: "s3cret"},
		"empty":            {content: "", mode: 0o600, remedy: "write a random token"},
		"only an end":      {content: "\n", mode: 0o600, remedy: "write a random token"},
		"two lines":        {content: "a\nb\n", mode: 0o600, remedy: "one line"},
		"not ASCII":        {content: "né", mode: 0o600, remedy: "one line"},
		"something else":   {content: strings.Repeat("x", 5000), mode: 0o600, remedy: "more than 4096"},
		"for everyone":     {content: "s3cret", mode: 0o644, remedy: "chmod o-rwx"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(path, []byte(c.content), c.mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, c.mode); err != nil { // whatever the umask
				t.Fatal(err)
			}
			token, err := ReadToken(path)
			switch {
			case c.remedy == "" && err != nil:
				t.Fatal(err)
			case c.remedy != "" && (!errors.Is(err, ErrBadToken) || !strings.Contains(err.Error(), c.remedy) || !strings.Contains(err.Error(), path)):
				t.Fatalf("got %v, want ErrBadToken with %q and the path", err, c.remedy)
			}
			if token != c.token {
				t.Errorf("token %q, want %q", token, c.token)
			}
		})
	}
	if _, err := ReadToken(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
