package check

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	pb "salectl/backends/ledger/ledgerpb"
)

// drawing is the record of a run's draw in the sale's log, with its slots.
type drawing struct {
	entriesClosed *pb.EntriesClosed
	closedAt      *slot
	drawn         *pb.Drawn
	drawnAt       *slot
	ranks         []rank
	rankedAt      *slot // where the last ranks are

	order []*claim // of all entries, computed on first use
}

// rank is where an entry stands that has it.
type rank struct {
	shard int
	spot
}

// noteDraw takes down a step of a draw. It happens once, and after those before it.
func (r *run) noteDraw(s *slot, op *pb.Op, bad fault) {
	switch op := op.GetOp().(type) {
	case *pb.Op_EntriesClosed:
		if r.entriesClosed != nil {
			bad("%v publishes the entries of run %s again", s, r.uid)
		}
		r.entriesClosed, r.closedAt = op.EntriesClosed, s
	case *pb.Op_Drawn:
		if r.drawn != nil || r.entriesClosed == nil {
			bad("%v reveals the secret of run %s again, or before its entries are published", s, r.uid)
		}
		r.drawn, r.drawnAt = op.Drawn, s
	case *pb.Op_Ranked:
		p := op.Ranked
		if r.drawn == nil || p.GetFirst() != int64(len(r.ranks))+1 || len(p.GetSlots()) != len(p.GetShards()) || len(p.GetIndexes()) != len(p.GetShards()) {
			bad("%v publishes the ranks from %d on, after %d", s, p.GetFirst(), len(r.ranks))
			return
		}
		for i, shard := range p.GetShards() {
			r.ranks = append(r.ranks, rank{int(shard), spot{p.GetSlots()[i], p.GetIndexes()[i]}})
		}
		r.rankedAt = s
	}
}

// lacks reports whether a run was drawn further than an export has.
func (d *drawPart) lacks(r *run) bool {
	return d != nil && (d.Root == "" && r.closedAt != nil || d.Link == "" && r.drawnAt != nil || d.Ranks == 0 && r.rankedAt != nil)
}

// isDraw reports whether a run is one.
func (r *run) isDraw() bool { return r.planned[0].GetSettings().GetDraw() }

// ranked reports whether all ranks of a draw were published by a time.
func (r *run) ranked(by uint64) bool {
	return r.drawn != nil && int64(len(r.ranks)) == r.drawn.GetRanks() && r.drawnAt.Seq < by && (r.rankedAt == nil || r.rankedAt.Seq < by)
}

// rankOf is the rank of an entry, 0 if it has none.
func (r *run) rankOf(c *claim) int64 {
	return int64(slices.Index(r.ranks, rank{c.at.log.shard, spot{c.at.n, uint32(c.index)}})) + 1
}

// lost reports whether an entry was known by a time to have no rank, or to get no unit since its
// sale was closed for good.
func (c *claim) lost(by uint64) bool {
	if last := c.at.log.at(by); last != nil && last.after.settings.GetPhase() == phaseClosed && c.entry && c.state == "entered" {
		return true
	}
	return c.entry && c.at.log.run.ranked(by) && c.at.log.run.rankOf(c) == 0
}

// The hash of an entry, which names nobody: four texts, each behind its length.
func (r *run) label(c *claim) []byte {
	h := sha256.New()
	for _, text := range []string{"salectl entry v1", r.uid, c.user, c.key} {
		_ = binary.Write(h, binary.BigEndian, uint64(len(text)))
		h.Write([]byte(text))
	}
	return h.Sum(nil)
}

// merkle is the tree of RFC 6962, from above.
func merkle(leaves [][]byte) []byte {
	switch n := len(leaves); n {
	case 0:
		return hashOf()
	case 1:
		return hashOf([]byte{0}, leaves[0])
	default:
		k := 1
		for 2*k < n {
			k *= 2
		}
		return hashOf([]byte{1}, merkle(leaves[:k]), merkle(leaves[k:]))
	}
}

func hashOf(parts ...[]byte) []byte {
	sum := sha256.Sum256(slices.Concat(parts...))
	return sum[:]
}

func keyed(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(slices.Concat(parts...))
	return h.Sum(nil)
}

// entriesOf are the entries of a shard in the order of its log.
func (e *evidence) entriesOf(l *log) (entries []*claim) {
	for _, c := range e.claims {
		if c.entry && !c.again && c.at.log == l {
			entries = append(entries, c)
		}
	}
	return entries
}

// tree is the root of a shard's entries.
func (e *evidence) tree(l *log) (count int64, root []byte) {
	var leaves [][]byte
	for _, c := range e.entriesOf(l) {
		leaves = append(leaves, l.run.label(c))
	}
	return int64(len(leaves)), merkle(leaves)
}

// sorted are all entries of a draw in the order that follows from what is published.
func (e *evidence) sorted(r *run) []*claim {
	if r.order != nil {
		return r.order
	}
	// HKDF with SHA-256: Extract, and Expand to one block.
	prk := keyed(r.entriesClosed.GetRoot(), r.drawn.GetLink(), r.drawn.GetBeacon())
	key := keyed(prk, []byte("salectl draw v1"+r.uid), []byte{1})
	values := make(map[*claim][]byte)
	for _, l := range r.shards {
		for _, c := range e.entriesOf(l) {
			values[c] = keyed(key, r.label(c))
			r.order = append(r.order, c)
		}
	}
	slices.SortFunc(r.order, func(a, b *claim) int {
		return cmp.Or(bytes.Compare(values[a], values[b]), bytes.Compare(r.label(a), r.label(b)))
	})
	return r.order
}

// entry books an entry, which moves no unit.
func (st *stock) entry(s *slot, c *claim) {
	sh := st.shards[s.log.shard]
	switch {
	case !sh.settings.GetDraw():
		st.bad("%v is an entry, and the sale is no draw", c)
	case sh.entrants[c.user]:
		st.bad("%v is the second entry of its user", c)
	case len(c.units) > 0 || c.deadline != 0 || c.grace != 0 || c.requested != 0:
		st.bad("%v is an entry with units, or a hold", c)
	}
	sh.entrants[c.user] = true
	sh.entries++
	c.become("entered", s)
}

// award books the unit that an entry gets, and reports whether it was for that entry to get one.
func (st *stock) award(s *slot, c *claim, op *pb.Settle) bool {
	if !c.entry || c.state != "entered" || len(op.GetUnits()) != 1 {
		st.bad("%v awards %d units to %v, which is %s", s, len(op.GetUnits()), c, c.state)
		return false
	}
	var deadline, grace int64
	if p := st.shards[s.log.shard].settings.GetPayment(); p != nil {
		deadline, grace = s.commit.GetTimeUs()+p.GetHoldForUs(), p.GetGraceUs()
	}
	if op.GetHeldUntilUs() != deadline || op.GetGraceUs() != grace {
		st.bad("%v awards a unit to %v until %d and %d us of grace, by the settings until %d and %d", s, c, op.GetHeldUntilUs(), op.GetGraceUs(), deadline, grace)
	}
	c.units, c.first, c.deadline, c.grace = op.GetUnits(), op.GetUnits(), op.GetHeldUntilUs(), op.GetGraceUs()
	s.awards = append(s.awards, c)
	return true
}

// draws judges each step of a draw: that it comes after those that it depends on, and that it
// has what these imply.
func draws(e *evidence, bad fault) {
	for _, r := range e.runs {
		for i, p := range r.planned {
			if (p.GetDraw() != nil) != (i == 0 && r.isDraw()) || p.GetDraw() != nil && len(p.GetDraw().GetCommitment()) != sha256.Size {
				bad("%v plans generation %d of run %s with the commitment %x", p.at, p.GetGeneration(), r.uid, p.GetDraw().GetCommitment())
			}
		}
		if !r.isDraw() {
			if r.entriesClosed != nil || r.drawn != nil {
				bad("run %s was drawn, and is no draw", r.uid)
			}
			continue
		}
		for _, l := range r.shards {
			e.lastEntries(l, bad)
		}
		if r.entriesClosed != nil {
			e.published(r, bad)
		}
		if r.drawn != nil && r.entriesClosed != nil {
			e.revealed(r, bad)
		}
	}
}

// lastEntries judges the record of entries at the close in a shard's log.
func (e *evidence) lastEntries(l *log, bad fault) {
	entries := e.entriesOf(l)
	count, root := e.tree(l)
	for _, s := range l.slots {
		for _, op := range s.entries {
			if op.GetCount() != count || !bytes.Equal(op.GetRoot(), root) {
				bad("%v says that the shard has %d entries with the root %x; it has %d with %x", s, op.GetCount(), op.GetRoot(), count, root)
			}
			now := s.after.settings
			if now.GetPhase() != phaseClosed && s.commit.GetTimeUs() < now.GetClosesAtUs() {
				bad("%v says which entries there are at %d us, under %v", s, s.commit.GetTimeUs(), now)
			}
			if n := len(entries); n > 0 && entries[n-1].at.Seq >= s.Seq {
				bad("%v came after %v had said which entries there are", entries[n-1], s)
			}
		}
	}
}

// published judges the record of all shards' entries in the sale's log.
func (e *evidence) published(r *run, bad fault) {
	entries, at := r.entriesClosed, r.closedAt
	if len(entries.GetRoots()) != len(r.shards) || len(entries.GetCounts()) != len(r.shards) {
		bad("%v publishes %d roots for %d shards", at, len(entries.GetRoots()), len(r.shards))
		return
	}
	var leaves [][]byte
	for i, l := range r.shards {
		count, root := e.tree(l)
		leaves = append(leaves, append(binary.BigEndian.AppendUint64(nil, uint64(count)), root...))
		if entries.GetCounts()[i] != count || !bytes.Equal(entries.GetRoots()[i], root) {
			bad("%v publishes %d entries of shard %d with the root %x; it has %d with %x", at, entries.GetCounts()[i], i, entries.GetRoots()[i], count, root)
		}
		if !slices.ContainsFunc(l.slots, func(s *slot) bool { return s.Seq < at.Seq && len(s.entries) > 0 }) {
			bad("%v publishes the entries of shard %d, whose log had not said then which these are", at, i)
		}
	}
	if root := merkle(leaves); !bytes.Equal(entries.GetRoot(), root) {
		bad("%v publishes the root %x of all shards, which is %x", at, entries.GetRoot(), root)
	}
}

// commitment is what a run has to have committed to: a link, and the terms of its draw.
func (r *run) commitment(link []byte) []byte {
	first, b := r.planned[0], drawBeacon{}
	if is := first.draw().Beacon; is != nil {
		b = *is
	}
	var text []byte
	for _, part := range []string{
		"salectl commitment v2", r.uid, string(hashOf(link)), timeText(first.GetSettings().GetClosesAtUs()),
		strconv.FormatInt(first.draw().Substitutes, 10), b.Name, b.Round, b.Fallback,
	} {
		text = append(binary.BigEndian.AppendUint64(text, uint64(len(part))), part...)
	}
	return hashOf(text)
}

// revealed judges what was revealed, and the ranks that follow.
func (e *evidence) revealed(r *run, bad fault) {
	link, at := r.drawn.GetLink(), r.drawnAt
	if end := r.commitment(link); !bytes.Equal(end, r.planned[0].GetDraw().GetCommitment()) {
		bad("%v reveals the link %x, which is not what was committed to", at, link)
	}
	for name, entries := range e.h.Logs {
		for _, entry := range entries {
			if entry.Seq < at.Seq && bytes.Contains(entry.Bytes, link) {
				bad("log %s, slot %d tells what %v reveals", name, entry.Slot, at)
			}
		}
	}
	terms, sizes := r.planned[0].draw(), make(map[int64]bool)
	if value := r.drawn.GetBeacon(); len(value) == 0 && terms.Beacon != nil && terms.Beacon.Fallback != "secret" || len(value) > 0 && (terms.Beacon == nil || !bytes.Equal(value, e.h.Beacon)) {
		bad("%v draws by the beacon's value %x; the declared round has %x, and the sale declares %+v", at, value, e.h.Beacon, terms.Beacon)
	}
	order := e.sorted(r)
	for _, p := range r.planned {
		if p.at.Seq < at.Seq {
			sizes[min(int64(len(order)), p.stock()+terms.Substitutes)] = true
		}
	}
	if !sizes[r.drawn.GetRanks()] {
		bad("%v announces %d ranks of %d entries", at, r.drawn.GetRanks(), len(order))
	}
	if len(r.ranks) > int(min(r.drawn.GetRanks(), int64(len(order)))) {
		bad("run %s has %d ranks, %d were announced", r.uid, len(r.ranks), r.drawn.GetRanks())
		return
	}
	for i, has := range r.ranks {
		if c := order[i]; has != (rank{c.at.log.shard, spot{c.at.n, uint32(c.index)}}) {
			bad("rank %d of run %s is %d-%d-%d, and in the order that follows it is %v", i+1, r.uid, has.shard, has.slot, has.index, c)
		}
	}
}

// drawSpec is the draw of a declaration.
type drawSpec struct {
	Substitutes int64
	Beacon      *drawBeacon
}

type drawBeacon struct {
	Name     string `json:"name"`
	Round    string `json:"round"`
	Fallback string `json:"fallback"`
	Value    string `json:"value,omitempty"`
}

func (p planned) draw() (d drawSpec) {
	var declaration struct{ Draw drawSpec }
	_ = json.Unmarshal(p.GetSpec(), &declaration) // that it can be read is judged elsewhere
	return declaration.Draw
}

// reach is the last rank that may be awarded in a run, as its shards' slots have it: so many
// units as there are, and one for each award that came to nothing.
type reach struct {
	shards map[*log]int64
	last   int64
}

// take takes in how a shard stands after a slot.
func (b *reach) take(s *slot) {
	m := s.after
	now := m.limit + m.Expired + m.Cancelled + m.Refunded
	b.last += now - b.shards[s.log]
	b.shards[s.log] = now
}

// awards judges who was given units when.
func awards(e *evidence, bad fault) {
	bounds := make(map[*run]*reach)
	for _, s := range e.slots {
		r := s.log.run
		if !r.isDraw() {
			continue
		}
		b := bounds[r]
		if b == nil {
			b = &reach{shards: make(map[*log]int64)}
			bounds[r] = b
		}
		b.take(s)
		for _, c := range s.awards {
			switch rank := r.rankOf(c); {
			case rank == 0 || !r.ranked(s.Seq):
				bad("%v awards a unit to %v, which had no rank then", s, c)
			case rank > b.last:
				bad("%v awards a unit to %v, which has rank %d, when those up to %d may have one", s, c, rank, b.last)
			}
		}
	}
}

// patience is how long an entry may wait for its unit when nothing is wrong.
const patience = 20 * time.Second

// awarded judges the end of a draw in which the faults have stopped: whoever may have a unit
// has one.
func (e *evidence) awarded(r *run, bad fault) {
	b := &reach{shards: make(map[*log]int64)}
	due := make(map[int64]time.Duration) // by rank: since when it may have a unit
	var end time.Duration
	closed := false
	for _, s := range e.slots {
		if s.log.run != r {
			continue
		}
		b.take(s)
		closed = closed || s.after.settings.GetPhase() == phaseClosed
		for next := int64(len(due)); next > b.last; next-- { // before the close the stock may be lowered
			delete(due, next)
		}
		for next := int64(len(due)) + 1; next <= b.last; next++ {
			due[next] = s.At
		}
	}
	for _, ev := range e.h.Events {
		if ev.Seq <= e.h.Final.Down {
			end = max(end, ev.At)
		}
	}
	if closed || !r.ranked(forever) || !e.h.Final.Demanded {
		return
	}
	for i, c := range e.sorted(r)[:len(r.ranks)] {
		since, may := due[int64(i)+1]
		if from := r.drawnAt.At; since < from {
			since = from
		}
		if may && c.state == "entered" && since+patience < end {
			bad("%v has rank %d, may have a unit since %v, and was given none by %v", c, i+1, since, end)
		}
	}
}

// drawPart is the draw of an export.
type drawPart struct {
	Commitment  string      `json:"commitment"`
	Beacon      *drawBeacon `json:"beacon,omitempty"`
	Root        string      `json:"root,omitempty"`
	Link        string      `json:"link,omitempty"`
	Ranks       int64       `json:"ranks,omitempty"`
	Substitutes int64       `json:"substitutes"`
	Winners     int64       `json:"winners"`
	Lapsed      int64       `json:"lapsed"`
	Committed   string      `json:"committedClosesAt,omitempty"`
	OpensAt     string      `json:"opensAt,omitempty"`
	ClosesAt    string      `json:"closesAt"`
	Shards      []treePart  `json:"shards,omitempty"`
	Stock       int64       `json:"stock,omitempty"`
	Reach       int64       `json:"reach"`
	Ended       bool        `json:"ended,omitempty"`
}

type treePart struct {
	Entries int64  `json:"entries"`
	Root    string `json:"root"`
}

// drawPart is that of a run's export, nil if it is no draw.
func (e *evidence) drawPart(r *run) *drawPart {
	if !r.isDraw() {
		return nil
	}
	p := &drawPart{
		Commitment: hex.EncodeToString(r.planned[0].GetDraw().GetCommitment()), Beacon: r.planned[0].draw().Beacon, Ended: true,
		Substitutes: r.planned[0].draw().Substitutes,
	}
	var closes int64
	for _, g := range r.planned {
		closes = max(closes, g.GetSettings().GetClosesAtUs())
		p.OpensAt = ""
		if opens := g.GetSettings().GetOpensAtUs(); opens != 0 {
			p.OpensAt = timeText(opens)
		}
	}
	p.ClosesAt = timeText(closes)
	for _, l := range r.shards {
		if n := len(l.slots); n > 0 {
			m := l.slots[n-1].after
			p.Winners += m.limit
			p.Lapsed += m.Expired + m.Cancelled + m.Refunded
			for _, s := range l.slots {
				if is := s.after; is.settings.GetPhase() == phaseClosed {
					p.Reach += is.limit + is.Expired + is.Cancelled + is.Refunded // and no more from there on
					break
				}
			}
		}
	}
	if entries := r.entriesClosed; entries != nil {
		p.Root = hex.EncodeToString(entries.GetRoot())
		for i, root := range entries.GetRoots() {
			p.Shards = append(p.Shards, treePart{entries.GetCounts()[i], hex.EncodeToString(root)})
		}
	}
	if r.drawn != nil {
		for _, g := range r.planned {
			if g.at.Seq < r.drawnAt.Seq {
				p.Stock = g.stock()
			}
		}
		p.Committed = timeText(r.planned[0].GetSettings().GetClosesAtUs())
		p.Link, p.Ranks = hex.EncodeToString(r.drawn.GetLink()), int64(len(r.ranks))
		if p.Beacon != nil {
			p.Beacon.Value = hex.EncodeToString(r.drawn.GetBeacon())
		}
	}
	return p
}
