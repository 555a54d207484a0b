package ledger

import (
	"bytes"
	"fmt"

	"salectl/spec"
)

// PacketsAudit is what an audit found of a red packet. Amounts are exact
// decimals with all digits that the currency has.
type PacketsAudit struct {
	Currency string `json:"currency"`
	Total    string `json:"total"`   // declared
	Granted  string `json:"granted"` // in packets that somebody has
	Left     string `json:"left"`    // in those that nobody has
	Packets  int64  `json:"packets"`
	Taken    int64  `json:"taken"` // of them
}

// RedPacket is the red packet of a run, and what its amounts follow from.
type RedPacket struct {
	spec.RedPacket
	uid   string // of the run
	count int64  // of packets: units 1 to count
	seed  []byte // 32 bytes, once it is checked
}

// RedPacketOf returns the red packet of a sale's present run, nil if its units are
// no packets. ErrCorrupt: none was ever declared as the sale's log has it.
func RedPacketOf(sale *Sale) (*RedPacket, error) {
	red, err := declaredPacket(sale)
	if err == nil && red != nil {
		err = red.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return red, nil
}

// declaredPacket returns what the first generation of a run says, unchecked.
func declaredPacket(sale *Sale) (*RedPacket, error) {
	first, _ := sale.Planned(1)
	if len(first.GetSpec()) == 0 && len(first.GetSeed()) == 0 {
		return nil, nil // it declares nothing
	}
	declared, err := spec.FromJSON(first.GetSpec())
	if err != nil {
		return nil, fmt.Errorf("generation 1: %w", err)
	}
	if declared.RedPacket == nil {
		return nil, nil
	}
	return &RedPacket{*declared.RedPacket, sale.UID(), declared.Stock, first.GetSeed()}, nil
}

// check says why the packets cannot be dealt: what is said of them may come from a
// file that somebody has altered.
func (r *RedPacket) check() error {
	switch n := len([32]byte{}); {
	case len(r.seed) != n:
		return fmt.Errorf("the red packet's seed has %d bytes, not %d", len(r.seed), n)
	case r.count < 1 || r.count > spec.MaxRedisStock:
		return fmt.Errorf("a red packet of %d packets: there are 1 to %d", r.count, spec.MaxRedisStock)
	}
	return r.Check(r.count)
}

// Packets is how many there are.
func (r *RedPacket) Packets() int64 { return r.count }

// Deal deals the packets.
func (r *RedPacket) Deal() *spec.Packets { return r.RedPacket.Deal(r.count, [32]byte(r.seed)) }

// packets holds a red packet against its declaration, by adding up: all amounts
// make the total, none is below the least, and what was granted and what is left
// make the total too.
func (a *Audit) packets(sale *Sale, books []*book) {
	red, err := declaredPacket(sale)
	switch {
	case err != nil:
		a.problem("what the sale declares cannot be read: %v", err)
		return
	case red == nil:
		return
	}
	a.samePackets(sale, red)
	if err := red.check(); err != nil {
		a.problem("%v", err)
		return
	}
	dealt, sum := red.Deal(), int64(0)
	for unit := int64(1); unit <= red.count; unit++ {
		amount := dealt.Amount(unit)
		if amount < red.Min {
			a.problem("packet %d is %s, less than %s", unit, red.Format(amount), red.Format(red.Min))
		}
		sum += amount
	}
	if sum != red.Total {
		a.problem("the packets come to %s, and %s was declared", red.Format(sum), red.Format(red.Total))
	}
	granted, left := grantedAndLeft(sale, books)
	found := PacketsAudit{Currency: red.Currency, Total: red.Format(red.Total), Packets: red.count, Taken: granted.count}
	found.Granted, found.Left = red.Format(granted.worth(dealt)), red.Format(left.worth(dealt))
	a.Packets = &found
	if got := granted.worth(dealt) + left.worth(dealt); got != red.Total || granted.count+left.count != red.count {
		a.problem("%d packets of %s are granted and %d of %s are left, which is not %d of %s", granted.count, found.Granted,
			left.count, found.Left, red.count, found.Total)
	}
	if end := sale.Sealed(); end != nil && end.GetRefund() != left.worth(dealt) {
		a.problem("the sale was sealed with a refund of %s, and %s is left", red.Format(end.GetRefund()), found.Left)
	}
}

// samePackets checks that later generations leave the red packet as it was dealt.
func (a *Audit) samePackets(sale *Sale, red *RedPacket) {
	for g := uint64(2); g <= sale.Generation(); g++ {
		a.samePacket(sale, red, g)
	}
}

func (a *Audit) samePacket(sale *Sale, red *RedPacket, generation uint64) {
	p, _ := sale.Planned(generation)
	now, err := spec.FromJSON(p.GetSpec())
	switch {
	case err != nil:
		a.problem("what generation %d declares cannot be read: %v", generation, err)
	case now.RedPacket == nil || *now.RedPacket != red.RedPacket || now.Stock != red.count:
		a.problem("generation %d declares another red packet than was dealt", generation)
	case len(p.GetSeed()) > 0 && !bytes.Equal(p.GetSeed(), red.seed):
		a.problem("generation %d has a seed of its own", generation)
	}
}

// multiset is the packets of several places, each counted as often as it occurs.
type multiset struct {
	places []Units
	count  int64
}

func (h *multiset) add(units Units) {
	h.places = append(h.places, units)
	h.count += units.Count()
}

// worth adds up what the packets have. A unit that was never dealt has nothing.
func (h *multiset) worth(dealt *spec.Packets) (sum int64) {
	for _, units := range h.places {
		for _, r := range units {
			for unit := r.First; unit < r.end() && unit <= spec.MaxRedisStock; unit++ {
				sum += dealt.Amount(unit)
			}
		}
	}
	return sum
}

// grantedAndLeft says where the units are, as the books have it. Those of a shard
// that has taken no generation yet are left.
func grantedAndLeft(sale *Sale, books []*book) (granted, left multiset) {
	for _, b := range books {
		granted.add(b.sold)
		granted.add(b.held)
		left.add(b.free)
		for to, x := range b.peers {
			if to < len(books) {
				for _, units := range x.sent[min(len(books[to].peer(b.shard).received), len(x.sent)):] {
					left.add(units)
				}
			}
		}
		if len(b.generations) == 0 {
			units, err := unitsOf(sale.ShardGeneration(1, b.shard).GetAdd())
			if err == nil { // else place says so
				left.add(units)
			}
		}
	}
	return granted, left
}
