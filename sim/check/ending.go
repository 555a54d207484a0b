package check

import (
	"bytes"
	"crypto/sha256"
	"slices"
)

// ending judges Sealed and Destroyed, and that no log was deleted before.
func ending(e *evidence, bad fault) {
	var sealed bool
	for _, s := range e.sale.slots {
		for _, op := range s.commit.GetOps() {
			switch {
			case op.GetPlanned() != nil:
				sealed = false // of a new run; another of this run is reported as a plan
			case op.GetDestroyed() != nil && !sealed:
				bad("%v says destroyed before it is sealed", s)
			case op.GetSealed() != nil && sealed:
				bad("%v seals the run again", s)
			case op.GetSealed() != nil:
				sealed = true
			}
		}
	}
	for _, r := range e.runs {
		if r.sealed != nil {
			r.judgeSealed(e, bad)
		}
	}
	for _, d := range e.h.Deletes {
		switch l := e.log(d.Log); {
		case l == nil || l.run == nil:
			bad("log %s was deleted, which is no shard's, nor that of a run's units", d.Log)
		case l.run.sealedAt == nil || l.run.sealedAt.Seq > d.Seq:
			bad("log %s was deleted at %v before the run was sealed", d.Log, d.At)
		}
	}
}

// log returns the log of a shard, or of a run's units, by its name; nil if there is none.
func (e *evidence) log(name string) *log {
	for _, l := range e.logs {
		if l.name == name {
			return l
		}
	}
	return e.payloadLogs[name]
}

// judgeSealed compares Sealed with the shards.
func (r *run) judgeSealed(e *evidence, bad fault) {
	at, sealed := r.sealedAt, r.sealed
	if len(sealed.GetRoots()) != len(r.shards) || len(sealed.GetSlots()) != len(r.shards) {
		bad("%v names %d roots and %d numbers of slots for %d shards", at, len(sealed.GetRoots()), len(sealed.GetSlots()), len(r.shards))
		return
	}
	units := int64(0)
	for i, l := range r.shards {
		last := l.at(at.Seq)
		if last == nil || !last.after.sealed {
			bad("%v was stored before shard %d was sealed", at, i)
			continue
		}
		units += last.after.sold
		slots := last.n + 1
		if !bytes.Equal(sealed.GetRoots()[i], last.hash[:]) || sealed.GetSlots()[i] != slots {
			bad("%v has the root %x after %d slots of shard %d; it is %x after %d", at, sealed.GetRoots()[i], sealed.GetSlots()[i], i, last.hash, slots)
		}
	}
	claims, worth := int64(0), int64(0)
	for _, c := range e.claims {
		if c.at.log.run == r && !c.again {
			claims++
			for _, unit := range c.units {
				if r.packets != nil {
					worth += r.packets.amount(unit)
				}
			}
		}
	}
	if r.packets == nil && sealed.GetRefund() != 0 || r.packets != nil && sealed.GetRefund() != r.packets.Total-worth {
		bad("%v has a refund of %d, packets of %d were taken", at, sealed.GetRefund(), worth)
	}
	if sealed.GetClaims() != claims || sealed.GetUnitsSold() != units {
		bad("%v counts %d claims and %d units sold, there are %d and %d", at, sealed.GetClaims(), sealed.GetUnitsSold(), claims, units)
	}
	if slices.ContainsFunc(e.h.Exports, func(x Export) bool { return x.Seq < at.Seq && x.has(sealed.GetExportDigest()) }) {
		return
	}
	bad("%v names the export %x, which was not written before", at, sealed.GetExportDigest())
}

// has reports whether an export has a digest.
func (x *Export) has(digest []byte) bool {
	sum := sha256.Sum256(x.Bytes)
	return bytes.Equal(sum[:], digest)
}

// remains finds what a destroyed run left behind.
func remains(e *evidence, bad fault) {
	over := len(e.runs) > 0
	for _, r := range e.runs {
		if r.destroyed == nil {
			over = false
			continue
		}
		logs := r.shards
		if l := e.payloadLogs[payloadLog(r.uid)]; l != nil {
			logs = append(slices.Clip(logs), l)
		}
		for _, l := range logs {
			if n := len(l.slots); n > 0 && !e.deleted(l.slots[n-1], r.destroyed.Seq) {
				bad("%v says destroyed while %s is still there", r.destroyed, l.name)
			}
			for _, s := range l.late {
				// The next destroy that comes to its end has to remove it.
				if again := e.destroyedAfter(r, s.Seq); again != nil && !e.deleted(s, again.returned.Seq) {
					bad("%v, which came late, was left there by operation %d", s, again.invoked.Op)
				}
			}
		}
	}
	for _, o := range e.all(CommandInvoked) {
		over = over && o.returned != nil // else a planner that died may have left markers
	}
	if over && len(e.h.Final.Keys) > 0 {
		bad("every run is destroyed, and the lock nodes still have %q", e.h.Final.Keys)
	}
}

// deleted reports whether a slot was deleted by a time.
func (e *evidence) deleted(s *slot, by uint64) bool {
	for _, d := range e.h.Deletes {
		if d.Log == s.log.name && d.Seq > s.Seq && d.Seq < by && d.UpTo >= s.n {
			return true
		}
	}
	return false
}

// destroyedAfter returns a destroy of the run that began after a time and
// succeeded.
func (e *evidence) destroyedAfter(r *run, seq uint64) *operation {
	for _, o := range e.all(CommandInvoked) {
		if o.invoked.Command == "destroy" && o.invoked.Seq > seq && o.succeeded() && e.runOf(o) == r {
			return o
		}
	}
	return nil
}
