package ledger

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	pb "salectl/backends/ledger/ledgerpb"
)

// insertNew inserts a claim whose identity is new.
func insertNew(c *claims, slot uint64, index int, op *pb.Claim) {
	for uint64(len(c.times)) <= slot {
		c.times = append(c.times, 1000*int64(len(c.times)))
	}
	c.insert(c.indexOf(op.GetUser(), string(op.GetKey())), slot, index, op)
}

// TestClaimsAgainstModel holds the index against a plain list, with hashes of
// few bits too, so that most of them collide.
func TestClaimsAgainstModel(t *testing.T) {
	name := rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 0, 3, -1)
	for _, mask := range []uint64{0, 3, math.MaxUint64} {
		t.Run(fmt.Sprintf("mask %x", mask), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c := newClaims()
				c.text.mask = mask
				var model []Claim
				find := func(user, key string) int {
					return slices.IndexFunc(model, func(m Claim) bool { return m.User == user && m.Key == key })
				}
				t.Repeat(map[string]func(*rapid.T){
					"claim": func(t *rapid.T) {
						user, key := name.Draw(t, "user"), name.Draw(t, "key")
						if find(user, key) >= 0 {
							return
						}
						m := Claim{
							Slot: uint64(len(model) / 3), Index: len(model) % 3 * 2, User: user, Key: key,
							Units:       rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(1, 9), rapid.Int64Range(math.MaxUint32-2, math.MaxUint32+2)), 1, 3).Draw(t, "units"),
							HeldUntilUs: rapid.Int64Range(0, 1).Draw(t, "held"),
						}
						m.TimeUs = 1000 * int64(m.Slot)
						if m.HeldUntilUs != 0 {
							m.State = StateHeld
						}
						insertNew(&c, m.Slot, m.Index, &pb.Claim{
							User: user, Key: []byte(key), Units: m.Units, HeldUntilUs: m.HeldUntilUs,
						})
						model = append(model, m)
					},
					"query": func(t *rapid.T) {
						user, key := name.Draw(t, "user"), name.Draw(t, "key")
						at := c.indexOf(user, key)
						if want := find(user, key); int(at.claim)-1 != want {
							t.Fatalf("%q %q is claim %d, found %d", user, key, want, int(at.claim)-1)
						}
						var units int64
						var ofUser []Claim
						for _, m := range model {
							if m.User == user {
								units += int64(len(m.Units))
								ofUser = append(ofUser, m)
							}
						}
						if got, _ := c.users.sums(at); got != units {
							t.Fatalf("%q has %d units, not %d", user, got, units)
						}
						most := rapid.IntRange(0, 16).Draw(t, "most")
						newest, count := c.Newest(user, most)
						wantClaims(t, newest, ofUser[max(0, len(ofUser)-most):])
						if count != len(ofUser) {
							t.Fatalf("%q has %d claims, not %d", user, count, len(ofUser))
						}
						if len(model) == 0 {
							return
						}
						than := rapid.SampledFrom(model).Draw(t, "than")
						backward, ok := c.Backward(user, than.Slot, than.Index, 0)
						if want := than.User == user; ok != want && than.Slot > 0 {
							t.Fatalf("a claim of %q is one of %q: %v", than.User, user, ok)
						} else if !want || than.Slot == 0 {
							return
						}
						older := slices.Collect(backward)
						slices.Reverse(older)
						wantClaims(t, older, ofUser[:slices.IndexFunc(ofUser, func(m Claim) bool { return m.Slot == than.Slot && m.Index == than.Index })])
					},
					"locate": func(t *rapid.T) {
						slot, index := rapid.Uint64Range(0, 9).Draw(t, "slot"), rapid.IntRange(0, 5).Draw(t, "index")
						want := slices.IndexFunc(model, func(m Claim) bool { return m.Slot == slot && m.Index == index })
						if got, ok := c.locate(slot, index); ok != (want >= 0) || ok && int(got) != want {
							t.Fatalf("slot %d, op %d is claim %d, found %d (%v)", slot, index, want, got, ok)
						}
					},
					"": func(t *rapid.T) {
						var all []Claim
						for i := range c.records.Len() {
							all = append(all, c.at(uint32(i)))
						}
						wantClaims(t, all, model)
					},
				})
			})
		})
	}
}

func wantClaims(t interface{ Fatalf(string, ...any) }, got, want []Claim) {
	if !slices.EqualFunc(got, want, func(a, b Claim) bool { return fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b) }) {
		t.Fatalf("claims\n%+v, not\n%+v", got, want)
	}
}

// A cursor is found by its place in the log, not by a walk along the user's claims: with those in
// thousands, each page would cost as much as all.
func TestBackwardFindsThePlace(t *testing.T) {
	c := newClaims()
	for i := range 4 {
		insertNew(&c, uint64(i+1), 0, &pb.Claim{User: "ann", Key: fmt.Append(nil, i), Units: []int64{int64(i + 1)}})
	}
	c.records.At(3).prev = 0 // a walk from the newest ends here
	older, ok := c.Backward("ann", 3, 0, 0)
	if all := slices.Collect(older); !ok || len(all) != 2 || all[0].Slot != 2 || all[1].Slot != 1 {
		t.Errorf("before slot 3: %+v, %v", all, ok)
	}
}

// TestOneClaimAUser keeps requests out of the table of requests whose users have no other.
func TestOneClaimAUser(t *testing.T) {
	c := newClaims()
	for i, user := range names('u', 100) {
		insertNew(&c, 0, i, &pb.Claim{User: user, Key: []byte("key"), Units: []int64{1}})
	}
	insertNew(&c, 1, 0, &pb.Claim{User: "ann", Key: []byte("1"), Units: []int64{1}})
	insertNew(&c, 1, 1, &pb.Claim{User: "ann", Key: []byte("2"), Units: []int64{1}})
	insertNew(&c, 1, 2, &pb.Claim{User: "ann", Key: []byte("3"), Units: []int64{1}})
	if c.byKey.used != 3 {
		t.Errorf("the table of requests has %d, those of one user are 3", c.byKey.used)
	}
	for key, want := range map[string]uint32{"1": 101, "2": 102, "3": 103, "4": 0} {
		if at := c.indexOf("ann", key); at.claim != want {
			t.Errorf("request %s is claim %d, want %d", key, at.claim, want)
		}
	}
}

// TestClaimsManyChunks fills more than one chunk of each kind, up to the last
// byte of one, with the empty and the longest text among them.
func TestClaimsManyChunks(t *testing.T) {
	c := newClaims()
	long := strings.Repeat("u", maxText)
	insertNew(&c, 0, 0, &pb.Claim{User: long, Key: []byte("x"), Units: []int64{1}})
	insertNew(&c, 0, 1, &pb.Claim{User: "", Key: nil, Units: []int64{2}})
	if got := c.at(1); got.User != "" || got.Key != "" {
		t.Errorf("nothing is kept as %+v", got)
	}
	insertNew(&c, 0, 2, &pb.Claim{User: "", Key: []byte(long), Units: []int64{3}})
	const chunkLen = 1 << 10
	users, keys := names('u', 5*chunkLen), names('k', 5*chunkLen)
	for i := range users {
		insertNew(&c, 1, i, &pb.Claim{User: users[i], Key: []byte(keys[i]), Units: []int64{int64(i + 4)}})
	}
	if at := c.indexOf(long, "x"); at.claim != 1 || c.at(0).User != long {
		t.Errorf("the longest user has claim %d", at.claim)
	}
	if at := c.indexOf("", long); at.claim != 3 || c.at(2).Key != long {
		t.Errorf("the longest key is that of claim %d", at.claim)
	}
	for i := range users {
		if at := c.indexOf(users[i], keys[i]); int(at.claim) != i+4 {
			t.Fatalf("claim %d is found as %d", i+4, at.claim)
		}
		if at := c.indexOf(users[i], keys[(i+1)%len(keys)]); at.claim != 0 {
			t.Fatalf("user %d has a claim under another's key", i)
		}
	}
}

// TestClaimsMemory holds the index to the bytes a claim that the design grants.
func TestClaimsMemory(t *testing.T) {
	const n, most = 1_000_000, 300
	c := newClaims()
	op := &pb.Claim{Key: make([]byte, 16), Units: []int64{0}}
	before := HeapInUse()
	for i := range n {
		op.User = fmt.Sprintf("u%015d", i)
		copy(op.Key, fmt.Sprintf("k%015d", i))
		op.Units[0] = int64(i + 1)
		insertNew(&c, uint64(i/100), i%100, op)
	}
	each := float64(HeapInUse()-before) / n
	t.Logf("%.0f bytes a claim", each)
	if each > most {
		t.Errorf("%.0f bytes a claim, at most %d are granted", each, most)
	}
	runtime.KeepAlive(&c)
}

func HeapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
