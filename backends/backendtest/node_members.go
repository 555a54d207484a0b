package backendtest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"salectl/backends/quorum"
)

const registry = "salectl:suite:registry"

func (t nodeTest) announce(n quorum.Node, registry, id, note string, ttl time.Duration) []quorum.Member {
	t.Helper()
	members, err := n.Announce(t.Context(), registry, quorum.Member{ID: id, Note: note}, ttl)
	if err != nil {
		t.Fatalf("announce %s: %v", id, err)
	}
	slices.SortFunc(members, func(a, b quorum.Member) int { return cmp.Compare(a.ID, b.ID) })
	return members
}

// wantMembers checks the members, each as "id: note".
func (t nodeTest) wantMembers(members []quorum.Member, want ...string) {
	t.Helper()
	var got []string
	for _, m := range members {
		got = append(got, m.ID+": "+m.Note)
		if m.Left <= 0 || m.Left > quorum.MaxTTL {
			t.Errorf("%s expires in %v", m.ID, m.Left)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the members are %q, want %q", got, want)
	}
}

func announcesPresence(t nodeTest) {
	t.wantMembers(t.announce(t.a, registry, "one", "1 here\nand there", quorum.MaxTTL), "one: 1 here\nand there")
	t.wantMembers(t.announce(t.b, registry, "two", "", quorum.MaxTTL), "one: 1 here\nand there", "two: ")
	t.wantMembers(t.announce(t.b, registry+"2", "three", "%", quorum.MaxTTL), "three: %")
	t.wantMembers(t.announce(t.a, registry, "one", "2 é \x00", quorum.MaxTTL), "one: 2 é \x00", "two: ")
	t.wantMembers(t.announce(t.a, registry, "two", "left", 0), "one: 2 é \x00")
	t.wantMembers(t.announce(t.b, registry, "never-there", "", 0), "one: 2 é \x00")
	t.wantMembers(t.announce(t.b, registry, "one", "", 0))
	t.wantMembers(t.announce(t.b, "salectl:empty", "one", "", 0))
	t.wantMembers(t.announce(t.a, registry, "three", "", quorum.MinTTL), "three: ")
	t.mustMark(sale)
	if found, err := t.a.List(t.Context(), ""); err != nil || len(found) > 0 {
		t.Errorf("list finds %+v, %v; a member is no lease", found, err)
	}
}

func membersRunOut(t nodeTest) {
	t.announce(t.a, registry, "short", "", quorum.MinTTL)
	t.announce(t.a, registry, "renewed", "", quorum.MinTTL)
	t.announce(t.b, registry, "renewed", "", quorum.MaxTTL)
	t.announce(t.b, registry, "shortened", "", quorum.MaxTTL)
	t.announce(t.a, registry, "shortened", "", quorum.MinTTL)
	t.pass(quorum.MinTTL)
	members := t.announce(t.b, registry, "reader", "", 0)
	t.wantMembers(members, "renewed: ")
	if len(members) == 1 && members[0].Left > quorum.MaxTTL-quorum.MinTTL {
		t.Errorf("it has %v left", members[0].Left)
	}
}

func registryHasBounds(t nodeTest) {
	for name, m := range map[string]quorum.Member{
		"no id":               {},
		"an id with a space":  {ID: "one two"},
		"an id that is long":  {ID: strings.Repeat("i", quorum.MaxID+1)},
		"a note that is long": {ID: "one", Note: strings.Repeat("n", quorum.MaxNote+1)},
	} {
		if members, err := t.a.Announce(t.Context(), registry, m, quorum.MinTTL); err == nil {
			t.Errorf("%s is accepted: %+v", name, members)
		}
	}
	for _, ttl := range []time.Duration{-1, quorum.MaxTTL + 1} {
		if members, err := t.a.Announce(t.Context(), registry, quorum.Member{ID: "one"}, ttl); err == nil {
			t.Errorf("a ttl of %v is accepted: %+v", ttl, members)
		}
	}
	long := quorum.Member{ID: strings.Repeat("i", quorum.MaxID), Note: strings.Repeat("n", quorum.MaxNote)}
	t.wantMembers(t.announce(t.b, registry, long.ID, long.Note, quorum.MaxTTL), long.ID+": "+long.Note)
	t.wantMembers(t.announce(t.b, registry, long.ID, "", 0))
}

func registryIsFull(t nodeTest) {
	one := func(i int) error {
		_, err := t.a.Announce(t.Context(), registry, quorum.Member{ID: fmt.Sprint("member-", i)}, quorum.MaxTTL)
		return err
	}
	// The first member must not have expired when the last is announced.
	for late := true; late; {
		begin := t.info().Time
		if t.hands.Fill != nil {
			t.hands.Fill(registry)
		} else {
			for i := range quorum.MaxMembers {
				if err := one(i); err != nil {
					t.Fatalf("member %d: %v", i, err)
				}
			}
		}
		err := one(quorum.MaxMembers)
		known := one(0)
		if late = t.info().Time.Sub(begin) >= quorum.MaxTTL; late {
			t.pass(quorum.MaxTTL)
			continue
		}
		if !errors.Is(err, quorum.ErrRegistryFull) || known != nil {
			t.Fatalf("a member too many gets %v, a registered one %v; want ErrRegistryFull and nil", err, known)
		}
	}
	members := t.announce(t.b, registry, "member-1", "", 0)
	if len(members) != quorum.MaxMembers-1 {
		t.Errorf("%d members after one has left", len(members))
	}
	if err := one(quorum.MaxMembers); err != nil {
		t.Errorf("a member in its place: %v", err)
	}
}

func announcesInARace(t nodeTest) {
	var racers []func()
	var want []string
	for i := range 8 {
		n, id := []quorum.Node{t.a, t.b}[i%2], fmt.Sprint("racer-", i)
		want = append(want, id+": ")
		racers = append(racers, func() {
			if _, err := n.Announce(t.Context(), registry, quorum.Member{ID: id}, quorum.MaxTTL); err != nil {
				t.Errorf("announce: %v", err)
			}
		})
	}
	race(racers...)
	t.wantMembers(t.announce(t.a, registry, "reader", "", 0), want...)
}

func registryIsLost(t nodeTest) {
	t.announce(t.a, registry, "one", "", quorum.MaxTTL)
	t.hands.Lose()
	t.wantMembers(t.announce(t.b, registry, "two", "", quorum.MaxTTL), "two: ")
	t.wantMembers(t.announce(t.b, registry, "one", "again", quorum.MaxTTL), "one: again", "two: ")
}
