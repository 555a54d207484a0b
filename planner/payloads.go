package planner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/ledger/payload"
	"salectl/spec"
	"salectl/units"
)

// A plan refers to payloads by a digest only, since they may be secret and are large. Apply
// stores the payloads of new units in a log of their own before it appends the plan to the
// sale's log, after which the units may be sold. Payloads of a plan that is never appended are
// ignored: the sale's log records which plan added a unit.

// UnitsActual is the comparison of the planned sale's units with those of the present run.
type UnitsActual struct {
	Err error // why it is unknown; then the rest is empty

	Digest [32]byte       // digest of the declared payloads
	Added  int64          // number of declared units that the run lacks
	Gone   []ledger.Units // by shard: units no longer declared that are available there
	Taken  []int64        // units no longer declared that are not available
	// Leaving are, by shard, declared units that an earlier generation removes and the shard
	// has not removed yet.
	Leaving []ledger.Units

	source *units.Source
	change *units.Change // nil: all declared units are new
	rows   []int64       // lengths of the rows of adjacent units among those added, in order
}

// ReadUnits reads the payloads of a sale and compares them with the present run. It reads the
// shards' logs only if the payloads differ from those applied last, claims were refunded, or
// the shards have too many units. If source is nil, units are numbers, and the result is nil.
func ReadUnits(ctx context.Context, logs ledger.Logs, declared *spec.Units, source *units.Source, actual *Actual) *UnitsActual {
	if source == nil {
		return nil
	}
	u := &UnitsActual{source: source}
	err := u.read(ctx, logs, actual)
	if err == nil && declared.Choose && u.Added > 0 {
		err = u.readRows(ctx, declared)
	}
	if err != nil {
		return &UnitsActual{Err: err}
	}
	return u
}

func (u *UnitsActual) read(ctx context.Context, logs ledger.Logs, actual *Actual) error {
	sale := actual.Sale
	is, err := u.source.Check(ctx)
	if err != nil {
		return err
	}
	u.Digest = is.Digest
	switch {
	case !sale.Live():
		u.Added = is.Count
		return nil
	case string(sale.Newest().GetUnits()) == string(u.Digest[:]) && !actual.refunded() && actual.limits() <= is.Count:
		return nil // else a unit may be left that was to be removed
	}
	shards, err := ledger.LoadShards(ctx, logs, sale)
	if err != nil {
		return err
	}
	has := payload.NewReader(logs, sale.UID(), u.source.Key())
	has.Follow(sale.Added())
	dropped, leaving := make([]ledger.Units, len(shards)), make([]ledger.Units, len(shards))
	for i, s := range shards {
		dropped[i] = s.DroppedUnits()
		for g := s.Generation + 1; g <= sale.Generation(); g++ {
			op := sale.ShardGeneration(g, i)
			restored, _ := ledger.UnitsOf(op.GetRestore()) // accepted generations are well formed
			dropped[i], leaving[i] = dropped[i].Minus(restored), leaving[i].Minus(restored)
			if leaving[i], err = leaving[i].Plus(op.GetDrop()); err != nil {
				return fmt.Errorf("%s, generation %d: %w", shardAddress(i), g, err)
			}
		}
	}
	u.change, err = u.source.Compare(ctx, func(each func(int64, units.Unit) error) error {
		return has.EachUnit(ctx, func(number int64, is units.Unit) error {
			if among(dropped, number) {
				return nil
			}
			return each(number, is)
		})
	})
	if err != nil {
		return err
	}
	u.Added = u.change.Added
	gone := slices.DeleteFunc(slices.Clone(u.change.Gone), func(unit int64) bool { return among(leaving, unit) })
	for i, s := range shards {
		u.Gone = append(u.Gone, s.AvailableUnits().Those(gone))
		u.Leaving = append(u.Leaving, leaving[i].Without(u.change.Gone))
	}
	retired := retiredUnits(shards)
	u.Taken = slices.DeleteFunc(gone, func(unit int64) bool { return among(u.Gone, unit) || retired.Has(unit) })
	return nil
}

// retiredUnits returns the units that refunds have retired: no user has them.
func retiredUnits(shards []*ledger.State) (retired ledger.Units) {
	for _, s := range shards {
		if s.Refunded == 0 {
			continue
		}
		for i := range s.Claims() {
			if c := s.Claim(i); c.Retired {
				retired.Include(c.Units)
			}
		}
	}
	return retired
}

// rowColumn is the column of a file that names the row of a place.
const rowColumn = "row"

// readRows finds which new units are adjacent: those declared consecutively in one range, or
// on lines with the same row.
func (u *UnitsActual) readRows(ctx context.Context, declared *spec.Units) error {
	ranges, left := declared.Rows(), int64(0)
	at := slices.Index(u.source.Columns(), rowColumn) - 1 // index among the attributes
	if len(ranges) == 0 && at < 0 {
		return nil
	}
	n := &NewUnits{source: u.source, change: u.change}
	next, stop := iter.Pull2(n.all)
	defer stop()
	added, err, more := next()
	row, before, follows := "", "", false
	err2 := u.source.Read(ctx, func(is units.Unit) error {
		switch {
		case at >= 0 && len(ranges) == 0:
			row = is.Attributes[at]
		case left == 0:
			left, ranges = ranges[0], ranges[1:]
			row = is.Name // name of the first in its range
			fallthrough
		default:
			left--
		}
		if err != nil || !more || is.Name != added.Name {
			follows = false
			return err
		}
		if follows = follows && row == before; follows {
			u.rows[len(u.rows)-1]++
		} else {
			u.rows = append(u.rows, 1)
		}
		before, follows = row, true
		added, err, more = next()
		return err
	})
	return errors.Join(err, err2)
}

// rowsFrom returns the rows of the added units, whose first number is first.
func (u *UnitsActual) rowsFrom(first int64) (rows []*pb.Range) {
	if u == nil {
		return nil
	}
	for _, n := range u.rows {
		rows = append(rows, &pb.Range{First: first, Count: n})
		first += n
	}
	return rows
}

// KeepUnits assumes that the planned sale has the units of the present run, for callers that
// do not read payloads.
func (a *Actual) KeepUnits() {
	if a.Sale.Live() {
		a.Units = &UnitsActual{}
		copy(a.Units.Digest[:], a.Sale.Newest().GetUnits())
	}
}

// limits returns the sum of the limits of all readable shards.
func (a *Actual) limits() (sum int64) {
	for _, s := range a.Shards {
		if s.Head != nil {
			sum += s.Head.Limit
		}
	}
	return sum
}

// refunded reports whether a readable shard has a refund: its units may be retired, which
// lowers the shards' limits.
func (a *Actual) refunded() bool {
	return slices.ContainsFunc(a.Shards, func(s ShardActual) bool { return s.Head != nil && s.Head.Refunded > 0 })
}

// among reports whether one of several sets has a unit.
func among(sets []ledger.Units, unit int64) bool {
	return slices.ContainsFunc(sets, func(u ledger.Units) bool { return u.Has(unit) })
}

// payloadDigest compares the declared units with those of the sale and returns the digest of
// their payloads; nil if units are numbers.
func (p *Plan) payloadDigest(desired spec.Sale, actual *Actual) (digest []byte, err error) {
	is := actual.Units
	switch {
	case desired.Units == nil:
		return nil, nil
	case is == nil:
		return nil, fmt.Errorf("sale %s: nobody has read what its units are", p.Sale)
	case is.Err != nil:
		return nil, is.Err
	}
	rows := len(is.rows)
	if actual.Sale.Live() { // the rows of present units stay
		rows += len(actual.Sale.Newest().GetSettings().GetRows())
	}
	switch {
	case rows > ledger.MaxRows:
		return nil, &Refusal{
			Reason: fmt.Sprintf("sale %s would have units in %d rows, with those that earlier plans added, and at most %d are counted with", p.Sale, rows, ledger.MaxRows),
			Remedy: "Leave choose out, or make of several rows one.",
		}
	case len(is.Taken) > 0 && actual.Sale.Live() && string(actual.Sale.Newest().GetUnits()) == string(is.Digest[:]):
		p.warn("units are not declared any more that somebody has got all the same, or that are between two shards: %s", someNumbers(is.Taken))
	case len(is.Taken) > 0:
		return nil, &Refusal{
			Reason: fmt.Sprintf("sale %s does not declare units any more that are claimed, or between two shards: %s", p.Sale, someNumbers(is.Taken)),
			Remedy: fmt.Sprintf("Declare them again, and count them in the stock. 'salectl audit --unit %d' tells who has unit %[1]d.", is.Taken[0]),
		}
	}
	return is.Digest[:], nil
}

// someNumbers lists the first numbers and counts the rest.
func someNumbers(numbers []int64) string {
	const most = 10
	var words []string
	for _, n := range numbers[:min(len(numbers), most)] {
		words = append(words, fmt.Sprint(n))
	}
	if more := len(numbers) - most; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, ", ")
}

// exchange plans for a live sale the removal of units no longer declared, the restoration of
// units about to be removed that are declared again, and the addition of new units.
func (v shardViews) exchange(planned *pb.Planned, is *UnitsActual, sale string) error {
	limits := v.limits()
	for i, gone := range is.Gone {
		planned.Shards[i].Drop, planned.Shards[i].Restore = gone.Proto(), is.Leaving[i].Proto()
		limits[i] += is.Leaving[i].Count() - gone.Count()
	}
	if last := planned.GetNextUnit() - 1; is.Added > maxUnit-last {
		return tooManyUnits(sale, last+min(is.Added, maxUnit))
	}
	if is.Added > 0 {
		for i, n := range raise(limits, is.Added) {
			planned.Shards[i].Add = deal(planned, n)
		}
	}
	return nil
}

// NewUnits supplies the payloads of the units that a plan adds, in order, for one execution.
type NewUnits struct {
	source *units.Source
	change *units.Change
	digest [32]byte // digest of all declared payloads
	most   int      // maximum number of units in a slot

	at   int64 // index of the unit that next returns
	next func() (units.Unit, error, bool)
	stop func()
}

// NewUnits returns the payloads for a plan made from this Actual; nil if units are numbers or
// could not be read.
func (a *Actual) NewUnits() *NewUnits {
	if a.Units == nil || a.Units.Err != nil {
		return nil
	}
	return &NewUnits{source: a.Units.source, change: a.Units.change, digest: a.Units.Digest, most: slotUnits}
}

// of returns an error unless these are the payloads of the units that a plan adds. Plans
// without payloads always pass.
func (n *NewUnits) of(planned *pb.Planned) error {
	switch {
	case len(planned.GetUnits()) == 0 || planned.GetSettings().GetPhase() == pb.Phase_CLOSED:
		return nil
	case n == nil && !slices.ContainsFunc(planned.GetShards(), func(c *pb.ShardChange) bool { return len(c.GetAdd()) > 0 }):
		return nil
	case n == nil:
		return errors.New("the plan adds units, and nobody says what they are")
	case string(n.digest[:]) != string(planned.GetUnits()):
		return fmt.Errorf("%w: the units are others than when the plan was made; make a new plan", ErrStale)
	}
	return nil
}

// keyFits refuses to end a sale whose payloads cannot be decrypted: the export contains them.
func keyFits(plan *Plan, planned *pb.Planned, key *units.Key) error {
	if plan.Kind != KindDestroy || planned == nil || !planned.GetSettings().GetSecret() || key != nil {
		return nil
	}
	return fmt.Errorf("the units of sale %s are encrypted, and the export is to say what was sold: give the key", plan.Sale)
}

// Close stops the reading of payloads.
func (n *NewUnits) Close() {
	if n != nil && n.stop != nil {
		n.stop()
		n.next, n.stop, n.at = nil, nil, 0
	}
}

// slotSize is the approximate size of a slot in bytes and slotUnits its maximum number of
// units. To read one unit, a whole slot is read and decrypted.
const (
	slotSize  = 64 << 10
	slotUnits = 4096
)

// from returns the units from the i-th on that fit into a slot; none after the last.
func (n *NewUnits) from(i int64) (slot []units.Unit, err error) {
	if n.next == nil || i < n.at {
		n.Close()
		n.next, n.stop = iter.Pull2(n.all)
	}
	for size := 0; size < slotSize && len(slot) < n.most; {
		u, err, more := n.next()
		switch {
		case err != nil:
			return nil, err
		case !more:
			return slot, nil
		}
		if n.at++; n.at > i {
			slot = append(slot, u)
			size += sizeOf(u)
		}
	}
	return slot, nil
}

func sizeOf(u units.Unit) int {
	size := len(u.Name) + 2
	for _, a := range u.Attributes {
		size += len(a) + 2
	}
	return size
}

// all yields the new units of the source.
func (n *NewUnits) all(yield func(units.Unit, error) bool) {
	enough := errors.New("enough")
	err := n.source.New(context.Background(), n.change, func(u units.Unit) error {
		if !yield(u, nil) {
			return enough
		}
		return nil
	})
	if err != nil && !errors.Is(err, enough) {
		yield(units.Unit{}, err)
	}
}

// payload builds the payload of added units from first on.
func (n *NewUnits) payload(random io.Reader, log string, plan ledger.Hash, added ledger.Range, first int64) (*pb.Payload, error) {
	us, err := n.from(first - added.First)
	if err != nil {
		return nil, err
	}
	if len(us) == 0 || first+int64(len(us)) > added.First+added.Count {
		return nil, fmt.Errorf("the units have changed since the plan was made: %w", ErrStale)
	}
	return payload.Seal(n.source.Key(), random, log, plan, first, n.source.Columns(), us)
}

// storing stores the payloads of the units that a plan adds. Another process that carries out
// the same plan stores the same slots, and neither repeats a slot of the other.
type storing struct {
	x     *execution
	log   *logDriver
	fold  *payload.Log
	plan  ledger.Hash
	added ledger.Range
	then  func()
}

// storeUnits stores the payloads of the plan's new units, if there are any. The plan's slot
// must be the next of the sale's log.
func (x *execution) storeUnits(then func()) {
	if x.Units == nil {
		then()
		return
	}
	first := int64(1)
	if x.intent.GetGeneration() > 1 {
		first = x.sale.Newest().GetNextUnit()
	}
	added := ledger.Range{First: first, Count: x.intent.GetNextUnit() - first}
	if added.Count <= 0 {
		then()
		return
	}
	x.begin(storingUnits)
	name := spec.UnitsLog(x.intent.GetUid())
	fold := payload.NewLog(name)
	s := &storing{x: x, fold: fold, plan: x.plan.Digest, added: added, then: then}
	s.log = &logDriver{core: x.core, w: ledger.NewWriter(name, fold), apply: func(e *ledger.Entry) error {
		return fold.Apply(e.Commit, e.Hash)
	}}
	s.log.read(s.look)
}

// look stores the next slot.
func (s *storing) look(e ledger.Event) {
	switch e {
	case ledger.Gone:
		s.x.stale("was destroyed meanwhile")
		return
	case ledger.Again: // the log of a run that is not planned yet is never deleted
		s.x.core.after(againPause, func() { s.log.resend(s.look) })
		return
	}
	first := max(s.fold.Stored(s.plan), s.added.First)
	if first >= s.added.First+s.added.Count {
		s.then()
		return
	}
	read := func(context.Context, ledger.Logs) (*pb.Payload, error) {
		return s.x.Units.payload(s.x.Rand, s.log.w.Log(), s.plan, s.added, first)
	}
	onStore(s.x.core, "read units", callTimeout, read, func(p *pb.Payload, err error) {
		if err != nil {
			s.x.core.end(err)
			return
		}
		entry, err := s.fold.Entry(s.x.Writer, s.x.timeUs(), p)
		if err != nil {
			s.x.core.end(err)
			return
		}
		s.log.append(entry, s.look)
	})
}
