package apply

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/memory"
	"salectl/spec"
)

// listWorld is a world with two nodes that keep the lists of three shards, and
// what buyers were told there.
type listWorld struct {
	*world
	told  map[string]int64 // unit by user, of all grabs that were answered
	users int              // named so far
}

func newListWorld(t testing.TB) *listWorld {
	w := &listWorld{world: newWorld(t), told: make(map[string]int64)}
	for i := range 2 {
		w.keepers = append(w.keepers, memory.NewLists(fmt.Sprintf("redis-%d:6379", i), func() time.Time { return w.now.Wall }))
	}
	return w
}

func (w *listWorld) keeper(shard int) *memory.Lists {
	return w.keepers[spec.ListNode(shard, len(w.keepers))]
}

func (w *listWorld) state(shard int) lists.State {
	w.Helper()
	s, err := w.keeper(shard).Inspect(context.Background(), lists.List{UID: w.actual().Sale.UID(), Shard: shard})
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// grab has new users of a shard ask its list, which may give nothing, under the
// fill that the log is at.
func (w *listWorld) grab(shard, users int) (given int) {
	w.Helper()
	actual := w.actual()
	if len(actual.Shards) == 0 || actual.Shards[shard].Head == nil {
		return 0
	}
	b := lists.Batch{List: lists.List{UID: actual.Sale.UID(), Shard: shard}, Fill: actual.Shards[shard].Head.Fill, At: w.now.Wall.UnixMicro()}
	for len(b.Users) < users {
		w.users++
		if user := fmt.Sprint("user-", w.users); spec.HomeShard(user, 3) == shard {
			b.Users, b.Keys = append(b.Users, user), append(b.Keys, "key")
		}
	}
	got, err := w.keeper(shard).Grab(context.Background(), []lists.Batch{b})
	if err != nil {
		return 0
	}
	for i, u := range got[0].Units {
		if u.Number > 0 {
			w.told[b.Users[i]] = u.Number
			given++
		}
	}
	return given
}

// grabAll has a few users ask each list.
func (w *listWorld) grabAll() {
	w.Helper()
	for shard := range 3 {
		w.grab(shard, 2)
	}
}

// ledgers folds the shards' logs.
func (w *listWorld) ledgers() (shards []*ledger.State) {
	w.Helper()
	sale := w.actual().Sale
	for i := range sale.Shards() {
		s := ledger.NewState(spec.ShardLog(sale.UID(), i, sale.Shards()))
		if _, err := ledger.Load(context.Background(), w.store.Handle(nil), spec.ShardLog(sale.UID(), i, sale.Shards()), s); err != nil {
			w.Fatal(err)
		}
		shards = append(shards, s)
	}
	return shards
}

// wantTold checks that the ledger has all that buyers were told.
func (w *listWorld) wantTold(shards []*ledger.State) {
	w.Helper()
	for user, unit := range w.told {
		c, _ := shards[spec.HomeShard(user, 3)].Newest(user, 9)
		if len(c) != 1 || !slices.Equal(c[0].Units, []int64{unit}) {
			w.Fatalf("%s was told of unit %d, the ledger has %+v", user, unit, c)
		}
	}
}

// wantOn checks that every list gives just what its log has available.
func (w *listWorld) wantOn() {
	w.Helper()
	w.audit()
	for i, s := range w.ledgers() {
		if l := w.state(i); !l.On || l.Fill != s.Fill || l.Units+l.Entries > s.Available || l.Entries == 0 && l.Units != s.Available {
			w.Fatalf("the list of shard %d is %+v, its log has %+v", i, l, s.Totals)
		}
	}
}

// wantOff checks that no list gives, and that the ledger has all that any gave.
func (w *listWorld) wantOff() {
	w.Helper()
	w.audit()
	w.wantTold(w.ledgers())
	for i := range 3 {
		if l := w.state(i); l.On {
			w.Fatalf("the list of shard %d is %+v", i, l)
		}
	}
}

// wantForgotten checks that no node has anything of a run's lists.
func (w *listWorld) wantForgotten(uid string) {
	w.Helper()
	for _, n := range w.keepers {
		for i := range 3 {
			if s, err := n.Inspect(context.Background(), lists.List{UID: uid, Shard: i}); s.Exists || err != nil {
				w.Errorf("%s has the list of shard %d: %+v, %v", n.Name(), i, s, err)
			}
		}
	}
}
