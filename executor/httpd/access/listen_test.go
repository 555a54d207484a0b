package access

import (
	"errors"
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
