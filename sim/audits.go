package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	"salectl/backends/ledger/export"
	"salectl/backends/ledger/payload"
	"salectl/planner/current"
	"salectl/sim/check"
	"salectl/units"
)

// unaudited is a stream under which nobody audits or exports the sales of TestWorldsThatFailed:
// those worlds are as they were when they failed.
const unaudited = 40

// auditor audits and exports the sale while it goes on, as the commands of these names do.
type auditor struct {
	random
	w       *world
	n       int
	running map[*process]*readMachine
}

// drawAuditor has somebody audit and export the sales of some worlds.
func (w *world) drawAuditor(r random) {
	if r.chance(0.1) {
		w.auditor = &auditor{random: w.Options.random(forAudits, 0), w: w, running: make(map[*process]*readMachine)}
	}
}

// schedule draws when it does so: at any time, and when a shard was sealed or an export was written,
// of which another then has the same bytes.
func (a *auditor) schedule() {
	if a == nil {
		return
	}
	for range 1 + a.IntN(3) {
		a.w.at(a.between(0, a.w.Until+10*time.Second), a.begin)
	}
}

// landed takes in that a planner's step landed.
func (a *auditor) landed(step string) {
	if a != nil && (step == "seal" || step == "export") && a.n < 12 && a.chance(0.3) {
		a.w.at(a.w.now, a.export)
	}
}

func (a *auditor) begin() {
	if a.chance(0.5) {
		a.audit()
		return
	}
	a.export()
}

// end ends what is under way when the world has come to its end.
func (a *auditor) end() {
	if a != nil {
		for _, m := range a.running {
			m.end()
		}
	}
}

// start runs a command as a process. It may be paused amid it, or killed.
func (a *auditor) start(kind string, run func(ctx context.Context, logs ledger.Logs) (took func())) {
	if a.w.over {
		return
	}
	a.n++
	p := &process{w: a.w, name: fmt.Sprintf("%s-of-%d", kind, a.n), host: atClients}
	var m *readMachine
	m = newReadMachine(func(ctx context.Context, logs ledger.Logs) {
		if took := run(ctx, logs); !m.stopped {
			took()
		}
	})
	a.running[p] = m
	ended := func() {
		m.end()
		delete(a.running, p)
	}
	p.ended = ended
	p.died = func(time.Duration) { ended() }
	if a.chance(0.4) {
		a.w.after(a.spread(time.Millisecond, time.Second), func() {
			if a.w.fault("world", "auditor paused") {
				p.pause(a.spread(50*time.Millisecond, 10*time.Second), false)
			}
		})
	}
	p.start(m, a.w.clock(a.random))
}

// audit is the command of this name.
func (a *auditor) audit() {
	found, began := check.Audit{Began: a.w.history.Count()}, a.w.now
	a.start("audit", func(ctx context.Context, logs ledger.Logs) func() {
		is, err := audit.Run(ctx, logs, saleName, ledger.NewState, func(sale *ledger.Sale, shards []*ledger.State) {
			found.UID = sale.UID()
			for _, s := range shards {
				found.Slots = append(found.Slots, s.Next())
			}
		})
		if err == nil {
			found.Found, _ = json.Marshal(is)
		}
		found.How, found.Err = ended(err)
		found.Lagged = a.w.store.thawed > began
		return func() {
			a.w.hit("audited")
			a.w.history.Audited(a.w.now, found)
		}
	})
}

// ended returns how a command ended.
func ended(err error) (check.Ended, string) {
	switch {
	case err == nil:
		return check.Done, ""
	case errors.Is(err, ledger.ErrCorrupt):
		return check.Corrupt, err.Error()
	case errors.Is(err, ledger.ErrGone):
		return check.NoSale, err.Error()
	}
	return check.NotRead, err.Error()
}

// export is the command of this name: what it has read it folds, writes and audits.
func (a *auditor) export() {
	x, began := check.LiveExport{Began: a.w.history.Count(), Redacted: a.chance(0.2)}, a.w.now
	a.start("export", func(ctx context.Context, logs ledger.Logs) func() {
		var content bytes.Buffer
		err := exportLive(ctx, logs, x.Redacted, a.w.scenario.files.key(), &content)
		if err == nil {
			x.Bytes = content.Bytes()
			a.w.note("auditor", "export", fmt.Sprint(len(x.Bytes), " bytes"), x.Bytes)
		}
		x.How, x.Err = ended(err)
		x.Lagged = a.w.store.thawed > began
		return func() {
			a.w.hit("exported while it goes on")
			a.w.history.ExportedLive(a.w.now, x)
		}
	})
}

func exportLive(ctx context.Context, logs ledger.Logs, redact bool, key *units.Key, to *bytes.Buffer) error {
	sale, shards, err := ledger.LoadSale(ctx, logs, saleName)
	if err != nil {
		return err
	}
	if err := current.ReadWhole(ctx, logs, saleName, sale, shards); err != nil {
		return err
	}
	x := export.Sale{Name: saleName, Log: sale, Shards: shards, Logs: logs, Payloads: payload.NewReaderOfSale(logs, sale, key), Redacted: redact}
	if err := x.Write(ctx, to); !redact || !errors.Is(err, export.ErrDrawRedacted) {
		return err
	}
	x.Redacted = false
	return x.Write(ctx, to)
}

// forAudits is the stream of who audits and exports live sales.
const forAudits purpose = 100
