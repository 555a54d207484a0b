package check

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	pb "salectl/backends/ledger/ledgerpb"
)

// auditFound is what an audit answers.
type auditFound struct {
	OK        bool     `json:"ok"`
	UID       string   `json:"uid"`
	Stock     int64    `json:"stock"`
	Sold      int64    `json:"sold"`
	Held      int64    `json:"held"`
	Available int64    `json:"available"`
	InFlight  int64    `json:"inFlight"`
	Users     int64    `json:"users"`
	Shards    int      `json:"shards"`
	Slots     uint64   `json:"slots"`
	Oversold  int64    `json:"oversold"`
	OverLimit int64    `json:"overLimit"`
	Problems  []string `json:"problems"`
	outcomes
}

// unseen is how many slots of a log a read may not show yet.
const unseen = 4

// unseenYet matches the problems of logs of which the reads of an audit did not show all that must
// be there.
var unseenYet = regexp.MustCompile(`^(shard \d+ has (no log|\d+ generations?, \d+ were applied)|units \[.*\] are in the sale, but their payloads are not stored|what the units are: log \S+: the store has no such log)$`)

// unclosed matches the problems of logs that were not read as far as a cut of them.
var unclosed = regexp.MustCompile(`^shard \d+ (received transfer \d+ from shard \d+, which never sent it|has an ack of transfer \d+ to shard \d+, which never received it)$|^the log of shard \d+ does not end in the slot with which the sale was sealed$`)

// ClosedBefore ends the problem that an audit reports of each winner of a draw without a unit. An
// operator who closes the sale before its owners have awarded all units causes it.
const ClosedBefore = "or the sale was closed before"

// audits judges what was found by whoever audited the sale while it went on.
func audits(e *evidence, bad fault) {
	for i, a := range e.h.Audits {
		r := e.run(a.UID)
		switch {
		case a.How == Corrupt && !a.Lagged:
			bad("audit %d, ended at %v, found the ledger damaged: %s", i, a.At, a.Err)
			continue
		case a.How != Done:
			continue
		case r == nil || len(a.Slots) != len(r.shards):
			bad("audit %d is of run %q, which there is not, or of %d shards", i, a.UID, len(a.Slots))
			continue
		}
		var is auditFound
		_ = json.Unmarshal(a.Found, &is) // what cannot be read is not what the slots come to
		problems := is.Problems
		if a.Lagged && slices.ContainsFunc(problems, unclosed.MatchString) {
			continue // its slots are no cut
		}
		cut, at := e.upTo(r, a.Began, a.Slots, forever, func(format string, args ...any) {
			bad("audit %d, up to %d: %s", i, a.Slots, fmt.Sprintf(format, args...))
		})
		if a.Lagged {
			problems = slices.DeleteFunc(slices.Clone(problems), func(what string) bool { return unseenYet.MatchString(what) })
			problems = e.withoutUnread(at, a.Began, problems)
		}
		closed := slices.ContainsFunc(r.shards, func(l *log) bool {
			return len(l.slots) > 0 && l.slots[len(l.slots)-1].after.settings.GetPhase() == phaseClosed
		})
		if closed {
			problems = slices.DeleteFunc(slices.Clone(problems), func(what string) bool { return strings.HasSuffix(what, ClosedBefore) })
		}
		if len(problems) > 0 {
			bad("audit %d, ended at %v, of run %s up to %d: %q", i, a.At, a.UID, a.Slots, problems)
		}
		want := cut.found(at)
		want.OK, want.Problems = len(is.Problems) == 0, is.Problems
		if got, want := plain(is), plain(want); !bytes.Equal(got, want) {
			bad("audit %d, up to %d, found %s, its slots come to %s", i, a.Slots, got, want)
		}
	}
}

// withoutUnread returns the problems of an audit less those of generations that the reads of the
// sale's own log need not have shown: it had them in its last slots when the audit began, or later.
// The audit must report each of them, and exactly their units.
func (e *evidence) withoutUnread(r *run, began uint64, problems []string) []string {
	newest := e.sale.at(began)
	for n, p := range r.planned {
		if n == 0 || newest != nil && newest.n >= p.at.n+unseen {
			continue
		}
		unread := r.unread(uint64(n))
		left := slices.DeleteFunc(slices.Clone(problems), func(what string) bool { return slices.Contains(unread, what) })
		if len(unread) > 0 && len(left) == len(problems)-len(unread) {
			return left
		}
	}
	return problems
}

// unread returns the problems of an audit that read the first n generations of the sale's own log
// and all slots of the shards.
func (r *run) unread(n uint64) (problems []string) {
	var added []*pb.Range
	for _, l := range r.shards {
		for _, s := range l.slots {
			for _, op := range s.commit.GetOps() {
				if g := op.GetGeneration(); g.GetNumber() > n {
					problems = append(problems, fmt.Sprintf("shard %d took a generation %d that differs from the planned one", l.shard, g.GetNumber()))
					added = append(added, g.GetAdd()...)
				}
			}
		}
	}
	if len(added) > 0 {
		units := strings.ReplaceAll(unitsText(joined(added)), ", ", " ")
		problems = append(problems, fmt.Sprintf("units [%s] are in the ledger, but were never added to the sale", units))
	}
	return problems
}

// joined returns disjoint ranges in order, those that touch as one.
func joined(ranges []*pb.Range) (all []*pb.Range) {
	for _, r := range slices.SortedFunc(slices.Values(ranges), func(a, b *pb.Range) int { return cmp.Compare(a.GetFirst(), b.GetFirst()) }) {
		if n := len(all); n > 0 && all[n-1].GetFirst()+all[n-1].GetCount() == r.GetFirst() {
			all[n-1].Count += r.GetCount()
		} else {
			all = append(all, &pb.Range{First: r.GetFirst(), Count: r.GetCount()})
		}
	}
	return all
}

func plain(f auditFound) []byte {
	text, _ := json.Marshal(f)
	return text
}

// found is what an audit of all that there is of a run is to find.
func (e *evidence) found(r *run) auditFound {
	f := auditFound{UID: r.uid, Shards: len(r.shards)}
	for _, l := range r.shards {
		if n := len(l.slots); n > 0 {
			f.Slots += uint64(n)
			f.Stock += l.slots[n-1].after.limit
			f.outcomes.add(l.slots[n-1].after.outcomes)
		}
	}
	for _, to := range r.moves {
		switch to[len(to)-1].to.kind {
		case sold:
			f.Sold++
		case held:
			f.Held++
		case free:
			f.Available++
		case flying:
			f.InFlight++
		}
	}
	users := make(map[string]bool)
	for _, c := range e.claims {
		if has(c.state) && len(c.units) > 0 {
			users[c.user] = true
		}
	}
	f.Users = int64(len(users))
	return f
}

// upTo is the evidence of one run as if its shards had so many slots and no more, and the sale's
// own log so many, as somebody read them who began at a time. The slots must be a cut: what is
// received was sent, and what is acknowledged received; and they must not be older than that time,
// but for what a read may not show yet.
func (e *evidence) upTo(r *run, began uint64, slots []uint64, sale uint64, told fault) (*evidence, *run) {
	for i, l := range r.shards {
		if s := l.at(began); s != nil && s.n >= slots[i]+unseen {
			told("%d slots of log %s were read, which had %d before", slots[i], l.name, s.n+1)
		}
	}
	cut := &evidence{h: &History{Sale: e.h.Sale, Deal: e.h.Deal, UnitFiles: e.h.UnitFiles}, payloadLogs: e.payloadLogs, sale: &log{name: e.sale.name}}
	cut.sale.slots = e.sale.slots[:min(sale, uint64(len(e.sale.slots)))]
	cut.readRuns(func(string, ...any) {}) // decode has told
	at := cut.run(r.uid)
	if at == nil {
		told("the sale's own log, up to slot %d, does not plan run %s", sale, r.uid)
		return cut, &run{uid: r.uid}
	}
	for _, s := range e.slots {
		if l := s.log; l.run == r && s.n < slots[l.shard] {
			to := at.shards[l.shard]
			copied := &slot{Place: s.Place, log: to, n: s.n, bytes: s.bytes, head: s.head, hash: s.hash, commit: s.commit}
			to.slots = append(to.slots, copied)
			cut.slots = append(cut.slots, copied)
		}
	}
	for i, l := range at.shards {
		if uint64(len(l.slots)) != slots[i] {
			told("log %s has %d slots", l.name, len(l.slots))
		}
	}
	recount(cut, told)
	return cut, at
}

// cuts judges what was exported while the sale went on.
func cuts(e *evidence, bad fault) {
	for i, x := range e.h.LiveExports {
		if x.How == Corrupt && !x.Lagged {
			bad("live export %d, ended at %v, found the ledger damaged: %s", i, x.At, x.Err)
		}
		if x.How != Done || x.Redacted {
			continue
		}
		first, _, _ := bytes.Cut(x.Bytes, []byte("\n"))
		var header exportHeader
		_ = json.Unmarshal(first, &header) // what cannot be read is of no run
		r := e.run(header.UID)
		if r == nil || len(header.Roots) != len(r.shards) || header.SaleLog == nil {
			bad("live export %d is of run %q, which there is not, or of %d shards", i, header.UID, len(header.Roots))
			continue
		}
		told := func(format string, args ...any) {
			bad("live export %d, ended at %v: %s", i, x.At, fmt.Sprintf(format, args...))
		}
		slots := make([]uint64, len(r.shards))
		for shard, root := range header.Roots {
			l := r.shards[shard]
			at := slices.IndexFunc(l.slots, func(s *slot) bool { return hash(s.hash) == root })
			if slots[shard] = uint64(at + 1); at < 0 && root != hex.EncodeToString(hashOf([]byte(l.name))) {
				told("shard %d ends with the hash %s, which none of its slots has", shard, root)
			}
		}
		cut, at := e.upTo(r, x.Began, slots, header.SaleLog.First+uint64(header.SaleLog.Slots), told)
		awarded := slices.ContainsFunc(cut.claims, func(c *claim) bool { return has(c.state) })
		if header.Draw != nil && header.Draw.Link == "" && awarded {
			told("it has awards of a draw without the reveal, which precedes them")
		}
		if len(at.planned) == 0 || at.taken() > uint64(len(at.planned)) {
			told("it has %d generations of the sale's own log, and a shard has taken %d", len(at.planned), at.taken())
			continue
		}
		if got, want := differing(x.Bytes, cut.cutExport(at, header)); len(got)+len(want) > 0 {
			bad("live export %d, up to %d, goes on with %q, the ledger has %q", i, slots, got, want)
		}
	}
}

// cutExport is export of a run that may go on. What a draw came to may be later than the cut, by
// the heads of the shards; a shard that has not said which entries it has leaves out what followed.
func (e *evidence) cutExport(r *run, header exportHeader) []byte {
	ended := true
	for _, l := range r.shards {
		n := len(l.slots)
		if n == 0 || !l.slots[n-1].after.closed {
			r.drawing = drawing{}
		}
		ended = ended && n > 0 && l.slots[n-1].after.sealed
	}
	if !r.isDraw() || header.Draw == nil {
		return e.export(r)
	}
	whole := e.export(r)
	first, rest, _ := bytes.Cut(whole, []byte("\n"))
	var want exportHeader
	_ = json.Unmarshal(first, &want)
	want.Draw.Ended = ended
	if !ended {
		want.Draw.Winners, want.Draw.Lapsed, want.Draw.Reach = header.Draw.Winners, header.Draw.Lapsed, header.Draw.Reach
	}
	first, _ = json.Marshal(want)
	return bytes.Join([][]byte{first, rest}, []byte("\n"))
}
