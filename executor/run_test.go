package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/backends/memory"
	"salectl/backends/quorum"
	"salectl/executor/saletest"
	"salectl/spec"
)

// gatedLists is a node that keeps lists, whose grabs hang while the gate is shut, whatever their
// contexts say.
type gatedLists struct {
	lists.Node
	grabs gate
}

func (n *gatedLists) Grab(ctx context.Context, batches []lists.Batch) ([]lists.Given, error) {
	if err := n.grabs.pass(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	return n.Node.Grab(ctx, batches)
}

// inListedCluster is inCluster of a sale with engine redis and ack redis, whose lists are on one node.
func inListedCluster(t *testing.T, shares []int64, test func(c *cluster, node *gatedLists)) {
	var node *gatedLists
	inClusterAs(t, quorum.DefaultTTL, shares, func(c *cluster, _ *pb.Settings) {
		node = &gatedLists{Node: memory.NewLists("node", time.Now)}
		c.lists = []lists.Node{node}
		c.sale.Engine, c.sale.Ack, c.sale.Backlog, c.sale.Redis = spec.EngineRedis, spec.AckRedis, spec.DefaultBacklog, &spec.Redis{Nodes: []string{"node"}}
	}, func(c *cluster) { test(c, node) })
}

// TestLostSaleEndsAll damages the sale's own log under two processes, one of which waits for the
// other's answer: all requests are answered, and no goroutine is left, without which the bubble
// does not end.
func TestLostSaleEndsAll(t *testing.T) {
	inListedCluster(t, []int64{50, 50}, func(c *cluster, _ *gatedLists) {
		a, b := c.start("a", nil), c.start("b", nil)
		shared(a, b)
		user := c.usersOf(b, 1)[0]
		b.links.close() // what a sends arrives nowhere
		waits := make(chan Answer, 1)
		a.Begin(Request{User: user, Key: "key", Quantity: 1}, func(answer Answer) { waits <- answer })
		log := spec.SaleLog(c.sale.Name)
		head, entries, err := c.logs.Read(c.t.Context(), log, 0, 100)
		if err != nil {
			c.t.Fatal(err)
		}
		if err := c.logs.Append(c.t.Context(), log, uint64(len(entries)), head, []byte("no head"), []byte("no entry")); err != nil {
			c.t.Fatal(err)
		}
		for _, m := range []*clusterProcess{a, b} {
			if err := <-m.over; !errors.Is(err, ledger.ErrCorrupt) {
				c.t.Errorf("Run: %v", err)
			}
		}
		select {
		case answer := <-waits:
			if answer.Outcome != api.Unknown {
				c.t.Errorf("whoever waits for the other process: %+v", answer)
			}
		default:
			c.t.Error("whoever waits for the other process is not answered")
		}
		c.totals.cut("a:1")
		c.totals.cut("b:1")
	})
}

// TestListNodeHangsAtTheEnd seals a sale while a node of lists does not return from a call: its
// process goes on doing what it is asked.
func TestListNodeHangsAtTheEnd(t *testing.T) {
	inListedCluster(t, []int64{50}, func(c *cluster, node *gatedLists) {
		m := c.serve("first", nil)
		defer m.stop()
		node.grabs.close()
		defer node.grabs.open()
		waits := m.later("ann")
		synctest.Wait()
		s := saletest.LoadShard(c.t, c.logs, 0, 1)
		root := s.Root()
		saletest.AppendSale(c.t, c.logs, c.sale.Name, &pb.Op{Op: &pb.Op_Sealed{Sealed: &pb.Sealed{Slots: []uint64{s.Next()}, Roots: [][]byte{root[:]}}}})
		m.within(2*quorum.DefaultTTL, "at the end of its session", func() bool { return m.log.count("this process stops selling") == 1 })
		if declared, serves := m.Declared(); serves || declared.Name != c.sale.Name {
			c.t.Errorf("of the run that has ended it knows %+v, serves %v", declared, serves)
		}
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
		defer cancel()
		if _, err := m.StandBy(ctx, true); !errors.Is(err, ErrNotServing) {
			c.t.Errorf("while a node hangs: %v", err)
		}
		if a := <-waits; a.Accepted() {
			c.t.Errorf("ann gets %+v", a)
		}
	})
}

// TestLookupsEndInTime gives lookups up that wait for a peer, and for what a node gave to come
// into the ledger.
func TestLookupsEndInTime(t *testing.T) {
	const patience = 10 * time.Millisecond
	ends := func(t *testing.T, what string, look func(context.Context) api.Outcome, want api.Outcome) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		began := time.Now()
		if why := look(ctx); why != want || time.Since(began) != patience {
			t.Errorf("%s: %q after %v, want %q", what, why, time.Since(began), want)
		}
	}
	userOf := func(m *clusterProcess, user string) func(context.Context) api.Outcome {
		return func(ctx context.Context) api.Outcome {
			_, _, why := lookupUser(ctx, m, user, api.Page{})
			return why
		}
	}
	inCluster(t, quorum.DefaultTTL, []int64{50, 50}, func(c *cluster) {
		a, b := c.start("a", nil), c.start("b", nil)
		defer b.stop()
		defer a.stop()
		shared(a, b)
		user := c.usersOf(b, 1)[0]
		b.links.close()
		defer b.links.open()
		ends(c.t, "a user's claims", userOf(a, user), api.Standby)
		ends(c.t, "a claim", func(ctx context.Context) api.Outcome {
			_, why := lookupClaim(ctx, a, ClaimID{Shard: spec.HomeShard(user, 2), Slot: 1}, api.Page{})
			return why
		}, api.Standby)
	})
	inListedCluster(t, []int64{50}, func(c *cluster, _ *gatedLists) {
		m := c.serve("first", nil)
		defer m.stop()
		m.store.all.close()
		defer m.store.all.open()
		m.sells("ann")
		ends(c.t, "a user's claims, of which the ledger lacks one", userOf(m, "ann"), "")
	})
}

// TestLedgerDeleted deletes the logs of a sale that is served: the process says that it knows a run
// which the store does not have.
func TestLedgerDeleted(t *testing.T) {
	inCluster(t, quorum.DefaultTTL, []int64{50, 50}, func(c *cluster) {
		m := c.serve("first", nil)
		defer m.stop()
		m.sells("ann")
		const says = "the sale's log is gone, but its run had not ended"
		logs := []string{spec.SaleLog(c.sale.Name), spec.ShardLog(saletest.UID, 0, 2), spec.ShardLog(saletest.UID, 1, 2)}
		for _, log := range logs {
			if err := c.logs.Delete(c.t.Context(), log, 1000); err != nil {
				c.t.Fatal(err)
			}
		}
		m.within(10*time.Second, "telling that the log is gone", func() bool { return m.log.count(says) == 1 })
		if n := m.log.count("level=ERROR msg=\"" + says); n != 1 {
			c.t.Errorf("its log:\n%s", m.log)
		}
		if why := fmt.Sprint(m.Ready()); !strings.Contains(why, "the sale's log is gone, and its run 1 ("+saletest.UID+") had not ended") {
			c.t.Errorf("ready: %s", why)
		}
		if a := m.claim("bob"); a.Outcome != api.Standby {
			c.t.Errorf("a claim: %+v", a)
		}
	})
}
