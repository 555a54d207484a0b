package ledger

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"salectl/draw"
	"salectl/spec"
)

// Exports had no log of the sale at first, and none of its units. An audit of such a file takes
// from the header what the sale's log would say, and says what is not proven so.

// older says whether the file was written before the sale's own log was exported.
func (x *exportAudit) older() bool { return x.header.SaleLog == nil }

// sameSettings holds the settings of all shards against those of the one with most generations,
// where nobody says what was planned.
func (x *exportAudit) sameSettings() {
	most := slices.MaxFunc(x.books, func(a, b *book) int { return cmp.Compare(len(a.generations), len(b.generations)) })
	for _, b := range x.books {
		for g, taken := range b.generations {
			if !proto.Equal(taken.GetSettings(), most.generations[g].GetSettings()) {
				x.problem("shards %d and %d took other settings in generation %d", b.shard, most.shard, g+1)
			}
		}
	}
}

// ofHeader is ofLog for an older file.
func (x *exportAudit) ofHeader(states []*State) error {
	h := x.header
	if p := h.Packets; p != nil {
		red, err := p.terms(h.UID)
		if err == nil && len(p.Seed) > 0 {
			err = red.check()
		}
		if err != nil {
			return fmt.Errorf("line 1: %w", err)
		}
		x.of.packets = &exportedPackets{red, nil}
		switch {
		case len(p.Seed) > 0:
			x.of.packets.dealt = red.Deal()
			x.Packets = x.of.packets.audit(states)
		case over(states) && !x.damaged(-1):
			x.problem("line 1: the sale is closed, and the seed of its red packet is missing")
		}
	}
	var err error
	if h.Draw != nil {
		if x.of.draw, err = readDraw(*h.Draw, h.UID, states); err != nil {
			return fmt.Errorf("line 1: %w", err)
		}
	}
	return nil
}

// terms is the red packet that a header tells of. What it is given may be anything.
func (h *ExportPackets) terms(uid string) (*RedPacket, error) {
	_, decimals, _ := strings.Cut(h.Total, ".")
	red := &RedPacket{spec.RedPacket{Currency: h.Currency, Scale: len(decimals), Split: h.Split}, uid, h.Packets, h.Seed}
	for _, amount := range []struct {
		text  string
		minor *int64
	}{{h.Total, &red.Total}, {h.Min, &red.Min}} {
		var ok bool
		if *amount.minor, ok = red.Parse(amount.text); !ok {
			return nil, fmt.Errorf("the red packet has an amount of %q", amount.text)
		}
	}
	return red, nil
}

// audit is what an audit tells of packets that are dealt.
func (p *exportedPackets) audit(states []*State) *PacketsAudit {
	h, taken := p.header(states), int64(0)
	for _, s := range states {
		taken += s.Sold + s.Held
	}
	return &PacketsAudit{Currency: h.Currency, Total: h.Total, Granted: h.Granted, Left: h.Refund, Packets: p.count, Taken: taken}
}

// readDraw is exportedDraw.header backwards: the order is worked out again from what the header
// reveals and from the entries of the shards. What it is given may be anything.
func readDraw(r draw.Record, uid string, shards []*State) (*exportedDraw, error) {
	x := &exportedDraw{uid: uid, record: r, ranks: make(map[Rank]int64)}
	if r.Link == nil || r.Root == nil {
		return x, nil
	}
	var beacon []byte
	if r.Beacon != nil {
		var err error
		if beacon, err = hex.DecodeString(r.Beacon.Value); err != nil {
			return nil, fmt.Errorf("the draw has a beacon's value of %q", r.Beacon.Value)
		}
	}
	order, lowest := draw.NewOrder(uid, *r.Root, *r.Link, beacon), draw.NewLowest(r.Ranks)
	for shard, s := range shards {
		for _, e := range s.DrawEntries(shard) {
			e.Value = order.Value(e.Label)
			lowest.Add(e)
		}
	}
	for i, e := range lowest.Ranked() {
		x.ranks[Rank{e.Shard, e.Slot, e.Index}] = int64(i) + 1
	}
	return x, nil
}
