package access

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"salectl/executor/httpd/wire"
)

// On loopback only those names are answered to that mean this machine everywhere.
func TestHosts(t *testing.T) {
	inner := func(w http.ResponseWriter, _ *http.Request) *wire.Problem { w.WriteHeader(200); return nil }
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}
	for name, c := range map[string]struct {
		at   net.Addr
		more []string
		ok   []string
		not  []string
	}{
		"loopback": {loopback, nil,
			[]string{"127.0.0.1:8080", "127.0.0.1", "localhost", "LocalHost:9090", "localhost.", "[::1]:8080", "[::1]", ""},
			[]string{"evil.test", "evil.test:8080", "127.0.0.1.evil.test", "localhost.evil.test:8080", "127.8.0.1:8080", "192.168.0.1:8080", "box:8080", "127.0.0.1:8080:1"}},
		"its own name": {loopback, []string{"Box"}, []string{"box:8080", "localhost"}, []string{"boxes:8080"}},
		"another of 127": {&net.TCPAddr{IP: net.IPv4(127, 8, 0, 1), Port: 1}, nil,
			[]string{"127.8.0.1:1", "127.8.0.1:2", "localhost"}, []string{"127.9.0.1:1"}},
		"IPv6":     {&net.TCPAddr{IP: net.IPv6loopback, Port: 8080}, nil, []string{"[::1]:8080", "localhost:8080"}, []string{"evil.test:8080", "[::2]:8080"}},
		"beyond":   {&net.TCPAddr{IP: net.IPv4(192, 168, 0, 1), Port: 8080}, nil, []string{"shop.test", "192.168.0.1"}, nil},
		"anywhere": {&net.TCPAddr{IP: net.IPv6unspecified, Port: 8080}, nil, []string{"shop.test"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := WithHosts(c.at, c.more, inner)
			ask := func(host string, want int) {
				r := httptest.NewRequest("GET", "/", nil)
				r.Host = host
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if w.Code != want {
					t.Errorf("Host %q: status %d, want %d", host, w.Code, want)
				}
			}
			for _, host := range c.ok {
				ask(host, 200)
			}
			for _, host := range c.not {
				ask(host, 403)
			}
		})
	}
}
