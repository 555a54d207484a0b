package rehearse

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"salectl/spec"
)

func TestPlanIsTheSeeds(t *testing.T) {
	c := Config{Sale: spec.Sale{PerUserLimit: 3, Stock: 100}, Users: 500, Seed: 1}
	first := planned(c)
	if !reflect.DeepEqual(first, planned(c)) {
		t.Error("one seed has two plans")
	}
	if slices.IsSortedFunc(first, func(a, b visit) int { return strings.Compare(a[0].user, b[0].user) }) {
		t.Error("buyers come in the order of their names")
	}
	c.Seed = 2
	if reflect.DeepEqual(first, planned(c)) {
		t.Error("two seeds have one plan")
	}
}

func TestPlanMix(t *testing.T) {
	const users = 20_000
	for name, c := range map[string]struct {
		limit, stock int64
		beyond       float64 // share of users who ask for too much
		most         int64
	}{
		"one each":         {1, 100, .02, 1},
		"up to four":       {4, 100, .02, 4},
		"limit over stock": {50, 3, .02, 3},
		"limit too large":  {5000, 1 << 40, 0, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			visits := planned(Config{Sale: spec.Sale{PerUserLimit: c.limit, Stock: c.stock}, Users: users, Seed: 3})
			var sameAtOnce, sameAfter, otherAtOnce, otherAfter, beyond, ones, clicks float64
			seen := map[string]bool{}
			for i, v := range visits {
				seen[v[0].user] = true
				switch next := i+1 < len(visits) && visits[i+1][0].user == v[0].user; {
				case next && visits[i+1][0].key == v[0].key:
					sameAtOnce++
				case next:
					otherAtOnce++
				case len(v) == 2 && v[0].key == v[1].key:
					sameAfter++
				case len(v) == 2:
					otherAfter++
				}
				for _, k := range v {
					clicks++
					switch {
					case k.quantity == c.limit+1:
						beyond++
					case k.quantity < 1 || k.quantity > c.most:
						t.Fatalf("%s asks for %d", k.user, k.quantity)
					case k.quantity == 1:
						ones++
					}
				}
			}
			if len(seen) != users {
				t.Errorf("%d buyers, want %d", len(seen), users)
			}
			for what, share := range map[string]struct{ got, want float64 }{
				"same key at once":  {sameAtOnce / users, .05},
				"same key after":    {sameAfter / users, .05},
				"other key at once": {otherAtOnce / users, .05},
				"other key after":   {otherAfter / users, .05},
				"beyond the limit":  {beyond / users, c.beyond},
			} {
				if math.Abs(share.got-share.want) > .005 {
					t.Errorf("%s: a share of %.3f, want %.3f", what, share.got, share.want)
				}
			}
			if ones/clicks < .45 {
				t.Errorf("only %.2f of the claims are for one", ones/clicks)
			}
		})
	}
}

func TestDefaultUsers(t *testing.T) {
	for stock, want := range map[int64]int{
		1: 1000, 50: 1000, 51: 1020, 100: 2000, 4999: 99_980, 5000: 100_000, math.MaxInt64: 100_000,
	} {
		if got := DefaultUsers(stock); got != want {
			t.Errorf("stock %d: %d users, want %d", stock, got, want)
		}
	}
}
