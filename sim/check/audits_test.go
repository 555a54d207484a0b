package check

import (
	"bytes"
	"encoding/json"
	"testing"
	"testing/synctest"

	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	"salectl/backends/ledger/export"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// audited adds an audit of what is stored now, with a change.
func (w *world) audited(change func(a *Audit, is *auditFound)) {
	w.t.Helper()
	a := Audit{Began: w.h.Count(), How: Done}
	found, err := audit.Run(w.t.Context(), reader{w: w}, "tickets", ledger.NewState, func(sale *ledger.Sale, shards []*ledger.State) {
		a.UID = sale.UID()
		for _, s := range shards {
			a.Slots = append(a.Slots, s.Next())
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	var is auditFound
	a.Found, _ = json.Marshal(found)
	if err := json.Unmarshal(a.Found, &is); err != nil {
		w.t.Fatal(err)
	}
	if change != nil {
		change(&a, &is)
		a.Found = plain(is)
	}
	w.h.Audited(w.pass(), a)
}

// auditedBehind adds an audit amid a lag, whose reads of the sale's own log lack its last slots.
func (w *world) auditedBehind(slots int, change func(a *Audit, is *auditFound)) {
	w.t.Helper()
	name := spec.SaleLog("tickets")
	whole := w.h.Logs[name]
	w.h.Logs[name] = whole[:len(whole)-slots]
	w.audited(func(a *Audit, is *auditFound) {
		if a.Lagged = true; is.OK {
			w.t.Fatal("the audit found nothing wrong")
		}
		if change != nil {
			change(a, is)
		}
	})
	w.h.Logs[name] = whole
}

// exportedLive adds an export of what is stored now, with a change.
func (w *world) exportedLive(change func(*LiveExport)) {
	w.t.Helper()
	x := LiveExport{Began: w.h.Count(), How: Done}
	sale, shards, err := ledger.LoadSale(w.t.Context(), reader{w: w}, "tickets")
	if err != nil {
		w.t.Fatal(err)
	}
	var file bytes.Buffer
	if err := (export.Sale{Name: "tickets", Log: sale, Shards: shards, Logs: reader{w: w}}).Write(w.t.Context(), &file); err != nil {
		w.t.Fatal(err)
	}
	if x.Bytes = file.Bytes(); change != nil {
		change(&x)
	}
	w.h.ExportedLive(w.pass(), x)
}

// busy is a sale with units that are sold and on their way.
func busy(t testing.TB) *world {
	w := newWorld(t)
	w.buy(w.user(0), "k", 1)
	w.move(0, 1, 1)
	w.buy(w.user(1), "k", 2)
	return w
}

// unawarded adds to an audit the problem of a winner without a unit.
func unawarded(_ *Audit, is *auditFound) {
	is.OK, is.Problems = false, []string{"the draw: claim 0-8-0: a winner was skipped, " + ClosedBefore}
}

var auditFaults = map[string]planted{
	"an audit that finds a damaged log": {busy, func(w *world) {
		w.h.Audited(w.pass(), Audit{How: Corrupt, Err: "a slot was lost"})
	}, "audits"},
	"an audit of an unheard run": {busy, func(w *world) {
		w.audited(func(a *Audit, _ *auditFound) { a.UID = "fedcba9876543210" })
	}, "audits"},
	"an audit that finds a problem": {busy, func(w *world) {
		w.audited(func(_ *Audit, is *auditFound) { is.OK, is.Problems = false, []string{"shard 1 has no log"} })
	}, "audits"},
	"an audit that finds a winner without a unit in an open draw": {busy, func(w *world) { w.audited(unawarded) }, "audits"},
	"an audit that counts a unit twice": {busy, func(w *world) {
		w.audited(func(_ *Audit, is *auditFound) { is.Available++ })
	}, "audits"},
	"an audit of no cut": {busy, func(w *world) { w.audited(nil); w.uncut() }, "audits"},
	"an audit of what was long before": {busy, func(w *world) {
		w.audited(nil)
		for range 2 * unseen {
			w.plan(0, 0, pb.Phase_OPEN)
		}
		w.h.Audits[0].Began = w.h.Count()
	}, "audits"},
	"an audit without lag that read no log with a generation": {busy, func(w *world) {
		w.plan(1, 0, pb.Phase_OPEN)
		w.auditedBehind(2, func(a *Audit, _ *auditFound) { a.Lagged = false })
	}, "audits"},
	"an audit that lags behind a generation of long before": {busy, func(w *world) {
		w.plan(1, 0, pb.Phase_OPEN)
		w.plan(0, 0, pb.Phase_OPEN)
		w.plan(0, 0, pb.Phase_OPEN)
		w.auditedBehind(6, nil)
	}, "audits"},
	"an audit amid a lag that finds other units": {busy, func(w *world) {
		w.plan(1, 0, pb.Phase_OPEN)
		w.auditedBehind(2, func(_ *Audit, is *auditFound) {
			is.Problems[2] = "units [6-8] are in the ledger, but were never added to the sale"
		})
	}, "audits"},
	"an audit amid a lag that finds a generation on one shard": {busy, func(w *world) {
		w.plan(0, 0, pb.Phase_OPEN)
		w.auditedBehind(2, func(_ *Audit, is *auditFound) { is.Problems = is.Problems[1:] })
	}, "audits"},
	"a live export that finds a damaged log": {busy, func(w *world) {
		w.h.ExportedLive(w.pass(), LiveExport{How: Corrupt, Err: "a slot was lost"})
	}, "cuts"},
	"a live export without a header": {busy, func(w *world) {
		w.exportedLive(func(x *LiveExport) { x.Bytes = x.Bytes[1:] })
	}, "cuts"},
	"a live export that ends in no slot": {busy, func(w *world) {
		w.exportedLive(func(x *LiveExport) { x.Bytes = bytes.Replace(x.Bytes, []byte(`"roots":["`), []byte(`"roots":["0`), 1) })
	}, "cuts"},
	"a live export of what was long before": {busy, func(w *world) {
		w.exportedLive(nil)
		for range 2 * unseen {
			w.plan(0, 0, pb.Phase_OPEN)
		}
		w.h.LiveExports[0].Began = w.h.Count()
	}, "cuts"},
	"a live export that lacks a claim": {busy, func(w *world) {
		w.exportedLive(func(x *LiveExport) {
			at := bytes.Index(x.Bytes, []byte("\n")) + 1
			x.Bytes = append(x.Bytes[:at:at], x.Bytes[at+bytes.IndexByte(x.Bytes[at:], '\n')+1:]...)
		})
	}, "cuts"},
	"a live export with awards and without the reveal": {revealed, func(w *world) {
		rank, _ := w.firstHere()
		w.award(rank)
		name := spec.ShardLog(w.uid, 1, len(w.shards))
		whole := w.h.Logs[name]
		w.h.Logs[name] = whole[:len(whole)-1] // without its entries
		w.exportedLive(nil)
		w.h.Logs[name] = whole
	}, "cuts"},
	"a live export with another count": {busy, func(w *world) {
		w.exportedLive(func(x *LiveExport) { x.Bytes = bytes.Replace(x.Bytes, []byte(`"sold":`), []byte(`"sold":1`), 1) })
	}, "cuts"},
}

// uncut makes of the last audit one that has not read of shard 0 what shard 1 has received.
func (w *world) uncut() {
	a := &w.h.Audits[len(w.h.Audits)-1]
	for a.Slots[0] > 0 {
		a.Slots[0]--
		e := &evidence{h: w.h}
		decode(e, func(string, ...any) {})
		recount(e, func(string, ...any) {})
		wrong := false
		cut, at := e.upTo(e.run(a.UID), 0, a.Slots, forever, func(string, ...any) { wrong = true })
		if wrong {
			is := cut.found(at)
			is.OK, is.Problems = true, []string{}
			a.Found = plain(is)
			return
		}
	}
}

// What an audit or export of a live sale may be.
func TestToleratedAudits(t *testing.T) {
	for name, do := range map[string]func(w *world){
		"an audit":  func(w *world) { w.audited(nil); w.buy(w.user(0), "l", 1) },
		"an export": func(w *world) { w.exportedLive(nil); w.buy(w.user(0), "l", 1) },
		"of no sale": func(w *world) {
			w.h.Audited(w.pass(), Audit{How: NoSale})
			w.h.ExportedLive(w.pass(), LiveExport{How: NotRead})
		},
		"after a lag": func(w *world) {
			w.audited(func(a *Audit, is *auditFound) {
				a.Lagged, is.OK, is.Problems = true, false, []string{"shard 1 has no log", "units [1-3 5] are in the sale, but their payloads are not stored",
					"what the units are: log 00/0123456789abcdef/units: the store has no such log"}
			})
			w.audited(func(a *Audit, is *auditFound) {
				a.Lagged, is.OK, is.Problems = true, false, []string{"the log of shard 0 does not end in the slot with which the sale was sealed"}
			})
			w.h.Audited(w.pass(), Audit{How: Corrupt, Lagged: true})
			w.h.ExportedLive(w.pass(), LiveExport{How: Corrupt, Lagged: true})
		},
		"that has not read a generation": func(w *world) {
			w.plan(1, 0, pb.Phase_OPEN)
			w.auditedBehind(2, nil)
			w.planOn(1)
			w.auditedBehind(1, nil)
			w.auditedBehind(3, nil)
		},
		"of a sealed sale": func(w *world) {
			w.command("close", func() { w.plan(0, 0, pb.Phase_CLOSED) })
			w.command("destroy", func() {
				w.sealShards()
				w.audited(nil)
				w.audited(unawarded)
				w.exportedLive(nil)
				w.noteSealed()
				w.erase()
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := busy(t)
				do(w)
				for _, p := range Check(w.h) {
					t.Error(p)
				}
			})
		})
	}
}
