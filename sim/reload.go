package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"salectl/api"
	"salectl/executor/reload"
	"salectl/planner/current"
	"salectl/sim/check"
	"salectl/spec"
)

// unread is a stream under which no process of TestWorldsThatFailed reads a folder of sale
// files: those worlds are as they were when they failed.
const unread = 157

// folder is where all processes of a world read which sales to serve; they do so every second.
type folder struct {
	now     check.Files
	changes []folderChange
}

type folderChange struct {
	at time.Duration
	to check.Files
}

// drawFolder has the processes of some worlds read a folder whose file comes, goes and is
// broken at times. All else stays as it was drawn.
func (w *world) drawFolder(r random) {
	if !r.chance(0.2) {
		return
	}
	w.folder = &folder{now: pick(r, check.NoFile, check.SaleFile, check.SaleFile, check.BrokenFile)}
	for range 1 + r.IntN(5) {
		to := pick(r, check.NoFile, check.SaleFile, check.SaleFile, check.BrokenFile)
		w.folder.changes = append(w.folder.changes, folderChange{r.between(0, w.Until), to})
	}
	slices.SortFunc(w.folder.changes, func(a, b folderChange) int { return int(a.at - b.at) })
}

// scheduleFolder has the folder change. When the faults have stopped it declares the sale.
func (w *world) scheduleFolder() {
	if w.folder == nil {
		return
	}
	for _, c := range append(w.folder.changes, folderChange{w.Until, check.SaleFile}) {
		w.at(c.at, func() {
			if w.folder.now = c.to; c.at < w.Until {
				w.hit("folder changed")
			}
		})
	}
}

// keeper has one run of a server keep up with the folder.
type keeper struct {
	*server
	*reload.Keeper
	name   string // of the process
	begins bool   // in this poll
	lacks  bool   // it answers that it does not serve a sale that is declared
	over   bool   // the sale that it read is destroyed
}

// poll reads the folder and what it declares, once a second for as long as the run lasts.
func (k *keeper) poll() {
	if k.server.keeper != k || k.w.over && !k.alive {
		return
	}
	var sales []spec.Sale
	var err error
	switch k.w.folder.now {
	case check.SaleFile:
		sales = []spec.Sale{k.w.operators.sale(k.w.scenario.stock)}
	case check.BrokenFile:
		err = errors.New("did not find expected key")
	}
	k.begins = false
	poll := check.Reloaded{Process: k.name, Files: k.w.folder.now, Serves: k.alive, Could: k.w.applied() && k.reaches()}
	k.Update(context.Background(), k, sales, err, false)
	if k.server.keeper != k { // it was killed as it began to serve
		return
	}
	poll.Begins, poll.After, poll.Lacks = k.begins, k.alive, k.lacks
	k.w.history.Reloaded(k.w.now, poll)
	k.w.after(time.Second, k.poll)
}

// applied reports whether there is a sale that can be served.
func (w *world) applied() bool {
	sale, err := current.ReadOwnLog(context.Background(), w.store.memory.Handle(nil), saleName)
	return err == nil && sale.Live() && sale.Applied() > 0
}

// reaches reports whether the server's host can reach the store.
func (e *server) reaches() bool {
	return !e.w.store.down && !e.w.net.cut[e.host][atStore] && !e.w.net.cut[atStore][e.host]
}

// Served is reload.Server's, as what follows.
func (k *keeper) Served() map[string]reload.Standing {
	if k.alive {
		return map[string]reload.Standing{saleName: {}}
	}
	return nil
}

func (k *keeper) Prepare(ctx context.Context, _ spec.Sale) (begin func(), err error) {
	if !k.reaches() {
		return nil, errDown
	}
	sale, err := current.ReadOwnLog(ctx, k.w.store, saleName)
	if err != nil {
		return nil, err
	}
	k.over = sale.Destroyed()
	if !sale.Live() || sale.Applied() == 0 {
		return nil, errors.New("the sale is not applied")
	}
	return func() {
		k.begins = true
		k.w.hit("served by a reload")
		k.open()
	}, nil
}

func (k *keeper) Compare(context.Context, spec.Sale) error { return nil }

func (k *keeper) Drop(string) { panic("Served reports no sale as destroyed") }

func (k *keeper) Lack(unserved map[string]reload.Lack) { k.lacks = len(unserved) > 0 }

// away is what a process that does not serve the sale answers; heard is false where it says
// nothing that its clients rely on.
func (e *server) away() (outcome api.Outcome, received bool) {
	return api.NoSuchSale, e.keeper != nil && e.keeper.over
}

// begin starts a new process. One that reads a folder serves the sale from when it finds it there.
func (e *server) begin() {
	if e.w.over {
		return
	}
	if e.w.folder == nil {
		e.open()
		return
	}
	e.kept++
	k := &keeper{server: e, name: fmt.Sprintf("%s, kept %d", e.name, e.kept)}
	k.Keeper = reload.New(slog.New(slog.DiscardHandler), func(err error) reload.Lack { return reload.Lack{Why: err.Error()} })
	e.keeper = k
	k.poll()
}
