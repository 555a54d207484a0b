package check

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	pb "salectl/backends/ledger/ledgerpb"
)

// feedLine is a line of a feed.
type feedLine struct {
	Type         string
	Source       string
	ID           string
	Time         string
	Subject      string
	Sequence     string
	PartitionKey string
	Data         struct {
		// Of claims.
		State     string
		User      string
		Units     []int64
		Key       string
		KeyBase64 []byte
		// Of generations.
		Generation uint64
		// Of commits.
		Log      string
		Slot     uint64
		Hash     string
		Commit   []byte
		Payloads []map[string]string
		// Of positions.
		Through string
		Logs    []feedEnd
		Ended   bool
	}
}

type feedEnd struct {
	Log   string
	Slots uint64
	Hash  string
}

// feeds judges the feeds of the ledger.
func feeds(e *evidence, bad fault) {
	for i := range e.h.Feeds {
		f := &following{e: e, Feed: &e.h.Feeds[i], n: i, bad: bad}
		for _, b := range f.Batches {
			if !f.check(b) {
				break
			}
		}
		f.end()
	}
}

// following is one feed, as far as it was judged.
type following struct {
	*Feed
	e   *evidence
	n   int
	bad fault

	run     *run
	names   map[int64]string // of its units; nil: they are numbers
	logs    []*followed      // the sale's own, then those of the shards; none before the first batch
	planned uint64           // the newest generation of the sale's own log in the feed
	sealed  bool             // the end of the sale was delivered
	over    bool             // a position stated that nothing will follow
	through time.Time        // the latest time of a position
}

// followed is a log of a feed.
type followed struct {
	*log
	partition string
	next      uint64 // the next slot to deliver
	hash      string // of the slot before it
	sequence  string // of the last event
	setBack   bool   // its time has gone back
}

func (f *following) String() string { return fmt.Sprintf("feed %d, begun at %v", f.n, f.At) }

// check judges a batch. false: what follows cannot be.
func (f *following) check(b Batch) bool {
	var lines []feedLine
	for _, text := range b.Lines {
		var line feedLine
		if json.Unmarshal(text, &line) == nil {
			lines = append(lines, line)
		}
	}
	last := len(lines) - 1
	if last < 0 || len(lines) < len(b.Lines) || lines[last].Type != "salectl.resolved" || !f.begin(lines) {
		f.bad("%v: a batch of %d lines does not end with a position in the logs of a run", f, len(lines))
		return false
	}
	for i := 0; i < last; i++ {
		slot := f.slot(lines[i], b.Seq)
		if slot == nil {
			f.bad("%v: %s %s is told where slot %d of its log is to come", f, lines[i].Type, lines[i].ID, f.log(lines[i].PartitionKey).next)
			return false
		}
		for _, want := range expected(slot) {
			if i++; i >= last || !want.is(lines[i]) {
				f.bad("%v: %s %s is told of %v, which says %s", f, lines[i].Type, lines[i].ID, slot, want)
				return false
			}
			f.payloads(want, lines[i], b.Seq)
			f.inTime(slot, lines[i])
		}
	}
	f.position(lines[last], b.Seq)
	return true
}

// begin finds out which run is followed, and where that begins.
func (f *following) begin(lines []feedLine) bool {
	if f.run != nil {
		return true
	}
	ends := lines[len(lines)-1].Data.Logs
	for _, r := range f.e.runs {
		if len(ends) == len(r.shards)+1 && ends[1].Log == r.shards[0].name {
			f.run = r
		}
	}
	if f.run == nil {
		return false
	}
	f.names = f.e.names(f.run)
	for i, l := range append([]*log{f.e.sale}, f.run.shards...) {
		to := &followed{log: l, partition: "sale"}
		if i > 0 {
			to.partition = strconv.Itoa(l.shard)
		}
		switch {
		case f.Now:
			to.next = ends[i].Slots
			for j := len(lines) - 1; j >= 0; j-- {
				if lines[j].Type == "salectl.commit" && lines[j].PartitionKey == to.partition {
					to.next = lines[j].Data.Slot
				}
			}
		case i == 0:
			to.next = f.run.planned[0].at.n
		}
		f.logs = append(f.logs, to)
	}
	if f.Now { // what the sale's own log has before that is not for this feed
		f.planned = forever
		f.sealed = f.run.sealedAt != nil && f.logs[0].next > f.run.sealedAt.n
	}
	return true
}

// log is that of a partition, the sale's own for one that there is not.
func (f *following) log(partition string) *followed {
	for _, l := range f.logs {
		if l.partition == partition {
			return l
		}
	}
	return f.logs[0]
}

// slot is the slot that a line names; nil: it is not the next one of its log, or was not
// stored before.
func (f *following) slot(line feedLine, by uint64) *slot {
	l := f.log(line.PartitionKey)
	if line.Type != "salectl.commit" || line.Data.Log != l.name || line.Data.Slot != l.next || line.ID != fmt.Sprint(l.partition, "-", l.next) {
		return nil
	}
	for _, s := range l.stored(l.next) {
		if s.Seq > by || hash(s.hash) != line.Data.Hash {
			continue
		}
		isPlan := false
		for _, op := range s.commit.GetOps() {
			isPlan = isPlan || op.GetPlanned() != nil
		}
		if isPlan != (line.Data.Commit == nil) || !isPlan && !bytes.Equal(line.Data.Commit, s.bytes) {
			return nil
		}
		l.next++
		l.hash = line.Data.Hash
		return s
	}
	return nil
}

// inTime judges when an event is delivered, beside the events before it.
func (f *following) inTime(s *slot, line feedLine) {
	l := f.log(line.PartitionKey)
	if line.Sequence <= l.sequence {
		f.bad("%v: %s %s has the sequence %q behind %q", f, line.Type, line.ID, line.Sequence, l.sequence)
	}
	l.sequence = line.Sequence
	l.setBack = l.setBack || line.Type == "salectl.shard.clock_set_back"
	if s.commit.GetTimeUs() < f.through.UnixMicro() && s.log != f.e.sale && !l.setBack {
		f.bad("%v: %s %s is of %s, after nothing before %v was to come", f, line.Type, line.ID, line.Time, f.through)
	}
	switch line.Type {
	case "salectl.sale.planned":
		f.planned = max(f.planned, line.Data.Generation)
	case "salectl.shard.generation":
		if line.Data.Generation > f.planned {
			f.bad("%v: %s %s is told before the sale's own log has generation %d", f, line.Type, line.ID, line.Data.Generation)
		}
	case "salectl.sale.sealed":
		f.sealed = true
		for _, l := range f.logs[1:] {
			if l.next < uint64(len(l.slots)) {
				f.bad("%v: the sale is told to be sealed when %d slots of %d of log %s were", f, l.next, len(l.slots), l.name)
			}
		}
	}
}

func hash(h [32]byte) string { return hex.EncodeToString(h[:]) }

// position judges the line that ends a batch, which was delivered at a place.
func (f *following) position(line feedLine, by uint64) {
	for i, end := range line.Data.Logs {
		l := f.logs[i]
		if l.hash == "" { // nothing of it was delivered yet
			l.hash = hash(sha256.Sum256([]byte(l.name)))
			for _, s := range l.stored(l.next - 1) {
				if s.Seq <= by { // a create that was late begins a log that is deleted once more
					l.hash = hash(s.hash)
				}
			}
		}
		if end.Log != l.name || end.Slots != l.next || end.Hash != l.hash {
			f.bad("%v: a position says that %d slots of log %s were told, with hash %.16s, and %d were, with %.16s", f, end.Slots, end.Log, end.Hash, l.next, l.hash)
		}
	}
	f.over = line.Data.Ended
	if through, err := time.Parse(time.RFC3339Nano, line.Data.Through); err == nil && through.After(f.through) {
		f.through = through
	}
}

// tardy is how old a slot may be, at the end of a world, that a consumer has not received.
const tardy = 20 * time.Second

// end judges how the feed ended.
func (f *following) end() {
	switch f.How {
	case FeedEnded:
		if !f.over || !f.sealed || f.run.destroyed == nil {
			f.bad("%v has ended, and was not told that the sale is destroyed", f)
		}
	case FeedGone:
		lacks := f.run == nil
		for _, l := range f.logs {
			// The sale's own log, which has the end of a sale, is never deleted.
			lacks = lacks || l.log != f.e.sale && l.next < uint64(len(l.slots))
		}
		if !lacks || !f.deleted() {
			f.bad("%v has ended, since its logs are deleted, and there is what it waits for: %s", f, f.Err)
		}
	case FeedNoSale:
		if len(f.Batches) > 0 {
			f.bad("%v has ended, since there is no sale, which it had been told of: %s", f, f.Err)
		}
	case FeedFailed:
		f.bad("%v failed: %s", f, f.Err)
	case FeedStopped:
		if f.e.h.Final.Rested {
			f.behind()
		}
	}
}

// deleted reports whether a log of the run that was followed, or of any, was deleted by the feed's
// end.
func (f *following) deleted() bool {
	for _, d := range f.e.h.Deletes {
		if d.Seq < f.Ended.Seq && (f.run == nil || strings.Contains(d.Log, f.run.uid)) {
			return true
		}
	}
	return false
}

// behind judges a feed that went on until the world had come to rest.
func (f *following) behind() {
	if f.run == nil {
		for _, r := range f.e.runs {
			if r.destroyed == nil && r.applied != nil && r.applied.At < f.Ended.At-tardy {
				f.bad("%v was told nothing of a sale that there is", f)
			}
		}
		return
	}
	for _, l := range f.logs {
		if l.next < uint64(len(l.slots)) && l.slots[l.next].At < f.Ended.At-tardy {
			f.bad("%v ends at %v and was not told of %v, stored at %v", f, f.Ended.At, l.slots[l.next], l.slots[l.next].At)
		}
	}
}

// event is the event of an op in a feed.
type event struct {
	kind, id, subject string
	state             string
	user, key         string
	units             []int64
	generation        uint64
}

func (w event) String() string {
	return fmt.Sprintf("%+q", [...]any{w.kind, w.id, w.subject, w.state, w.user, w.key, w.units, w.generation})
}

// is reports whether a line is that event.
func (w event) is(line feedLine) bool {
	reported := event{kind: strings.TrimPrefix(line.Type, "salectl."), id: line.ID, subject: line.Subject, state: line.Data.State, user: line.Data.User,
		key: line.Data.Key + string(line.Data.KeyBase64), units: line.Data.Units, generation: line.Data.Generation}
	if !strings.HasPrefix(w.kind, "claim.") {
		reported.units = nil
	}
	return reported.String() == w.String()
}

// expected are the events that a feed is to tell of a slot, in order.
func expected(s *slot) (all []event) {
	partition := "sale"
	if s.log.run != nil {
		partition = strconv.Itoa(s.log.shard)
	}
	for i, op := range s.commit.GetOps() {
		w := event{id: fmt.Sprint(partition, "-", s.n, "-", i)}
		switch op := op.GetOp().(type) {
		case *pb.Op_Claim:
			c := op.Claim
			w.subject, w.user, w.key, w.units = w.id, c.GetUser(), string(c.GetKey()), c.GetUnits()
			switch {
			case c.GetEntry():
				w.state = "entered"
			case c.GetHeldUntilUs() != 0:
				w.state = "held"
			default:
				w.state = "sold"
			}
			if c.GetFill() != 0 {
				w.subject = fmt.Sprint(partition, "-u", c.GetUnits()[0])
			}
			w.kind = "claim." + w.state
		case *pb.Op_Settle:
			w = settled(w, s.log.shard, op.Settle)
		case *pb.Op_Generation:
			w.kind, w.generation = "shard.generation", op.Generation.GetNumber()
		case *pb.Op_Entries:
			w.kind = "shard.entries_closed"
		case *pb.Op_Seal:
			w.kind = "shard.sealed"
		case *pb.Op_Own:
			if s.n > 0 && s.commit.GetTimeUs() < s.log.before(s).commit.GetTimeUs() {
				w.kind = "shard.clock_set_back"
			}
		case *pb.Op_Planned:
			w.kind, w.generation = "sale.planned", op.Planned.GetGeneration()
		case *pb.Op_Applied:
			w.kind, w.generation = "sale.applied", op.Applied.GetGeneration()
		case *pb.Op_EntriesClosed:
			w.kind = "sale.entries_closed"
		case *pb.Op_Drawn:
			w.kind = "sale.drawn"
		case *pb.Op_Ranked:
			w.kind = "sale.ranked"
		case *pb.Op_Sealed:
			w.kind = "sale.sealed"
		case *pb.Op_Destroyed:
			w.kind = "sale.destroyed"
		}
		if w.kind != "" {
			all = append(all, w)
		}
	}
	return all
}

// stored are what was stored in a slot: one, or others too after the log was deleted.
func (l *log) stored(n uint64) (all []*slot) {
	if n < uint64(len(l.slots)) {
		all = append(all, l.slots[n])
	}
	for _, s := range l.late {
		if s.n == n {
			all = append(all, s)
		}
	}
	return all
}

// before is the slot before one.
func (l *log) before(s *slot) *slot {
	for _, other := range l.stored(s.n - 1) {
		if string(s.commit.GetPrev()) == string(other.hash[:]) {
			return other
		}
	}
	return s
}

// settled is what a feed is to say of what became of a claim.
func settled(w event, shard int, op *pb.Settle) event {
	w.subject, w.units = fmt.Sprint(shard, "-", op.GetSlot(), "-", op.GetIndex()), op.GetUnits()
	switch op.GetHow() {
	case pb.Settle_CONFIRM:
		w.kind, w.state = "confirmed", "sold"
	case pb.Settle_CANCEL:
		w.kind, w.state = "cancelled", "cancelled"
	case pb.Settle_EXPIRE:
		w.kind, w.state = "expired", "expired"
	case pb.Settle_EXTEND:
		w.kind, w.state = "extended", "held"
	case pb.Settle_REFUND:
		w.kind, w.state = "refunded", "refunded"
	case pb.Settle_RESELL:
		w.kind, w.state = "resold", "sold"
	case pb.Settle_REFUND_DUE:
		w.kind = "refund_due"
	case pb.Settle_RETURNED:
		w.kind = "returned"
	case pb.Settle_AWARD:
		w.kind, w.state = "awarded", "sold"
		if op.GetHeldUntilUs() != 0 {
			w.state = "held"
		}
	}
	w.kind = "claim." + w.kind
	return w
}
