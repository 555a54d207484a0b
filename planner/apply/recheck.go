package apply

// recheck reads the sale's log again and continues if the plan's run is still live. Calls
// during a read share the next one.
func (x *execution) recheck(then func()) {
	x.rechecks = append(x.rechecks, then)
	if !x.rechecking {
		x.recheckNow()
	}
}

func (x *execution) recheckNow() {
	x.rechecking = true
	asked := x.rechecks
	x.rechecks = nil
	x.readSale(func() {
		x.rechecking = false
		switch ours := x.sale.UID() == x.plan.UID; {
		case ours && x.sale.Live():
		case ours && x.overtaken != nil:
			x.rechecks = nil
			x.core.Leave()
			x.overtaken()
			return
		default:
			x.stale("was destroyed meanwhile")
			return
		}
		if len(x.rechecks) > 0 {
			x.recheckNow()
		}
		for _, then := range asked {
			if !x.core.Over {
				then()
			}
		}
	})
}
