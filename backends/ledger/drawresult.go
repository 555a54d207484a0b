package ledger

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
	"salectl/spec"
)

// DrawResult is the result of a sale's draw: its record as in an export, except for data of the
// shards, and the rank of each ranked entry. A nil DrawResult is that of a sale that is not a
// draw. Obtain it from DrawResultOf, call ReadHeads, then Cut with the shards, then Record.
type DrawResult struct {
	uid    string
	record draw.Record

	generations []*pb.Planned
	ranks       map[Rank]int64
	heads       []Totals // of the shards, later than the exported state; nil: not read
}

// DrawShard is the part of one shard's state that the record of a draw needs.
type DrawShard struct {
	Totals
	AwardBound int64 // the shard's part of MayBeAwarded; constant once the sale is closed for good, when nothing is awarded any more
	Closed     bool  // the log records the shard's entries
}

// DrawShard returns the part of the shard's state that the record of a draw needs.
func (s *State) DrawShard() DrawShard {
	d := DrawShard{s.Totals, s.mayBeAwarded(), s.entries != nil}
	if s.settings.GetPhase() == pb.Phase_CLOSED {
		d.AwardBound = s.awardBound
	}
	return d
}

// DrawShards returns DrawShard of all shards.
func DrawShards(shards []*State) []DrawShard {
	all := make([]DrawShard, len(shards))
	for i, s := range shards {
		all[i] = s.DrawShard()
	}
	return all
}

// DrawResultOf returns the result of a draw as far as the sale's log has it; nil: the sale is not a draw.
func DrawResultOf(sale *Sale) (*DrawResult, error) {
	if sale.Draw() == nil {
		return nil, nil
	}
	record, err := drawRecord(sale)
	if err != nil {
		return nil, err
	}
	x := &DrawResult{uid: sale.UID(), generations: sale.generations, record: *record, ranks: make(map[Rank]int64, len(sale.Ranks()))}
	for i, rank := range sale.Ranks() {
		x.ranks[rank] = int64(i) + 1
	}
	return x, nil
}

// ReadHeads reads the heads of the shards. The exported shards were read before, one after the
// other: a rank awarded on one may be due to an award that lapsed on another after that one was
// read. The number of ranks that may be awarded only grows, so later heads cover them all.
func (x *DrawResult) ReadHeads(ctx context.Context, logs Logs, sale *Sale) error {
	names := make([]string, sale.Shards())
	for i := range names {
		names[i] = spec.ShardLog(sale.UID(), i, len(names))
	}
	stored, err := logs.Heads(ctx, names)
	if err != nil {
		return fmt.Errorf("reading the heads of the shards: %w", err)
	}
	x.heads = make([]Totals, len(names))
	for i, b := range stored {
		if b == nil {
			continue // deleted, or never created: the exported state suffices
		}
		head, err := ParseHead(b)
		if err != nil {
			return fmt.Errorf("%w: log %s: %w", ErrCorrupt, names[i], err)
		}
		x.heads[i] = head.Totals
	}
	return nil
}

// Cut removes the hours of generations that no shard has applied. If a shard was read before its
// log recorded its entries, Cut also removes the close of entries and all later steps of the draw.
func (x *DrawResult) Cut(shards []DrawShard) {
	if x == nil {
		return
	}
	if n := len(x.generations); n > 0 { // a file without the sale's log has none
		newest := uint64(1)
		for _, s := range shards {
			newest = max(newest, s.Generation)
		}
		x.record.Opens, x.record.Closes = entryHours(x.generations[:min(int(newest), n)])
	}
	if !slices.ContainsFunc(shards, func(s DrawShard) bool { return !s.Closed }) {
		return
	}
	x.record.Shards, x.record.Root, x.record.Link, x.record.Ranks, x.record.Stock, x.record.CommittedCloses = nil, nil, nil, 0, 0, ""
	if b := x.record.Beacon; b != nil {
		x.record.Beacon = &draw.Beacon{Name: b.Name, Round: b.Round, Fallback: b.Fallback}
	}
	clear(x.ranks)
}

// drawRecord returns what the sale's log has of its draw. The sale must be a draw.
func drawRecord(sale *Sale) (*draw.Record, error) {
	terms, err := DrawTerms(sale.generations[0])
	if err != nil {
		return nil, err
	}
	opens, closes := entryHours(sale.generations)
	r := &draw.Record{
		Substitutes: terms.Substitutes, Beacon: terms.Beacon,
		Commitment: draw.Digest(sale.Draw().GetCommitment()),
		Opens:      opens, Closes: closes, Stock: sale.stock,
	}
	if closed := sale.EntriesClosed(); closed != nil {
		root := draw.Digest(closed.GetRoot())
		r.Shards, r.Root = sale.Trees(), &root
	}
	if drawn := sale.Drawn(); drawn != nil {
		link := draw.Digest(drawn.GetLink())
		r.Link, r.Ranks, r.CommittedCloses = &link, int64(len(sale.Ranks())), terms.Closes
		if r.Beacon != nil {
			r.Beacon.Value = hex.EncodeToString(drawn.GetBeacon())
		}
	}
	return r, nil
}

// entryHours returns the hours of entry of generations: the opening time of the newest, and the latest
// closing time of all, since each entry was checked against the hours of its time.
func entryHours(generations []*pb.Planned) (opens, closes string) {
	var latest int64
	for _, p := range generations {
		latest = max(latest, p.GetSettings().GetClosesAtUs())
	}
	return FormatTime(generations[len(generations)-1].GetSettings().GetOpensAtUs()), FormatTime(latest)
}

// Trees returns the trees of the shards' entries by the sale's log; nil: not recorded.
func (x *DrawResult) Trees() []draw.Tree {
	if x == nil {
		return nil
	}
	return x.record.Shards
}

// Record returns the record of the draw for shards in their folded state.
func (x *DrawResult) Record(shards []DrawShard) *draw.Record {
	if x == nil {
		return nil
	}
	r := x.record
	r.Winners, r.Lapsed, r.Reach, r.Ended = 0, 0, 0, true
	for i, s := range shards {
		t, reach := s.Totals, s.AwardBound
		if i < len(x.heads) && x.heads[i].mayBeAwarded() > t.mayBeAwarded() {
			if t = x.heads[i]; s.Phase != PhaseClosed {
				reach = t.mayBeAwarded()
			}
		}
		r.Reach += reach
		r.Winners += t.Limit
		r.Lapsed += t.Lapsed()
		r.Ended = r.Ended && s.Phase == PhaseSealed
	}
	return &r
}

// Label returns the label of an entry, and its rank; 0: not published.
func (x *DrawResult) Label(shard int, c Claim) (label draw.Digest, rank int64) {
	return draw.Label(x.uid, c.User, c.Key), x.ranks[Rank{shard, c.Slot, c.Index}]
}

// DrawEntries returns the entries of a shard in the order of its log, without their values.
func (s *State) DrawEntries(shard int) []draw.Entry {
	all := make([]draw.Entry, s.claims.records.Len())
	for i, label := range s.labels(spec.LogUID(s.log)) {
		r := s.claims.records.At(uint32(i))
		all[i] = draw.Entry{Label: label, Shard: shard, Slot: uint64(r.slot), Index: r.index()}
	}
	return all
}

// DrawStatus returns the progress of a draw by the sale's own log, without the numbers of the
// shards; nil: the sale is not a draw, or a newer program has written its declaration.
func DrawStatus(sale *Sale) *draw.Status {
	if sale.Draw() == nil {
		return nil
	}
	r, err := drawRecord(sale)
	if err != nil {
		return nil // a newer program has written the declaration
	}
	return &draw.Status{
		Commitment: r.Commitment, Beacon: r.Beacon, Substitutes: r.Substitutes, Root: r.Root,
		Revealed: r.Link != nil, Link: r.Link, Ranks: r.Ranks, Complete: sale.Ranked(),
	}
}
