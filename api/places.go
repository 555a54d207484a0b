package api

import (
	"cmp"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Headers of answers: the shard of the user's claims, such as 3/8, and the address of its
// owner, see BaseURL.
const (
	ShardHeader = "Salectl-Shard"
	OwnerHeader = "Salectl-Owner"
)

// mostShards bounds the number of shards that a client accepts.
const mostShards = 1 << 16

// mostFollowed bounds the number of servers discovered from answers.
const mostFollowed = 1024

// restAfter is the time for which a server that did not answer is not tried first.
const restAfter = time.Second

// shardOf returns the shard of a user's claims, as servers compute it.
func shardOf(user string, shards int) int { return int(xxhash.Sum64String(user) % uint64(shards)) }

// first returns the server to try first: the known owner of the shard, or else the server that
// decided last.
func (c *Client) first(of func(shards int) int) int {
	if p := c.owners.Load(); p != nil {
		if shard := of(len(*p)); shard >= 0 && shard < len(*p) {
			if known := int((*p)[shard].Load()) - 1; known >= 0 && !c.server(known).rests() {
				return known
			}
		}
	}
	return int(c.decided.Load())
}

// setOwner records the owner of a shard.
func (c *Client) setOwner(owner string, shard, shards int) {
	if owner == "" || shards <= 0 || shards > mostShards || shard < 0 || shard >= shards || len(c.servers) == 1 && !c.cfg.FollowOwners {
		return
	}
	p := c.owners.Load()
	if p == nil || len(*p) != shards {
		p = new(make([]atomic.Int32, shards))
		c.owners.Store(p)
	}
	at := &(*p)[shard]
	if known := at.Load(); known == 0 || !c.server(int(known)-1).is(owner) {
		at.Store(int32(1 + c.find(owner)))
	}
}

// setOwnerFrom records the owner in the headers of an answer.
func (c *Client) setOwnerFrom(h http.Header) {
	shard, shards, ok := strings.Cut(h.Get(ShardHeader), "/")
	if !ok {
		return
	}
	i, err1 := strconv.Atoi(shard)
	n, err2 := strconv.Atoi(shards)
	if err1 == nil && err2 == nil {
		c.setOwner(h.Get(OwnerHeader), i, n)
	}
}

// find returns the index of the server with that address, -1 if the client may not use it: the
// token is only for the configured servers.
func (c *Client) find(owner string) int {
	for i, s := range c.servers {
		if s.is(owner) {
			return i
		}
	}
	if !c.cfg.FollowOwners {
		return -1
	}
	c.following.Lock()
	defer c.following.Unlock()
	var followed []*server
	if all := c.followed.Load(); all != nil {
		followed = *all
	}
	for i, s := range followed {
		if s.is(owner) {
			return len(c.servers) + i
		}
	}
	base, err := url.Parse(c.servers[0].base)
	host, secure := strings.CutPrefix(owner, "https://")
	if err != nil || len(followed) >= mostFollowed || strings.ContainsAny(host, "/?#@ ") {
		return -1
	}
	if secure {
		base.Scheme = "https" // never fall back from TLS
	}
	s := c.newServer(&url.URL{Scheme: base.Scheme, Host: host})
	more := append(followed[:len(followed):len(followed)], s)
	c.followed.Store(&more)
	return len(c.servers) + len(more) - 1
}

// server returns the configured or discovered server with that index.
func (c *Client) server(i int) *server {
	if i < len(c.servers) {
		return c.servers[i]
	}
	return (*c.followed.Load())[i-len(c.servers)]
}

// is reports whether the process names itself owner.
func (s *server) is(owner string) bool {
	if s.host == strings.TrimPrefix(owner, "https://") {
		return true
	}
	called := s.called.Load()
	return called != nil && *called == owner
}

// rests reports whether the server recently did not answer.
func (s *server) rests() bool {
	silent := s.silent.Load()
	return silent != 0 && time.Now().UnixNano()-silent < int64(restAfter)
}

// BaseURL returns the base URL for an address of a process: host:port, with https:// before it
// if the process uses TLS.
func BaseURL(address string) string {
	if strings.HasPrefix(address, "https://") {
		return address
	}
	return "http://" + address
}

// hostOf returns the host and port of a URL.
func hostOf(u *url.URL) string {
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]))
}
