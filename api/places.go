package api

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Headers of answers: the shard on which the user's claims are decided, such as 3/8, and
// the address of the process that decides there, see BaseURL.
const (
	ShardHeader = "Salectl-Shard"
	OwnerHeader = "Salectl-Owner"
)

// places is what a client has learned of where claims are decided. A wrong one costs a
// detour, and nothing else: every process answers or says who does.
type places struct {
	at []atomic.Int32 // by shard: 1 + the index of the server; 0: not known
}

// mostShards bounds what a client believes of a sale.
const mostShards = 1 << 16

// mostFollowed bounds the servers that a client has learned of.
const mostFollowed = 1024

// restAfter is for how long a server that gave no answer is not asked first.
const restAfter = time.Second

// shardOf is the shard of a user's claims. Servers count the same way.
func shardOf(user string, shards int) int { return int(xxhash.Sum64String(user) % uint64(shards)) }

// shardOfClaim is the shard in a claim's name, -1 if it has none.
func shardOfClaim(claim string) int {
	if id, ok := ParseClaimID(claim); ok {
		return id.Shard
	}
	return -1
}

// first returns the server to ask first: the one that decides on a shard, if that is known,
// or else the one that decided last.
func (c *Client) first(of func(shards int) int) int {
	last := int(c.decided.Load())
	p := c.places.Load()
	if p == nil {
		return last
	}
	shard := of(len(p.at))
	if shard < 0 || shard >= len(p.at) {
		return last
	}
	known := int(p.at[shard].Load()) - 1
	if known < 0 || c.server(known).rests() {
		return last
	}
	return known
}

// learn takes in who decides on a shard.
func (c *Client) learn(owner string, shard, shards int) {
	if owner == "" || shards <= 0 || shards > mostShards || shard < 0 || shard >= shards || len(c.servers) == 1 && !c.cfg.FollowOwners {
		return
	}
	p := c.places.Load()
	if p == nil || len(p.at) != shards {
		p = &places{at: make([]atomic.Int32, shards)}
		c.places.Store(p)
	}
	if known := p.at[shard].Load(); known > 0 && c.server(int(known)-1).is(owner) {
		return
	}
	p.at[shard].Store(int32(1 + c.find(owner)))
}

// learnFrom takes in what the headers of an answer say.
func (c *Client) learnFrom(h http.Header) {
	shard, shards, ok := strings.Cut(h.Get(ShardHeader), "/")
	if !ok {
		return
	}
	i, err1 := strconv.Atoi(shard)
	n, err2 := strconv.Atoi(shards)
	if err1 == nil && err2 == nil {
		c.learn(h.Get(OwnerHeader), i, n)
	}
}

// find returns the index of the server of that address, -1 if the client may not speak to
// it: the token is for those servers alone that it was told of.
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
		base.Scheme = "https" // and never without TLS where that was asked for
	}
	s := c.newServer(&url.URL{Scheme: base.Scheme, Host: host})
	more := append(followed[:len(followed):len(followed)], s)
	c.followed.Store(&more)
	return len(c.servers) + len(more) - 1
}

// server returns one of those that Config names, or one that was learned of.
func (c *Client) server(i int) *server {
	if i < len(c.servers) {
		return c.servers[i]
	}
	return (*c.followed.Load())[i-len(c.servers)]
}

// is reports whether a process calls itself so.
func (s *server) is(owner string) bool {
	if s.host == strings.TrimPrefix(owner, "https://") {
		return true
	}
	called := s.called.Load()
	return called != nil && *called == owner
}

// rests reports whether the server gave no answer a moment ago.
func (s *server) rests() bool {
	silent := s.silent.Load()
	return silent != 0 && time.Now().UnixNano()-silent < int64(restAfter)
}

// BaseURL is where a process is asked that calls itself by an address: host:port, with https://
// before it if the process speaks TLS.
func BaseURL(address string) string {
	if strings.HasPrefix(address, "https://") {
		return address
	}
	return "http://" + address
}

// hostOf is where a URL leads, with its port.
func hostOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Host
	case u.Scheme == "https":
		return u.Host + ":443"
	}
	return u.Host + ":80"
}
