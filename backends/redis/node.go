package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"salectl/backends/quorum"
)

var _ quorum.Node = (*Node)(nil)

// markerKept is how long a marker that a vote wrote is kept after the last vote under it.
const markerKept = time.Hour

// keptForNext is how long a freed key is kept for the next waiter: the time for its
// notification and its ballot. A dead waiter delays the others by no more.
const keptForNext = 25 * time.Millisecond

// Name implements quorum.Node. It returns the server's address.
func (n *Node) Name() string { return n.address }

// Info implements quorum.Node.
func (n *Node) Info(ctx context.Context) (quorum.Info, error) {
	return runAndRead(ctx, n, infoScript, nil, nil, func(a *answer) (quorum.Info, error) {
		info := quorum.Info{RunID: a.text(), Time: a.time()}
		mode, role, master, policy := a.text(), a.text(), a.text(), a.text()
		info.Unfit = unfit(mode, role, master, policy)
		return info, nil
	})
}

// unfit returns the reasons why a server cannot be a lock node; "" for none.
func unfit(mode, role, master, policy string) string {
	var reasons []string
	if mode == "cluster" {
		reasons = append(reasons, "It belongs to a Redis Cluster, where one script cannot write all leases: name a standalone server instead.")
	}
	if role == "slave" {
		reasons = append(reasons, fmt.Sprintf("It is a replica of %s, and cannot be written: name a standalone server instead.", master))
	}
	if policy != "" && policy != "noeviction" {
		reasons = append(reasons, fmt.Sprintf("Its maxmemory-policy is %s, which may evict leases before they expire: set noeviction, by CONFIG SET and in redis.conf.", policy))
	}
	return strings.Join(reasons, " ")
}

// Mark implements quorum.Node.
func (n *Node) Mark(ctx context.Context, marker, runID string) error {
	done, err := n.count(ctx, markScript, []string{marker}, runID, milliseconds(quorum.MaxTTL))
	if err == nil && done == 0 {
		return n.explain(quorum.ErrOtherRun)
	}
	return err
}

// ReadMarker implements quorum.Node.
func (n *Node) ReadMarker(ctx context.Context, marker string) (quorum.Marker, error) {
	return runAndRead(ctx, n, readMarkerScript, []string{marker}, nil, func(a *answer) (quorum.Marker, error) {
		if len(a.items) == 0 {
			return quorum.Marker{}, nil
		}
		return quorum.Marker{Good: true, VotesFrom: a.time()}, nil
	})
}

// Forget implements quorum.Node.
func (n *Node) Forget(ctx context.Context, marker string) error {
	_, err := await(ctx, n, func(ctx context.Context) (int64, error) {
		return n.client.Del(ctx, marker).Result()
	})
	return err
}

// Vote implements quorum.Node. It rejects a ttl above quorum.MaxTTL, for which a node that lost
// its memory would not abstain long enough.
func (n *Node) Vote(ctx context.Context, b quorum.Ballot) (quorum.BallotReply, error) {
	keys, args, err := n.ballot(b)
	if err != nil {
		return quorum.BallotReply{}, err
	}
	return runAndRead(ctx, n, voteScript, keys, args, func(a *answer) (quorum.BallotReply, error) { return countOf(a, b.Requests), nil })
}

// ballot returns the keys and arguments of the vote script.
func (n *Node) ballot(b quorum.Ballot) (keys []string, args []any, err error) {
	if b.TTL <= 0 || b.TTL > quorum.MaxTTL {
		return nil, nil, fmt.Errorf("lock node %s: a lease of %v; it must be above 0 and at most %v", n.address, b.TTL, quorum.MaxTTL)
	}
	keys = append(make([]string, 0, 1+len(b.Requests)), b.Marker)
	args = append(make([]any, 0, 3+5*len(b.Requests)), milliseconds(b.TTL), milliseconds(quorum.MaxTTL), milliseconds(markerKept))
	for _, a := range b.Requests {
		if a.Token == "" || strings.Contains(a.Token, " ") {
			return nil, nil, fmt.Errorf("lock node %s: %q is no token: it is empty or has a space in it", n.address, a.Token)
		}
		renew := "0"
		switch {
		case a.Renew && a.QueryWaiters:
			renew = "2"
		case a.Renew:
			renew = "1"
		}
		keys = append(keys, a.Key)
		waited := a.Waited.Microseconds()
		if a.Waited < 0 {
			waited = -1 // not rounded to 0, which would list the waiter
		}
		args = append(args, a.Token, a.Note, renew, a.Waiter, waited)
	}
	return keys, args, nil
}

// countOf reads the answer to a ballot.
func countOf(a *answer, requests []quorum.LeaseRequest) quorum.BallotReply {
	count := quorum.BallotReply{
		Yes:       make([]bool, len(requests)),
		Holders:   make([]quorum.Holding, len(requests)),
		NoWaiters: make([]bool, len(requests)),
		Time:      a.time(),
	}
	if from := a.time(); from.UnixMicro() != 0 {
		count.Abstained, count.VotesFrom = true, from
	}
	count.Repaired = int(next[int64](a))
	for i, request := range requests {
		switch item := next[any](a).(type) {
		case int64:
			count.Yes[i] = item != 0
			count.NoWaiters[i] = item == 2
		case []any:
			lease := answer{items: item}
			h := &count.Holders[i]
			h.Key = request.Key
			h.Token, h.Note, h.Left = lease.held()
			a.bad = a.bad || lease.end() != nil
		default:
			a.bad = true
		}
	}
	return count
}

// Release implements quorum.Node.
func (n *Node) Release(ctx context.Context, requests []quorum.LeaseRequest) (int, error) {
	keys := make([]string, 0, len(requests))
	args := append(make([]any, 0, 2+4*len(requests)), milliseconds(keptForNext), milliseconds(quorum.HandOver))
	for _, a := range requests {
		keys = append(keys, a.Key)
		args = append(args, a.Token, a.Note, a.Waiter, a.Next)
	}
	return n.count(ctx, releaseScript, keys, args...)
}

// page is about how many keys List examines in one step of the server, which serves no other
// client meanwhile.
const page = 1000

// List implements quorum.Node. It scans all keys of the server, page by page. Every string with
// the prefix counts as a lease, except a key kept for a waiter. A lease without an expiry, or
// with one too far ahead, is reported with quorum.MaxTTL left, which the next vote for it sets.
func (n *Node) List(ctx context.Context, prefix string) ([]quorum.Holding, error) {
	pattern := literal.Replace(prefix) + "*"
	return await(ctx, n, func(ctx context.Context) ([]quorum.Holding, error) {
		found := map[string]quorum.Holding{}
		for cursor := "0"; ; {
			a, err := n.run(ctx, listScript, nil, cursor, pattern, page, milliseconds(quorum.MaxTTL))
			if err != nil {
				return nil, err
			}
			if cursor, err = readPage(a, found); err != nil {
				return nil, err
			}
			if cursor == "0" {
				return slices.SortedFunc(maps.Values(found), func(a, b quorum.Holding) int { return cmp.Compare(a.Key, b.Key) }), nil
			}
		}
	})
}

// literal escapes the special characters of a Redis pattern.
var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// readPage adds the leases of one page to found, and returns the cursor of the next page.
func readPage(a answer, found map[string]quorum.Holding) (cursor string, err error) {
	cursor = a.text()
	for len(a.items) > 0 {
		lease := answer{items: next[[]any](&a)}
		h := quorum.Holding{Key: lease.text()}
		h.Token, h.Note, h.Left = lease.held()
		found[h.Key] = h
		err = errors.Join(err, lease.end())
	}
	return cursor, errors.Join(err, a.end())
}

// milliseconds rounds up: a lease lasts at least as long as requested.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// Announce implements quorum.Node.
func (n *Node) Announce(ctx context.Context, registry string, m quorum.Member, ttl time.Duration) ([]quorum.Member, error) {
	if err := m.Check(ttl); err != nil {
		return nil, &quorum.NodeError{Node: n.address, Err: err}
	}
	args := []any{m.ID, m.Note, milliseconds(ttl), milliseconds(quorum.MaxTTL), quorum.MaxMembers}
	return runAndRead(ctx, n, announceScript, []string{registry}, args, func(a *answer) (members []quorum.Member, err error) {
		if len(a.items) == 0 && ttl > 0 {
			return nil, quorum.ErrRegistryFull
		}
		for len(a.items) > 0 {
			member := answer{items: next[[]any](a)}
			members = append(members, quorum.Member{
				ID: member.text(), Note: member.text(), Left: time.Duration(next[int64](&member)) * time.Microsecond,
			})
			a.bad = a.bad || member.end() != nil
		}
		return members, nil
	})
}

// Watch implements quorum.Node. Each call has a connection of its own, on which the server
// notifies of the key. Each waiter has a channel per key, so that only the next one is woken.
func (n *Node) Watch(ctx context.Context, key, waiter string, freed func()) error {
	ended := make(chan error, 1)
	// Connecting ignores the cancellation of a context.
	if !n.begin(func() { ended <- n.subscribe(ctx, key+":"+waiter, freed) }) {
		return n.explain(ErrClosed)
	}
	select {
	case <-ctx.Done():
		return n.explain(ctx.Err())
	case <-n.life.Done():
		return n.explain(ErrClosed)
	case err := <-ended:
		return n.explain(err)
	}
}

// subscribe subscribes to a channel, and calls freed when the server has confirmed that and for
// each message, until ctx, the node's life or the connection ends. go-redis would reconnect by
// itself, without reporting that it missed something.
func (n *Node) subscribe(ctx context.Context, channel string, freed func()) error {
	sub := n.client.Subscribe(n.life)
	hangUp := func() { sub.Close() }
	defer hangUp()
	defer context.AfterFunc(ctx, hangUp)()
	defer context.AfterFunc(n.life, hangUp)()
	if err := sub.Subscribe(ctx, channel); err != nil {
		return err
	}
	for {
		got, err := sub.Receive(n.life)
		switch {
		case errors.Is(err, goredis.ErrClosed):
			return ErrHungUp
		case err != nil:
			return err
		}
		if _, pong := got.(*goredis.Pong); !pong {
			freed()
		}
	}
}
