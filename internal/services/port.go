package services

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

const loopback = "127.0.0.1"

// Ports are drawn from below the range that the kernel hands out for outgoing
// connections, so that none of those can sit on a server's port while the
// server is down.
const firstPort, lastPort = 20000, 32000

// reserved are what keeps other processes from drawing a port that this one has drawn and
// where no server listens yet, or none at the moment: a UDP socket at the same number, which
// is in no TCP server's way. They are open until the process ends.
var reserved struct {
	sync.Mutex
	sockets []net.PacketConn
}

// forking is held while a port is probed and while a server is started: a child that
// is forked amid a probe has its socket until it executes its program, and the server
// of that port could not bind.
var forking sync.Mutex

// FreeAddress returns an address on loopback at which nobody listens, and which is
// returned to no other process for as long as this process runs.
func FreeAddress() (string, error) {
	ports, err := freePorts(1)
	if err != nil {
		return "", err
	}
	return address(ports[0]), nil
}

// freePorts returns n different ports on which nobody listens, and reserves them.
func freePorts(n int) ([]int, error) {
	reserved.Lock()
	defer reserved.Unlock()
	var ports []int
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		port := firstPort + rand.IntN(lastPort-firstPort)
		socket, err := net.ListenPacket("udp", address(port))
		if err != nil {
			continue
		}
		if _, err := portOr(port); err != nil {
			socket.Close()
			continue
		}
		reserved.sockets = append(reserved.sockets, socket)
		ports = append(ports, port)
	}
	return nil, fmt.Errorf("there are no %d free ports on %s between %d and %d", n, loopback, firstPort, lastPort)
}

// portOr returns the requested port if nobody listens there, or a free
// one for 0.
func portOr(port int) (int, error) {
	if port == 0 {
		ports, err := freePorts(1)
		if err != nil {
			return 0, err
		}
		return ports[0], nil
	}
	forking.Lock()
	defer forking.Unlock()
	listener, err := net.Listen("tcp", address(port))
	if err != nil {
		return 0, fmt.Errorf("another program has the port: %w", err)
	}
	return port, listener.Close()
}

// retryLostPort starts a server anew, which means on another port, when it lost
// the port that was chosen for it. A fixed port has no other.
func retryLostPort(fixed bool, start func() error) error {
	for tries := 3; ; tries-- {
		err := start()
		if fixed || tries == 1 || !errors.Is(err, errPortLost) {
			return err
		}
	}
}

// startNew starts the server that prepare returns. A server that lost its port is prepared anew.
func startNew[S interface {
	Start(context.Context) error
	Stop()
}](ctx context.Context, fixed bool, prepare func() (S, error)) (started S, err error) {
	err = retryLostPort(fixed, func() error {
		s, err := prepare()
		if err != nil {
			return err
		}
		if err = s.Start(ctx); err != nil {
			s.Stop()
			return err
		}
		started = s
		return nil
	})
	return started, err
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
