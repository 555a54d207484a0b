package access

import (
	"errors"
	"net"
	"net/http"
	"testing"
)

// A listener that is closed while a connection waits for room ends the wait.
func TestConnectionsEnd(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := NewListener(inner, 1)
	dial := func() net.Conn {
		d, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d
	}
	dial()
	one, err := c.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c.ConnState(one, http.StateActive)
	second := dial()
	ended := make(chan error, 1)
	go func() {
		_, err := c.Accept()
		ended <- err
	}()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept returns %v", err)
	}
	if _, err := second.Read(make([]byte, 1)); err == nil {
		t.Error("who waited for room hears something")
	}
	if err := one.Close(); err != nil || c.open != 0 || c.idle.Len() != 0 {
		t.Errorf("%v, %d are open and %d idle", err, c.open, c.idle.Len())
	}
	one.Close()
	if c.open != 0 {
		t.Errorf("closed twice, %d are open", c.open)
	}
}
