package audit

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
	"salectl/spec"
)

// The methods below account for a draw: each book for its shard's entries, and the Recount for
// the order.

// addEntry accounts for a claim that is an entry; known: its user has an earlier one.
func (b *Book) addEntry(known bool, op *pb.Claim) {
	if known {
		b.fault("user %q has a second entry", op.GetUser())
	}
	if b.entries != nil {
		b.fault("an entry behind the last")
	}
	if len(op.GetUnits()) > 0 || op.GetHeldUntilUs() != 0 {
		b.fault("an entry that has %d units, until %d", len(op.GetUnits()), op.GetHeldUntilUs())
	}
	b.labels = append(b.labels, draw.Label(spec.LogUID(b.Log()), op.GetUser(), string(op.GetKey())))
}

func (b *Book) closeEntries(op *pb.Entries) {
	tree := draw.Tree{Entries: int64(len(b.labels)), Root: draw.Root(b.labels)}
	if op.GetCount() != tree.Entries || !bytes.Equal(op.GetRoot(), tree.Root[:]) {
		b.fault("%d entries with the root %x, the log has %d with %v", op.GetCount(), op.GetRoot(), tree.Entries, tree.Root)
	}
	b.entries = &tree
}

// award assigns an entry its unit.
func (b *Book) award(c *pb.Commit, n uint32, history *claimHistory, op *pb.Settle) {
	claim := b.claims.At(n)
	if b.entries == nil || len(op.GetUnits()) != 1 {
		b.fault("an award of %d units, with the entries closed: %v", len(op.GetUnits()), b.entries != nil)
	}
	claim.count = uint32(len(op.GetUnits()))
	b.scattered[n] = slices.Clone(op.GetUnits())
	b.assign("an award", c, n, history, op)
	b.accounts.At(claim.user).units += int64(claim.count)
}

// Entries compares the entries of each shard with trees, as published in the sale's log.
func (r *Recount) Entries(trees []draw.Tree) {
	for i, b := range r.Books {
		if i < len(trees) && (b.entries == nil || *b.entries != trees[i]) {
			r.Problem("shard %d: its entries are %v, and the sale's log has %v", i, b.entries, trees[i])
		}
	}
}

// draw accounts for the draw of a sale, again while there are problems: the heads may lag behind the
// shards. An error means that the store could not be read.
func (r *Recount) draw(ctx context.Context, logs ledger.Logs, sale *ledger.Sale) error {
	shards, before := make([]ledger.DrawShard, len(r.Books)), len(r.Problems)
	for i, b := range r.Books {
		shards[i] = b.reducer.DrawShard()
	}
	return retry(ctx, logs, func() (lags bool, err error) {
		r.Problems = r.Problems[:before]
		heads, err := ledger.ReadDrawHeads(ctx, logs, sale)
		if err != nil && !errors.Is(err, ledger.ErrCorrupt) {
			return false, err
		}
		var x *ledger.DrawResult
		if err == nil {
			x, err = ledger.NewDrawResult(sale, shards, heads)
		}
		switch {
		case err != nil:
			r.Problem("%v", err)
		case x != nil:
			r.Entries(x.Record.Shards)
			r.VerifyDraw(x, x.Record)
		}
		return len(r.Problems) > before, nil
	})
}

// VerifyDraw verifies a record of the draw, and the order of the entries, by draw.Verifier, which is
// public.
func (r *Recount) VerifyDraw(x *ledger.DrawResult, record draw.Record) {
	v, err := draw.NewVerifier(r.Sale, r.UID, record, draw.Options{})
	if err != nil {
		r.Problem("the draw: %v", err)
		return
	}
	for shard, b := range r.Books {
		for i := range b.reducer.Claims() {
			c := b.reducer.Claim(i)
			label, rank := x.Label(shard, c)
			err = v.Add(draw.Line{Claim: c.ID(shard), User: c.User, Key: c.Key, State: c.State.String(), At: ledger.FormatTime(c.TimeUs), Label: label, Rank: rank})
			if err != nil {
				r.Problem("%v", err)
			}
		}
	}
	r.Draw = v.Report()
	for _, problem := range r.Draw.Problems {
		r.Problem("the draw: %s", problem)
	}
}
