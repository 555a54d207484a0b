package request

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
)

// TestUnderway holds the table against a plain one.
func TestUnderway(t *testing.T) {
	var u Underway
	var in []*Ticket
	count := func(user string) (n int) {
		for _, x := range in {
			if x.User == user {
				n++
			}
		}
		return n
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		if len(in) == 0 || r.IntN(100) < 51 {
			x := &Ticket{Request: Request{User: fmt.Sprint("user-", r.IntN(300)), Key: "key"}}
			before := count(x.User) > 0
			u.enter(x)
			in = append(in, x)
			if got := u.hasBefore(x); got != before {
				t.Fatalf("an earlier request of %s: %v, want %v", x.User, got, before)
			}
		} else {
			i := r.IntN(len(in))
			u.Leave(in[i])
			in = append(in[:i], in[i+1:]...)
		}
		user := fmt.Sprint("user-", r.IntN(300))
		if got := u.Has(&Request{User: user, Key: "key"}); got != (count(user) > 0) {
			t.Fatalf("%s is under way: %v, with %d requests", user, got, count(user))
		}
		if u.Has(&Request{User: user, Key: "another"}) || int(u.size.Load()) != len(in) {
			t.Fatalf("another key is under way, or %d of %d are", u.size.Load(), len(in))
		}
	}
}

// TestWithdraw withdraws claims that peers have forwarded: only the one of the id and the link, once, and
// none that is being decided.
func TestWithdraw(t *testing.T) {
	var u Underway
	var link, other atomic.Bool
	ticket := func(id uint64, key string) *Ticket {
		x := &Ticket{Request: Request{User: "ann", Key: key}}
		x.MarkFromPeer(id, &link)
		u.enter(x)
		return x
	}
	first, second, taken := ticket(1, "a"), ticket(2, "a"), ticket(3, "b")
	u.enter(&Ticket{Request: Request{User: "ann", Key: "a"}})
	taken.Take()
	for _, c := range []struct {
		id   uint64
		key  string
		link *atomic.Bool
		want *Ticket
	}{
		{1, "a", &other, nil}, {1, "b", &link, nil}, {3, "b", &link, nil}, {0, "a", &link, nil},
		{1, "a", &link, first}, {1, "a", &link, nil}, {2, "a", &link, second},
	} {
		if got := u.Withdraw("ann", c.key, c.id, c.link); got != c.want {
			t.Errorf("the claim %d of key %s: %+v, want %+v", c.id, c.key, got, c.want)
		}
	}
}

// TestDoubts bounds what is remembered: beyond that everything on the shard is in
// doubt, until it is settled.
func TestDoubts(t *testing.T) {
	var d Doubts
	d.Add("run-1", 1, "ann", "a")
	d.Add("run-1", 2, "bob", "a")
	if !d.Has("ann", "a") || d.Has("ann", "b") || !d.Has("bob", "a") {
		t.Error("it does not know what it was told")
	}
	d.Add("run-1", 1, "cat", AnyKey)
	if !d.Has("cat", "a") || !d.Has("cat", "b") || d.Has("dan", "a") {
		t.Error("all of cat's is in doubt, and nothing of dan's")
	}
	d.forget("run-1", 1)
	if d.Has("cat", "a") {
		t.Error("cat's was settled")
	}
	if d.Has("ann", "a") || !d.Has("bob", "a") {
		t.Error("shard 1 was settled, not shard 2")
	}
	d.Drop(2, "bob", "a")
	if d.Has("bob", "a") || d.Len() != 0 {
		t.Error("bob's is known")
	}
	for i := range maxDoubts + 5 {
		d.Add("run-1", 3, fmt.Sprint("user-", i), "a")
	}
	d.Drop(3, "user-0", "a")
	if !d.Has("user-0", "a") || !d.Has("somebody", "else") || d.Len() != maxDoubts {
		t.Errorf("with %d in doubt somebody is sure", d.Len())
	}
	d.forget("run-1", 3)
	if d.Has("user-0", "a") || d.Len() != 0 {
		t.Error("shard 3 was settled")
	}
	d.Add("run-1", 3, "ann", "a")
	d.forget("run-2", 0)
	if d.Has("ann", "a") || d.Len() != 0 {
		t.Error("another run has begun")
	}
	d.Add("run-1", 3, "bob", "a")
	d.Add("run-1", 3, "cat", "a")
	d.Drop(3, "cat", "a")
	d.Drop(3, "cat", "a") // nothing is known of it any more
	d.Drop(3, "dan", "a")
	if d.Has("ann", "a") || !d.Has("bob", "a") || d.Has("cat", "a") || d.Len() != 1 {
		t.Errorf("bob's alone is in doubt, and not %d", d.Len())
	}
	d.Add("run-2", 3, "eve", "a")
	if d.Has("bob", "a") || !d.Has("eve", "a") || d.Len() != 1 {
		t.Errorf("eve's alone is in doubt, of another run, and not %d", d.Len())
	}
}

// BenchmarkUnderway has requests enter and leave, with so many under way.
func BenchmarkUnderway(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var u Underway
			all := make([]*Ticket, n)
			for i := range all {
				all[i] = &Ticket{}
			}
			users := make([]string, n)
			for i := range users {
				users[i] = fmt.Sprintf("user-%08d", i)
			}
			keys := make([]string, 1<<20)
			for i := range keys {
				keys[i] = fmt.Sprintf("key-%08d-%d", i, i*7)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				x := all[i%n]
				if i >= n {
					u.Leave(x)
				}
				x.Request = Request{User: users[i%n], Key: keys[i%(1<<20)]}
				u.enter(x)
				u.Has(&x.Request)
			}
		})
	}
}
