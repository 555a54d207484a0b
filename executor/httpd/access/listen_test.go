package access

import (
	"strings"
	"testing"
)

func TestCheckListen(t *testing.T) {
	for name, c := range map[string]struct {
		addr               string
		hasToken, insecure bool
		want               string // a part of the error; "": allowed
	}{
		"IPv4 loopback":    {addr: "127.0.0.1:8080"},
		"all of 127":       {addr: "127.8.9.1:0"},
		"IPv6 loopback":    {addr: "[::1]:8080"},
		"mapped loopback":  {addr: "[::ffff:127.0.0.1]:8080"},
		"localhost":        {addr: "localhost:8080"},
		"everywhere":       {addr: ":8080", want: "use --insecure"},
		"IPv4 everywhere":  {addr: "0.0.0.0:8080", want: "use --insecure"},
		"IPv6 everywhere":  {addr: "[::]:8080", want: "use --insecure"},
		"a network":        {addr: "192.168.1.5:8080", want: "use --insecure"},
		"a name":           {addr: "tickets.example.com:8080", want: "use --insecure"},
		"like localhost":   {addr: "localhost.example.com:8080", want: "use --insecure"},
		"with a token":     {addr: ":8080", hasToken: true},
		"said on purpose":  {addr: ":8080", insecure: true},
		"token, no port":   {addr: "127.0.0.1", hasToken: true, want: "write host:port"},
		"insecure, no sep": {addr: "8080", insecure: true, want: "write host:port"},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckListen(c.addr, c.hasToken, c.insecure)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
		})
	}
}
