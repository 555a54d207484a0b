package spec

import (
	"math/bits"
	"math/rand/v2"
)

// Packets are the amounts of a red packet: unit n of the sale has amount n, from 1, and the
// amounts add up to the total. It is immutable and safe for concurrent use.
type Packets struct {
	RedPacket
	amounts []int64 // minor units; amounts[n-1] is that of unit n
}

// Deal deals the total to that many packets. It is a pure function that must never change:
// ledgers record the seed and no amounts. The red packet must be valid, and packets the
// declared stock; every packet then gets at least Min.
//
// SplitFixed gives all the same. SplitEven gives total / packets to each, and one minor unit
// more to the first total % packets of them. Both ignore the seed.
//
// SplitRandom first gives every packet Min. Then each packet in sequence gets between nothing
// and twice the mean of what is left, uniformly; the last gets the rest. Finally the packets
// are shuffled, since later ones vary more and no unit may be better than another.
func (r RedPacket) Deal(packets int64, seed [32]byte) *Packets {
	if r.Split != SplitRandom {
		return &Packets{r, Shares(r.Total, int(packets))}
	}
	amounts, source := make([]int64, packets), rand.NewChaCha8(seed)
	scatter(amounts, r.Total-r.Min*packets, source)
	for i := range amounts {
		amounts[i] += r.Min
	}
	shuffle(amounts, source)
	return &Packets{r, amounts}
}

// Amount returns the amount of a unit in minor units; 0 for an unknown unit.
func (p *Packets) Amount(unit int64) int64 {
	if unit < 1 || unit > int64(len(p.amounts)) {
		return 0
	}
	return p.amounts[unit-1]
}

// Sum returns the sum of the amounts of several units in minor units.
func (p *Packets) Sum(units ...int64) int64 {
	sum := int64(0)
	for _, unit := range units {
		sum += p.Amount(unit)
	}
	return sum
}

// Text returns the amount of a unit as formatted by Format.
func (p *Packets) Text(unit int64) string { return p.Format(p.Amount(unit)) }

// scatter sets amounts to random values that add up to extra.
func scatter(amounts []int64, extra int64, source rand.Source) {
	last := len(amounts) - 1
	for i := range last {
		x := share(extra, int64(len(amounts)-i), source.Uint64(), source.Uint64())
		amounts[i] = x
		extra -= x
	}
	amounts[last] = extra
}

// share returns the part of extra for the next of left packets: floor(U*2*extra/left + V),
// where U is u / 2^64 and V is v / 2^64. V rounds up with the probability of the fraction, so
// that the mean is extra/left to within 2^-64, also with more packets than minor units.
//
// It is never above extra, if left is 2 or more. For U < 1, so that y = U*2*extra/left is
// below extra, or 0 if extra is. In the first case y + V < extra + 1, in the other y + V = V <
// 1, and the floor of neither is above extra.
func share(extra, left int64, u, v uint64) int64 {
	// u*2*extra is hi + lo/2^64. Divided by left, its whole part is hi/left, and its fraction
	// in units of 2^-64 is a 128 by 64 bit division of the rest. 2*extra is below 2^64; the
	// remainder is below left, as Div64 requires.
	hi, lo := bits.Mul64(u, 2*uint64(extra))
	whole, rest := hi/uint64(left), hi%uint64(left)
	fraction, _ := bits.Div64(rest, lo, uint64(left))
	_, carry := bits.Add64(fraction, v, 0)
	return int64(whole + carry)
}

// shuffle puts amounts into a uniformly random order. It is implemented here because that of
// the standard library may change.
func shuffle(amounts []int64, source rand.Source) {
	for i := len(amounts) - 1; i > 0; i-- {
		j := below(uint64(i+1), source)
		amounts[i], amounts[j] = amounts[j], amounts[i]
	}
}

// below returns a uniform random number below n: of the 2^64 numbers of a source, the first
// 2^64 mod n of each n-th part are rejected.
func below(n uint64, source rand.Source) uint64 {
	part, at := bits.Mul64(source.Uint64(), n)
	if at < n {
		for spare := -n % n; at < spare; {
			part, at = bits.Mul64(source.Uint64(), n)
		}
	}
	return part
}
