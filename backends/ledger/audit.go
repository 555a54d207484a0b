package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"salectl/spec"
)

// Audit is what an audit found. It is a proof as far as the ledger reaches:
// every unit ever dealt is in exactly one place, nobody passed the limit, and
// every log is whole.
type Audit struct {
	OK        bool     `json:"ok"`
	Sale      string   `json:"sale"`
	UID       string   `json:"uid"`
	Stock     int64    `json:"stock"` // units added minus removed
	Sold      int64    `json:"sold"`
	Held      int64    `json:"held"`
	Available int64    `json:"available"`
	InFlight  int64    `json:"inFlight"`
	Users     int64    `json:"users"` // that have a claim
	Shards    int      `json:"shards"`
	Slots     uint64   `json:"slots"`
	Oversold  int64    `json:"oversold"`  // units that are in two places
	OverLimit int64    `json:"overLimit"` // users who had more than the limit
	Problems  []string `json:"problems"`
}

func (a *Audit) problem(format string, args ...any) {
	const enough = 100
	if len(a.Problems) < enough {
		a.Problems = append(a.Problems, fmt.Sprintf(format, args...))
	}
}

// NewAudit reads every log of a sale and accounts for each unit by itself,
// without the reducer; then it compares with what the reducer says. It may run
// beside a live sale: it reads on until no shard has received or acknowledged
// what it has not yet seen sent or received. An error means that the ledger
// could not be read; what is wrong with the ledger stands in the audit.
func NewAudit(ctx context.Context, logs Logs, name string) (*Audit, error) {
	sale := NewSale(spec.SaleLog(name))
	if _, err := Load(ctx, logs, sale.log, sale); err != nil {
		return nil, err
	}
	if sale.Generation() == 0 {
		return nil, fmt.Errorf("sale %s: %w", name, ErrGone)
	}
	if sale.Destroyed() {
		return nil, fmt.Errorf("sale %s is destroyed, its ledger is in the export alone: %w", name, ErrGone)
	}
	a := &Audit{Sale: name, UID: sale.UID(), Shards: sale.Shards(), Problems: []string{}}
	books, err := readBooks(ctx, logs, sale, a)
	if err != nil {
		return nil, err
	}
	// Read after the shards, the sale's log has every generation that they have.
	if _, err := Load(ctx, logs, sale.log, sale); err != nil {
		return nil, err
	}
	for _, b := range books {
		a.compare(sale, b)
	}
	a.place(sale, books)
	a.OK = len(a.Problems) == 0
	return a, nil
}

// readBooks reads all shards up to a cut that is closed under In to Out and
// Ack to In.
func readBooks(ctx context.Context, logs Logs, sale *Sale, a *Audit) ([]*book, error) {
	books := make([]*book, sale.Shards())
	for shard := range books {
		books[shard] = newBook(spec.ShardLog(sale.UID(), shard, len(books)), shard)
		if err := books[shard].read(ctx, logs); err != nil {
			return nil, err
		}
	}
	for again := true; again; {
		again = false
		for shard, b := range books {
			for peer, x := range b.peers {
				if peer < 0 || peer >= len(books) {
					a.problem("shard %d names a shard %d that does not exist", shard, peer)
					continue
				}
				there := books[peer].peer(shard)
				if x.in <= there.out && x.acked <= there.in {
					continue
				}
				before := books[peer].state.Next()
				if err := books[peer].read(ctx, logs); err != nil {
					return nil, err
				}
				if books[peer].state.Next() == before {
					a.problem("shard %d has transfers of shard %d that are not in its log", shard, peer)
					continue
				}
				again = true
			}
		}
	}
	return books, nil
}

// compare holds one shard's book against its state, against the sale's log and
// against the users' home shard.
func (a *Audit) compare(sale *Sale, b *book) {
	if b.damage != nil {
		a.problem("shard %d: %v", b.shard, b.damage)
		return
	}
	s := b.state
	if s.Next() == 0 {
		if sale.Applied() > 0 {
			a.problem("shard %d has no log", b.shard)
		}
		return
	}
	for _, what := range b.faults {
		a.problem("shard %d: %s", b.shard, what)
	}
	for i, taken := range b.generations {
		g := uint64(i + 1)
		if g > sale.Generation() || !proto.Equal(taken, sale.ShardGeneration(g, b.shard)) {
			a.problem("shard %d took another generation %d than was planned", b.shard, g)
		}
	}
	for user := range b.users {
		if home := spec.HomeShard(user, a.Shards); home != b.shard {
			a.problem("user %q has claims on shard %d, the home shard is %d", user, b.shard, home)
		}
	}
	fold := [...]int64{s.Sold, s.Held, s.Available, s.InFlight, s.Limit}
	book := [...]int64{b.sold.Count(), b.heldUnits(), b.free.Count(), b.inFlight(), b.dealt - b.removed.Count()}
	if fold != book {
		a.problem("shard %d folds to sold, held, available, in flight, limit %v, its commits add up to %v", b.shard, fold, book)
	}
	a.Slots += s.Next()
	a.Users += int64(len(b.users))
	a.OverLimit += int64(len(b.over))
	for user, units := range b.over {
		a.problem("shard %d: user %q had %d units, more than the limit", b.shard, user, units)
	}
	a.Sold, a.Held, a.Available = a.Sold+fold[0], a.Held+fold[1], a.Available+fold[2]
	a.Stock += fold[4]
}

// place checks that every unit dealt is in exactly one place of all shards.
func (a *Audit) place(sale *Sale, books []*book) {
	var dealt, seen Units
	put := func(where string, units Units) {
		for _, r := range units {
			if seen.Add(r) == nil {
				continue
			}
			for unit := r.First; unit < r.end(); unit++ {
				if seen.Add(Range{unit, 1}) != nil {
					a.Oversold++
					a.problem("unit %d is in two places, one is %s", unit, where)
				}
			}
		}
	}
	for _, b := range books {
		for g := range b.generations {
			units, err := unitsOf(sale.ShardGeneration(uint64(g+1), b.shard).GetAdd())
			for _, r := range units {
				err = errors.Join(err, dealt.Add(r))
			}
			if err != nil {
				a.problem("generation %d deals units twice: %v", g+1, err)
			}
		}
		put(fmt.Sprintf("available on shard %d", b.shard), b.free)
		put(fmt.Sprintf("sold on shard %d", b.shard), b.sold)
		put(fmt.Sprintf("removed on shard %d", b.shard), b.removed)
		for _, c := range b.held {
			for _, unit := range c.GetUnits() {
				put(fmt.Sprintf("held on shard %d", b.shard), Units{{unit, 1}})
			}
		}
		for to, x := range b.peers {
			if x.acked < x.out && to < len(books) && books[to].peer(b.shard).in < x.out {
				a.InFlight += x.units.Count()
				put(fmt.Sprintf("on the way from shard %d to %d", b.shard, to), x.units)
			}
		}
	}
	if !slices.Equal(dealt, seen) {
		a.problem("%d units were dealt, %d are found: %v against %v", dealt.Count(), seen.Count(), dealt, seen)
	}
}
