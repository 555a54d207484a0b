// Package audit recounts a sale from the commits in its logs.
//
// It keeps its own accounts, a Book for each shard: sets of units that ops add to and remove from.
// It does not rely on the reducer that the program sells by (ledger.State), but compares it with the
// books, claim by claim. The Report lists as a problem each unit in two places, each user beyond the
// limit, each transfer received that was never sent, each incomplete log, and each difference
// between the two accounts. The package uses no part of the reducer, which a test enforces; callers
// pass ledger.NewState.
//
// Run audits a sale in a store. It may run beside a live sale, and never writes. Recount is for
// callers that have the commits from elsewhere, such as a file.
//
// An audit proves what the logs contain. It does not prove that these are the logs of the sale, nor
// what its units are if that is secret: see package export, and the plan of a sale.
package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/ledger/payload"
	"salectl/draw"
	"salectl/spec"
)

// enough is the maximum number of problems, or of warnings of one kind, in a report.
const enough = 100

// Run audits a sale by all its logs. It accounts for each unit in Books, and compares these with
// the reducers that newReducer, which is ledger.NewState, returns for the logs of the shards.
// It may run beside a live sale: it reads on until no shard has received or acknowledged
// what it has not yet seen sent or received. An error means that the shards could not be read,
// that the sale's own log cannot be trusted (ErrCorrupt), or that the sale does not exist
// (any more: ErrGone). Faults of the shards are in the report.
//
// Unless show is nil, Run calls it once with the sale and the reducers of its shards, all of one
// cut. A shard whose reducer refused a commit is shown in its state before that commit.
func Run[R Reducer](ctx context.Context, logs ledger.Logs, name string, newReducer func(log string) R, show func(*ledger.Sale, []R)) (*Report, error) {
	sale := ledger.NewSale(spec.SaleLog(name))
	w, err := ledger.Load(ctx, logs, sale.Log(), sale)
	switch {
	case err != nil:
		return nil, err
	case sale.Generation() == 0:
		return nil, ledger.NoSale{Sale: name}
	case sale.Destroyed():
		return nil, ledger.NoSale{Sale: name, Fate: "is destroyed, only the export has its ledger"}
	}
	a, reducers := NewRecount(name, sale.UID(), sale.Shards(), newReducer)
	a.Run = sale.Run()
	a.heads = map[string]ledger.Head{sale.Log(): sale.Head()}
	if head, err := ledger.ParseHead(w.Head()); err != nil || head != sale.Head() {
		a.Problem("the sale's log: the head has %+v, its slots add up to %+v", head.Totals, sale.Head().Totals)
	}
	applied, sealed, added := sale.Applied(), sale.Sealed(), sale.Added()
	if err := readBooks(ctx, logs, a.Books, applied, sealed); err != nil {
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
	if err := readPlans(ctx, logs, sale, a.Books); err != nil {
		return nil, err
	}
	if deleted(sale, a.UID, a.Books, payloads != nil && (payloads.Next() == 0 || errors.Is(damage, ledger.ErrGone))) {
		return nil, ledger.NoSale{Sale: name, Fate: "is being deleted, only the export has its ledger"}
	}
	for _, b := range a.Books {
		a.complete(b, applied, sealed)
		a.heads[b.Log()] = b.reducer.Head()
	}
	a.Account(sale)
	if damage != nil {
		a.Problem("what the units are: %v", damage)
	}
	if payloads != nil {
		a.Payloads(payloads, added)
	}
	a.RedPacket(sale, sealed)
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

// complete compares the end of a shard's log with the sale's log. applied is the generation that
// every shard had when the reading began, and sealed the seal of the sale then, or nil.
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
		r.Problem("the log of shard %d does not end in the slot with which the sale was sealed", b.shard)
	}
}

// deleted reports whether the logs of the shards, or that of the units, may have been deleted
// before or while they were read.
func deleted(sale *ledger.Sale, uid string, books []*Book, payloadsGone bool) bool {
	return sale.UID() != uid || sale.Destroyed() || sale.Sealed() != nil &&
		(payloadsGone || slices.ContainsFunc(books, func(b *Book) bool { return b.Next() == 0 }))
}

// readBooks reads all shards up to a cut that is closed under In to Out and Ack
// to In. It rereads shards that lack a generation that was applied, or the slot that the sale was
// sealed with.
func readBooks(ctx context.Context, logs ledger.Logs, books []*Book, applied uint64, sealed *pb.Sealed) error {
	for shard, err := range ledger.FoldTogether(ctx, logs, books) {
		books[shard].damage = err
	}
	lacks := func(*Book) bool { return true } // each is read once
	err := retry(ctx, logs, func() (lags bool, err error) {
		err = ledger.EachShard(ctx, logs, len(books), func(ctx context.Context, shard int) error {
			if b := books[shard]; b.damage == nil && lacks(b) {
				return b.read(ctx, logs)
			}
			return nil
		})
		lacks = func(b *Book) bool {
			return b.damage == nil && (uint64(len(b.generations)) < applied || !b.endsWith(sealed))
		}
		return slices.ContainsFunc(books, lacks), err
	})
	if err != nil {
		return err
	}
	return closeCut(ctx, logs, books)
}

// retry calls read, and again a few times while the result lacks what another log implies: reads may
// lag.
func retry(ctx context.Context, logs ledger.Logs, read func() (lags bool, err error)) error {
	for try := 1; ; try++ {
		if lags, err := read(); err != nil || !lags || try == ledger.MissingTries {
			return err
		}
		if err := ledger.Wait(ctx, logs, ledger.MissingPause); err != nil {
			return err
		}
	}
}

// endsWith reports whether a shard ends in the slot that the sale was sealed with; nil: it was not.
func (b *Book) endsWith(sealed *pb.Sealed) bool {
	return sealed == nil || ledger.Hash(sealed.GetRoots()[b.shard]) == b.Root()
}

// readPlans reads the sale's log on. Read after the shards, it has every generation that they have,
// and the ranks of their awards, unless the read lags.
func readPlans(ctx context.Context, logs ledger.Logs, sale *ledger.Sale, books []*Book) error {
	uid := sale.UID()
	return retry(ctx, logs, func() (lags bool, err error) {
		_, err = ledger.Load(ctx, logs, sale.Log(), sale)
		behind := func(b *Book) bool { return sale.Behind(b.reducer.Head().Totals) }
		return sale.UID() == uid && slices.ContainsFunc(books, behind), err
	})
}

// closeCut reads shards on until each has what the others imply (Book.covers). It ends, since it
// reads only ops that precede the cut that it began with.
func closeCut(ctx context.Context, logs ledger.Logs, books []*Book) error {
	for read := true; read; { // after progress the tries begin anew
		err := retry(ctx, logs, func() (lacks bool, err error) {
			read = false
			for _, b := range books {
				for _, peer := range books {
					enough := func() bool { return peer.covers(b) }
					if enough() {
						continue
					}
					before := peer.Next()
					if err := peer.readOn(ctx, logs, enough); err != nil {
						return false, err
					}
					lacks, read = lacks || !enough(), read || peer.Next() != before
				}
			}
			return lacks && !read, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Report is the result of an audit. If OK, it proves as far as the ledger reaches that every
// unit ever dealt is in exactly one place, no user exceeded the limit, and every log is
// complete.
type Report struct {
	OK              bool   `json:"ok"`
	Sale            string `json:"sale"`
	UID             string `json:"uid"`
	Run             int64  `json:"run,omitempty"` // 0: unknown, as the sale's log of an export is damaged
	Stock           int64  `json:"stock"`         // units added minus removed
	Sold            int64  `json:"sold"`
	Held            int64  `json:"held"`
	Available       int64  `json:"available"`
	InFlight        int64  `json:"inFlight"`
	Users           int64  `json:"users"` // users with units, held or sold
	Shards          int    `json:"shards"`
	Slots           uint64 `json:"slots"`
	Oversold        int64  `json:"oversold"`  // units in two places
	OverLimit       int64  `json:"overLimit"` // users who had more than the limit
	ledger.Outcomes        // of the claims
	// HoldTimes are the times that units spent in holds, nil if no hold has ended.
	HoldTimes *HoldTimes `json:"holdTimes,omitempty"`
	Problems  []string   `json:"problems"`
	// Warnings are findings that do not contradict the sale but matter to its operator: see
	// Report.Warn.
	Warnings []string `json:"warnings"`

	// Draw is the result of the draw, nil if the sale is not a draw.
	Draw *draw.Report `json:"draw,omitempty"`

	// Packets is the result of the red packet, nil if the units are not packets of money.
	Packets *Packets `json:"packets,omitempty"`

	heads map[string]ledger.Head // of the logs that were read
}

// Warn adds a warning for each log whose time is ahead of now: an entry was appended by a wrong
// clock, and hours may have been judged by it.
func (a *Report) Warn(now time.Time) {
	for _, log := range slices.Sorted(maps.Keys(a.heads)) {
		if by, wrong := a.heads[log].Ahead(now); wrong {
			a.Warnings = append(a.Warnings, fmt.Sprintf("the time of log %s is %v ahead of this host's clock: either this clock is wrong, or that of the writer was",
				log, by.Round(time.Second)))
		}
	}
}

// Problem adds a problem, up to a maximum number.
func (a *Report) Problem(format string, args ...any) {
	if len(a.Problems) < enough {
		a.Problems = append(a.Problems, fmt.Sprintf(format, args...))
	}
}
