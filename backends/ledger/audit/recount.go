package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"salectl/backends/ledger"
	"salectl/backends/ledger/payload"
	"salectl/spec"
)

// Recount is an account of all shards of a sale, from commits that its caller provides. The caller
// first folds all commits into the Books, and calls Account. Then it calls, as far as it has the logs,
// Payloads, RedPacket, Entries and VerifyDraw. Their findings are in the Report. The caller sets OK
// once everything is compared.
type Recount struct {
	*Report
	Books []*Book // of all shards
	// Units that claims have, and those that no claim has, by place: a unit in two places counts twice.
	granted, left []ledger.Units
}

// NewRecount returns the account of a run with so many shards, and the reducers that newReducer
// returned for their logs.
func NewRecount[R Reducer](sale, uid string, shards int, newReducer func(log string) R) (*Recount, []R) {
	r := &Recount{Report: &Report{Sale: sale, UID: uid, Shards: shards, Problems: []string{}, Warnings: []string{}}}
	reducers := make([]R, shards)
	for i := range shards {
		log := spec.ShardLog(uid, i, shards)
		reducers[i] = newReducer(log)
		r.Books = append(r.Books, newBook(log, i, shards, reducers[i]))
	}
	return r, reducers
}

// Account adds the numbers of each shard to the report, with the faults of its book and where the
// reducer differs from it. It compares received transfers with those sent, and the payments of all
// claims. It checks that every unit dealt is in exactly one place, and that each shard has the
// generations that the sale's log has planned. If sale is nil, it compares the shards with each other.
func (r *Recount) Account(sale *ledger.Sale) {
	var ended []endedHold
	for _, b := range r.Books {
		r.add(b)
		r.compare(b)
		r.transfers(b)
		ended = append(ended, b.ended...)
	}
	r.HoldTimes = newHoldTimes(ended)
	r.payments(r.Books)
	r.units(sale)
}

// add adds the numbers of a shard, by its commits, to the report.
func (r *Recount) add(b *Book) {
	r.Slots += b.Next()
	for i := range b.accounts.Len() {
		if b.accounts.At(uint32(i)).units > 0 {
			r.Users++
		}
	}
	r.OverLimit += int64(len(b.over))
	r.Sold += b.sold.Count()
	r.Held += b.held.Count()
	r.Available += b.free.Count()
	r.Stock += b.dealt - b.removed.Count()
	r.Outcomes.Add(b.outcomes)
}

// compare reports the faults of a book, and where the reducer differs from it.
func (r *Recount) compare(b *Book) {
	for _, what := range b.faults {
		r.Problem("shard %d: %s", b.shard, what)
	}
	for user, units := range b.over {
		r.Problem("shard %d: user %q had %s, more than the limit", b.shard, user, spec.Count(units, "unit"))
	}
	if b.refused != nil {
		r.Problem("shard %d: %v", b.shard, b.refused)
		return
	}
	s := b.reducer.Head()
	fold := [...]int64{s.Sold, s.Held, s.Available, s.InFlight, s.Limit}
	book := [...]int64{b.sold.Count(), b.held.Count(), b.free.Count(), b.peers.inFlight(), b.dealt - b.removed.Count()}
	if fold != book {
		r.Problem("shard %d folds to sold, held, available, in flight, limit %v, its commits add up to %v", b.shard, fold, book)
	}
	if s.Outcomes != b.outcomes {
		r.Problem("shard %d folds to %+v, its commits add up to %+v", b.shard, s.Outcomes, b.outcomes)
	}
	b.compareClaims(r.Report)
}

// transfers compares the transfers that a shard received with those that the others sent.
func (r *Recount) transfers(b *Book) {
	for peer, x := range b.peers {
		if peer >= len(r.Books) {
			r.Problem("shard %d names a shard %d that does not exist", b.shard, peer)
			continue
		}
		there := r.Books[peer].peers.with(b.shard)
		for i, units := range x.received {
			switch {
			case i >= len(there.sent):
				r.Problem("shard %d received transfer %d from shard %d, which never sent it", b.shard, i+1, peer)
			case !slices.Equal(units, there.sent[i]):
				r.Problem("transfer %d from shard %d to %d: sent %v, received %v", i+1, peer, b.shard, there.sent[i], units)
			}
		}
		if x.acked > len(there.received) {
			r.Problem("shard %d has an ack of transfer %d to shard %d, which never received it", b.shard, x.acked, peer)
		}
	}
}

// sameSettings compares the settings of all shards with those of the one with most generations.
func (r *Recount) sameSettings() {
	most := slices.MaxFunc(r.Books, func(a, b *Book) int { return cmp.Compare(len(a.generations), len(b.generations)) })
	for _, b := range r.Books {
		for g, taken := range b.generations {
			if !proto.Equal(taken.GetSettings(), most.generations[g].GetSettings()) {
				r.Problem("shards %d and %d took other settings in generation %d", b.shard, most.shard, g+1)
			}
		}
	}
}

// units compares the generations of shards with those planned in the sale's log, and checks that every
// unit that these deal is in exactly one place of all shards. If sale is nil, units takes the shards'
// own generations, and compares their settings.
func (r *Recount) units(sale *ledger.Sale) {
	if sale == nil {
		r.sameSettings()
	}
	var dealt, seen ledger.Units
	put := func(units ledger.Units, where string, shards ...any) {
		fresh := units.Minus(seen)
		if twice := units.Minus(fresh); len(twice) > 0 {
			r.Oversold += twice.Count()
			r.Problem("units %v are in two places, one is %s", twice, fmt.Sprintf(where, shards...))
		}
		for _, run := range fresh {
			_ = seen.Add(run) // none of them is there
		}
	}
	for _, b := range r.Books {
		for i, taken := range b.generations {
			g, planned := uint64(i+1), taken
			if sale != nil {
				planned = nil
				if g <= sale.Generation() {
					planned = sale.ShardGeneration(g, b.shard)
				}
				if !proto.Equal(taken, planned) {
					r.Problem("shard %d took a generation %d that differs from the planned one", b.shard, g)
				}
			}
			units, err := ledger.UnitsOf(planned.GetAdd())
			for _, run := range units {
				err = errors.Join(err, dealt.Add(run))
			}
			if err != nil {
				r.Problem("generation %d adds units twice: %v", g, err)
			}
		}
		put(b.free, "available on shard %d", b.shard)
		put(b.sold, "sold on shard %d", b.shard)
		put(b.removed, "removed on shard %d", b.shard)
		for _, run := range b.twice {
			put(ledger.Units{run}, "on shard %d, where it came twice", b.shard)
		}
		put(b.held, "held on shard %d", b.shard)
		r.granted, r.left = append(r.granted, b.sold, b.held), append(r.left, b.free)
		for to, x := range b.peers {
			if to >= len(r.Books) {
				continue
			}
			for _, units := range x.sent[min(len(r.Books[to].peers.with(b.shard).received), len(x.sent)):] {
				r.InFlight += units.Count()
				put(units, "on the way from shard %d to %d", b.shard, to)
				r.left = append(r.left, units)
			}
		}
	}
	if lost := dealt.Minus(seen); len(lost) > 0 {
		r.Problem("units %v were added to the sale, but are in no place", lost)
	}
	if made := seen.Minus(dealt); len(made) > 0 {
		r.Problem("units %v are in the ledger, but were never added to the sale", made)
	}
}

// Where units are more than numbers, an audit checks only that the payload of each is stored. A
// plan, which has the key, compares the payloads with the declaration.

// readPayloads reads the log of units, again while payloads of added units are missing. damage is the
// reason why the log cannot be read further.
func readPayloads(ctx context.Context, logs ledger.Logs, log *payload.Log, added []ledger.Added) (damage, err error) {
	err = retry(ctx, logs, func() (lags bool, err error) {
		_, err = ledger.Load(ctx, logs, log.Log(), log)
		if damage = nil; errors.Is(err, ledger.ErrCorrupt) || errors.Is(err, ledger.ErrGone) {
			damage, err = err, nil
		}
		return errors.Is(damage, ledger.ErrGone) || damage == nil && len(unstored(log, added)) > 0, err
	})
	return damage, err
}

// unstored returns the units of each plan in added whose payloads the log does not have.
func unstored(log *payload.Log, added []ledger.Added) (all []ledger.Units) {
	for _, plan := range added {
		if missing := log.Missing(plan); len(missing) > 0 {
			all = append(all, missing)
		}
	}
	return all
}

// Payloads checks that the log of units has the payload of each unit that plans had added before
// the log was read.
func (r *Recount) Payloads(log *payload.Log, added []ledger.Added) {
	for _, missing := range unstored(log, added) {
		r.Problem("units %v are in the sale, but their payloads are not stored", missing)
	}
}

// HoldTimes has statistics of the time that units spent in holds, from the commit of the claim to
// the commit that ended its hold. It excludes open holds. All times are in seconds.
type HoldTimes struct {
	Holds       int64   `json:"holds"`       // number of holds that have ended
	UnitSeconds float64 `json:"unitSeconds"` // sum over all their units

	// Percentiles and maximum of the time per unit.
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// endedHold is the duration of one hold, and its number of units.
type endedHold struct {
	us    int64
	units int64
}

// newHoldTimes returns the statistics of ended holds, nil if there are none. It sorts all.
func newHoldTimes(all []endedHold) *HoldTimes {
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b endedHold) int { return cmp.Compare(a.us, b.us) })
	var units, sum int64
	for _, h := range all {
		units += h.units
		sum += h.us * h.units
	}
	at := func(percent int64) float64 {
		left := (units*percent + 99) / 100
		return seconds(all[slices.IndexFunc(all, func(h endedHold) bool { left -= h.units; return left <= 0 })].us)
	}
	return &HoldTimes{
		Holds: int64(len(all)), UnitSeconds: seconds(sum),
		P50: at(50), P90: at(90), P99: at(99), Max: at(100),
	}
}

// seconds converts microseconds to seconds.
func seconds(us int64) float64 { return float64(us) / 1e6 }
