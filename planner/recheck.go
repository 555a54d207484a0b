package planner

import "salectl/backends/ledger"

// recheck reads the sale's log again and goes on while it still names the plan's
// run, unsealed. Calls that come while it is being read share the next reading.
func (w *work) recheck(then func()) {
	w.rechecks = append(w.rechecks, then)
	if !w.rechecking {
		w.recheckNow()
	}
}

func (w *work) recheckNow() {
	w.rechecking = true
	asked := w.rechecks
	w.rechecks = nil
	goOn := func() {
		w.rechecking = false
		switch ours := w.sale.UID() == w.plan.UID; {
		case ours && w.sale.Live():
		case ours && w.overtaken != nil:
			w.rechecks = nil
			w.leave()
			w.overtaken()
			return
		default:
			w.stale("was destroyed meanwhile")
			return
		}
		if len(w.rechecks) > 0 {
			w.recheckNow()
		}
		for _, then := range asked {
			if !w.over {
				then()
			}
		}
	}
	w.log.read(func(e ledger.Event) {
		if e == ledger.Gone {
			w.reopenSale(goOn)
			return
		}
		goOn()
	})
}
