package ledger

import (
	"bytes"
	"fmt"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
	"salectl/spec"
)

// A sale may be a draw. While it is open, each claim is an entry without units. After the
// close each shard's log records its entries (Entries). The sale's log then records those of
// all shards (EntriesClosed), the values that determine the order (Drawn), and the first
// ranks of that order (Ranked). From then on the owners of the shards award the ranked
// entries their units (AWARD).
//
// No process decides whether a rank may be awarded yet: see MayBeAwarded.

// MayBeAwarded returns the last rank that may be awarded now: the number of units, plus one
// for each award that has lapsed. A refund with retire moves one from the first number to
// the second.
//
// Totals may be old, which can only lower the sum, unless they precede the reveal (see
// Sale.DrawnSince): the shard may have had units then that are gone now. Totals of a
// generation below since therefore do not count.
func MayBeAwarded(shards []Totals, since uint64) int64 {
	var last int64
	for _, t := range shards {
		if t.Generation >= since {
			last += t.mayBeAwarded()
		}
	}
	return last
}

// mayBeAwarded returns the part of MayBeAwarded that a shard with the totals has.
func (t Totals) mayBeAwarded() int64 { return t.Limit + t.Lapsed() }

// Lapsed returns the number of claims that have lost their units.
func (o Outcomes) Lapsed() int64 { return o.Expired + o.Cancelled + o.Refunded }

// labels returns the labels of the entries of the run with a uid, in the order of the log.
func (c *claims) labels(uid string) []draw.Digest {
	labels := make([]draw.Digest, c.records.Len())
	for i := range labels {
		r := c.records.At(uint32(i))
		labels[i] = draw.Label(uid, c.users.name(r.user), c.text.get(r.key))
	}
	return labels
}

// Entries returns the tree of the shard's entries that its log recorded at the close;
// false: not recorded yet.
func (s *State) Entries() (draw.Tree, bool) {
	if s.entries == nil {
		return draw.Tree{}, false
	}
	return *s.entries, true
}

// MayCloseEntries reports whether Draft.Entries is permitted, and not yet done, in a commit
// of a writer whose clock reads timeUs.
func (s *State) MayCloseEntries(timeUs int64) bool {
	return s.settings.GetDraw() && s.entries == nil && !s.Sealed() && s.refusal(s.commitTime(timeUs)) == RefusedClosed
}

// tree computes the tree that Entries records.
func (s *State) tree() draw.Tree {
	labels := s.labels(spec.LogUID(s.log))
	return draw.Tree{Entries: int64(len(labels)), Root: draw.Root(labels)}
}

func (s *State) closeEntries(c *pb.Commit, op *pb.Entries) error {
	if !s.settings.GetDraw() {
		return fmt.Errorf("entries of a sale that is no draw")
	}
	if no := s.refusal(c.GetTimeUs()); no != RefusedClosed {
		return fmt.Errorf("the last entry, and the sale is not closed (%q)", string(no))
	}
	tree := s.entries
	if tree == nil {
		is := s.tree()
		tree = &is
	}
	if op.GetCount() != tree.Entries || !bytes.Equal(op.GetRoot(), tree.Root[:]) {
		return fmt.Errorf("%d entries with the root %x, and the log has %d with %v", op.GetCount(), op.GetRoot(), tree.Entries, tree.Root)
	}
	s.entries = tree
	return nil
}

// checkAward checks an award.
func (s *State) checkAward(c *pb.Commit, op *pb.Settle) error {
	switch {
	case !s.IsOwner(c.GetWriter()):
		return fmt.Errorf("an award by a writer that is not the owner")
	case len(op.GetUnits()) != 1:
		return fmt.Errorf("an award of %s", spec.Count(len(op.GetUnits()), "unit"))
	}
	return checkTerm("an award", s.settings, c.GetTimeUs(), op)
}

// ClaimsWithUnits returns the number of claims that have or had units: in a draw the awarded entries,
// otherwise all claims.
func (s *State) ClaimsWithUnits() int {
	if s.settings.GetDraw() {
		return len(s.claims.awarded)
	}
	return s.Claims()
}

// ClaimWithUnits returns the i-th of ClaimsWithUnits, in a draw in the order of the awards.
func (s *State) ClaimWithUnits(i int) Claim {
	if s.settings.GetDraw() {
		return s.claims.at(s.claims.awarded[i])
	}
	return s.Claim(i)
}

// enter adds the op of an entry that passed all checks.
func (draft *Draft) enter(r Ruling, user, key string) Decision {
	size := len(user) + len(key) + 32
	if r.Rules != "" {
		size += 2 + AttributesLen
	}
	if draft.size+size > entryBudget {
		return Decision{Kind: Full}
	}
	draft.beginClaim(size, r, user, key, 1).Entry = true
	draft.after.Entries++
	return Decision{Kind: Granted, Op: len(draft.commit.Ops) - 1}
}

// Entries records the shard's entries. It requires MayCloseEntries and a commit without other ops.
func (draft *Draft) Entries() {
	tree := draft.state.tree()
	draft.addOp(&pb.Op{Op: &pb.Op_Entries{Entries: &pb.Entries{Count: tree.Entries, Root: tree.Root[:]}}})
	draft.size = MaxEntry
}

// Award assigns an entry the lowest available unit, held by the settings in force or sold at
// once. SettleShort: no unit is available. The draft's writer must be the owner.
func (draft *Draft) Award(c Claim) Settlement {
	if draft.after.Available == 0 {
		_, now, _ := draft.changes.current(c)
		return Settlement{SettleShort, now}
	}
	until, grace := term(draft.state.settings, draft.commit.TimeUs)
	return draft.settle(c, &pb.Settle{How: pb.Settle_AWARD, Units: draft.after.available.lowest(1), HeldUntilUs: until, GraceUs: grace})
}

// Rank is the position in the ledger of the claim of a ranked entry.
type Rank struct {
	Shard int
	Slot  uint64
	Index int
}

// drawing is the progress of a sale's draw.
type drawing struct {
	closed *pb.EntriesClosed
	trees  []draw.Tree // of closed, by shard
	drawn  *pb.Drawn
	stock  int64  // at the reveal
	since  uint64 // generation in force at the reveal
	ranks  []Rank // from rank 1
}

// Draw returns the commitment and the sealed secret of the present run, nil if it is not a draw.
func (s *Sale) Draw() *pb.Draw {
	if len(s.generations) == 0 {
		return nil
	}
	return s.generations[0].GetDraw()
}

// EntriesClosed returns the published entries of all shards; nil: not published yet.
func (d *drawing) EntriesClosed() *pb.EntriesClosed { return d.closed }

// Drawn returns the values that determine the order; nil: not revealed yet.
func (d *drawing) Drawn() *pb.Drawn { return d.drawn }

// DrawnSince returns the generation that was in force when the order was revealed; 0: not
// revealed yet. Later generations may add units and remove none.
func (d *drawing) DrawnSince() uint64 { return d.since }

// Ranks returns the published ranks, from the first.
func (d *drawing) Ranks() []Rank { return d.ranks }

// DrawSteps returns the number of steps of the draw in the log. It grows with each step.
func (d *drawing) DrawSteps() int {
	n := len(d.ranks)
	if d.closed != nil {
		n++
	}
	if d.drawn != nil {
		n++
	}
	return n
}

// Ranked reports whether all ranks of the draw are published.
func (d *drawing) Ranked() bool {
	return d.drawn != nil && int64(len(d.ranks)) == d.drawn.GetRanks()
}

// drawable validates the commitment of a generation.
func drawable(op *pb.Planned) error {
	d := op.GetDraw()
	switch {
	case op.GetGeneration() > 1 && d != nil:
		return fmt.Errorf("generation %d has a commitment, which stands in the first", op.GetGeneration())
	case op.GetGeneration() == 1 && op.GetSettings().GetDraw() != (d != nil):
		return fmt.Errorf("a commitment stands in a sale that is no draw, or is missing in one that is")
	case d != nil && len(d.GetCommitment()) != len(draw.Digest{}):
		return fmt.Errorf("a commitment of %d bytes", len(d.GetCommitment()))
	}
	return nil
}

func (s *Sale) entriesClosed(op *pb.EntriesClosed) error {
	n := len(op.GetRoots())
	switch {
	case s.Draw() == nil || s.sealed != nil || s.closed != nil:
		return fmt.Errorf("entries are closed of a sale that is no draw, or a second time")
	case n != s.Shards() || n != len(op.GetCounts()):
		return fmt.Errorf("entries of %d shards and counts of %d, the sale has %d", n, len(op.GetCounts()), s.Shards())
	}
	trees := make([]draw.Tree, n)
	for i, root := range op.GetRoots() {
		if trees[i].Entries = op.GetCounts()[i]; len(root) != len(trees[i].Root) || trees[i].Entries < 0 {
			return fmt.Errorf("shard %d has %d entries with a root of %d bytes", i, trees[i].Entries, len(root))
		}
		copy(trees[i].Root[:], root)
	}
	if root := draw.RootOf(trees); !bytes.Equal(root[:], op.GetRoot()) {
		return fmt.Errorf("the root %x of all shards' entries, which is %v", op.GetRoot(), root)
	}
	s.closed, s.trees = op, trees
	return nil
}

// NewEntriesClosed returns the op that publishes the entries of all shards.
func NewEntriesClosed(trees []draw.Tree) *pb.EntriesClosed {
	root := draw.RootOf(trees)
	op := &pb.EntriesClosed{Root: root[:]}
	for _, tree := range trees {
		op.Roots, op.Counts = append(op.Roots, bytes.Clone(tree.Root[:])), append(op.Counts, tree.Entries)
	}
	return op
}

func (s *Sale) reveal(op *pb.Drawn) error {
	switch {
	case s.closed == nil || s.sealed != nil || s.drawn != nil:
		return fmt.Errorf("a draw is revealed before its entries are published, or a second time")
	case len(op.GetLink()) != len(draw.Digest{}) || op.GetRanks() < 0:
		return fmt.Errorf("a link of %d bytes and %d ranks", len(op.GetLink()), op.GetRanks())
	}
	if err := s.CommitsTo(draw.Digest(op.GetLink())); err != nil {
		return err
	}
	if s.applied < s.Generation() {
		return fmt.Errorf("a draw is revealed, and generation %d is not on every shard: units may still go that entries could win", s.Generation())
	}
	terms, err := DrawTerms(s.generations[0])
	if err != nil {
		return err
	}
	newest, err := spec.FromJSON(s.Newest().GetSpec())
	if err != nil {
		return err
	}
	switch b, want := terms.Beacon, s.RanksOf(newest); {
	case b == nil && len(op.GetBeacon()) > 0:
		return fmt.Errorf("a beacon's value, and the sale has declared no beacon")
	case b != nil && len(op.GetBeacon()) == 0 && b.Fallback != string(spec.FallbackSecret):
		return fmt.Errorf("the draw has no value of round %s of %s, and the sale declares no other order without one", b.Round, b.Name)
	case op.GetRanks() != want:
		return fmt.Errorf("a draw with %d ranks, of the entries, the stock and the substitutes follow %d", op.GetRanks(), want)
	}
	s.drawn, s.stock, s.since = op, newest.Stock, s.Generation()
	return nil
}

// DrawTerms returns the terms that the commitment of a run covers, by its first generation.
func DrawTerms(first *pb.Planned) (draw.Terms, error) {
	declared, err := spec.FromJSON(first.GetSpec())
	switch {
	case err != nil:
		return draw.Terms{}, fmt.Errorf("generation 1 of run %s: %w", first.GetUid(), err)
	case declared.Draw == nil:
		return draw.Terms{}, fmt.Errorf("generation 1 of run %s declares no draw: %w", first.GetUid(), ErrCorrupt)
	}
	t := draw.Terms{Closes: FormatTime(first.GetSettings().GetClosesAtUs()), Substitutes: declared.Draw.Substitutes}
	if b := declared.Draw.Beacon; b != nil {
		t.Beacon = &draw.Beacon{Name: b.Name, Round: b.Round, Fallback: string(b.Fallback)}
	}
	return t, nil
}

// CommitsTo returns an error unless the run's commitment is to link.
func (s *Sale) CommitsTo(link draw.Digest) error {
	terms, err := DrawTerms(s.generations[0])
	if err != nil {
		return err
	}
	if end, commitment := terms.Commitment(s.uid, link), draw.Digest(s.Draw().GetCommitment()); end != commitment {
		return fmt.Errorf("the link that is revealed comes to %v, and the commitment is %v", end, commitment)
	}
	return nil
}

// RanksOf returns the number of ranks of a draw that is revealed now, by its declaration.
func (s *Sale) RanksOf(declared spec.Sale) int64 {
	var entries int64
	for _, tree := range s.trees {
		entries += tree.Entries
	}
	if declared.Draw == nil {
		return 0
	}
	return min(entries, declared.Stock+declared.Draw.Substitutes)
}

// keepsUnits rejects a generation that removes units from a draw whose entries are published:
// any of the units may belong to a winner.
func (d *drawing) keepsUnits(op *pb.Planned) error {
	if d.closed == nil {
		return nil
	}
	for i, change := range op.GetShards() {
		if change.GetRemove() > 0 || len(change.GetDrop()) > 0 {
			return fmt.Errorf("generation %d takes units from shard %d of a draw whose entries are published", op.GetGeneration(), i)
		}
	}
	return nil
}

func (s *Sale) ranked(op *pb.Ranked) error {
	n := len(op.GetShards())
	switch d := s.drawing; {
	case d.drawn == nil || s.sealed != nil:
		return fmt.Errorf("ranks before the draw is revealed")
	case n == 0 || n != len(op.GetSlots()) || n != len(op.GetIndexes()):
		return fmt.Errorf("ranks of %d shards, %d slots and %d indexes", n, len(op.GetSlots()), len(op.GetIndexes()))
	case op.GetFirst() != int64(len(d.ranks))+1 || int64(n) > d.drawn.GetRanks()-int64(len(d.ranks)):
		return fmt.Errorf("ranks %d+%d after %d of %d", op.GetFirst(), n, len(d.ranks), d.drawn.GetRanks())
	}
	for i, shard := range op.GetShards() {
		if int64(shard) >= int64(s.Shards()) {
			return fmt.Errorf("rank %d is on shard %d of %d", op.GetFirst()+int64(i), shard, s.Shards())
		}
		s.ranks = append(s.ranks, Rank{int(shard), op.GetSlots()[i], int(op.GetIndexes()[i])})
	}
	return nil
}

// RanksAtOnce is the number of ranks that a commit publishes, far below its capacity.
const RanksAtOnce = 40_000

// NewRanked returns the op that publishes the ranks from first on, at most RanksAtOnce.
func NewRanked(first int64, all []draw.Entry) *pb.Ranked {
	op := &pb.Ranked{First: first}
	rest := all[first-1:]
	for _, e := range rest[:min(len(rest), RanksAtOnce)] {
		op.Shards, op.Slots, op.Indexes = append(op.Shards, uint32(e.Shard)), append(op.Slots, e.Slot), append(op.Indexes, uint32(e.Index))
	}
	return op
}
