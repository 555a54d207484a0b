// Package audit counts a sale again, from the commits in its logs.
//
// It keeps an account of its own, a Book for each shard: sets of units that ops enter and take out.
// It does not judge by the reducer that the program sells by (ledger.State), but compares it with
// the books, claim by claim. A unit that is in two places, a user with more than the limit, a
// transfer that nobody sent, a log that is not whole, or a difference of the two accounts stands in
// the Report as a problem. The package uses no part of the reducer, which a test sees to; callers
// pass ledger.NewState.
//
// Run audits a sale in a store. It may run beside a live sale, and never writes. Recount is for
// callers who have the commits from elsewhere, such as a file. Its steps have an order:
//
//	NewRecount -> Book.Fold of all commits -> Shard (each) -> Claims -> Units -> Payloads, RedPacket, Entries
//
// An audit proves what the logs reach. That these are the logs of the sale, and what its units are
// where that is secret, is left to others: see package export, and the plan of a sale.
package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/ledger/payload"
	"salectl/spec"
)

// enough is how many problems, or warnings of one kind, an audit names.
const enough = 100

// Run audits a sale by all its logs. It accounts for each unit by Books, and compares them with
// what the reducers say that newReducer makes for the log of each shard, which is ledger.NewState.
// It may run beside a live sale: it reads on until no shard has received or acknowledged
// what it has not yet seen sent or received. An error means that the shards
// could not be read, or the sale's own log not be trusted (ErrCorrupt), or that there is no such
// sale (any more: ErrGone); what is wrong with the shards stands in the report.
//
// Unless show is nil it is called once, with the sale and its shards as the reducers have them,
// those of one cut. A shard that the reducer refused to fold on is shown as it was until then.
func Run[R Reducer](ctx context.Context, logs ledger.Logs, name string, newReducer func(log string) R, show func(*ledger.Sale, []R)) (*Report, error) {
	sale := ledger.NewSale(spec.SaleLog(name))
	w, err := ledger.Load(ctx, logs, sale.Log(), sale)
	switch {
	case err != nil:
		return nil, err
	case sale.Generation() == 0:
		return nil, fmt.Errorf("sale %s does not exist: %w", name, ledger.ErrGone)
	case sale.Destroyed():
		return nil, fmt.Errorf("sale %s is destroyed, its ledger is in the export alone: %w", name, ledger.ErrGone)
	}
	a, reducers := NewRecount(name, sale.UID(), sale.Shards(), newReducer)
	a.heads = map[string]ledger.Head{sale.Log(): sale.Head()}
	if head, err := ledger.ParseHead(w.Head()); err != nil || head != sale.Head() {
		a.Problem("the sale's log: the head says %+v, its slots add up to %+v", head.Totals, sale.Head().Totals)
	}
	applied, sealed, added := sale.Applied(), sale.Sealed(), sale.Added()
	if err := readBooks(ctx, logs, a.books, applied, sealed); err != nil {
		return nil, err
	}
	var payloads *payload.Log
	var damage error
	if len(sale.Newest().GetUnits()) > 0 {
		payloads = payload.NewLog(spec.UnitsLog(sale.UID()))
		if damage, err = readPayloads(ctx, logs, payloads, added); err != nil {
			return nil, err
		}
	}
	if err := readPlans(ctx, logs, sale, a.books); err != nil {
		return nil, err
	}
	if deleted(sale, a.UID, a.books, payloads != nil && (payloads.Next() == 0 || errors.Is(damage, ledger.ErrGone))) {
		return nil, fmt.Errorf("sale %s is being deleted, its ledger is in the export alone: %w", name, ledger.ErrGone)
	}
	for _, b := range a.books {
		a.complete(b, applied, sealed)
		a.Shard(b)
		a.heads[b.Log()] = b.reducer.Head()
	}
	a.Claims()
	a.Units(sale)
	if damage != nil {
		a.Problem("what the units are: %v", damage)
	}
	if payloads != nil {
		a.Payloads(payloads, added)
	}
	a.RedPacket(sale)
	if err := a.draw(ctx, logs, sale); err != nil {
		return nil, err
	}
	slices.Sort(a.Problems)
	a.OK = len(a.Problems) == 0
	if show != nil {
		show(sale, reducers)
	}
	return a.Report, nil
}

// complete compares how far a shard's log goes with the sale's log. applied is the generation
// that every shard had when the reading began, and sealed how the sale was sealed then, or nil.
func (r *Recount) complete(b *Book, applied uint64, sealed *pb.Sealed) {
	switch {
	case b.damage != nil:
		r.Problem("shard %d: %v", b.shard, b.damage)
	case b.Next() == 0 && applied > 0:
		r.Problem("shard %d has no log", b.shard)
	case uint64(len(b.generations)) < applied:
		r.Problem("shard %d has %s, %d were applied", b.shard, spec.Count(len(b.generations), "generation"), applied)
	}
	if b.refused == nil && !b.endsWith(sealed) {
		r.Problem("shard %d does not end in the slot that the sale was sealed with", b.shard)
	}
}

// deleted reports whether the logs of the shards, or that of the units, may have been deleted
// while they were read, or before.
func deleted(sale *ledger.Sale, uid string, books []*Book, payloadsGone bool) bool {
	return sale.UID() != uid || sale.Destroyed() || sale.Sealed() != nil &&
		(payloadsGone || slices.ContainsFunc(books, func(b *Book) bool { return b.Next() == 0 }))
}

// readBooks reads all shards up to a cut that is closed under In to Out and Ack
// to In. A read may lag: shards that lack a generation that was applied, or the slot
// that the sale was sealed with, are read again a few times.
func readBooks(ctx context.Context, logs ledger.Logs, books []*Book, applied uint64, sealed *pb.Sealed) error {
	failed := ledger.FoldTogether(ctx, logs, books)
	err := ledger.EachShard(ctx, logs, len(books), func(ctx context.Context, shard int) error {
		if books[shard].damage = failed[shard]; failed[shard] != nil {
			return nil
		}
		return books[shard].read(ctx, logs)
	})
	for try := 1; err == nil && try < ledger.MissingTries && slices.ContainsFunc(books, lacks(applied, sealed)); try++ {
		if err = ledger.Wait(ctx, logs, ledger.MissingPause); err == nil {
			err = ledger.EachShard(ctx, logs, len(books), func(ctx context.Context, shard int) error {
				if !lacks(applied, sealed)(books[shard]) {
					return nil
				}
				return books[shard].read(ctx, logs)
			})
		}
	}
	if err != nil {
		return err
	}
	return closeCut(ctx, logs, books)
}

// lacks reports whether a shard lacks a generation that was applied, or the end that the sale was
// sealed with; nil: it was not.
func lacks(applied uint64, sealed *pb.Sealed) func(*Book) bool {
	return func(b *Book) bool {
		return b.damage == nil && (uint64(len(b.generations)) < applied || !b.endsWith(sealed))
	}
}

// endsWith reports whether a shard ends in the slot that the sale was sealed with; nil: it was not.
func (b *Book) endsWith(sealed *pb.Sealed) bool {
	root := b.Root()
	return sealed == nil || string(sealed.GetRoots()[b.shard]) == string(root[:])
}

// readPlans reads the sale's log on. Read after the shards, it has every generation that they
// have, and the ranks of what they have awarded, unless the read lags: then it is read again a few times.
func readPlans(ctx context.Context, logs ledger.Logs, sale *ledger.Sale, books []*Book) error {
	uid := sale.UID()
	for try := 1; ; try++ {
		if _, err := ledger.Load(ctx, logs, sale.Log(), sale); err != nil {
			return err
		}
		lags := sale.UID() == uid && lagsBehind(sale, books)
		if !lags || try == ledger.MissingTries {
			return nil
		}
		if err := ledger.Wait(ctx, logs, ledger.MissingPause); err != nil {
			return err
		}
	}
}

// lagsBehind reports whether the sale's own log was read without what shards have: a generation, or the
// ranks of a draw, without which no entry has a unit.
func lagsBehind(sale *ledger.Sale, books []*Book) bool {
	return slices.ContainsFunc(books, func(b *Book) bool { return sale.BehindShard(b.reducer.Head().Totals) })
}

// closeCut reads shards on until what is received was sent, and what is acknowledged
// received. It ends, since it reads on no further than to what came before the cut
// that it began with. A read may lag: where it shows nothing new it is repeated a few times.
func closeCut(ctx context.Context, logs ledger.Logs, books []*Book) error {
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
				before := books[peer].Next()
				if err := books[peer].readOn(ctx, logs, enough); err != nil {
					return err
				}
				lacks, read = lacks || !enough(), read || books[peer].Next() != before
			}
		}
		switch {
		case read:
			try = 0
		case !lacks || try == ledger.MissingTries:
			return nil
		default:
			if err := ledger.Wait(ctx, logs, ledger.MissingPause); err != nil {
				return err
			}
		}
	}
}
