package services

import (
	"net"
	"testing"
)

// An address that was told is told to nobody else, also while nobody listens there.
func TestFreeAddressesAreReserved(t *testing.T) {
	told := make(map[string]bool)
	for range 300 {
		free, err := FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		if told[free] {
			t.Fatalf("%s was told twice", free)
		}
		told[free] = true
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
