package spec

import (
	"math/bits"
	"math/rand/v2"
)

// Packets is how the total of a red packet is dealt to its packets: unit n of
// the sale has amount n, the first unit is 1, and the amounts add up to the
// total. It is not changed by anything, and safe for concurrent use.
type Packets struct {
	Currency string
	Scale    int     // decimals of the currency
	amounts  []int64 // minor units; that of unit n at n-1

	some map[int64]int64 // by unit, where not all are known; nil: they are
}

// SomePackets returns packets of which only some amounts are known: those of units, in
// their order.
func SomePackets(currency string, scale int, units, amounts []int64) *Packets {
	p := &Packets{Currency: currency, Scale: scale, some: make(map[int64]int64, len(units))}
	for i, unit := range units[:min(len(units), len(amounts))] {
		p.some[unit] = amounts[i]
	}
	return p
}

// Deal deals the total to that many packets. It is a pure function, for ever:
// ledgers have the seed and no amounts. The red packet must be one that a
// declaration has, and packets the declaration's stock: every packet then gets
// at least Min.
//
// SplitFixed gives all the same. SplitEven gives total / packets to each, and
// one minor unit more to the first total % packets of them. Both take no
// notice of the seed.
//
// SplitRandom first gives every packet Min. Then, one after the other, a packet
// gets between nothing and twice the mean of what is left, each amount alike;
// the last one gets the rest. At last the packets are shuffled, for the later
// ones are spread wider, and no unit is to be better than another.
func (r RedPacket) Deal(packets int64, seed [32]byte) *Packets {
	p := &Packets{Currency: r.Currency, Scale: r.Scale, amounts: make([]int64, packets)}
	if r.Split == SplitRandom {
		source := rand.NewChaCha8(seed)
		scatter(p.amounts, r.Total-r.Min*packets, source)
		for i := range p.amounts {
			p.amounts[i] += r.Min
		}
		shuffle(p.amounts, source)
		return p
	}
	each, rest := r.Total/packets, r.Total%packets
	for i := range p.amounts {
		p.amounts[i] = each
		if int64(i) < rest {
			p.amounts[i]++
		}
	}
	return p
}

// Amount is what a unit has, in minor units; 0 for a unit that there is not.
func (p *Packets) Amount(unit int64) int64 {
	if p.some != nil {
		return p.some[unit]
	}
	if unit < 1 || unit > int64(len(p.amounts)) {
		return 0
	}
	return p.amounts[unit-1]
}

// Sum is what several units have together, in minor units.
func (p *Packets) Sum(units ...int64) int64 {
	sum := int64(0)
	for _, unit := range units {
		sum += p.Amount(unit)
	}
	return sum
}

// Text is what a unit has, as Format writes it.
func (p *Packets) Text(unit int64) string { return p.Format(p.Amount(unit)) }

// Format writes minor units as people do: 37 is 0.37 of a currency that has two
// decimals. It is exact.
func (p *Packets) Format(minor int64) string { return formatAmount(minor, p.Scale) }

// scatter sets amounts that add up to extra.
func scatter(amounts []int64, extra int64, source rand.Source) {
	last := len(amounts) - 1
	for i := range last {
		x := share(extra, int64(len(amounts)-i), source.Uint64(), source.Uint64())
		amounts[i] = x
		extra -= x
	}
	amounts[last] = extra
}

// share is what the next of left packets gets of extra: floor(U*2*extra/left + V),
// where U is u / 2^64 and V is v / 2^64. V rounds up as often as the fraction
// is large, so that the mean is extra/left, to within 2^-64 of it, also where
// there are more packets than minor units.
//
// It is never above extra, if left is 2 or more. For U < 1, so that y =
// U*2*extra/left is below extra, or 0 if extra is. In the first case y + V <
// extra + 1, in the other y + V = V < 1, and the floor of neither is above
// extra.
func share(extra, left int64, u, v uint64) int64 {
	// u*2*extra is hi + lo/2^64. Divided by left, its whole part is hi/left, and
	// its fraction, in units of 2^-64, what 128 by 64 bits leave of the rest.
	// 2*extra is below 2^64; the remainder is below left, as Div64 wants it.
	hi, lo := bits.Mul64(u, 2*uint64(extra))
	whole, rest := hi/uint64(left), hi%uint64(left)
	fraction, _ := bits.Div64(rest, lo, uint64(left))
	_, carry := bits.Add64(fraction, v, 0)
	return int64(whole + carry)
}

// shuffle puts amounts into any order, each alike. It is written out here since
// that of the standard library may change.
func shuffle(amounts []int64, source rand.Source) {
	for i := len(amounts) - 1; i > 0; i-- {
		j := below(uint64(i+1), source)
		amounts[i], amounts[j] = amounts[j], amounts[i]
	}
}

// below draws a number below n, each alike: of the 2^64 numbers that a source
// has, the first 2^64 mod n of each n-th part are one too many, and drawn again.
func below(n uint64, source rand.Source) uint64 {
	part, at := bits.Mul64(source.Uint64(), n)
	if at < n {
		for spare := -n % n; at < spare; {
			part, at = bits.Mul64(source.Uint64(), n)
		}
	}
	return part
}
