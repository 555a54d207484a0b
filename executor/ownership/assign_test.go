package ownership

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"salectl/api"
)

func membersNamed(n int) (all []Process) {
	for i := range n {
		all = append(all, Process{ID: fmt.Sprint("member-", i), Version: "v1.2.3"})
	}
	return all
}

// shareOf counts the shards of each member.
func shareOf(owners []string) map[string]int {
	n := make(map[string]int)
	for _, id := range owners {
		n[id]++
	}
	return n
}

// TestAssignIsEven gives each member its part, or that and one: all shards have an owner.
func TestAssignIsEven(t *testing.T) {
	for _, shards := range []int{1, 2, 3, 5, 16, 100, 1024} {
		for _, n := range []int{1, 2, 3, 4, 5, 7, 20, 100} {
			members := membersNamed(n)
			of := shareOf(assign("run", shards, members))
			if of[""] != 0 {
				t.Errorf("%d shards, %d members: %d shards have no owner", shards, n, of[""])
			}
			for _, m := range members {
				if got := of[m.ID]; got != shards/n && got != (shards+n-1)/n {
					t.Errorf("%d shards, %d members: %s has %d", shards, n, m.ID, got)
				}
			}
		}
	}
}

// TestAssignMovesFew has a member come and go. Those that stay keep nearly all that they
// had: about as many shards move as are the member's that came or went.
func TestAssignMovesFew(t *testing.T) {
	moved := func(a, b []string) (n int) {
		for i := range a {
			if a[i] != b[i] {
				n++
			}
		}
		return n
	}
	const shards = 1024
	worst := 0.0
	for n := 1; n <= 50; n += 1 + n/5 {
		members := membersNamed(n + 1)
		run := fmt.Sprint("run-", n)
		with := assign(run, shards, members)
		for _, gone := range []int{0, n / 2, n} {
			without := assign(run, shards, slices.Delete(slices.Clone(members), gone, gone+1))
			least, got := shareOf(with)[members[gone].ID], moved(with, without)
			worst = max(worst, float64(got)/float64(least))
			if got < least || got > 3*least {
				t.Errorf("of %d members one goes, which has %d shards: %d move", n+1, least, got)
			}
		}
	}
	t.Logf("at most %.2f times as many shards moved as had to", worst)
}

// TestAssignDependsOnWhoIsThere holds that two processes which see the same members assign
// the same, in whatever order they see them, whatever their addresses and load are; and
// that another run is assigned otherwise.
func TestAssignDependsOnWhoIsThere(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	members := membersNamed(9)
	members[3].Version, members[4].Version, members[7].State = "v1.3.0", "v1.3.0", api.ProcessDraining
	want := assign("run", 50, members)
	for range 100 {
		random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		for i := range members {
			members[i].Address = fmt.Sprint("host-", random.Int())
		}
		if got := assign("run", 50, members); !slices.Equal(got, want) {
			t.Fatalf("by another order of members it is %v, was %v", got, want)
		}
	}
	if slices.Equal(assign("another", 50, members), want) {
		t.Error("the members of another run are assigned the very same shards")
	}
}

// TestAssignToNobody leaves out members that own no shard, and all of them if there are no
// others.
func TestAssignToNobody(t *testing.T) {
	members := membersNamed(4)
	members[0].State, members[1].State, members[2].State = api.ProcessStandby, api.ProcessDraining, api.ProcessUnable
	if of := shareOf(assign("run", 10, members)); of[members[3].ID] != 10 {
		t.Errorf("%v; only %s is to own shards", of, members[3].ID)
	}
	for _, none := range [][]Process{nil, members[:3]} {
		if of := shareOf(assign("run", 10, none)); of[""] != 10 {
			t.Errorf("%v, want nobody", of)
		}
	}
	if got := assign("run", 0, members); len(got) != 0 {
		t.Errorf("of no shards: %v", got)
	}
}

// TestAssignPrefersNewVersions gives members of newer versions more where the shares are
// unequal.
func TestAssignPrefersNewVersions(t *testing.T) {
	members := membersNamed(5)
	for i, v := range []string{"v1.9.0", "v1.10.0", "", "v1.9.9", "v1.10.0-rc1"} {
		members[i].Version = v
	}
	for shards, want := range map[int][]int{
		5: {1, 1, 1, 1, 1},
		6: {1, 2, 1, 1, 1},
		8: {1, 2, 1, 2, 2},
		9: {2, 2, 1, 2, 2},
		2: {0, 1, 0, 0, 1},
	} {
		of := shareOf(assign("run", shards, members))
		for i, m := range members {
			if of[m.ID] != want[i] {
				t.Errorf("%d shards: %s, of version %q, has %d, want %d", shards, m.ID, m.Version, of[m.ID], want[i])
			}
		}
	}
}

func TestCompareVersions(t *testing.T) {
	inOrder := []string{"", "v0.9", "v1", "v1.0", "v1.2", "v1.2.3", "v1.2.10", "v1.10", "v2.0.0", "v10.0.0"}
	for i, a := range inOrder {
		for j, b := range inOrder {
			want := 0
			switch {
			case i < j:
				want = -1
			case i > j:
				want = 1
			}
			if got := compareVersions(a, b); got != want {
				t.Errorf("%q and %q: %d, want %d", a, b, got, want)
			}
		}
	}
	for _, same := range [][2]string{
		{"", "devel"}, {"v1.2.3", "1.2.3"}, {"v1.2.3", "v1.2.3-rc1"}, {"v1.2.3+dirty", "v1.2.3"}, {"v01.2", "v1.02"},
		{"v99999999999999999999999", "v99999999999999999999998"}, // as large as is told apart
	} {
		if got := compareVersions(same[0], same[1]); got != 0 {
			t.Errorf("%q and %q: %d, want 0", same[0], same[1], got)
		}
	}
}
