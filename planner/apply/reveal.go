package apply

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
	"salectl/planner"
	"salectl/units"
)

// An apply publishes the commitment to a draw's secret with the first generation. After the close
// Reveal closes the entries of every shard's log, then publishes their common root, the
// secret, and the ranks, in this order. Each step is in a log before the next begins, so a
// reveal may be killed at any point, may run concurrently, and is completed by a later run.
// Steps that are present are kept, and the result does not depend on which process computes
// it.

// revealing is one execution of a plan that reveals a draw.
type revealing struct {
	x       *execution
	trees   []draw.Tree
	entries [][]draw.Entry // by shard, without values
}

func (r *revealing) run() {
	x := r.x
	x.readNodes()
	x.checkNodes()
	r.read()
	r.closeEntries()
	r.publish()
	if !x.plan.EntriesOnly {
		r.reveal()
		r.rank()
		if drawn := x.sale.Drawn(); !bytes.Equal(drawn.GetBeacon(), x.plan.Beacon) {
			x.warn("another process has revealed the draw meanwhile, %s: the order follows from that", planner.DrawnBy(drawn))
		}
	}
	x.result.Generation = x.sale.Generation()
	x.finished(planner.SaleAddress(x.plan.Sale), "")
}

// read reads the sale's log and compares it with the plan.
func (r *revealing) read() {
	x := r.x
	x.begin("reading the sale's log")
	x.readSale()
	for x.sale.Next() < x.plan.Slot {
		if x.lags++; x.lags > lagTries {
			break
		}
		x.core.Sleep(lagPause)
		x.readSale()
	}
	if x.sale.UID() != x.plan.UID || !x.sale.Live() || x.sale.Draw() == nil {
		x.stale("was destroyed since the plan was made")
	}
	r.checkSettled()
	if !x.plan.EntriesOnly {
		x.core.Check(FitsDraw(x.sale, x.DrawKey))
	}
	x.core.Check(x.checkClock())
	x.planned = found // what follows is appended, by this process or another
}

// closeEntries closes the entries of all shards.
func (r *revealing) closeEntries() {
	x := r.x
	x.shards = make([]shard, x.sale.Shards())
	r.trees, r.entries = make([]draw.Tree, len(x.shards)), make([][]draw.Entry, len(x.shards))
	x.begin("closing the entries of the shards")
	x.core.Each(len(x.shards), r.close)
}

// close appends the entries of a shard to its log. The shard's owner does so too. The first
// append counts, and both are equal.
func (r *revealing) close(i int) {
	x := r.x
	for e := x.readShard(i); ; {
		state := x.shards[i].state
		if e == ledger.Gone || state.Next() == 0 {
			x.lost(i)
			e = x.readShard(i)
			continue
		}
		tree, closed := state.Entries()
		switch {
		case closed:
			r.trees[i], r.entries[i] = tree, state.DrawEntries(i)
			x.shards[i].forget()
			return
		case state.Sealed():
			x.stale("was destroyed meanwhile")
		case !state.MayCloseEntries(x.timeUs()):
			x.core.Fail(planner.Refuse("%s of sale %s still takes entries", planner.ShardAddress(i), x.plan.Sale).
				With("Run it again once closesAt is past by this host's clock, and by those of the lock nodes."))
		}
		draft := state.Draft(x.Writer, x.timeUs())
		draft.Entries()
		e = x.appendDraft(i, draft)
	}
}

// publish appends the entries of all shards to the sale's log.
func (r *revealing) publish() {
	x := r.x
	x.begin("appending EntriesClosed")
	op := ledger.NewEntriesClosed(r.trees)
	x.note(&pb.Op{Op: &pb.Op_EntriesClosed{EntriesClosed: op}}, func() bool {
		r.checkLive()
		is := x.sale.EntriesClosed()
		if is != nil && !bytes.Equal(is.GetRoot(), op.GetRoot()) {
			x.core.Fail(fmt.Errorf("%w: the entries of the shards differ from those in the sale's log", ledger.ErrCorrupt))
		}
		return is != nil
	})
}

// checkSettled fails while a generation is not on every shard: units may still be removed that
// entries could win.
func (r *revealing) checkSettled() {
	if r.x.sale.Applied() < r.x.sale.Generation() {
		r.x.stale("has a newer generation, which has not reached every shard yet")
	}
}

func (r *revealing) checkLive() {
	if r.x.sale.UID() != r.x.plan.UID || !r.x.sale.Live() {
		r.x.stale("was destroyed meanwhile")
	}
}

// reveal appends the link to the sale's log, always after the entries.
func (r *revealing) reveal() {
	x := r.x
	x.begin("appending Drawn")
	if x.sale.Drawn() != nil {
		return
	}
	link, err := openLink(x.sale, x.DrawKey)
	x.core.Check(err)
	newest, err := planner.Declared(x.sale.Newest())
	x.core.Check(err)
	op := &pb.Drawn{Link: link[:], Beacon: x.plan.Beacon, Ranks: x.sale.RanksOf(newest)}
	x.note(&pb.Op{Op: &pb.Op_Drawn{Drawn: op}}, func() bool {
		r.checkLive()
		if x.sale.Drawn() == nil {
			r.checkSettled()
		}
		return x.sale.Drawn() != nil
	})
}

// rank computes the ranks that follow from the revealed values, and appends those that are
// missing to the sale's log, one part per op.
func (r *revealing) rank() {
	sale := r.x.sale
	drawn := sale.Drawn()
	order := draw.NewOrder(sale.UID(), draw.Digest(sale.EntriesClosed().GetRoot()), draw.Digest(drawn.GetLink()), drawn.GetBeacon())
	var ranked []draw.Entry
	for _, entries := range r.entries {
		ranked = append(ranked, order.Lowest(entries, drawn.GetRanks())...)
	}
	ranked = order.Lowest(ranked, drawn.GetRanks())
	r.entries = nil
	r.x.begin("appending Ranked")
	for !r.x.sale.Ranked() {
		first := int64(len(r.x.sale.Ranks())) + 1
		r.x.note(&pb.Op{Op: &pb.Op_Ranked{Ranked: ledger.NewRanked(first, ranked)}}, func() bool {
			r.checkLive()
			return int64(len(r.x.sale.Ranks())) >= first
		})
	}
}

// drawSecret generates the secret of a new draw and commits to it. The secret is in no plan:
// the readers of a saved plan could predict the order.
func drawSecret(planned *pb.Planned, rand io.Reader, key *units.Key) error {
	if planned == nil || planned.GetGeneration() != 1 || !planned.GetSettings().GetDraw() {
		return nil
	}
	if key == nil {
		return errors.New("the secret of the draw must be encrypted: provide the key")
	}
	secret := make([]byte, draw.SecretLen)
	if _, err := io.ReadFull(rand, secret); err != nil {
		return fmt.Errorf("drawing the secret of a draw: %w", err)
	}
	sealed, err := key.Seal(rand, drawContext(planned.GetUid()), secret)
	if err != nil {
		return err
	}
	terms, err := ledger.DrawTerms(planned)
	if err != nil {
		return err
	}
	end := terms.Commitment(planned.GetUid(), draw.Link(secret))
	planned.Draw = &pb.Draw{Commitment: end[:], Sealed: sealed, Key: key.ID()}
	return nil
}

// drawContext returns the context with which the secret of a run's draw is encrypted.
func drawContext(uid string) []byte { return []byte("draw " + uid) }

// openLink decrypts the secret of a draw and returns the link to be revealed.
func openLink(sale *ledger.Sale, key *units.Key) (link draw.Digest, err error) {
	d := sale.Draw()
	if key == nil || key.ID() != d.GetKey() {
		return link, planner.Refuse("the secret of the draw is encrypted with the key with id %s, but another key was given", d.GetKey()).
			With("Provide the key that draw.keyEnv or draw.keyFile had at the first apply: without it the draw cannot be revealed.")
	}
	secret, err := key.Open(drawContext(sale.UID()), d.GetSealed())
	if err != nil {
		return link, fmt.Errorf("the secret of the draw: %w", err)
	}
	link = draw.Link(secret)
	if sale.CommitsTo(link) != nil {
		return link, fmt.Errorf("%w: the secret of the draw is not the one that was committed to", ledger.ErrCorrupt)
	}
	return link, nil
}

// FitsDraw returns an error if a key does not decrypt the secret of a live, unrevealed draw.
func FitsDraw(sale *ledger.Sale, key *units.Key) error {
	if !sale.Live() || sale.Draw() == nil || sale.Drawn() != nil {
		return nil
	}
	_, err := openLink(sale, key)
	return err
}

// drawSeed generates the seed of the amounts of a new red packet. The seed is in no plan: the
// readers of a saved plan would see the amounts before the buyers.
func drawSeed(planned *pb.Planned, rand io.Reader) error {
	if planned == nil {
		return nil
	}
	sale, err := planner.Declared(planned)
	if err != nil || sale.RedPacket == nil || planned.GetGeneration() != 1 {
		return err
	}
	planned.Seed = make([]byte, 32)
	if _, err := io.ReadFull(rand, planned.Seed); err != nil {
		return fmt.Errorf("drawing the seed of red packets: %w", err)
	}
	return nil
}
