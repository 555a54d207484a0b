package planner

import (
	"fmt"

	"salectl/backends/ledger"
	"salectl/spec"
)

// reading is ReadActual as a step machine: the sale's log, the heads of its
// shards, then all nodes at once, and those that keep lists. It reads no table.
type reading struct {
	core
	cfg    SteppedConfig
	actual *Actual
}

func newReading(cfg SteppedConfig, name string) *reading {
	return &reading{
		core: newCore(cfg.terms().patience), cfg: cfg,
		actual: &Actual{Name: name, Nodes: make([]NodeActual, len(cfg.Nodes))},
	}
}

func (r *reading) start() {
	uid, err := newUID(r.cfg.Rand)
	if err != nil {
		r.end(err)
		return
	}
	r.actual.At, r.actual.NewUID = r.now.Wall, uid
	r.logs(1)
}

// logs reads the sale's log and the heads of its shards.
func (r *reading) logs(try int) {
	name := spec.SaleLog(r.actual.Name)
	sale := ledger.NewSale(name)
	r.actual.Sale = sale
	log := &track{core: &r.core, w: ledger.NewWriter(name, sale)}
	log.read(func(e ledger.Event) {
		if e == ledger.Gone {
			r.end(fmt.Errorf("log %s: %w", name, ledger.ErrGone))
			return
		}
		r.shards(func() {
			if r.actual.missing() == "" || try == missingTries {
				r.nodes()
				return
			}
			r.after(missingPause, func() { r.logs(try + 1) })
		})
	})
}

// shards reads all heads in one call and, if that fails, in a call each.
func (r *reading) shards(then func()) {
	names := shardLogs(r.actual.Sale)
	r.actual.Shards = make([]ShardActual, len(names))
	if len(names) == 0 {
		then()
		return
	}
	r.call(call{kind: callHeads, logs: names}, func(all reply) {
		if all.err == nil {
			for i, head := range all.heads {
				r.actual.Shards[i] = newShardActual(head, nil)
			}
			then()
			return
		}
		left := len(names)
		for i, name := range names {
			r.call(call{kind: callHeads, logs: []string{name}}, func(one reply) {
				if one.err != nil {
					r.actual.Shards[i].Err = one.err
				} else {
					r.actual.Shards[i] = newShardActual(one.heads[0], nil)
				}
				if left--; left == 0 {
					then()
				}
			})
		}
	})
}

// nodes asks all nodes, and after them those that keep lists.
func (r *reading) nodes() {
	left := len(r.cfg.Nodes)
	done := func() {
		if left == 0 {
			r.lists()
		}
	}
	for i, name := range r.cfg.Nodes {
		r.node(i, name, func(a NodeActual) {
			r.actual.Nodes[i] = a
			left--
			done()
		})
	}
	done()
}

func (r *reading) node(i int, name string, then func(NodeActual)) {
	a := NodeActual{Name: name}
	ask := func(k call, answered func(reply)) {
		k.node = i
		r.call(k, func(got reply) {
			if got.err != nil {
				then(NodeActual{Name: name, Err: got.err})
				return
			}
			answered(got)
		})
	}
	sent, uid := r.now, r.actual.Sale.UID()
	ask(call{kind: callInfo}, func(got reply) {
		a.Info, a.Off = got.info, clockOff(sent, r.now, got.info)
		if uid == "" {
			then(a)
			return
		}
		ask(call{kind: callList, prefix: spec.LeasePrefix(uid)}, func(got reply) {
			a.Leases = got.holdings
			ask(call{kind: callReadMarker, marker: spec.Marker(uid)}, func(got reply) {
				a.Marker = got.marker
				then(a)
			})
		})
	})
}
