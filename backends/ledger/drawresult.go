package ledger

import (
	"context"
	"encoding/hex"
	"fmt"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
	"salectl/spec"
)

// DrawResult is the result of a sale's draw. A nil DrawResult is that of a sale that is not a draw.
type DrawResult struct {
	Record draw.Record

	uid   string
	ranks map[Rank]int64
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

// NewDrawResult returns the result of a draw as far as the sale's log and the shards have it; nil: the
// sale is not a draw. heads are those of ReadDrawHeads; nil: not read. The hours are of generations
// that some shard has applied. If a shard was read before its log recorded its entries, the result has
// neither the close of entries nor any later step of the draw.
func NewDrawResult(sale *Sale, shards []DrawShard, heads []Totals) (*DrawResult, error) {
	if sale.Draw() == nil {
		return nil, nil
	}
	newest, closed := uint64(1), true
	for _, s := range shards {
		newest, closed = max(newest, s.Generation), closed && s.Closed
	}
	r, err := drawRecord(sale, sale.generations[:min(newest, sale.Generation())], closed)
	if err != nil {
		return nil, err
	}
	x := &DrawResult{Record: *r, uid: sale.UID(), ranks: make(map[Rank]int64, r.Ranks)}
	for i, rank := range sale.Ranks()[:r.Ranks] {
		x.ranks[rank] = int64(i) + 1
	}
	x.Record.Ended = true
	for i, s := range shards {
		t, reach := s.Totals, s.AwardBound
		if i < len(heads) && heads[i].mayBeAwarded() > t.mayBeAwarded() { // the head is newer
			if t = heads[i]; s.Phase != PhaseClosed {
				reach = t.mayBeAwarded()
			}
		}
		x.Record.Reach += reach
		x.Record.Winners += t.Limit
		x.Record.Lapsed += t.Lapsed()
		x.Record.Ended = x.Record.Ended && s.Phase == PhaseSealed
	}
	return x, nil
}

// ReadDrawHeads reads the heads of the shards of a draw, nil for another sale. The exported shards
// were read before, one after the other: a rank awarded on one may be due to an award that lapsed on
// another after that one was read. The number of ranks that may be awarded only grows, so later heads
// cover them all.
func ReadDrawHeads(ctx context.Context, logs Logs, sale *Sale) ([]Totals, error) {
	if sale.Draw() == nil {
		return nil, nil
	}
	names := sale.ShardLogs()
	stored, err := logs.Heads(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("reading the heads of the shards: %w", err)
	}
	heads := make([]Totals, len(names))
	for i, b := range stored {
		if b == nil {
			continue // deleted, or never created: the exported state suffices
		}
		head, err := ParseHead(b)
		if err != nil {
			return nil, fmt.Errorf("%w: log %s: %w", ErrCorrupt, names[i], err)
		}
		heads[i] = head.Totals
	}
	return heads, nil
}

// drawRecord returns what the sale's log has of its draw, with the hours of generations. Unless closed,
// it omits the steps from the close of entries on. The sale must be a draw.
func drawRecord(sale *Sale, generations []*pb.Planned, closed bool) (*draw.Record, error) {
	terms, err := DrawTerms(sale.generations[0])
	if err != nil {
		return nil, err
	}
	var closes int64 // the latest of all, since each entry was checked against the hours of its time
	for _, p := range generations {
		closes = max(closes, p.GetSettings().GetClosesAtUs())
	}
	opens := generations[len(generations)-1].GetSettings().GetOpensAtUs()
	r := &draw.Record{Opens: FormatTime(opens), Closes: FormatTime(closes), Published: draw.Published{
		Commitment: draw.Digest(sale.Draw().GetCommitment()), Beacon: terms.Beacon, Substitutes: terms.Substitutes,
	}}
	if entries := sale.EntriesClosed(); closed && entries != nil {
		root := draw.Digest(entries.GetRoot())
		r.Shards, r.Root = sale.trees, &root
	}
	if drawn := sale.Drawn(); closed && drawn != nil {
		link := draw.Digest(drawn.GetLink())
		r.Link, r.Ranks, r.Stock, r.CommittedCloses = &link, int64(len(sale.Ranks())), sale.stock, terms.Closes
		if r.Beacon != nil {
			r.Beacon.Value = hex.EncodeToString(drawn.GetBeacon())
		}
	}
	return r, nil
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
	r, err := drawRecord(sale, sale.generations, true)
	if err != nil {
		return nil // a newer program has written the declaration
	}
	return &draw.Status{Published: r.Published, Revealed: r.Link != nil, Complete: sale.Ranked()}
}
