package planner

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
	"salectl/spec"
	"salectl/units"
)

// Apply publishes the commitment to a draw's secret with the first generation. After the close
// Reveal closes the entries of every shard's log, then publishes their common root, the
// secret, and the ranks, in this order. Each step is in a log before the next begins, so a
// reveal may be killed at any point, may run concurrently, and is completed by a later run.
// Steps that are present are kept, and the result does not depend on which process computes
// it.

// drawSecret generates the secret of a new draw and commits to it. The secret is in no plan:
// the readers of a saved plan could predict the order.
func drawSecret(planned *pb.Planned, rand io.Reader, key *units.Key) error {
	if planned == nil || planned.GetGeneration() != 1 || !planned.GetSettings().GetDraw() {
		return nil
	}
	if key == nil {
		return errors.New("the secret of the draw is to be encrypted: give the key")
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
		return link, &Refusal{
			Reason: fmt.Sprintf("the secret of the draw is encrypted with the key whose id is %s, and the key given is another", d.GetKey()),
			Remedy: "Give the key that draw.keyEnv or draw.keyFile had at the first apply: without it the draw cannot be revealed.",
		}
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

// fixedDraw refuses to change the draw of a live sale. The hours are fixed after the close,
// when some shards may have ended their entries.
func fixedDraw(desired, old spec.Sale, actual *Actual, refuse func(string, ...any) error) error {
	switch {
	case (desired.Draw == nil) != (old.Draw == nil):
		return refuse("it cannot become a draw, or cease to be one")
	case desired.Draw == nil:
		return nil
	case desired.Draw.Substitutes != old.Draw.Substitutes:
		return &Refusal{
			Reason: fmt.Sprintf("sale %s is live, and the substitutes of its draw cannot go from %d to %d", actual.Name, old.Draw.Substitutes, desired.Draw.Substitutes),
			Remedy: fmt.Sprintf("Write draw: {substitutes: %d}, also where nothing was written before: then they are as many as the stock.", old.Draw.Substitutes),
		}
	case (desired.Draw.Beacon == nil) != (old.Draw.Beacon == nil), desired.Draw.Beacon != nil && *desired.Draw.Beacon != *old.Draw.Beacon:
		return refuse("the beacon of its draw cannot change: somebody may know the values of another")
	case !desired.ClosesAt.Equal(old.ClosesAt) && drawCloses(old, actual):
		return &Refusal{
			Reason: fmt.Sprintf("sale %s closed at %s and takes no entries any more: its closesAt cannot change", actual.Name, old.ClosesAt.Format(time.RFC3339Nano)),
			Remedy: "Declare closesAt as it was.",
		}
	case old.Draw.Beacon != nil && desired.ClosesAt.After(old.ClosesAt):
		return &Refusal{
			Reason: fmt.Sprintf("sale %s is drawn by round %s of %s, which is to come after closesAt: that cannot become later", actual.Name, old.Draw.Beacon.Round, old.Draw.Beacon.Name),
			Remedy: "Declare closesAt as it was, or an earlier time.",
		}
	}
	return nil
}

// drawCloses reports whether some shard may have accepted its last entry.
func drawCloses(old spec.Sale, actual *Actual) bool {
	return actual.Sale.EntriesClosed() != nil || !actual.At.Before(old.ClosesAt)
}

// keepsWinners refuses to remove units from a draw that entries may have won.
func keepsWinners(old spec.Sale, actual *Actual, delta int64) error {
	if old.Draw == nil || !drawCloses(old, actual) {
		return nil
	}
	reason := "sale %s has closed, and each of its units may be somebody's who wins: "
	if is := actual.Units; is != nil && slices.ContainsFunc(is.Gone, func(u ledger.Units) bool { return len(u) > 0 }) {
		return &Refusal{
			Reason: fmt.Sprintf(reason+"none can be exchanged", actual.Name),
			Remedy: "Declare the units as they were.",
		}
	}
	if delta >= 0 {
		return nil
	}
	return &Refusal{
		Reason: fmt.Sprintf(reason+"the stock cannot be lowered by %d", actual.Name, -delta),
		Remedy: "Declare the stock as it was.",
	}
}

// MakeCloseDraw plans to publish the entries of a closed draw and nothing that follows from
// them, so that everybody can record the root before the order can be known. The plan is empty
// if that is done.
func MakeCloseDraw(actual *Actual) (*Plan, error) {
	p, old, err := drawPlan(actual)
	if err != nil || actual.Sale.EntriesClosed() != nil {
		return p, err
	}
	p.EntriesOnly = true
	return p, p.revealed(actual, old, "entries are published")
}

// MakeReveal plans to reveal a closed draw with the value of its beacon's round. Nil: there is
// no value, which fallback must confirm. The plan is empty if all is published.
func MakeReveal(actual *Actual, beacon []byte, fallback bool) (*Plan, error) {
	p, old, err := drawPlan(actual)
	if err != nil {
		return nil, err
	}
	if p.Beacon, err = beaconGiven(actual.Sale, old.Draw.Beacon, beacon, fallback); err != nil || actual.Sale.Ranked() {
		return p, err
	}
	return p, p.revealed(actual, old, "entries are published, the secret is revealed, and ranks are published")
}

// drawPlan returns an empty plan for the draw of a sale, and the newest declaration. It
// refuses a sale that is no draw or cannot be drawn yet.
func drawPlan(actual *Actual) (*Plan, spec.Sale, error) {
	sale := actual.Sale
	if err := exists(actual, "is drawn"); err != nil {
		return nil, spec.Sale{}, err
	}
	if sale.Draw() == nil {
		return nil, spec.Sale{}, &Refusal{Reason: fmt.Sprintf("sale %s is no draw", actual.Name), Remedy: "Declare queue: {order: draw} in a new run."}
	}
	old, err := declared(sale.Newest())
	if err != nil {
		return nil, old, fmt.Errorf("sale %s: %w", actual.Name, err)
	}
	phase := sale.Newest().GetSettings().GetPhase()
	if phase != pb.Phase_CLOSED && actual.At.Before(old.ClosesAt) {
		return nil, old, &Refusal{
			Reason: fmt.Sprintf("sale %s takes entries until %s", actual.Name, old.ClosesAt.Format(time.RFC3339)), Remedy: "Run it again then.",
		}
	}
	if sale.Applied() < sale.Generation() { // units may still leave a shard, and must not be won
		return nil, old, &Refusal{
			Reason: fmt.Sprintf("generation %d of sale %s is not on every shard yet", sale.Generation(), actual.Name), Remedy: "Run 'salectl apply' first.",
		}
	}
	p := newPlan(KindReveal, actual)
	return p, old, p.complete()
}

// revealed adds the action of a reveal and completes the plan.
func (p *Plan) revealed(actual *Actual, old spec.Sale, what string) error {
	attributes := saleAttributes(old, old.Stock, p.Phase, actual.Sale.Generation())
	p.add(Action{Address: saleAddress(p.Sale), Action: Update, Before: attributes, After: attributes, ActionReason: ReasonRequested, Reason: what})
	return p.complete()
}

// beaconGiven returns the value that determines the order. It refuses a value that contradicts
// the declaration or an earlier reveal.
func beaconGiven(sale *ledger.Sale, b *spec.Beacon, value []byte, fallback bool) ([]byte, error) {
	drawn := sale.Drawn()
	switch {
	case drawn != nil && (value != nil && !bytes.Equal(drawn.GetBeacon(), value) || fallback && len(drawn.GetBeacon()) > 0):
		return nil, &Refusal{Reason: "the draw is revealed already, " + drawnBy(drawn), Remedy: "Leave the value out, to complete it."}
	case drawn != nil:
		return drawn.GetBeacon(), nil
	case b == nil && (len(value) > 0 || fallback):
		return nil, &Refusal{Reason: "the sale declares no beacon, and a value of one was given, or its fallback is asked for", Remedy: "Leave it out."}
	case b != nil && len(value) == 0 && b.Fallback == spec.FallbackNone:
		return nil, &Refusal{
			Reason: fmt.Sprintf("the order follows from round %s of %s, whose value was not given, and the sale declares no fallback", b.Round, b.Name),
			Remedy: "Give the value, in hex, with --beacon. Until it is known, 'salectl draw close' publishes the entries.",
		}
	case b != nil && len(value) == 0 && !fallback:
		return nil, &Refusal{
			Reason: fmt.Sprintf("the order follows from round %s of %s, whose value was not given", b.Round, b.Name),
			Remedy: "Give the value, in hex, with --beacon; or say --fallback if the beacon has none. Until it is known, 'salectl draw close' publishes the entries.",
		}
	}
	return value, nil
}

// drawnBy describes the beacon value of a reveal.
func drawnBy(drawn *pb.Drawn) string {
	if len(drawn.GetBeacon()) == 0 {
		return "without a value of a beacon"
	}
	return "with the beacon's value " + hex.EncodeToString(drawn.GetBeacon())
}

// revealing is one execution of a plan that reveals a draw.
type revealing struct {
	x       *execution
	trees   []draw.Tree
	entries [][]draw.Entry // by shard, without values
	ranked  []draw.Entry
}

func (r *revealing) start() {
	x := r.x
	x.askNodes(func() {
		x.checkNodes(func() {
			x.begin(readingSale)
			x.readSale(r.look)
		})
	})
}

// look compares the sale with the plan, and closes the entries of all shards.
func (r *revealing) look() {
	x := r.x
	if x.sale.Next() < x.plan.Slot {
		if x.lags++; x.lags <= lagTries {
			x.core.after(lagPause, func() { x.readSale(r.look) })
			return
		}
	}
	if x.sale.UID() != x.plan.UID || !x.sale.Live() || x.sale.Draw() == nil {
		x.stale("was destroyed since the plan was made")
		return
	}
	err := r.settled()
	if err == nil && !x.plan.EntriesOnly {
		err = FitsDraw(x.sale, x.DrawKey)
	}
	if err = cmp.Or(err, x.checkClock()); err != nil {
		x.core.end(err)
		return
	}
	x.planned = found // what follows is appended, by this process or another
	x.shards = make([]*logDriver, x.sale.Shards())
	x.states = make([]*ledger.State, len(x.shards))
	x.losses = make([]int, len(x.shards))
	r.trees, r.entries = make([]draw.Tree, len(x.shards)), make([][]draw.Entry, len(x.shards))
	x.begin(closingEntries)
	x.core.each(x.allShards(), r.close, r.publish)
}

// close appends the entries of a shard to its log. The shard's owner does so too. The first
// append counts, and both are equal.
func (r *revealing) close(i int, done func()) {
	x := r.x
	var event func(ledger.Event)
	read := func() { x.shard(i).read(event) }
	event = func(e ledger.Event) {
		state := x.states[i]
		if e == ledger.Gone || state.Next() == 0 {
			x.lost(i, read)
			return
		}
		tree, closed := state.Entries()
		switch {
		case closed:
			r.trees[i], r.entries[i] = tree, state.DrawEntries(i)
			x.shards[i], x.states[i] = nil, nil // a log may be large, and is not needed again
			done()
		case state.Sealed():
			x.stale("was destroyed meanwhile")
		case state.MayCloseEntries(x.timeUs()):
			draft := state.Draft(x.Writer, x.timeUs())
			draft.Entries()
			x.appendDraft(i, draft, event)
		default:
			x.core.end(&Refusal{
				Reason: fmt.Sprintf("%s of sale %s still takes entries", shardAddress(i), x.plan.Sale),
				Remedy: "Run it again once closesAt is past by this host's clock, and by those of the lock nodes.",
			})
		}
	}
	read()
}

// publish appends the entries of all shards to the sale's log.
func (r *revealing) publish() {
	x := r.x
	x.begin(notingEntries)
	op := ledger.NewEntriesClosed(r.trees)
	x.note(func() (bool, error) {
		switch is := x.sale.EntriesClosed(); {
		case !r.live():
			return false, stale("was destroyed meanwhile")
		case is == nil:
			return false, nil
		case !bytes.Equal(is.GetRoot(), op.GetRoot()):
			return false, fmt.Errorf("%w: the shards have other entries than the sale's log says", ledger.ErrCorrupt)
		}
		return true, nil
	}, &pb.Op{Op: &pb.Op_EntriesClosed{EntriesClosed: op}}, func() {
		if x.plan.EntriesOnly {
			r.end()
			return
		}
		r.reveal()
	})
}

// settled refuses to continue while a generation is not on every shard: units may still be
// removed that entries could win.
func (r *revealing) settled() error {
	if r.x.sale.Applied() < r.x.sale.Generation() {
		return stale("has got another generation since, which is not on every shard yet")
	}
	return nil
}

func (r *revealing) live() bool { return r.x.sale.UID() == r.x.plan.UID && r.x.sale.Live() }

// reveal appends the link to the sale's log, always after the entries.
func (r *revealing) reveal() {
	x := r.x
	x.begin(notingDrawn)
	if x.sale.Drawn() != nil {
		r.rank()
		return
	}
	link, err := openLink(x.sale, x.DrawKey)
	if err != nil {
		x.core.end(err)
		return
	}
	newest, err := declared(x.sale.Newest())
	if err != nil {
		x.core.end(err)
		return
	}
	op := &pb.Drawn{Link: link[:], Beacon: x.plan.Beacon, Ranks: x.sale.RanksOf(newest)}
	x.note(func() (bool, error) {
		switch {
		case !r.live():
			return false, stale("was destroyed meanwhile")
		case x.sale.Drawn() != nil:
			return true, nil
		}
		return false, r.settled()
	}, &pb.Op{Op: &pb.Op_Drawn{Drawn: op}}, r.rank)
}

// rank computes the ranks that follow from the revealed values.
func (r *revealing) rank() {
	sale := r.x.sale
	drawn := sale.Drawn()
	order := draw.NewOrder(sale.UID(), draw.Digest(sale.EntriesClosed().GetRoot()), draw.Digest(drawn.GetLink()), drawn.GetBeacon())
	lowest := draw.NewLowest(drawn.GetRanks())
	for _, entries := range r.entries {
		for _, e := range entries {
			e.Value = order.Value(e.Label)
			lowest.Add(e)
		}
	}
	r.ranked, r.entries = lowest.Ranked(), nil
	r.x.begin(notingRanked)
	r.publishRanks()
}

// publishRanks appends the missing ranks to the sale's log, one part per op.
func (r *revealing) publishRanks() {
	x := r.x
	if x.sale.Ranked() {
		r.end()
		return
	}
	first := int64(len(x.sale.Ranks())) + 1
	x.note(func() (bool, error) {
		if !r.live() {
			return false, stale("was destroyed meanwhile")
		}
		return int64(len(x.sale.Ranks())) >= first, nil
	}, &pb.Op{Op: &pb.Op_Ranked{Ranked: ledger.NewRanked(first, r.ranked)}}, r.publishRanks)
}

// end ends a completed reveal. It warns if another process has revealed another beacon value
// than the plan's.
func (r *revealing) end() {
	x := r.x
	if drawn := x.sale.Drawn(); drawn != nil && !x.plan.EntriesOnly && !bytes.Equal(drawn.GetBeacon(), x.plan.Beacon) {
		x.result.Warnings = append(x.result.Warnings, "somebody else has revealed the draw meanwhile, "+drawnBy(drawn)+": the order follows from that")
	}
	x.result.Generation = x.sale.Generation()
	x.finished(saleAddress(x.plan.Sale), "")
	x.core.end(nil)
}
