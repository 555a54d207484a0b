package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
	"salectl/spec"
)

// Audit is what an audit found. It is a proof as far as the ledger reaches:
// every unit ever dealt is in exactly one place, nobody passed the limit, and
// every log is whole.
type Audit struct {
	OK        bool   `json:"ok"`
	Sale      string `json:"sale"`
	UID       string `json:"uid"`
	Stock     int64  `json:"stock"` // units added minus removed
	Sold      int64  `json:"sold"`
	Held      int64  `json:"held"`
	Available int64  `json:"available"`
	InFlight  int64  `json:"inFlight"`
	Users     int64  `json:"users"` // that have units, held or sold
	Shards    int    `json:"shards"`
	Slots     uint64 `json:"slots"`
	Oversold  int64  `json:"oversold"`  // units that are in two places
	OverLimit int64  `json:"overLimit"` // users who had more than the limit
	Outcomes         // of the claims
	// HoldTimes says how long units lay in holds, nil if no hold has ended.
	HoldTimes *HoldTimes `json:"holdTimes,omitempty"`
	Problems  []string   `json:"problems"`
	// Warnings are what does not speak against the sale and matters all the same: see
	// Audit.Warn.
	Warnings []string `json:"warnings"`

	// Draw is what the draw comes to, nil if the sale is none.
	Draw *draw.Report `json:"draw,omitempty"`

	// Packets is what the units come to, nil if they are no packets of money.
	Packets *PacketsAudit `json:"packets,omitempty"`

	heads map[string]Head // of the logs that were read
}

// Warn adds a warning for each log whose time is ahead of a clock: somebody has
// appended to it by a clock that was wrong, and hours may have been judged by it.
func (a *Audit) Warn(now time.Time) {
	for _, log := range slices.Sorted(maps.Keys(a.heads)) {
		if by, wrong := a.heads[log].Ahead(now); wrong {
			a.Warnings = append(a.Warnings, fmt.Sprintf("the time of log %s is %v ahead of this host's clock: a clock was wrong when it was appended to, or this one is",
				log, by.Round(time.Second)))
		}
	}
}

// enough is how many problems, or warnings of one kind, an audit names.
const enough = 100

func (a *Audit) problem(format string, args ...any) {
	if len(a.Problems) < enough {
		a.Problems = append(a.Problems, fmt.Sprintf(format, args...))
	}
}

// NewAudit reads every log of a sale and accounts for each unit by itself,
// without the reducer; then it compares with what the reducer says. It may run
// beside a live sale: it reads on until no shard has received or acknowledged
// what it has not yet seen sent or received. An error means that the shards
// could not be read, or the sale's own log not be trusted (ErrCorrupt); what is
// wrong with the shards stands in the audit.
func NewAudit(ctx context.Context, logs Logs, name string) (*Audit, error) {
	return AuditShowing(ctx, logs, name, func(*Sale, []*State) {})
}

// AuditShowing is NewAudit for somebody who also wants to see what the audit has read: show
// is called once, with the sale and its shards as the reducer has them, those of one cut. A
// shard that the reducer refused to fold on is shown as it was until then.
func AuditShowing(ctx context.Context, logs Logs, name string, show func(*Sale, []*State)) (*Audit, error) {
	sale := NewSale(spec.SaleLog(name))
	w, err := Load(ctx, logs, sale.log, sale)
	switch {
	case err != nil:
		return nil, err
	case sale.Generation() == 0:
		return nil, fmt.Errorf("sale %s does not exist: %w", name, ErrGone)
	case sale.Destroyed():
		return nil, fmt.Errorf("sale %s is destroyed, its ledger is in the export alone: %w", name, ErrGone)
	}
	a := &Audit{
		Sale: name, UID: sale.UID(), Shards: sale.Shards(), Problems: []string{}, Warnings: []string{},
		heads: map[string]Head{sale.log: sale.Head()},
	}
	if head, err := ParseHead(w.head); err != nil || !head.tells(sale.Head()) {
		a.problem("the sale's log: the head says %+v, its slots add up to %+v", head.Totals, sale.Head().Totals)
	}
	applied, sealed, added, payloads := sale.Applied(), sale.Sealed(), sale.Added(), newPayloadBook(sale)
	books, err := readBooks(ctx, logs, sale, applied)
	if err == nil {
		err = payloads.read(ctx, logs, added)
	}
	if err != nil {
		return nil, err
	}
	if err := readPlans(ctx, logs, sale, books); err != nil {
		return nil, err
	}
	if deleted(sale, a.UID, books, payloads) {
		return nil, fmt.Errorf("sale %s is being deleted, its ledger is in the export alone: %w", name, ErrGone)
	}
	var held []endedHold
	for _, b := range books {
		a.add(b)
		held = append(held, b.ended...)
		a.compare(sale, b, applied, sealed)
		a.transfers(books, b)
		a.heads[b.state.log] = b.state.Head()
	}
	a.HoldTimes = newHoldTimes(held)
	a.place(books, plannedBy(sale))
	a.checkPayloads(payloads, added)
	a.packets(sale, books)
	a.payments(books)
	if err := a.draw(ctx, logs, sale, books); err != nil {
		return nil, err
	}
	slices.Sort(a.Problems)
	a.OK = len(a.Problems) == 0
	show(sale, statesOf(books))
	return a, nil
}

// plannedBy is what a sale's log has planned for each shard, as far as that has taken it.
func plannedBy(sale *Sale) func(*book) []*pb.Generation {
	return func(b *book) (planned []*pb.Generation) {
		for g := range b.generations[:min(uint64(len(b.generations)), sale.Generation())] {
			planned = append(planned, sale.ShardGeneration(uint64(g+1), b.shard))
		}
		return planned
	}
}

func statesOf(books []*book) (states []*State) {
	for _, b := range books {
		states = append(states, b.state)
	}
	return states
}

// deleted reports whether the logs of the shards, or that of the units, may have been deleted
// while they were read, or before.
func deleted(sale *Sale, uid string, books []*book, payloads *payloadBook) bool {
	return sale.UID() != uid || sale.Destroyed() || sale.Sealed() != nil &&
		(payloads.gone() || slices.ContainsFunc(books, func(b *book) bool { return b.next == 0 }))
}

// readBooks reads all shards up to a cut that is closed under In to Out and Ack
// to In. A read may lag: shards that lack a generation that was applied, or the slot
// that the sale was sealed with, are read again a few times.
func readBooks(ctx context.Context, logs Logs, sale *Sale, applied uint64) ([]*book, error) {
	books, sealed := make([]*book, sale.Shards()), sale.Sealed()
	for shard := range books {
		books[shard] = newBook(spec.ShardLog(sale.UID(), shard, len(books)), shard, len(books))
	}
	failed := foldTogether(ctx, logs, books)
	err := eachShard(ctx, logs, len(books), func(ctx context.Context, shard int) error {
		if books[shard].damage = failed[shard]; failed[shard] != nil {
			return nil
		}
		return books[shard].read(ctx, logs)
	})
	for try := 1; err == nil && try < MissingTries && slices.ContainsFunc(books, lacks(applied, sealed)); try++ {
		if err = Wait(ctx, logs, MissingPause); err == nil {
			err = eachShard(ctx, logs, len(books), func(ctx context.Context, shard int) error {
				if !lacks(applied, sealed)(books[shard]) {
					return nil
				}
				return books[shard].read(ctx, logs)
			})
		}
	}
	if err != nil {
		return nil, err
	}
	return books, closeCut(ctx, logs, books)
}

// lacks reports whether a shard lacks a generation that was applied, or the end that the sale was
// sealed with; nil: it was not.
func lacks(applied uint64, sealed *pb.Sealed) func(*book) bool {
	return func(b *book) bool {
		return b.damage == nil && (uint64(len(b.generations)) < applied || !b.endsWith(sealed))
	}
}

// endsWith reports whether a shard ends in the slot that the sale was sealed with; nil: it was not.
func (b *book) endsWith(sealed *pb.Sealed) bool {
	return sealed == nil || string(sealed.GetRoots()[b.shard]) == string(b.hash[:])
}

// readPlans reads the sale's log on. Read after the shards, it has every generation that they
// have, and the ranks of what they have awarded, unless the read lags: then it is read again a few times.
func readPlans(ctx context.Context, logs Logs, sale *Sale, books []*book) error {
	uid := sale.UID()
	for try := 1; ; try++ {
		if _, err := Load(ctx, logs, sale.log, sale); err != nil {
			return err
		}
		lags := sale.UID() == uid && sale.Behind(statesOf(books))
		if !lags || try == MissingTries {
			return nil
		}
		if err := Wait(ctx, logs, MissingPause); err != nil {
			return err
		}
	}
}

// closeCut reads shards on until what is received was sent, and what is acknowledged
// received. It ends, since it reads on no further than to what came before the cut
// that it began with. A read may lag: where it shows nothing new it is repeated a few times.
func closeCut(ctx context.Context, logs Logs, books []*book) error {
	for try := 1; ; try++ {
		lacks, read := false, false
		for shard, b := range books {
			for _, peer := range slices.Sorted(maps.Keys(b.peers)) {
				x := b.peers[peer]
				enough := func() bool {
					there := books[peer].peer(shard)
					return len(x.received) <= len(there.sent) && x.acked <= len(there.received)
				}
				if peer >= len(books) || enough() {
					continue
				}
				before := books[peer].next
				if err := books[peer].readOn(ctx, logs, enough); err != nil {
					return err
				}
				lacks, read = lacks || !enough(), read || books[peer].next != before
			}
		}
		switch {
		case read:
			try = 0
		case !lacks || try == MissingTries:
			return nil
		default:
			if err := Wait(ctx, logs, MissingPause); err != nil {
				return err
			}
		}
	}
}

// add takes a shard's numbers in, as its commits add up.
func (a *Audit) add(b *book) {
	a.Slots += b.next
	for i := range b.accounts.len() {
		if b.accounts.at(uint32(i)).units > 0 {
			a.Users++
		}
	}
	a.OverLimit += int64(len(b.over))
	a.Sold += b.sold.Count()
	a.Held += b.held.Count()
	a.Available += b.free.Count()
	a.Stock += b.dealt - b.removed.Count()
	a.Outcomes.Add(b.outcomes)
}

// compare holds one shard's book against its state, against the sale's log and
// against the users' home shard. applied is the generation that every shard had
// when the reading began, and sealed how the sale was sealed then, or nil.
func (a *Audit) compare(sale *Sale, b *book, applied uint64, sealed *pb.Sealed) {
	switch {
	case b.damage != nil:
		a.problem("shard %d: %v", b.shard, b.damage)
	case b.next == 0 && applied > 0:
		a.problem("shard %d has no log", b.shard)
	case uint64(len(b.generations)) < applied:
		a.problem("shard %d has %s, %d were applied", b.shard, spec.Count(len(b.generations), "generation"), applied)
	}
	a.generations(sale, b)
	a.faults(b)
	if b.refused != nil {
		return
	}
	if !b.endsWith(sealed) {
		a.problem("shard %d does not end in the slot that the sale was sealed with", b.shard)
	}
}

// generations holds what a shard has taken against what was planned.
func (a *Audit) generations(sale *Sale, b *book) {
	for i, taken := range b.generations {
		g := uint64(i + 1)
		if g > sale.Generation() || !proto.Equal(taken, sale.ShardGeneration(g, b.shard)) {
			a.problem("shard %d took another generation %d than was planned", b.shard, g)
		}
	}
}

// faults tells what a shard's book has found by itself, and where the reducer does not agree
// with it.
func (a *Audit) faults(b *book) {
	for _, what := range b.faults {
		a.problem("shard %d: %s", b.shard, what)
	}
	for user, home := range b.away {
		a.problem("user %q has claims on shard %d, the home shard is %d", user, b.shard, home)
	}
	for user, units := range b.over {
		a.problem("shard %d: user %q had %s, more than the limit", b.shard, user, spec.Count(units, "unit"))
	}
	if b.refused != nil {
		a.problem("shard %d: %v", b.shard, b.refused)
		return
	}
	s := b.state
	fold := [...]int64{s.Sold, s.Held, s.Available, s.InFlight, s.Limit}
	book := [...]int64{b.sold.Count(), b.held.Count(), b.free.Count(), b.inFlight(), b.dealt - b.removed.Count()}
	if fold != book {
		a.problem("shard %d folds to sold, held, available, in flight, limit %v, its commits add up to %v", b.shard, fold, book)
	}
	if s.Outcomes != b.outcomes {
		a.problem("shard %d folds to %+v, its commits add up to %+v", b.shard, s.Outcomes, b.outcomes)
	}
	b.differs(a)
}

// transfers holds what a shard received against what the others sent.
func (a *Audit) transfers(books []*book, b *book) {
	for peer, x := range b.peers {
		if peer >= len(books) {
			a.problem("shard %d names a shard %d that does not exist", b.shard, peer)
			continue
		}
		there := books[peer].peer(b.shard)
		for i, units := range x.received {
			switch {
			case i >= len(there.sent):
				a.problem("shard %d received transfer %d from shard %d, which never sent it", b.shard, i+1, peer)
			case !slices.Equal(units, there.sent[i]):
				a.problem("transfer %d from shard %d to %d: sent %v, received %v", i+1, peer, b.shard, there.sent[i], units)
			}
		}
		if x.acked > len(there.received) {
			a.problem("shard %d has an ack of transfer %d to shard %d, which never received it", b.shard, x.acked, peer)
		}
	}
}

// place checks that every unit dealt is in exactly one place of all shards. planned are the
// generations that a shard was to take.
func (a *Audit) place(books []*book, planned func(*book) []*pb.Generation) {
	var dealt, seen Units
	put := func(units Units, where string, shards ...any) {
		fresh := units.minus(seen)
		if twice := units.minus(fresh); len(twice) > 0 {
			a.Oversold += twice.Count()
			a.problem("units %v are in two places, one is %s", twice, fmt.Sprintf(where, shards...))
		}
		for _, r := range fresh {
			_ = seen.Add(r) // none of them is there
		}
	}
	for _, b := range books {
		for _, g := range planned(b) {
			units, err := unitsOf(g.GetAdd())
			for _, r := range units {
				err = errors.Join(err, dealt.Add(r))
			}
			if err != nil {
				a.problem("generation %d deals units twice: %v", g.GetNumber(), err)
			}
		}
		put(b.free, "available on shard %d", b.shard)
		put(b.sold, "sold on shard %d", b.shard)
		put(b.removed, "removed on shard %d", b.shard)
		for _, r := range b.twice {
			put(Units{r}, "on shard %d, where it came twice", b.shard)
		}
		put(b.held, "held on shard %d", b.shard)
		for to, x := range b.peers {
			if to >= len(books) {
				continue
			}
			for _, units := range x.sent[min(len(books[to].peer(b.shard).received), len(x.sent)):] {
				a.InFlight += units.Count()
				put(units, "on the way from shard %d to %d", b.shard, to)
			}
		}
	}
	if lost := dealt.minus(seen); len(lost) > 0 {
		a.problem("units %v were dealt and are nowhere", lost)
	}
	if made := seen.minus(dealt); len(made) > 0 {
		a.problem("units %v are in the ledger and were never dealt", made)
	}
}
