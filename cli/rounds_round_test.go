package cli

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// round is the life of one sale, and what chance has in store for it.
type round struct {
	*testing.T
	all   *rounds
	n     uint64
	dir   string
	nodes []*synced // those of the sale

	packets bool // a red packet; otherwise units are numbers
	ack     string
	users   int
	stock   int  // as it was applied first
	more    int  // as it is in the end
	outage  int  // how many Redis are killed
	empty   bool // and come back without what they had

	began time.Time
	shops [2]*shop
	crowd *crowd

	// mu guards history, what has happened; it is told when the round fails.
	mu      sync.Mutex
	history []string
}

// The users of a round come in so many waves within a span, each wave at once.
const (
	waves     = 4
	roundSpan = 2 * time.Second
)

func newRound(t *testing.T, all *rounds, n int, nodes []*synced) *round {
	r := &round{T: t, all: all, n: uint64(n), began: time.Now(), dir: t.TempDir(), stock: 300, more: 300, packets: n%5 != 3, ack: "ledger"}
	if n/lanes%2 == 1 {
		r.ack = "redis"
	}
	switch {
	case n%12 == 11: // no majority is left: nobody sells until the Redis have waited
		r.outage = 2
	case n%3 == 2:
		r.outage = 1
	}
	// What a user was told with ack: ledger does not need the Redis any more.
	r.empty = r.ack == "ledger" && r.chance("empty").IntN(3) > 0
	// Without an outage two Redis are enough; then both must vote.
	r.nodes = nodes[:2]
	if r.outage > 0 {
		r.nodes = nodes
	}
	r.users = r.stock*2/3 + r.chance("users").IntN(r.stock*2/3)
	t.Cleanup(r.tell)
	r.shops, r.crowd = [2]*shop{{}, {}}, newCrowd(r)
	return r
}

// chance returns the random numbers of one actor. They do not depend on what the
// others do meanwhile.
func (r *round) chance(actor string) *rand.Rand {
	n := r.n
	for _, c := range []byte(actor) {
		n = n*131 + uint64(c)
	}
	return rand.New(rand.NewPCG(r.all.seed, n))
}

// note keeps what has happened, and counts it.
func (r *round) note(what, details string) {
	r.all.add(what)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, fmt.Sprintf("%6d ms: %s %s", time.Since(r.began).Milliseconds(), what, details))
}

// tell tells the history of a round that has failed.
func (r *round) tell() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Failed() {
		r.Logf("round %d of seed %d:\n%s", r.n, r.all.seed, strings.Join(r.history, "\n"))
	}
}

// moment waits for a random part of d and says whether ctx still goes on.
func moment(ctx context.Context, chance *rand.Rand, d time.Duration) bool {
	select {
	case <-time.After(time.Duration(chance.Int64N(int64(d) + 1))):
		return true
	case <-ctx.Done():
		return false
	}
}

var destroyEnd = []string{"destroy", "--yes", "--out", "end.ndjson"}

// quiet is a round in which nothing happens: it shows how long each command takes.
func (r *round) quiet() {
	r.write("sale.yaml", r.stock)
	for _, command := range [][]string{{"apply", "--yes"}, {"pause"}, {"resume"}, {"audit"}, destroyEnd} {
		r.step(command[0], 0, command...)
	}
}

// run is the life of the sale.
func (r *round) run() {
	r.write("sale.yaml", r.stock)
	r.Logf("%d users, %d units (packets: %v), ack: %s, %d of %d Redis killed (emptied: %v)",
		r.users, r.stock, r.packets, r.ack, r.outage, len(r.nodes), r.empty)
	chance := r.chance("run")
	outage := []string{"apply", "race", "race", "destroy"}[chance.IntN(4)]

	r.during(outage == "apply", r.all.takes("apply"), func() { r.step("apply", 0, "apply", "--yes") })
	if r.Failed() {
		return
	}
	r.serve()
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	r.crowd.come(ctx)
	r.during(outage == "race", roundSpan, func() {
		var events sync.WaitGroup
		events.Go(func() { r.killServers(r.chance("servers")) })
		events.Go(func() { r.event(ctx, r.chance("event")) })
		events.Wait()
	})
	switch chance.IntN(4) {
	case 0: // all have their answers, and nobody serves any more
		r.crowd.all.Wait()
		r.endServers()
	case 1: // all have their answers
		r.crowd.all.Wait()
	case 2: // some still ask
	case 3: // those who serve die while they answer, and nobody comes after them
		r.crowd.midst(ctx, chance)
		r.killServing(r.shops[:])
	}
	if r.Failed() {
		return
	}
	r.step("audit", 0, "audit")
	r.during(outage == "destroy", r.all.takes("destroy"), func() { r.step("destroy", 0, destroyEnd...) })
	stop()
	r.crowd.all.Wait()
	r.endServers()
	if outage == "destroy" && r.outage > 0 {
		// It says so when it could not reach a Redis that had no list any more.
		r.step("destroy again", 0, destroyEnd...)
	}
	if !r.Failed() {
		r.check()
	}
	r.all.add("rounds")
}

// during does something that takes about so long, and kills Redis at a random
// moment of it if it shall; in the race, while somebody is answered.
func (r *round) during(outage bool, usual time.Duration, do func()) {
	var killer sync.WaitGroup
	if outage && r.outage > 0 {
		killer.Go(func() { r.killRedis(r.chance("redis"), usual) })
	}
	do()
	killer.Wait()
}

// killRedis kills some of them and starts them again.
func (r *round) killRedis(chance *rand.Rand, usual time.Duration) {
	if moment(r.Context(), chance, usual); usual == roundSpan {
		r.crowd.midst(r.Context(), chance)
	}
	killed := chance.Perm(len(r.nodes))[:r.outage]
	for _, i := range killed {
		if err := r.nodes[i].Kill(); err != nil {
			r.Error(err)
		}
		r.note("redis-server killed", r.nodes[i].Addr())
	}
	moment(r.Context(), chance, time.Second)
	for _, i := range killed {
		if r.empty {
			if err := os.RemoveAll(filepath.Join(r.nodes[i].dir, "appendonlydir")); err != nil {
				r.Error(err)
			}
			r.all.add("redis-server emptied")
		}
		if err := r.nodes[i].Start(r.Context()); err != nil {
			r.Error(err)
		}
		r.note("redis-server started", r.nodes[i].Addr())
	}
}

// event is something that a person does while the sale goes on.
func (r *round) event(ctx context.Context, chance *rand.Rand) {
	if !moment(ctx, chance, roundSpan) {
		return
	}
	switch chance.IntN(4) {
	case 0, 1:
		r.step("pause", 0, "pause")
		moment(ctx, chance, time.Second)
		r.step("resume", 0, "resume")
	case 2:
		r.write("more.yaml", r.stock+60)
		if r.packets {
			r.step("apply refused", 3, "apply", "--yes", "-f", "more.yaml")
			return
		}
		r.more = r.stock + 60
		r.step("apply more", 0, "apply", "--yes", "-f", "more.yaml")
	case 3:
		r.step("apply again", 0, "apply", "--yes")
	}
}

// write writes the sale with so many units to a file.
func (r *round) write(name string, stock int) {
	var nodes []string
	for _, node := range r.nodes {
		nodes = append(nodes, strconv.Quote(node.Addr()))
	}
	units := ""
	if r.packets {
		units = fmt.Sprintf("  units: {redPacket: {total: \"%d.00\", currency: CNY, min: \"0.10\"}}\n", stock)
	}
	text := "apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: luck}\nspec:\n  engine: redis\n" +
		fmt.Sprintf("  stock: %d\n  lockCount: 4\n  ack: %s\n  lock: {ttl: 2s}\n%s", stock, r.ack, units) +
		"  redis: {nodes: [" + strings.Join(nodes, ", ") + "]}\n  embedded: {dir: ledger}\n"
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.Error(err)
	}
}
