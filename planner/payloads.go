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

// What units are, where a sale says so. A plan names it by a digest alone, since it may be
// secret and is large. Apply stores what the plan's new units are in a log of their own
// before the plan is in the sale's log: from then on they may be sold. What a plan stores
// that comes to nothing nobody reads: which plan has added a unit the sale's log says.

// UnitsActual is what the units of the sale that is planned are, beside what the present run
// has of them.
type UnitsActual struct {
	Err error // why that is not known; then nothing else is

	Digest [32]byte       // of what is declared
	Added  int64          // units that are declared and that the run lacks
	Gone   []ledger.Units // by shard: units that are declared no more, and available there
	Taken  []int64        // units that are declared no more, and that somebody has
	// Leaving are, by shard, units that are declared and that an earlier generation takes out of
	// the sale, which the shard has not taken yet.
	Leaving []ledger.Units

	source *units.Source
	change *units.Change // nil: all that is declared is new
	rows   []int64       // of the units that are added, in their order: how many lie side by side
}

// ReadUnits reads what the units of a sale are, and holds it against what the present run
// has. Only where that differs from what was applied last, or claims were refunded, it reads the
// logs of the shards. A nil source: a unit is a number, and so is what is returned nil.
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
		return nil // else a unit may have stayed that was to go
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
			restored, _ := ledger.UnitsOf(op.GetRestore()) // of what was accepted each is well formed
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

// retiredUnits are those that refunds have taken out of the sale: nobody has them.
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

// rowColumn is the column of a file that says in which row a place is.
const rowColumn = "row"

// readRows finds which of the new units lie side by side: those that are declared one behind
// the other in one range, or on lines whose row is the same.
func (u *UnitsActual) readRows(ctx context.Context, declared *spec.Units) error {
	ranges, left := declared.Rows(), int64(0)
	at := slices.Index(u.source.Columns(), rowColumn) - 1 // among the attributes
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
			row = is.Name // of the first in its range
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

// rowsFrom are the rows of the units that are added, of which the first has a number.
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

// KeepUnits takes it that the units of the sale that is planned are those that it has, for
// whoever does not read what they are.
func (a *Actual) KeepUnits() {
	if a.Sale.Live() {
		a.Units = &UnitsActual{}
		copy(a.Units.Digest[:], a.Sale.Newest().GetUnits())
	}
}

// limits is how many units all shards have, as far as they could be read.
func (a *Actual) limits() (sum int64) {
	for _, s := range a.Shards {
		if s.Head != nil {
			sum += s.Head.Limit
		}
	}
	return sum
}

// refunded reports whether a claim was, as far as the shards could be read: its units may have
// gone out of the sale, and the shards' limits are lower without them.
func (a *Actual) refunded() bool {
	return slices.ContainsFunc(a.Shards, func(s ShardActual) bool { return s.Head != nil && s.Head.Refunded > 0 })
}

// among reports whether a unit is in one of some sets.
func among(sets []ledger.Units, unit int64) bool {
	return slices.ContainsFunc(sets, func(u ledger.Units) bool { return u.Has(unit) })
}

// payloadDigest compares the declared units with those that the sale has, and returns the digest of
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
	if actual.Sale.Live() { // the rows of units that are there stay
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

// someNumbers names the first of a list of units, and says how many more there are.
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

// exchange plans that units which are declared no more go out of a live sale, that those
// which were about to and are declared again stay, and that new ones come into it.
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

// NewUnits tells what the units are that a plan adds, in their order, for one execution of
// it.
type NewUnits struct {
	source *units.Source
	change *units.Change
	digest [32]byte // of all that is declared
	most   int      // units in a slot

	at   int64 // of the unit that next comes to
	next func() (units.Unit, error, bool)
	stop func()
}

// NewUnits returns those of a plan that is made of what was read; nil where a unit is a
// number.
func (a *Actual) NewUnits() *NewUnits {
	if a.Units == nil || a.Units.Err != nil {
		return nil
	}
	return &NewUnits{source: a.Units.source, change: a.Units.change, digest: a.Units.Digest, most: slotUnits}
}

// of reports whether these are the units that a plan adds, if it adds some that are more than
// numbers.
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

// keyFits refuses to end a sale whose units nobody can read: the export is to say what was
// sold.
func keyFits(plan *Plan, planned *pb.Planned, key *units.Key) error {
	if plan.Kind != KindDestroy || planned == nil || !planned.GetSettings().GetSecret() || key != nil {
		return nil
	}
	return fmt.Errorf("the units of sale %s are encrypted, and the export is to say what was sold: give the key", plan.Sale)
}

// Close ends the reading, if it has not come to its end.
func (n *NewUnits) Close() {
	if n != nil && n.stop != nil {
		n.stop()
		n.next, n.stop, n.at = nil, nil, 0
	}
}

// slotSize is how many bytes of units go into a slot, about, and slotUnits how many units at
// most: so much is read, and opened, to tell what one of them is.
const (
	slotSize  = 64 << 10
	slotUnits = 4096
)

// from returns the units from the i-th on, as many as go into a slot; none behind the last.
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

// all is what New tells, as a sequence.
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

// payload makes the payload of the units from first on, of those that a plan adds.
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

// storing has the log of units say what the units are that a plan adds. Another process that
// carries out the same plan stores the same, and what one has stored the other need not.
type storing struct {
	x     *execution
	log   *logDriver
	fold  *payload.Log
	plan  ledger.Hash
	added ledger.Range
	then  func()
}

// storeUnits stores what the units of the plan are, if it adds some that are more than
// numbers. The plan's slot of the sale's log is the next one.
func (x *execution) storeUnits(then func()) {
	if x.units == nil {
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

// look stores what comes next.
func (s *storing) look(e ledger.Event) {
	switch e {
	case ledger.Gone:
		s.x.stale("was destroyed meanwhile")
		return
	case ledger.Again: // nobody deletes the log of a run that is not planned yet
		s.x.core.after(againPause, func() { s.log.resend(s.look) })
		return
	}
	first := max(s.fold.Stored(s.plan), s.added.First)
	if first >= s.added.First+s.added.Count {
		s.then()
		return
	}
	k := call{kind: callReadUnits, units: s.x.units, rand: s.x.rand, log: s.log.w.Log(), plan: s.plan, added: s.added, first: first}
	s.x.core.call(k, func(r reply) {
		if r.err != nil {
			s.x.core.end(r.err)
			return
		}
		entry, err := s.fold.Entry(s.x.writer, s.x.timeUs(), r.payload)
		if err != nil {
			s.x.core.end(err)
			return
		}
		s.log.append(entry, s.look)
	})
}
