package httpd

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"salectl/executor"
)

// visitor is one connection of a client.
type visitor struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func visit(t *testing.T, v *serving) *visitor {
	t.Helper()
	c, err := net.Dial("tcp", v.url[len("http://"):])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &visitor{c, t, bufio.NewReader(c)}
}

func (v *visitor) ask() {
	v.t.Helper()
	if _, err := fmt.Fprintf(v, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"user\":\"u\"}", claimsPath); err != nil {
		v.t.Error(err)
	}
}

// hears returns the status of the answer, 0 if the connection was closed instead.
func (v *visitor) hears() int {
	v.t.Helper()
	r, err := http.ReadResponse(v.r, nil)
	if err != nil {
		return 0
	}
	io.Copy(io.Discard, r.Body)
	r.Body.Close()
	return r.StatusCode
}

// TestConnections fills a server with connections: those that are idle make room,
// the one first that has been for longest, and those with a request never.
func TestConnections(t *testing.T) {
	g := newGate()
	s := New(Config{Sales: []executor.Service{g}, Connections: 3})
	v := serve(t, s)
	busy := visit(t, v)
	busy.ask()
	<-g.inside
	silent, used := visit(t, v), visit(t, v)
	used.ask()
	<-g.inside
	g.open <- struct{}{}
	g.open <- struct{}{}
	if busy.hears() != 201 || used.hears() != 201 {
		t.Fatal("with room for all somebody is not answered")
	}
	busy.ask()
	<-g.inside

	fourth := visit(t, v) // in the place of silent, which has been idle for longest
	fourth.ask()
	<-g.inside
	if got := silent.hears(); got != 0 {
		t.Errorf("the connection that never asked hears %d", got)
	}
	fifth := visit(t, v) // in that of used
	fifth.ask()
	<-g.inside
	if got := used.hears(); got != 0 {
		t.Errorf("the connection that is idle hears %d", got)
	}
	sixth := visit(t, v) // there is no place, until somebody has an answer
	sixth.ask()
	g.open <- struct{}{}
	<-g.inside
	close(g.open)
	for name, one := range map[string]*visitor{"first": busy, "fourth": fourth, "fifth": fifth, "sixth": sixth} {
		if got := one.hears(); got != 201 {
			t.Errorf("the %s connection, with a request under way, hears %d", name, got)
		}
	}
}

// Buyers who take all their connections leave the admin address its own.
func TestAdminHasItsOwnConnections(t *testing.T) {
	g := newGate()
	s := New(Config{Sales: []executor.Service{g}, Connections: 1})
	v, admin := serve(t, s), serveWith(t, s, s.ServeAdmin)
	one := visit(t, v)
	one.ask()
	<-g.inside
	visit(t, v).ask()
	for range 3 * AdminConnections {
		r, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(admin.url + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
	}
	close(g.open)
	if got := one.hears(); got != 201 {
		t.Errorf("the buyer hears %d", got)
	}
}
