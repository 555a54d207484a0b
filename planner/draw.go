package planner

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
	"salectl/spec"
	"salectl/units"
)

// A sale that is a draw. Apply publishes the commitment to a secret with the first
// generation. After the close Reveal has every shard's log say which entries it has,
// publishes the root of all of them, then reveals the secret, then publishes the ranks
// that follow. Each step stands in a log before the next begins, so that it may be killed
// anywhere, run twice at once, and completes when it is run again: what is there already
// is taken as it is, and what follows from it is the same whoever works it out.

// drawSecret draws the secret of a new draw, and commits to it. No plan has it: whoever
// reads a saved one could foresee the order.
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

// drawContext is what the secret of a run's draw is sealed for.
func drawContext(uid string) []byte { return []byte("draw " + uid) }

// openLink opens the secret of a draw, and returns the link that is to be revealed.
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

// FitsDraw refuses a key that does not open the secret of a live draw that is not revealed yet.
func FitsDraw(sale *ledger.Sale, key *units.Key) error {
	if !sale.Live() || sale.Draw() == nil || sale.Drawn() != nil {
		return nil
	}
	_, err := openLink(sale, key)
	return err
}

// fixedDraw refuses to draw a live sale otherwise than it was declared. Its hours stay once
// it has closed: some shards may take no entry any more.
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

// drawCloses reports whether some shard may have taken its last entry.
func drawCloses(old spec.Sale, actual *Actual) bool {
	return actual.Sale.EntriesClosed() != nil || !actual.At.Before(old.ClosesAt)
}

// keepsWinners refuses to take units from a draw that entries may have won.
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

// DrawShown is how a sale is drawn, as plans tell it.
type DrawShown struct {
	Substitutes int64  `json:"substitutes"`
	Beacon      string `json:"beacon,omitempty"`
	Round       string `json:"round,omitempty"`
	Fallback    string `json:"fallback,omitempty"`
}

func drawShown(d *spec.Draw) *DrawShown {
	if d == nil {
		return nil
	}
	shown := &DrawShown{Substitutes: d.Substitutes}
	if b := d.Beacon; b != nil {
		shown.Beacon, shown.Round, shown.Fallback = b.Name, b.Round, string(b.Fallback)
	}
	return shown
}

// list returns what there is to be told, each under a name of its own.
func (d *DrawShown) list() []Field {
	if d == nil {
		return nil
	}
	return []Field{
		{Name: "draw.substitutes", After: strconv.FormatInt(d.Substitutes, 10)},
		{Name: "draw.beacon", After: d.Beacon}, {Name: "draw.round", After: d.Round}, {Name: "draw.fallback", After: d.Fallback},
	}
}

// MakeCloseDraw plans to publish the entries of a draw whose sale has closed, and nothing
// that follows from them: so that all can note the root before anybody can know the order. It
// is empty if that is done.
func MakeCloseDraw(actual *Actual) (*Plan, error) {
	p, old, err := drawPlan(actual)
	if err != nil || actual.Sale.EntriesClosed() != nil {
		return p, err
	}
	p.EntriesOnly = true
	return p, p.revealed(actual, old, "entries are published")
}

// MakeReveal plans to reveal a draw whose sale has closed, with the value of its beacon's
// round; nil: there is none, which has to be said by fallback. It is empty if all is published.
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

// drawPlan is an empty plan for the draw of a sale, with what its newest generation declares;
// it refuses a sale that cannot be drawn, or not yet.
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
	if sale.Applied() < sale.Generation() { // units may still have to go out of a shard, which nobody may win
		return nil, old, &Refusal{
			Reason: fmt.Sprintf("generation %d of sale %s is not on every shard yet", sale.Generation(), actual.Name), Remedy: "Run 'salectl apply' first.",
		}
	}
	p := newPlan(KindReveal, actual)
	return p, old, p.complete()
}

// revealed puts into a plan what it does.
func (p *Plan) revealed(actual *Actual, old spec.Sale, what string) error {
	attributes := saleAttributes(old, old.Stock, p.Phase, actual.Sale.Generation())
	p.add(Action{Address: saleAddress(p.Sale), Action: Update, Before: attributes, After: attributes, ActionReason: ReasonRequested, Reason: what})
	return p.complete()
}

// beaconGiven returns the value that the order follows from. It refuses another one than what
// is declared, and was revealed, asks for.
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

// drawnBy says what a draw was revealed by.
func drawnBy(drawn *pb.Drawn) string {
	if len(drawn.GetBeacon()) == 0 {
		return "without a value of a beacon"
	}
	return "with the beacon's value " + hex.EncodeToString(drawn.GetBeacon())
}

// revealing is one run of a plan that reveals a draw.
type revealing struct {
	x       *execution
	trees   []draw.Tree
	entries [][]draw.Entry // of each shard, without values
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

// look holds the sale against the plan, and closes the entries of all shards.
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
		err = FitsDraw(x.sale, x.drawKey)
	}
	if err = cmp.Or(err, x.checkClock()); err != nil {
		x.core.end(err)
		return
	}
	x.planned = found // what follows is appended, whoever does it
	x.shards = make([]*logDriver, x.sale.Shards())
	x.states = make([]*ledger.State, len(x.shards))
	x.losses = make([]int, len(x.shards))
	r.trees, r.entries = make([]draw.Tree, len(x.shards)), make([][]draw.Entry, len(x.shards))
	x.begin(closingEntries)
	x.core.each(x.allShards(), r.close, r.publish)
}

// close has the log of a shard say which entries it has. Its owner does so too: the first
// who comes counts, and both say the same.
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
			x.shards[i], x.states[i] = nil, nil // a log may be large, and nobody asks for it again
			done()
		case state.Sealed():
			x.stale("was destroyed meanwhile")
		case state.MayCloseEntries(x.timeUs()):
			draft := state.Draft(x.writer, x.timeUs())
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

// publish publishes the entries of all shards in the sale's log.
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

// settled refuses to go on while a generation is not on every shard: units may still go that
// entries could win.
func (r *revealing) settled() error {
	if r.x.sale.Applied() < r.x.sale.Generation() {
		return stale("has got another generation since, which is not on every shard yet")
	}
	return nil
}

func (r *revealing) live() bool { return r.x.sale.UID() == r.x.plan.UID && r.x.sale.Live() }

// reveal reveals the link, which stands in the sale's log behind the entries only.
func (r *revealing) reveal() {
	x := r.x
	x.begin(notingDrawn)
	if x.sale.Drawn() != nil {
		r.rank()
		return
	}
	link, err := openLink(x.sale, x.drawKey)
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

// rank works out the ranks that follow from what is revealed.
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

// publishRanks publishes the ranks that the sale's log does not have yet, part by part.
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

// end is the end of a reveal that has come to it. Whoever gave another value than the order
// follows from hears so.
func (r *revealing) end() {
	x := r.x
	if drawn := x.sale.Drawn(); drawn != nil && !x.plan.EntriesOnly && !bytes.Equal(drawn.GetBeacon(), x.plan.Beacon) {
		x.result.Warnings = append(x.result.Warnings, "somebody else has revealed the draw meanwhile, "+drawnBy(drawn)+": the order follows from that")
	}
	x.result.Generation = x.sale.Generation()
	x.finished(saleAddress(x.plan.Sale), "")
	x.core.end(nil)
}
