package spec

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// anyRedPacket draws a red packet such as a declaration with that stock has.
func anyRedPacket(t *rapid.T, stock int64) *RedPacket {
	r := &RedPacket{Split: rapid.SampledFrom([]Split{SplitRandom, SplitEven, SplitFixed}).Draw(t, "split")}
	money := rapid.SampledFrom([]RedPacket{{Currency: "JPY"}, {Currency: "CNY", Scale: 2}, {Currency: "KWD", Scale: 3}, {Currency: "CLF", Scale: 4}}).Draw(t, "money")
	r.Currency, r.Scale = money.Currency, money.Scale
	r.Min = rapid.Int64Range(1, MaxTotal/stock).Draw(t, "min")
	r.Total = rapid.Int64Range(r.Min*stock, MaxTotal).Draw(t, "total")
	if r.Split == SplitFixed {
		r.Total -= r.Total % stock
	}
	return r
}

func TestDealAddsUp(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, r RedPacket, packets int64, seed [32]byte) {
		p := r.Deal(packets, seed)
		least, most, sum := int64(math.MaxInt64), int64(0), int64(0)
		for unit := int64(1); unit <= packets; unit++ {
			amount := p.Amount(unit)
			least, most, sum = min(least, amount), max(most, amount), sum+amount
		}
		switch {
		case sum != r.Total || least < r.Min || p.Amount(0) != 0 || p.Amount(packets+1) != 0 || p.Amount(-1) != 0:
			t.Fatalf("%+v for %d: %d in all, at least %d", r, packets, sum, least)
		case most > r.Total-(packets-1)*r.Min, r.Split == SplitFixed && most != least, r.Split == SplitEven && most-least > 1:
			t.Fatalf("%+v for %d: from %d to %d", r, packets, least, most)
		case !slices.Equal(p.amounts, r.Deal(packets, seed).amounts):
			t.Fatalf("%+v for %d: dealt again, it is another deal", r, packets)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		packets := rapid.Int64Range(1, 3000).Draw(t, "packets")
		r := anyRedPacket(t, packets)
		seed := [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "seed"))
		check(t, *r, packets, seed)
	})
	for _, packets := range []int64{1, 2, 3, 1000, 100_000} {
		for _, least := range []int64{1, 2, MaxTotal / packets} {
			for _, split := range []Split{SplitRandom, SplitEven} {
				for _, total := range []int64{packets * least, packets*least + 1, packets*least + packets/2, MaxTotal} {
					if total <= MaxTotal {
						check(t, RedPacket{Currency: "CNY", Scale: 2, Total: total, Min: least, Split: split}, packets, [32]byte{1})
					}
				}
			}
		}
	}
}

// Ledgers have seeds and no amounts. If this test fails, the change that made it
// fail must go, not the test.
func TestDealIsForEver(t *testing.T) {
	seed := [32]byte([]byte("red packets for a test, 32 bytes"))
	for _, c := range []struct {
		split      Split
		total, min int64
		want       []int64
	}{
		{SplitFixed, 70, 1, []int64{10, 10, 10, 10, 10, 10, 10}},
		{SplitEven, 73, 1, []int64{11, 11, 11, 10, 10, 10, 10}},
		{SplitRandom, 10_000, 1, []int64{780, 2554, 205, 2040, 1694, 728, 1999}},
		{SplitRandom, 10, 1, []int64{1, 2, 1, 2, 2, 1, 1}},
		{SplitRandom, MaxTotal, 500, []int64{7794550608657527, 25547501870557821, 2045651021404288, 20409245151294285,
			16938242640452615, 7269026312987133, 19995782394646331}},
	} {
		p := RedPacket{Currency: "CNY", Scale: 2, Total: c.total, Min: c.min, Split: c.split}.Deal(7, seed)
		if !slices.Equal(p.amounts, c.want) {
			t.Errorf("%s %d: got %v, want %v", c.split, c.total, p.amounts, c.want)
		}
	}
	hash := sha256.New()
	for _, amount := range (RedPacket{Total: 5_000_000, Min: 3, Split: SplitRandom}).Deal(100_000, seed).amounts {
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(amount)))
	}
	if got, want := fmt.Sprintf("%x", hash.Sum(nil)), "3a0035d94b00e331d39de787de813a3f798f4e18cfe90e4c47d1cfa18b9b134c"; got != want {
		t.Errorf("100,000 packets: got %s, want %s", got, want)
	}
}

func TestPacketsSayAmounts(t *testing.T) {
	p := RedPacket{Currency: "CNY", Scale: 2, Total: 10_005, Min: 1, Split: SplitEven}.Deal(270, [32]byte{})
	if p.Currency != "CNY" || p.Scale != 2 || p.Text(1) != "0.38" || p.Text(270) != "0.37" || p.Text(271) != "0.00" {
		t.Errorf("got %s %d %s %s %s", p.Currency, p.Scale, p.Text(1), p.Text(270), p.Text(271))
	}
	if got := p.Format(p.Sum(1, 270, 271, 15, 16)); got != "1.50" {
		t.Errorf("got %s", got)
	}
}

// share must be as its comment, also where it takes all 128 bits.
func TestShare(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, extra, left int64, u, v uint64) {
		x := share(extra, left, u, v)
		want := new(big.Int).Mul(new(big.Int).SetUint64(u), big.NewInt(extra))
		want.Lsh(want, 1)
		want.Div(want, big.NewInt(left))
		want.Add(want, new(big.Int).SetUint64(v))
		want.Rsh(want, 64)
		most := 2 * (uint64(extra) / uint64(left)) // and the rest of it, rounded up
		most += (2*(uint64(extra)%uint64(left)) + uint64(left) - 1) / uint64(left)
		if want.Cmp(big.NewInt(x)) != 0 || x < 0 || x > extra || uint64(x) > most {
			t.Fatalf("of %d with %d left, by %d and %d: got %d, want %v, at most %d", extra, left, u, v, x, want, most)
		}
	}
	for _, extra := range []int64{0, 1, 2, 3, 1000, MaxTotal, math.MaxInt64} {
		for _, left := range []int64{2, 3, 1000, MaxRedisStock, math.MaxInt64} {
			for _, u := range []uint64{0, 1, 1 << 63, math.MaxUint64 - 1, math.MaxUint64} {
				for _, v := range []uint64{0, 1, 1 << 63, math.MaxUint64} {
					check(t, extra, left, u, v)
				}
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, rapid.Int64Min(0).Draw(t, "extra"), rapid.Int64Min(2).Draw(t, "left"), rapid.Uint64().Draw(t, "u"), rapid.Uint64().Draw(t, "v"))
	})
}

// script is a source of given numbers.
type script []uint64

func (s *script) Uint64() uint64 {
	next := (*s)[0]
	*s = (*s)[1:]
	return next
}

func TestBelow(t *testing.T) {
	const n = 3 << 62 // a quarter of all numbers is one too many, 0 and 2^63 among them
	source := script{0, 1 << 63, 1<<63 + 1, 7}
	if got := below(n, &source); got != n/2 || len(source) != 1 {
		t.Errorf("got %d, and %d draws left", got, len(source))
	}
	for _, n := range []int{1, 2, 3, 7, 10} {
		counts, source := make([]int, n), rand.NewChaCha8([32]byte{byte(n)})
		for range 20_000 {
			counts[below(uint64(n), source)]++
		}
		alike(t, fmt.Sprintf("below %d", n), counts)
	}
}

// Each of the 24 orders of four must come up alike. (Exchanging each place with
// any other, as is often written, makes some twice as likely.)
func TestShuffle(t *testing.T) {
	orders, source := map[[4]int64]int{}, rand.NewChaCha8([32]byte{'s'})
	for range deals {
		amounts := [4]int64{1, 2, 3, 4}
		shuffle(amounts[:], source)
		orders[amounts]++
	}
	counts := slices.Collect(maps.Values(orders))
	if len(counts) != 24 {
		t.Fatalf("%d orders came up", len(counts))
	}
	alike(t, "the orders of four", counts)
}

// alike holds counts to be those of places that are drawn alike, by chi-square.
// A right one fails of a thousand seeds at most one; those here are fixed.
func alike(t *testing.T, what string, counts []int) {
	t.Helper()
	all, chi := 0, 0.0
	for _, n := range counts {
		all += n
	}
	want := float64(all) / float64(len(counts))
	for _, n := range counts {
		chi += (float64(n) - want) * (float64(n) - want) / want
	}
	// Wilson and Hilferty's approximation of the 0.999 quantile.
	free := float64(len(counts) - 1)
	if limit := free * math.Pow(1-2/(9*free)+3.09*math.Sqrt(2/(9*free)), 3); free > 0 && chi > limit {
		t.Errorf("%s: chi-square is %.1f, above %.1f: %v", what, chi, limit, counts)
	}
}

// sample has the moments of what was observed.
type sample struct{ n, sum, squares, fourths float64 }

func (s *sample) add(x int64) {
	f := float64(x)
	s.n, s.sum, s.squares, s.fourths = s.n+1, s.sum+f, s.squares+f*f, s.fourths+f*f*f*f
}

// holds reports means of x and x² that are too far off: more than four and a
// half of their standard errors.
func (s sample) holds(t *testing.T, what string, mean, square float64) {
	t.Helper()
	got, gotSquare := s.sum/s.n, s.squares/s.n
	if off := math.Abs(got - mean); off > 4.5*math.Sqrt((gotSquare-got*got)/s.n) {
		t.Errorf("%s: the mean is %f, want %f", what, got, mean)
	}
	if off := math.Abs(gotSquare - square); square > 0 && off > 4.5*math.Sqrt((s.fourths/s.n-gotSquare*gotSquare)/s.n) {
		t.Errorf("%s: the mean square is %f, want %f", what, gotSquare, square)
	}
}

// squares are the mean squares of what n packets get of extra one after the
// other, by the method: of a rest R with k packets left the next gets U*2R/k,
// whose square is R²*4/3k² in the mean, and leaves R*(1-2U/k), whose square is
// R²*(1 - 2/k + 4/3k²). Rounding is left out.
func squares(extra float64, n int) (all []float64) {
	rest := extra * extra
	for k := float64(n); k >= 2; k-- {
		all = append(all, rest*4/(3*k*k))
		rest *= 1 - 2/k + 4/(3*k*k)
	}
	return append(all, rest)
}

const deals = 20_000

// eachDeal makes that many deals by as many seeds.
func eachDeal(name byte, do func(rand.Source)) {
	for i := range uint32(deals) {
		seed := [32]byte{name}
		binary.BigEndian.PutUint32(seed[1:], i)
		do(rand.NewChaCha8(seed))
	}
}

// In the order of dealing every packet has the mean of all, and the spread of
// the method; the first one has each amount up to twice the mean alike.
func TestScatter(t *testing.T) {
	const extra, bins = 10_000_000, 20
	for _, n := range []int{2, 3, 10, 50} {
		each, first := make([]sample, n), make([]int, bins)
		eachDeal(byte(n), func(source rand.Source) {
			amounts := make([]int64, n)
			scatter(amounts, extra, source)
			rest := int64(extra)
			for i, x := range amounts {
				each[i].add(x)
				if left := int64(n - i); left > 1 && x > (2*rest+left-1)/left {
					t.Fatalf("of %d with %d left, one got %d", rest, left, x)
				}
				rest -= x
			}
			first[min(amounts[0]*int64(n)*bins/(2*extra), bins-1)]++
		})
		alike(t, fmt.Sprintf("the first of %d", n), first)
		for i, square := range squares(extra, n) {
			each[i].holds(t, fmt.Sprintf("packet %d of %d", i, n), extra/float64(n), square)
		}
	}
}

// Where there are fewer minor units than packets, rounding must still be fair.
func TestScatterFewUnits(t *testing.T) {
	for _, extra := range []int64{1, 3, 9, 10, 11} {
		each := make([]sample, 10)
		eachDeal(byte(extra), func(source rand.Source) {
			amounts := make([]int64, len(each))
			scatter(amounts, extra, source)
			for i, x := range amounts {
				each[i].add(x)
			}
		})
		for i := range each {
			each[i].holds(t, fmt.Sprintf("packet %d of 10 for %d", i, extra), float64(extra)/10, 0)
		}
	}
}

// As they are dealt out, no place is better than another: not in the mean, not
// in the spread, and not in having the most or the least.
func TestDealIsFair(t *testing.T) {
	const n, least = 8, 100
	const extra = 10_000_000
	square := 0.0
	for _, s := range squares(extra, n) {
		square += s / n
	}
	r := RedPacket{Total: extra + n*least, Min: least, Split: SplitRandom}
	each, richest, poorest := make([]sample, n), make([]int, n), make([]int, n)
	for i := range uint32(deals) {
		seed := [32]byte{'f'}
		binary.BigEndian.PutUint32(seed[1:], i)
		p := r.Deal(n, seed)
		for place := range n {
			each[place].add(p.Amount(int64(place+1)) - least)
		}
		richest[slices.Index(p.amounts, slices.Max(p.amounts))]++
		poorest[slices.Index(p.amounts, slices.Min(p.amounts))]++
	}
	for place := range n {
		each[place].holds(t, fmt.Sprintf("place %d", place), extra/float64(n), square)
	}
	alike(t, "the richest", richest)
	alike(t, "the poorest", poorest)
}

func BenchmarkDeal(b *testing.B) {
	r := RedPacket{Currency: "CNY", Scale: 2, Total: 500_000_000, Min: 1, Split: SplitRandom}
	for b.Loop() {
		r.Deal(1_000_000, [32]byte{1})
	}
}
