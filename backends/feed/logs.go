package feed

import (
	"context"
	"fmt"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// saleLog is the sale's own log. It is folded as it is read, since it says which shards there are
// and how the run ends; what it says is told when its turn comes.
type saleLog struct {
	fold  *ledger.Sale
	tail  *ledger.Tail
	read  bool        // to its end, as far as is known
	run   string      // the uid of the last slot read
	found bool        // the place of Config.From is in it
	over  bool        // the run that is followed is destroyed: what follows is of another
	queue []saleSlot  // of the run, not told yet
	place Place       // where it was told to
	end   ledger.Hash // the hash of that
	tell  eventMaker

	sealed *pb.Sealed // of the run that is followed
}

// saleSlot is a slot of the sale's own log.
type saleSlot struct {
	slot   uint64
	hash   ledger.Hash
	commit *pb.Commit
	entry  []byte
}

// shardLog is the log of one shard.
type shardLog struct {
	tail   *ledger.Tail
	from   Place // where to begin
	placed bool  // that place is found in the log
	behind bool  // there is more to read
	sealed bool  // read to its end, for good
	page   int   // how many entries to read at once
	tell   eventMaker
}

// request reads a page of a log.
func (r *Reader) request(log string, from uint64, most int, took func(now clock.Now, got ledger.Reply)) {
	request := &ledger.Request{Kind: ledger.ReadRequest, Log: log, Slot: from, Max: most}
	r.call("feed read", func(ctx context.Context, logs ledger.Logs) (any, error) {
		got := request.Do(ctx, logs)
		return got, got.Err
	}, func(now clock.Now, got any) { took(now, got.(ledger.Reply)) })
}

// readSale reads the sale's own log on.
func (r *Reader) readSale() {
	s := &r.sale
	r.request(s.tail.Log(), s.tail.Next(), firstPage, func(now clock.Now, got ledger.Reply) {
		if got.Head == nil && s.tail.Next() > 0 {
			r.lacks(now, goneFor, r.gone())
			return
		}
		if got.Head == nil {
			r.lacks(now, patience, fmt.Errorf("sale %s does not exist: %w", r.cfg.Sale, ledger.ErrGone))
			return
		}
		for _, entry := range got.Entries {
			if err := r.foldSale(entry); err != nil {
				r.end(now, err)
				return
			}
		}
		more, err := s.tail.Ends(got.Head)
		if err != nil {
			r.end(now, err)
			return
		}
		s.read = !more || len(got.Entries) == 0 // a read that lags is repeated when its time comes
	})
}

// foldSale takes in a slot of the sale's own log.
func (r *Reader) foldSale(entry []byte) error {
	s, from := &r.sale, r.cfg.From
	slot := s.tail.Next()
	commit, err := s.tail.Take(entry)
	if err != nil || s.over {
		return err
	}
	hash := s.tail.Root()
	if err := s.fold.Apply(commit, hash); err != nil {
		return err
	}
	if uid := s.fold.UID(); s.run != uid {
		s.run, s.queue = uid, nil
	}
	if from != nil && s.run != from.UID {
		return nil
	}
	s.sealed = s.fold.Sealed()
	s.over = s.fold.Destroyed() && (from != nil || r.shards != nil)
	switch {
	case from == nil || slot >= from.Sale.Slots:
		s.queue = append(s.queue, saleSlot{slot, hash, commit, entry})
	case slot == from.Sale.Slots-1 && from.Sale.fits(hash):
		s.found = true
		s.toldTo(slot, hash)
	}
	return nil
}

// toldTo notes that the log was told up to a slot.
func (s *saleLog) toldTo(slot uint64, hash ledger.Hash) {
	s.place, s.end = Place{Slots: slot + 1}, hash
	copy(s.place.Check[:], hash[:])
}

// open finds out which run to follow, when the sale's own log is read.
func (r *Reader) open(now clock.Now) {
	s, from := &r.sale, r.cfg.From
	switch {
	case from != nil && !s.found: // which a read that lags may not show
		s.read = false
		r.lacks(now, patience, fmt.Errorf("%w: it stands behind slot %d of run %s, which the log of sale %s does not have", ErrForeign, from.Sale.Slots-1, from.UID, r.cfg.Sale))
		return
	case s.fold.UID() == "":
		s.read = false
		r.lacks(now, patience, fmt.Errorf("sale %s does not exist: %w", r.cfg.Sale, ledger.ErrGone))
		return
	case from == nil && s.fold.Destroyed():
		r.end(now, r.gone())
		return
	case from != nil && len(from.Shards) != s.fold.Shards():
		r.end(now, fmt.Errorf("%w: it is of %d shards, and sale %s has %d", ErrForeign, len(from.Shards), r.cfg.Sale, s.fold.Shards()))
		return
	}
	r.lacking = 0
	uid, shards := s.fold.UID(), s.fold.Shards()
	r.source = "/v1/sales/" + r.cfg.Sale + "/" + uid
	s.tell = eventMaker{source: r.source, shard: -1, commits: r.cfg.Commits}
	worth, currency, err := r.worth()
	if err != nil {
		r.end(now, err)
		return
	}
	for i := range shards {
		log := &shardLog{
			tail: ledger.NewTail(spec.ShardLog(uid, i, shards)), placed: !r.cfg.Now, page: firstPage,
			tell: eventMaker{source: r.source, shard: i, commits: r.cfg.Commits, amounts: worth, currency: currency},
		}
		if from != nil {
			log.from = from.Shards[i]
			log.placed = log.from.Slots == 0
		}
		r.shards = append(r.shards, log)
	}
	if r.cfg.Now {
		for _, slot := range s.queue {
			s.toldTo(slot.slot, slot.hash)
		}
		s.queue = nil
	}
}

// worth is what a unit is worth; nil: units are no packets of money.
func (r *Reader) worth() (amounts func(unit int64) string, currency string, err error) {
	red, err := ledger.RedPacketOf(r.sale.fold)
	if red == nil || err != nil {
		return nil, "", err
	}
	return red.Deal().Text, red.Currency, nil
}

// placed reports whether each shard's log is known to be the one that the position is of.
func (r *Reader) placed() bool {
	for _, s := range r.shards {
		if !s.placed {
			return false
		}
	}
	return true
}

// place finds in the logs where to begin.
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

// placeAtEnds begins at the ends of a sealed run, where that is the place, without a look at the logs,
// which may be deleted: the seal is left. false: there is a place that is none of this run.
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
			r.end(now, fmt.Errorf("%w: it stands behind slot %d of log %s, which was sealed as another one, with %d slots",
				ErrForeign, s.from.Slots-1, s.tail.Log(), slots[i]))
			return false
		}
	}
	return true
}

// endShards notes which shards were followed to where the seal of the run says that they end. A
// reader that has begun behind the seal of a shard does not read it in the shard's own log.
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

// found holds the place of a position against the slot before it.
func (r *Reader) found(now clock.Now, s *shardLog, got ledger.Reply) {
	switch {
	case got.Head == nil:
		r.missing(now)
		return
	case len(got.Entries) == 0 && r.sale.sealed != nil: // it is being deleted
		r.lacks(now, patience, r.gone())
		return
	case len(got.Entries) == 0:
		r.lacks(now, patience, fmt.Errorf("%w: log %s has no slot %d", ErrForeign, s.tail.Log(), s.from.Slots-1))
		return
	}
	if err := s.tail.SkipTo(s.from.Slots, got.Entries[0]); err != nil {
		r.end(now, err)
		return
	}
	if !s.from.fits(s.tail.Root()) {
		r.end(now, fmt.Errorf("%w: slot %d of log %s is another one than it was", ErrForeign, s.from.Slots-1, s.tail.Log()))
		return
	}
	s.placed, s.behind, r.lacking = true, true, 0
}

// missing takes in that a shard's log is not there which was there before. If the sale is destroyed
// it was deleted, and if it is sealed that, too, unless the read lags; else the sale's own log will
// say so.
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
	r.lacks(now, rounds, r.gone())
}

// heads asks which logs have grown.
func (r *Reader) heads() {
	names, open := []string{r.sale.tail.Log()}, []*shardLog(nil)
	for _, s := range r.shards {
		if !s.sealed {
			names, open = append(names, s.tail.Log()), append(open, s)
		}
	}
	r.call("feed heads", func(ctx context.Context, logs ledger.Logs) (any, error) { return logs.Heads(ctx, names) }, func(now clock.Now, got any) {
		heads := got.([][]byte)
		if heads[0] == nil {
			r.lacks(now, goneFor, r.gone())
			return
		}
		slot, ok := ledger.HeadSlot(heads[0])
		r.sale.read = !ok || r.sale.over || slot < r.sale.tail.Next()
		for i, s := range open {
			if !r.look(now, s, heads[i+1]) {
				return
			}
		}
		r.lacking = 0
	})
}

// look takes in the head of a shard's log. false: it is not there, or of no use.
func (r *Reader) look(now clock.Now, s *shardLog, head []byte) bool {
	switch {
	case head == nil && (s.tail.Next() > 0 || r.sale.sealed != nil):
		r.missing(now)
		return false
	case head == nil:
		s.placed = true // the sale is planned, and not on this shard yet
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

// read reads a page of each of some shards that are behind.
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

// page takes in what was read of a shard's log.
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
	more, err := s.tail.Ends(got.Head)
	if err != nil {
		r.end(now, err)
		return
	}
	s.behind = more && len(got.Entries) > 0 && !s.sealed // a read that lags is repeated when its time comes
}

// take takes in a slot of a shard's log.
func (r *Reader) take(s *shardLog, entry []byte) error {
	slot, before := s.tail.Next(), s.tail.TimeUs()
	commit, err := s.tail.Take(entry)
	if err != nil {
		return err
	}
	s.tell.events = r.events
	s.tell.whole(s.tail.Log(), slot, s.tail.Root(), commit.GetTimeUs(), entry)
	s.tell.slot(commit, slot, before)
	r.events, s.tell.events = s.tell.events, nil
	r.took(commit)
	for _, op := range commit.GetOps() {
		s.sealed = s.sealed || op.GetSeal() != nil
		r.generation = max(r.generation, op.GetGeneration().GetNumber())
	}
	return nil
}

func (r *Reader) took(c *pb.Commit) {
	r.slots++
	r.newest, r.lacking = max(r.newest, c.GetTimeUs()), 0
}

// tellSale tells what the sale's own log says. That the sale is sealed is told when its shards
// have been told to their ends.
func (r *Reader) tellSale() {
	s := &r.sale
	for len(s.queue) > 0 {
		next, entry, to := s.queue[0], s.queue[0].entry, &r.first
		for _, op := range next.commit.GetOps() {
			if op.GetSealed() != nil || op.GetDestroyed() != nil {
				if to = &r.events; !r.sealed() {
					return
				}
			}
			if op.GetPlanned() != nil {
				entry = nil // it has the seed of a red packet, and where the servers are
			}
		}
		s.queue = s.queue[1:]
		s.tell.events = *to
		s.tell.whole(s.tail.Log(), next.slot, next.hash, next.commit.GetTimeUs(), entry)
		s.tell.saleSlot(next.commit, next.slot)
		*to, s.tell.events = s.tell.events, nil
		s.toldTo(next.slot, next.hash)
		r.took(next.commit)
	}
}

// sealed reports whether all shards were read to their ends, for good.
func (r *Reader) sealed() bool {
	for _, s := range r.shards {
		if !s.sealed {
			return false
		}
	}
	return true
}
