package feed

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// saleLog is the sale's own log. The Reader folds it on reading, since it defines the shards and
// the end of the run. Its events wait in a queue for their turn.
type saleLog struct {
	fold  *ledger.Sale
	read  bool       // it is read to its last known slot
	found bool       // it contains the place of Config.From
	over  bool       // the followed run is destroyed; later slots are of another run
	queue []saleSlot // slots of the run whose events are not delivered yet
	place Place      // place up to which its events are delivered
	maker eventMaker

	sealed *pb.Sealed // of the followed run
}

// saleSlot is a slot of the sale's own log.
type saleSlot struct {
	after  Place
	commit *pb.Commit
	entry  []byte
}

// shardLog is the log of one shard.
type shardLog struct {
	tail   *ledger.Tail
	from   Place // place to begin
	placed bool  // the log contains the place to begin
	behind bool  // more slots can be read
	sealed bool  // it is read to its final slot
	page   int   // number of entries to read at a time
	maker  eventMaker
}

// request queues the read of a page of a log.
func (r *Reader) request(log string, from uint64, most int, took func(now clock.Now, got ledger.Reply)) {
	r.call("feed read", (&ledger.Request{Kind: ledger.ReadRequest, Log: log, Slot: from, Max: most}).Do, took)
}

// readSale queues the read of the next page of the sale's own log.
func (r *Reader) readSale() {
	s := &r.sale
	r.request(s.fold.Log(), s.fold.Next(), firstPage, func(now clock.Now, got ledger.Reply) {
		if got.Head == nil && s.fold.Next() > 0 {
			r.retryMissing(now, goneFor, r.gone())
			return
		}
		if got.Head == nil {
			r.retryMissing(now, patience, ledger.NoSale{Sale: r.cfg.Sale})
			return
		}
		for _, entry := range got.Entries {
			if err := r.foldSale(entry); err != nil {
				r.end(now, err)
				return
			}
		}
		more, err := s.fold.CompareHead(got.Head)
		if err != nil {
			r.end(now, err)
			return
		}
		s.read = !more || len(got.Entries) == 0 // a lagging read is repeated in a later round
	})
}

// foldSale applies a slot of the sale's own log.
func (r *Reader) foldSale(entry []byte) error {
	s, from := &r.sale, r.cfg.From
	if s.over {
		_, err := s.fold.Take(entry)
		return err
	}
	slot, hash, run := s.fold.Next(), ledger.Hash(sha256.Sum256(entry)), s.fold.UID()
	commit, err := s.fold.Decode(entry)
	if err == nil {
		err = s.fold.Apply(commit, hash)
	}
	if err != nil {
		return err
	}
	if s.fold.UID() != run {
		s.queue = nil
	}
	if from != nil && s.fold.UID() != from.UID {
		return nil
	}
	s.sealed = s.fold.Sealed()
	s.over = s.fold.Destroyed() && (from != nil || r.shards != nil)
	switch {
	case from == nil || slot >= from.Sale.Slots:
		s.queue = append(s.queue, saleSlot{Place{slot + 1, hash}, commit, entry})
	case slot == from.Sale.Slots-1 && from.Sale.fits(hash):
		s.found = true
		s.place = Place{slot + 1, hash}
	}
	return nil
}

// open chooses the run to follow after the sale's own log is read.
func (r *Reader) open(now clock.Now) {
	s, from := &r.sale, r.cfg.From
	switch {
	case from != nil && !s.found: // a lagging read may miss the place
		s.read = false
		r.retryMissing(now, patience, fmt.Errorf("%w: it follows slot %d of run %s, which the log of sale %s does not have", ErrForeign, from.Sale.Slots-1, from.UID, r.cfg.Sale))
		return
	case s.fold.UID() == "":
		s.read = false
		r.retryMissing(now, patience, ledger.NoSale{Sale: r.cfg.Sale})
		return
	case from == nil && s.fold.Destroyed():
		r.end(now, r.gone())
		return
	case from != nil && len(from.Shards) != s.fold.Shards():
		r.end(now, fmt.Errorf("%w: it has %d shards, but sale %s has %d", ErrForeign, len(from.Shards), r.cfg.Sale, s.fold.Shards()))
		return
	}
	r.round.lacking = 0
	uid, shards := s.fold.UID(), s.fold.Shards()
	r.source = "/v1/sales/" + r.cfg.Sale + "/" + uid
	s.maker = eventMaker{source: r.source, shard: -1, commits: r.cfg.Commits}
	red, err := ledger.RedPacketOf(s.fold)
	if err != nil {
		r.end(now, err)
		return
	}
	of := eventMaker{source: r.source, commits: r.cfg.Commits, out: &r.unsent.events}
	if red != nil {
		of.amounts, of.currency = red.Deal().Text, red.Currency
	}
	for i := range shards {
		of.shard = i
		log := &shardLog{tail: ledger.NewTail(spec.ShardLog(uid, i, shards)), placed: !r.cfg.Now, page: firstPage, maker: of}
		if from != nil {
			log.from = from.Shards[i]
			log.placed = log.from.Slots == 0
		}
		r.shards = append(r.shards, log)
	}
	if r.cfg.Now {
		for _, slot := range s.queue {
			s.place = slot.after
		}
		s.queue = nil
	}
}

// placed reports whether the place to begin is found in every shard's log.
func (r *Reader) placed() bool {
	return !slices.ContainsFunc(r.shards, func(s *shardLog) bool { return !s.placed })
}

// behind reports whether more slots of a shard's log can be read.
func (r *Reader) behind() bool {
	return slices.ContainsFunc(r.shards, func(s *shardLog) bool { return s.behind })
}

// place queues the calls that find the places to begin in the logs.
func (r *Reader) place(now clock.Now) {
	if r.sale.sealed != nil && !r.placeAtEnds(now) {
		return
	}
	if r.cfg.Now {
		r.heads()
		return
	}
	reads := 0
	for _, s := range r.shards {
		if s.placed || reads == logsAtOnce {
			continue
		}
		reads++
		r.request(s.tail.Log(), s.from.Slots-1, 1, func(now clock.Now, got ledger.Reply) { r.found(now, s, got) })
	}
}

// placeAtEnds starts shards at the end of a sealed run, if that is their place. It reads the seal,
// not their logs, which may be deleted. It reports false if a place does not belong to this run;
// then it has ended the Reader.
func (r *Reader) placeAtEnds(now clock.Now) bool {
	slots, roots := r.sale.sealed.GetSlots(), r.sale.sealed.GetRoots()
	for i, s := range r.shards {
		root := ledger.Hash(roots[i])
		switch {
		case s.placed:
		case r.cfg.Now, s.from.Slots == slots[i] && s.from.fits(root):
			s.tail.Skip(ledger.Head{Slot: slots[i] - 1, Hash: root})
			s.placed, s.sealed = true, true
		case s.from.Slots >= slots[i]:
			r.end(now, fmt.Errorf("%w: it follows slot %d of log %s, which was sealed with another history of %d slots",
				ErrForeign, s.from.Slots-1, s.tail.Log(), slots[i]))
			return false
		}
	}
	return true
}

// endShards marks the shards that are read up to the end that the run's seal records. A Reader that
// began after the seal of a shard does not find it in the shard's log.
func (r *Reader) endShards() {
	if r.sale.sealed == nil {
		return
	}
	for i, s := range r.shards {
		if s.placed && s.tail.Next() == r.sale.sealed.GetSlots()[i] {
			s.behind, s.sealed = false, true
		}
	}
}

// found compares a position's place with the slot before it.
func (r *Reader) found(now clock.Now, s *shardLog, got ledger.Reply) {
	switch {
	case got.Head == nil:
		r.missing(now)
		return
	case len(got.Entries) == 0 && r.sale.sealed != nil: // the log is being deleted
		r.retryMissing(now, patience, r.gone())
		return
	case len(got.Entries) == 0:
		r.retryMissing(now, patience, fmt.Errorf("%w: log %s has no slot %d", ErrForeign, s.tail.Log(), s.from.Slots-1))
		return
	}
	if err := s.tail.SkipTo(s.from.Slots, got.Entries[0]); err != nil {
		r.end(now, err)
		return
	}
	if !s.from.fits(s.tail.Root()) {
		r.end(now, fmt.Errorf("%w: slot %d of log %s has changed", ErrForeign, s.from.Slots-1, s.tail.Log()))
		return
	}
	s.placed, s.behind, r.round.lacking = true, true, 0
}

// missing handles the disappearance of a shard's log. The log of a destroyed sale is deleted. That of a
// sealed sale is deleted too, unless the read lags. Otherwise the sale's own log will record the reason.
func (r *Reader) missing(now clock.Now) {
	if r.sale.over {
		r.end(now, r.gone())
		return
	}
	r.sale.read = false
	rounds := goneFor
	if r.sale.sealed != nil {
		rounds = patience
	}
	r.retryMissing(now, rounds, r.gone())
}

// heads queues the poll of the heads of all logs that are not read to their end.
func (r *Reader) heads() {
	names, open := []string{r.sale.fold.Log()}, []*shardLog(nil)
	for _, s := range r.shards {
		if !s.sealed {
			names, open = append(names, s.tail.Log()), append(open, s)
		}
	}
	r.call("feed heads", func(ctx context.Context, logs ledger.Logs) (got ledger.Reply) {
		got.Entries, got.Err = logs.Heads(ctx, names)
		return got
	}, func(now clock.Now, got ledger.Reply) {
		heads := got.Entries
		if heads[0] == nil {
			r.retryMissing(now, goneFor, r.gone())
			return
		}
		slot, ok := ledger.HeadSlot(heads[0])
		r.sale.read = !ok || r.sale.over || slot < r.sale.fold.Next()
		for i, s := range open {
			if !r.handleHead(now, s, heads[i+1]) {
				return
			}
		}
		r.round.lacking = 0
	})
}

// handleHead processes the head of a shard's log. It reports false if the head is missing or unusable.
func (r *Reader) handleHead(now clock.Now, s *shardLog, head []byte) bool {
	switch {
	case head == nil && (s.tail.Next() > 0 || r.sale.sealed != nil):
		r.missing(now)
		return false
	case head == nil:
		s.placed = true // the sale is planned, but this shard has no log yet
		return true
	}
	h, err := ledger.ParseHead(head)
	if err != nil {
		r.end(now, fmt.Errorf("%w: log %s: %w", ledger.ErrCorrupt, s.tail.Log(), err))
		return false
	}
	if !s.placed {
		s.tail.Skip(h)
		s.placed = true
	}
	s.behind = h.Slot >= s.tail.Next()
	return true
}

// read queues the reads of a page from up to logsAtOnce shards that are behind.
func (r *Reader) read() {
	first, reads := r.turn, 0
	for n := range r.shards {
		i := (first + n) % len(r.shards)
		if s := r.shards[i]; s.behind && reads < logsAtOnce {
			reads++
			r.turn = i + 1
			r.request(s.tail.Log(), s.tail.Next(), s.page, func(now clock.Now, got ledger.Reply) { r.page(now, s, got) })
		}
	}
}

// page processes a page of a shard's log.
func (r *Reader) page(now clock.Now, s *shardLog, got ledger.Reply) {
	s.behind = false
	if got.Head == nil {
		r.missing(now)
		return
	}
	size := 0
	for _, entry := range got.Entries {
		if err := r.take(s, entry); err != nil {
			r.end(now, err)
			return
		}
		size += len(entry)
	}
	if size > 0 {
		s.page = min(max(pageBytes*len(got.Entries)/size, 1), 4*s.page, pageMost)
	}
	more, err := s.tail.CompareHead(got.Head)
	if err != nil {
		r.end(now, err)
		return
	}
	s.behind = more && len(got.Entries) > 0 && !s.sealed // a lagging read is repeated in a later round
}

// take processes a slot of a shard's log.
func (r *Reader) take(s *shardLog, entry []byte) error {
	slot, before := s.tail.Next(), s.tail.TimeUs()
	commit, err := s.tail.Take(entry)
	if err != nil {
		return err
	}
	s.maker.commit(s.tail.Log(), slot, s.tail.Root(), commit.GetTimeUs(), entry)
	s.maker.slot(commit, slot, before)
	r.took(commit)
	for _, op := range commit.GetOps() {
		s.sealed = s.sealed || op.GetSeal() != nil
		r.generation = max(r.generation, op.GetGeneration().GetNumber())
	}
	return nil
}

func (r *Reader) took(c *pb.Commit) {
	r.unsent.slots++
	r.unsent.newest, r.round.lacking = max(r.unsent.newest, c.GetTimeUs()), 0
}

// addSaleEvents adds the events of the sale's own log. The end of the sale waits until the events of all
// shards are complete.
func (r *Reader) addSaleEvents() {
	s := &r.sale
	for len(s.queue) > 0 {
		next, entry, to := s.queue[0], s.queue[0].entry, &r.unsent.first
		for _, op := range next.commit.GetOps() {
			if op.GetSealed() != nil || op.GetDestroyed() != nil {
				if to = &r.unsent.events; !r.sealed() {
					return
				}
			}
			if op.GetPlanned() != nil {
				entry = nil // it contains the seed of a red packet and the addresses of the servers
			}
		}
		s.queue = s.queue[1:]
		s.maker.out = to
		s.maker.commit(s.fold.Log(), next.after.Slots-1, next.after.Hash, next.commit.GetTimeUs(), entry)
		s.maker.slot(next.commit, next.after.Slots-1, 0)
		s.place = next.after
		r.took(next.commit)
	}
}

// sealed reports whether all shards are read to their final slots.
func (r *Reader) sealed() bool {
	return !slices.ContainsFunc(r.shards, func(s *shardLog) bool { return !s.sealed })
}
