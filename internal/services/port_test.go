package services

import (
	"net"
	"testing"
)

// An address is returned once, also while nobody listens there.
func TestFreeAddressesAreReserved(t *testing.T) {
	returned := make(map[string]bool)
	for range 300 {
		free, err := FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		if returned[free] {
			t.Fatalf("%s was returned twice", free)
		}
		returned[free] = true
		if socket, err := net.ListenPacket("udp", free); err == nil {
			socket.Close()
			t.Fatalf("another process could reserve %s", free)
		}
		l, err := net.Listen("tcp", free)
		if err != nil {
			t.Fatalf("the reserved address is in its own server's way: %v", err)
		}
		l.Close()
	}
}

// A port that was probed is free at once, also while servers are started.
func TestProbedPortIsFree(t *testing.T) {
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				s := server{log: t.TempDir() + "/log", command: []string{"/bin/true"}}
				if r, err := s.launch(); err == nil {
					<-r.ended
				}
			}
		}
	}()
	for range 2000 {
		if _, err := portOr(ports[0]); err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	<-stopped
}
