package services

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"time"
)

// Requests for the health of a server, and how the reply of a healthy one begins.
const (
	redisRequest, redisReply         = "PING\r\n", "+PONG"
	zookeeperRequest, zookeeperReply = "srvr", "Zookeeper version"
)

// query sends a request and returns the first line of the reply, or "" if there
// is none within a second. A nil config means no TLS.
func query(ctx context.Context, address string, config *tls.Config, question string) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	dial := (&net.Dialer{}).DialContext
	if config != nil {
		dial = (&tls.Dialer{Config: config}).DialContext
	}
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return ""
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return ""
	}
	if _, err := conn.Write([]byte(question)); err != nil {
		return ""
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return ""
	}
	return line
}
