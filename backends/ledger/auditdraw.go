package ledger

import (
	"bytes"
	"context"
	"errors"
	"slices"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
	"salectl/spec"
)

// How an audit accounts for a draw: each book for its shard's entries, and all of them
// together for the order.

// entry notes a claim that is an entry, of a user who may be known already.
func (b *book) entry(at place, user uint32, known bool, op *pb.Claim) {
	if known {
		b.fault("user %q has a second entry", op.GetUser())
	}
	if b.entries != nil {
		b.fault("an entry behind the last")
	}
	if len(op.GetUnits()) > 0 || op.GetHeldUntilUs() != 0 {
		b.fault("an entry that has %d units, until %d", len(op.GetUnits()), op.GetHeldUntilUs())
	}
	if ruled := len(b.settings.GetRules()) > 0; ruled != (len(op.GetAttributes()) == AttributesLen) || !ruled && len(op.GetAttributes()) > 0 {
		b.fault("an entry with %d bytes of attributes in a sale whose rule set is %x", len(op.GetAttributes()), b.settings.GetRules())
	}
	b.claims.add(bookClaim{at.index, user, 0})
	b.first.add(0)
	b.labels = append(b.labels, draw.Label(spec.LogUID(b.log), op.GetUser(), string(op.GetKey())))
}

func (b *book) closeEntries(op *pb.Entries) {
	tree := draw.Tree{Entries: int64(len(b.labels)), Root: draw.Root(b.labels)}
	if op.GetCount() != tree.Entries || !bytes.Equal(op.GetRoot(), tree.Root[:]) {
		b.fault("%d entries with the root %x, the log has %d with %v", op.GetCount(), op.GetRoot(), tree.Entries, tree.Root)
	}
	b.entries = &tree
}

// award gives an entry its unit.
func (b *book) award(c *pb.Commit, n uint32, history *claimHistory, op *pb.Settle) {
	claim, pay := b.claims.at(n), b.settings.GetPayment()
	if b.entries == nil || len(op.GetUnits()) != 1 {
		b.fault("an award of %d units, with the entries closed: %v", len(op.GetUnits()), b.entries != nil)
	}
	if held := op.GetHeldUntilUs() != 0; held != (pay != nil) ||
		held && (op.GetHeldUntilUs()-c.GetTimeUs() != pay.GetHoldForUs() || op.GetGraceUs() != pay.GetGraceUs()) {
		b.fault("an award held for %d us and %d of grace, in a sale whose payment is %v", op.GetHeldUntilUs()-c.GetTimeUs(), op.GetGraceUs(), pay)
	}
	claim.count = uint32(len(op.GetUnits()))
	b.scattered[n] = slices.Clone(op.GetUnits())
	history.state, history.since, history.until, history.grace = "sold", c.GetTimeUs(), op.GetHeldUntilUs(), op.GetGraceUs()
	to := &b.sold
	if history.until != 0 {
		history.state, to = "held", &b.held
		b.outcomes.OpenHolds++
	}
	b.carry(n, &b.free, to)
	b.accounts.at(claim.user).units += int64(claim.count)
}

// trees holds the entries of each shard against what the sale's log says of them.
func (a *Audit) trees(x *exportedDraw, books []*book) {
	if x == nil {
		return
	}
	for i, b := range books {
		if i < len(x.record.Shards) && (b.entries == nil || *b.entries != x.record.Shards[i]) {
			a.problem("shard %d: its entries are %v, and the sale's log says %v", i, b.entries, x.record.Shards[i])
		}
	}
}

// draw holds the draw of a sale against its entries: by the books, and by the verifier that
// everybody has. An error says that the store could not be read.
func (a *Audit) draw(ctx context.Context, logs Logs, sale *Sale, books []*book) error {
	if sale.Draw() == nil {
		return nil
	}
	x, err := drawOf(sale)
	if err != nil {
		a.problem("%v", err)
		return nil
	}
	switch err := x.look(ctx, logs, sale); {
	case errors.Is(err, ErrCorrupt):
		a.problem("%v", err)
		return nil
	case err != nil:
		return err
	}
	states := make([]*State, len(books))
	for i, b := range books {
		states[i] = b.state
	}
	x.cut(states)
	a.trees(x, books)
	v, err := draw.NewVerifier(a.Sale, sale.UID(), *x.header(states), draw.Options{})
	if err != nil {
		a.problem("%v", err)
		return nil
	}
	for shard, b := range books {
		for i := range b.state.Claims() {
			c := b.state.Claim(i)
			line := exportClaim(a.Sale, shard, c, &ofSale{draw: x})
			err = v.Add(draw.Line{Claim: line.Claim, User: c.User, Key: c.Key, State: line.State, At: line.At, Label: *line.Label, Rank: line.Rank})
			if err != nil {
				a.problem("%v", err)
			}
		}
	}
	a.Draw = v.Report()
	for _, problem := range a.Draw.Problems {
		a.problem("the draw: %s", problem)
	}
	return nil
}
