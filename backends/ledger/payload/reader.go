package payload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
	"salectl/units"
)

// Reader reads the payloads of a run's units: the sale's log determines which plan has added a
// unit, and the log of units has the payload under that plan. It caches the slots read last, so
// that units which are sold one after another are read together. Its methods are safe for
// concurrent use.
type Reader struct {
	logs ledger.Logs
	key  *units.Key

	mu     sync.Mutex
	added  []ledger.Added // to the run, as last passed to Follow
	fold   *Log
	kept   map[uint64]*keptSlot
	oldest []uint64 // cached slots, in the order in which they were read

	numbers map[string]int64 // by name, of the units before next
	next    int64            // 0: none is indexed yet

	reading  *semaphore.Weighted // serializes reads: a waiter finds the slots read meanwhile
	indexing *semaphore.Weighted // serializes index, which holds reading for one slot at a time
}

// keptSlot is a slot of the log of units, opened.
type keptSlot struct {
	units   ledger.Range
	columns []string
	values  []string // of one unit after the other, one per column
}

// of returns the payload of a unit, which the slot must have.
func (k *keptSlot) of(unit int64) Fields {
	n := len(k.columns)
	at := int(unit-k.units.First) * n
	return Fields{Columns: k.columns, Values: k.values[at : at+n : at+n]}
}

// keptSlots is the maximum number of cached slots. A slot has some 64 kB.
const keptSlots = 256

// NewReader returns a reader of the payloads of a run's units. key is nil if they are public.
// The reader has no units before Follow.
func NewReader(logs ledger.Logs, uid string, key *units.Key) *Reader {
	return NewReaderOf(logs, NewLog(spec.UnitsLog(uid)), key)
}

// NewReaderOf is like NewReader, for a log that may be partly read. The reader owns the log from
// then on.
func NewReaderOf(logs ledger.Logs, log *Log, key *units.Key) *Reader {
	return &Reader{
		logs: logs, key: key, fold: log, kept: make(map[uint64]*keptSlot), numbers: make(map[string]int64),
		reading: semaphore.NewWeighted(1), indexing: semaphore.NewWeighted(1),
	}
}

// NewReaderOfSale returns a reader of the payloads of a sale's present run, as far as the sale's log was
// read; nil if the units are numbers.
func NewReaderOfSale(logs ledger.Logs, sale *ledger.Sale, key *units.Key) *Reader {
	if len(sale.Newest().GetUnits()) == 0 {
		return nil
	}
	r := NewReader(logs, sale.UID(), key)
	r.Follow(sale.Added())
	return r
}

// Fresh returns a reader of the same payloads that has read nothing yet; nil for nil.
func (r *Reader) Fresh() *Reader {
	if r == nil {
		return nil
	}
	fresh := NewReaderOf(r.logs, NewLog(r.fold.Log()), r.key)
	fresh.Follow(r.added)
	return fresh
}

// Fields is the payload of one unit.
type Fields struct {
	Columns []string // names of the columns
	Values  []string // by column; the first is the unit's name
}

// ErrUnreadable reports that a payload cannot be read: it was never stored, or it is sealed
// with another key.
var ErrUnreadable = errors.New("the payload of the unit is unavailable")

// Follow sets the units that the plans of the run have added, as returned by Sale.Added.
func (r *Reader) Follow(added []ledger.Added) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.added = added
}

// place is where the payload of a unit is.
type place struct {
	plan   ledger.Hash // that has added the unit
	added  bool        // there is such a plan
	slot   uint64
	stored bool      // the log has the payload, in that slot
	kept   *keptSlot // nil: it is not cached
}

// find returns the place of a unit, as far as the log is read.
func (r *Reader) find(unit int64) (p place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var i int
	i, p.added = slices.BinarySearchFunc(r.added, unit, func(a ledger.Added, unit int64) int { return a.Units.Compare(unit) })
	if p.added {
		p.plan = r.added[i].Plan
		if p.slot, p.stored = r.fold.Find(p.plan, unit); p.stored {
			p.kept = r.kept[p.slot]
		}
	}
	return p
}

// Kept returns the payloads of units if all are cached.
func (r *Reader) Kept(numbers []int64) ([]Fields, bool) {
	found := make([]Fields, 0, len(numbers))
	for _, unit := range numbers {
		kept := r.find(unit).kept
		if kept == nil {
			return nil, false
		}
		found = append(found, kept.of(unit))
	}
	return found, true
}

// Read returns the payloads of units, in their order.
func (r *Reader) Read(ctx context.Context, numbers []int64) ([]Fields, error) {
	if found, ok := r.Kept(numbers); ok {
		return found, nil
	}
	if err := r.reading.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("waiting for another read of log %s: %w", r.fold.Log(), err)
	}
	defer r.reading.Release(1)
	found := make([]Fields, 0, len(numbers))
	for _, unit := range numbers {
		kept, err := r.slotOf(ctx, unit)
		if err != nil {
			return nil, fmt.Errorf("unit %d: %w", unit, err)
		}
		found = append(found, kept.of(unit))
	}
	return found, nil
}

// slotOf returns the slot that has a unit. It reads the log on, and the slot, if necessary. reading
// must be held.
func (r *Reader) slotOf(ctx context.Context, unit int64) (*keptSlot, error) {
	at := r.find(unit)
	if at.added && !at.stored {
		if err := r.catchUp(ctx); err != nil {
			return nil, err
		}
		at = r.find(unit)
	}
	switch {
	case !at.added:
		return nil, fmt.Errorf("%w: no plan has added it", ErrUnreadable)
	case !at.stored:
		return nil, fmt.Errorf("%w: it is not stored", ErrUnreadable)
	case at.kept != nil:
		return at.kept, nil
	}
	return r.load(ctx, at.plan, unit, at.slot)
}

// CatchUp reads the slots of all units in their log, so that no later read of a unit has to
// wait for that. It does not cache payloads.
func (r *Reader) CatchUp(ctx context.Context) error {
	if err := r.reading.Acquire(ctx, 1); err != nil {
		return err
	}
	defer r.reading.Release(1)
	return r.catchUp(ctx)
}

// catchUp reads the log of units to its end. reading must be held.
func (r *Reader) catchUp(ctx context.Context) error {
	_, err := ledger.Load(ctx, r.logs, r.fold.Log(), lockedFolder{r.fold, &r.mu})
	return err
}

// lockedFolder is a Log that folds under a lock.
type lockedFolder struct {
	*Log
	mu *sync.Mutex
}

func (f lockedFolder) Fold(entry []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Log.Fold(entry)
}

// load reads a slot, caches and returns it. reading must be held.
func (r *Reader) load(ctx context.Context, plan ledger.Hash, unit int64, slot uint64) (*keptSlot, error) {
	op, err := readSlot(ctx, r.logs, r.fold.Log(), slot)
	if err != nil {
		return nil, err
	}
	if string(op.GetPlan()) != string(plan[:]) || unit < op.GetFirst() || unit >= op.GetFirst()+op.GetCount() {
		return nil, fmt.Errorf("%w: log %s, slot %d does not have unit %d", ledger.ErrCorrupt, r.fold.Log(), slot, unit)
	}
	opened, err := open(r.key, r.fold.Log(), op)
	if err != nil {
		return nil, err
	}
	kept := &keptSlot{units: ledger.Range{First: op.GetFirst(), Count: op.GetCount()}, columns: op.GetColumns()}
	for _, u := range opened {
		kept.values = append(append(kept.values, u.Name), u.Attributes...)
	}
	if len(kept.values) != len(opened)*len(kept.columns) {
		return nil, fmt.Errorf("%w: log %s, slot %d has units with more columns than it names, or fewer", ledger.ErrCorrupt, r.fold.Log(), slot)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.oldest) == keptSlots {
		delete(r.kept, r.oldest[0])
		r.oldest = r.oldest[1:]
	}
	r.kept[slot] = kept
	r.oldest = append(r.oldest, slot)
	return kept, nil
}

// readSlot reads one slot of a log of units.
func readSlot(ctx context.Context, logs ledger.Logs, log string, slot uint64) (*pb.Payload, error) {
	_, entries, err := logs.Read(ctx, log, slot, 1)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading log %s: %w", log, err)
	case len(entries) == 0:
		return nil, fmt.Errorf("log %s: %w", log, ledger.ErrGone)
	}
	commit := new(pb.Commit)
	if err := commit.UnmarshalVT(entries[0]); err != nil {
		return nil, fmt.Errorf("%w: log %s, slot %d does not decode: %w", ledger.ErrCorrupt, log, slot, err)
	}
	op, err := payloadOf(commit)
	if err != nil {
		return nil, fmt.Errorf("%w: log %s, slot %d: %w", ledger.ErrCorrupt, log, slot, err)
	}
	return op, nil
}

// CheckKey returns an error unless key opens the payloads of a sale's present run. key is nil
// for public ones. It reads slot 0 of their log.
func CheckKey(ctx context.Context, logs ledger.Logs, sale *ledger.Sale, key *units.Key) error {
	if len(sale.Newest().GetUnits()) == 0 {
		return nil
	}
	log := spec.UnitsLog(sale.UID())
	op, err := readSlot(ctx, logs, log, 0)
	if err == nil {
		_, err = open(key, log, op)
	}
	return err
}

// Seal returns the payload of the units of a plan, whose numbers begin with first. With a key
// it is sealed to its place in the log.
func Seal(key *units.Key, random io.Reader, log string, plan ledger.Hash, first int64, columns []string, us []units.Unit) (*pb.Payload, error) {
	op := &pb.Payload{Plan: plan[:], First: first, Count: int64(len(us)), Columns: columns, Units: units.Pack(nil, us)}
	if key == nil {
		return op, nil
	}
	op.Key = key.ID()
	sealed, err := key.Seal(random, placeOf(log, op), op.GetUnits())
	op.Units = sealed
	return op, err
}

// open reverses Seal.
func open(key *units.Key, log string, op *pb.Payload) ([]units.Unit, error) {
	packed := op.GetUnits()
	if op.GetKey() != "" {
		switch {
		case key == nil:
			return nil, fmt.Errorf("%w: it is encrypted, and no key is given", ErrUnreadable)
		case key.ID() != op.GetKey():
			return nil, fmt.Errorf("%w: it is encrypted with key %s, not with the given key %s", ErrUnreadable, op.GetKey(), key.ID())
		}
		var err error
		if packed, err = key.Open(placeOf(log, op), packed); err != nil {
			return nil, fmt.Errorf("%w: log %s: %w", ledger.ErrCorrupt, log, err)
		}
	}
	us, err := units.Unpack(packed)
	if err == nil && int64(len(us)) != op.GetCount() {
		err = fmt.Errorf("%d units where %d are", len(us), op.GetCount())
	}
	if err != nil {
		return nil, fmt.Errorf("%w: log %s: %w", ledger.ErrCorrupt, log, err)
	}
	return us, nil
}

// placeOf returns the place that a sealed payload is bound to: its log, its plan and its units.
func placeOf(log string, op *pb.Payload) []byte {
	return fmt.Appendf(nil, "%s/%x/%d/%d", log, op.GetPlan(), op.GetFirst(), op.GetCount())
}

// Numbers returns the numbers of the units with the given names: the newest, if a unit was removed
// from the sale and came back. unknown is the first name that no unit has. The first call, and the
// first after a plan that adds units, reads the payloads of all new units.
func (r *Reader) Numbers(ctx context.Context, names []string) (numbers []int64, unknown string, err error) {
	if err := r.index(ctx); err != nil {
		return nil, "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		number, ok := r.numbers[name]
		if !ok {
			return nil, name, nil
		}
		numbers = append(numbers, number)
	}
	return numbers, "", nil
}

// index records the names of the units that were added since the last call.
func (r *Reader) index(ctx context.Context) error {
	if err := r.indexing.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("waiting for the names of log %s: %w", r.fold.Log(), err)
	}
	defer r.indexing.Release(1)
	r.mu.Lock()
	n, from := len(r.added), r.next
	indexed := n == 0 || from == r.added[n-1].Units.End()
	r.mu.Unlock()
	if indexed {
		return nil
	}
	return r.EachUnit(ctx, from, func(number int64, u units.Unit) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.numbers[strings.Clone(u.Name)] = number
		r.next = number + 1
		return nil
	})
}

// EachUnit calls each for all units from a number on, in the order of their numbers. Other reads may
// proceed between two units.
func (r *Reader) EachUnit(ctx context.Context, from int64, each func(number int64, u units.Unit) error) error {
	if err := r.CatchUp(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	added := r.added
	r.mu.Unlock()
	for _, a := range added {
		for unit := max(from, a.Units.First); unit < a.Units.End(); unit++ {
			payloads, err := r.Read(ctx, []int64{unit})
			if err != nil {
				return err
			}
			has := payloads[0].Values
			if err := each(unit, units.Unit{Name: has[0], Attributes: has[1:]}); err != nil {
				return err
			}
		}
	}
	return nil
}

// OfClaim returns the payloads of a claim's units that its buyer may see: none if they are
// secret and the claim was never sold. A nil Reader returns none: its units are numbers.
func (r *Reader) OfClaim(ctx context.Context, c ledger.Claim) (all []map[string]string, err error) {
	if r == nil || !r.Discloses(c.State == ledger.StateSold || c.State == ledger.StateRefunded) {
		return nil, nil
	}
	payloads, err := r.Read(ctx, c.Units)
	for _, p := range payloads {
		all = append(all, p.Map())
	}
	return all, err
}

// Part reads the log on and returns the part that has the payloads of added units, nil if none is
// added. ErrGone: the log does not have one of them.
func (r *Reader) Part(ctx context.Context, added []ledger.Added) (*ledger.LogPart, error) {
	if err := r.CatchUp(ctx); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range added {
		if next := max(r.fold.Stored(a.Plan), a.Units.First); next < a.Units.End() {
			return nil, fmt.Errorf("exporting log %s, which has no payload of unit %d (did the read of it lag?): %w", r.fold.Log(), next, ledger.ErrGone)
		}
	}
	return r.fold.Part(added), nil
}

// Discloses reports whether the buyer of a claim may see its payloads: secret ones only if the claim
// is or was sold.
func (r *Reader) Discloses(sold bool) bool { return sold || r.key == nil }

// Secret reports whether the payloads are secret.
func (r *Reader) Secret() bool { return r != nil && r.key != nil }

// Map returns the payload by the names of its columns.
func (p Fields) Map() map[string]string {
	m := make(map[string]string, len(p.Columns))
	for i, name := range p.Columns {
		m[name] = p.Values[i]
	}
	return m
}
