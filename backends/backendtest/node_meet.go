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

const room = "salectl:suite:room"

func (t nodeTest) meet(n quorum.Node, room, id, note string, ttl time.Duration) []quorum.Member {
	t.Helper()
	there, err := n.Meet(t.Context(), room, quorum.Member{ID: id, Note: note}, ttl)
	if err != nil {
		t.Fatalf("meet as %s: %v", id, err)
	}
	slices.SortFunc(there, func(a, b quorum.Member) int { return cmp.Compare(a.ID, b.ID) })
	return there
}

// wantMembers checks who is there, each as "id: note".
func (t nodeTest) wantMembers(there []quorum.Member, want ...string) {
	t.Helper()
	var got []string
	for _, m := range there {
		got = append(got, m.ID+": "+m.Note)
		if m.Left <= 0 || m.Left > quorum.MaxTTL {
			t.Errorf("%s is there for another %v", m.ID, m.Left)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
}

func meetsWhoIsThere(t nodeTest) {
	t.wantMembers(t.meet(t.a, room, "one", "1 here\nand there", quorum.MaxTTL), "one: 1 here\nand there")
	t.wantMembers(t.meet(t.b, room, "two", "", quorum.MaxTTL), "one: 1 here\nand there", "two: ")
	t.wantMembers(t.meet(t.b, room+"2", "three", "%", quorum.MaxTTL), "three: %")
	t.wantMembers(t.meet(t.a, room, "one", "2 é \x00", quorum.MaxTTL), "one: 2 é \x00", "two: ")
	t.wantMembers(t.meet(t.a, room, "two", "left", 0), "one: 2 é \x00")
	t.wantMembers(t.meet(t.b, room, "never-there", "", 0), "one: 2 é \x00")
	t.wantMembers(t.meet(t.b, room, "one", "", 0))
	t.wantMembers(t.meet(t.b, "salectl:empty", "one", "", 0))
	t.wantMembers(t.meet(t.a, room, "three", "", quorum.MinTTL), "three: ")
	t.mustMark(sale)
	if found, err := t.a.List(t.Context(), ""); err != nil || len(found) > 0 {
		t.Errorf("list finds %+v, %v; a member is no lease", found, err)
	}
}

func membersRunOut(t nodeTest) {
	t.meet(t.a, room, "short", "", quorum.MinTTL)
	t.meet(t.a, room, "renewed", "", quorum.MinTTL)
	t.meet(t.b, room, "renewed", "", quorum.MaxTTL)
	t.meet(t.b, room, "shortened", "", quorum.MaxTTL)
	t.meet(t.a, room, "shortened", "", quorum.MinTTL)
	t.pass(quorum.MinTTL)
	there := t.meet(t.b, room, "looks", "", 0)
	t.wantMembers(there, "renewed: ")
	if len(there) == 1 && there[0].Left > quorum.MaxTTL-quorum.MinTTL {
		t.Errorf("it has %v left", there[0].Left)
	}
}

func roomHasBounds(t nodeTest) {
	for name, m := range map[string]quorum.Member{
		"no id":               {},
		"an id with a space":  {ID: "one two"},
		"an id that is long":  {ID: strings.Repeat("i", quorum.MaxID+1)},
		"a note that is long": {ID: "one", Note: strings.Repeat("n", quorum.MaxNote+1)},
	} {
		if there, err := t.a.Meet(t.Context(), room, m, quorum.MinTTL); err == nil {
			t.Errorf("%s: met %+v", name, there)
		}
	}
	for _, ttl := range []time.Duration{-1, quorum.MaxTTL + 1} {
		if there, err := t.a.Meet(t.Context(), room, quorum.Member{ID: "one"}, ttl); err == nil {
			t.Errorf("a ttl of %v: met %+v", ttl, there)
		}
	}
	long := quorum.Member{ID: strings.Repeat("i", quorum.MaxID), Note: strings.Repeat("n", quorum.MaxNote)}
	t.wantMembers(t.meet(t.b, room, long.ID, long.Note, quorum.MaxTTL), long.ID+": "+long.Note)
	t.wantMembers(t.meet(t.b, room, long.ID, "", 0))
}

func roomIsFull(t nodeTest) {
	one := func(i int) error {
		_, err := t.a.Meet(t.Context(), room, quorum.Member{ID: fmt.Sprint("member-", i)}, quorum.MaxTTL)
		return err
	}
	// Who came first must still be there when the last comes.
	for late := true; late; {
		begin := t.info().Time
		if t.hands.Fill != nil {
			t.hands.Fill(room)
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
		if !errors.Is(err, quorum.ErrRoomFull) || known != nil {
			t.Fatalf("one too many gets %v, one who is there %v; want ErrRoomFull and nothing", err, known)
		}
	}
	there := t.meet(t.b, room, "member-1", "", 0)
	if len(there) != quorum.MaxMembers-1 {
		t.Errorf("%d are there when one has left", len(there))
	}
	if err := one(quorum.MaxMembers); err != nil {
		t.Errorf("one in its place: %v", err)
	}
}

func meetsInARace(t nodeTest) {
	var racers []func()
	var want []string
	for i := range 8 {
		n, id := []quorum.Node{t.a, t.b}[i%2], fmt.Sprint("racer-", i)
		want = append(want, id+": ")
		racers = append(racers, func() {
			if _, err := n.Meet(t.Context(), room, quorum.Member{ID: id}, quorum.MaxTTL); err != nil {
				t.Errorf("meet: %v", err)
			}
		})
	}
	race(racers...)
	t.wantMembers(t.meet(t.a, room, "looks", "", 0), want...)
}

func roomIsLost(t nodeTest) {
	t.meet(t.a, room, "one", "", quorum.MaxTTL)
	t.hands.Lose()
	t.wantMembers(t.meet(t.b, room, "two", "", quorum.MaxTTL), "two: ")
	t.wantMembers(t.meet(t.b, room, "one", "again", quorum.MaxTTL), "one: again", "two: ")
}
