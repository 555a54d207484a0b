// Package current reads the current state of a sale, for plans and statuses. A Machine reads
// the sale's log, the heads of its shards, the lock nodes and the list nodes, each once.
// ReadUnits and ReadLedger read what some kinds of plans need in addition.
//
// The package guarantees:
//   - Reading changes nothing, and needs no right to write.
//   - A shard, node or table that cannot be read is part of the result, with its error. Only a
//     sale's log that cannot be read is an error of the whole.
//   - A shard counts as missing only after repeated reads, since reads may lag.
//
// The parts of an Actual were read at different moments. Its users must allow for that, as a Plan
// does by its slot.
package current

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/planner"
	"salectl/planner/machine"
	"salectl/spec"
)

// reading is the machine of Read and NewReading.
type reading struct {
	core   *machine.Core
	stage  string // for people
	terms  ReadTerms
	actual *planner.Actual

	blind bool // query only the lock nodes, for all their leases
}

// ReadTerms are the parameters of the Machine of a reading.
type ReadTerms struct {
	machine.Names
	// Tries is the number of consecutive reads of a sale's own log without progress after
	// which it counts as unreadable; 0: as many as fit into Patience.
	Tries int
	// Timeout is Backends.ReadTimeout, used if Tries is not 0.
	Timeout time.Duration
}

// readTimeout is the default of Backends.ReadTimeout.
const readTimeout = 30 * time.Second

// NewReading returns a Machine that reads a sale: its log, the heads of its shards, then all
// lock nodes at once, then the list nodes. It checks the table of the logs meanwhile. The
// Actual is complete when the Machine is done without an error.
func NewReading(t ReadTerms, sale string) (*machine.Machine, *planner.Actual) {
	r := newReading(t, sale)
	return machine.New(r.core, r), r.actual
}

func newReading(t ReadTerms, name string) *reading {
	return &reading{
		core: machine.NewCore(t.Patience), stage: "not begun", terms: t,
		actual: &planner.Actual{Name: name, Nodes: make([]planner.NodeActual, len(t.Nodes))},
	}
}

// String describes the progress for people: "read: the sale's log".
func (r *reading) String() string { return "read: " + r.stage }

// Run reads the sale. If nothing can be read, the table may explain why.
func (r *reading) Run() {
	nonce := make([]byte, 8)
	if _, err := io.ReadFull(r.terms.Rand, nonce); err != nil {
		r.core.Fail(fmt.Errorf("drawing a uid: %w", err))
	}
	r.actual.At, r.actual.Nonce = r.core.Now.Wall, hex.EncodeToString(nonce)
	if r.blind {
		r.actual.Sale = ledger.NewSale(spec.SaleLog(r.actual.Name))
		r.nodes()
		return
	}
	timeout := time.Duration(0)
	if r.terms.Tries > 0 {
		timeout = cmp.Or(r.terms.Timeout, readTimeout)
	}
	var err error
	r.core.Each(2, func(part int) {
		if part == 0 {
			r.table()
			return
		}
		err = r.core.Within(timeout, &planner.StoreError{Err: fmt.Errorf("it was not read in %v", timeout)}, r.logs)
		if err == nil {
			r.nodes()
			r.lists()
		}
	})
	r.core.Check(err)
}

// table checks the table of the logs.
func (r *reading) table() {
	if r.terms.Table != "" {
		r.actual.Table = &planner.TableActual{Name: r.terms.Table}
		r.actual.Table.Err = r.core.CheckTable()
	}
}

// Stop ends the reading.
func (r *reading) Stop(cause error) { r.core.Fail(cause) }

// Outcome explains the error.
func (r *reading) Outcome(err error) error {
	switch table := r.actual.Table; {
	case err == nil:
		return nil
	case table.Unfit():
		err = planner.UnfitTable(table.Name, table.Err)
	}
	return fmt.Errorf("sale %s: %w", r.actual.Name, err)
}

// logs reads the sale's log and the heads of its shards.
func (r *reading) logs() {
	name := spec.SaleLog(r.actual.Name)
	for try := 1; ; try++ {
		r.stage = "the sale's log"
		sale := ledger.NewSale(name)
		r.actual.Sale = sale
		log := &machine.Log{Core: r.core, Writer: ledger.NewWriter(name, sale), Folder: sale, Tries: r.terms.Tries}
		if log.Read() == ledger.Gone {
			r.core.Fail(fmt.Errorf("log %s: %w", name, ledger.ErrGone))
		}
		r.shards()
		if _, damaged := r.actual.Damaged(); !damaged || try == ledger.MissingTries {
			return
		}
		r.core.Sleep(ledger.MissingPause)
	}
}

// shards reads all heads in one call. If that fails, it reads each in a call, so that one
// unreadable head hides no other.
func (r *reading) shards() {
	r.stage = "the heads of the shards"
	names := r.actual.Sale.ShardLogs()
	r.actual.Shards = make([]planner.ShardActual, len(names))
	if len(names) == 0 {
		return
	}
	read := func(logs []string) ([][]byte, error) {
		return machine.OnStore(r.core, "read heads", machine.CallTimeout, func(ctx context.Context, from ledger.Logs) ([][]byte, error) { return from.Heads(ctx, logs) })
	}
	if heads, err := read(names); err == nil {
		for i, head := range heads {
			r.actual.Shards[i] = planner.NewShardActual(head)
		}
		return
	}
	r.core.Each(len(names), func(i int) {
		if heads, err := read(names[i : i+1]); err != nil {
			r.actual.Shards[i].Err = err
		} else {
			r.actual.Shards[i] = planner.NewShardActual(heads[0])
		}
	})
}

// nodes queries all lock nodes at once.
func (r *reading) nodes() {
	r.stage = "the lock nodes"
	r.core.Each(len(r.terms.Nodes), func(i int) {
		a := planner.NodeActual{NodeInfo: quorum.NodeInfo{Name: r.terms.Nodes[i]}}
		if err := r.node(i, &a); err != nil {
			a = planner.NodeActual{NodeInfo: quorum.NodeInfo{Name: a.Name, Err: err, Info: quorum.Info{Unfit: a.Info.Unfit}}}
		}
		r.actual.Nodes[i] = a
	})
}

func (r *reading) node(i int, a *planner.NodeActual) (err error) {
	sent, uid := r.core.Now, r.actual.Sale.UID()
	if uid != "" || r.blind {
		a.Info, err = r.core.Info(i)
	} else {
		err = r.known(i, a)
	}
	if err != nil {
		return err
	}
	a.Off = quorum.ClockOff(sent, r.core.Now, a.Info)
	switch {
	case r.blind:
		a.Leases, err = r.core.Leases(i, "read leases", spec.KeyPrefix)
	case uid != "":
		if a.Leases, err = r.core.Leases(i, "read leases", spec.LeasePrefix(uid)); err == nil {
			a.Marker, err = r.core.ReadMarker(i, uid)
		}
	}
	return err
}

// known queries whether a node has a marker of the sale, which the ledger lacks.
func (r *reading) known(i int, a *planner.NodeActual) error {
	marker := spec.SaleMarker(r.actual.Name)
	got, err := machine.OnNode(r.core, i, "info", func(ctx context.Context, node quorum.Node) (planner.NodeActual, error) {
		info, err := node.Info(ctx)
		if err != nil {
			return planner.NodeActual{}, err
		}
		known, err := node.ReadMarker(ctx, marker)
		if info.Unfit != "" {
			err = nil // Unfit is why
		}
		return planner.NodeActual{NodeInfo: quorum.NodeInfo{Info: info}, HasMarker: known.Good}, err
	})
	if a.HasMarker = got.HasMarker; err == nil {
		a.Info = got.Info
	}
	return err
}

// Read reads all of a sale that Make needs. If the sale's own log cannot be read, the
// error is ErrStore. A shard, node or table that cannot be read is no error; its Err is set.
func Read(ctx context.Context, from machine.Backends, name string) (*planner.Actual, error) {
	return read(ctx, from, from.Names(), name)
}

// ReadSale is Read without the check of the table, for callers that make no table and
// cannot wait for its servers.
func ReadSale(ctx context.Context, from machine.Backends, name string) (*planner.Actual, error) {
	names := from.Names()
	table := names.Table
	names.Table = ""
	a, err := read(ctx, from, names, name)
	if a != nil && table != "" {
		a.Table = &planner.TableActual{Name: table}
	}
	return a, err
}

func read(ctx context.Context, from machine.Backends, names machine.Names, name string) (*planner.Actual, error) {
	m, actual := NewReading(ReadTerms{names, ledger.ReadTries, from.ReadTimeout}, name)
	if err := from.Run(ctx, name, m); err != nil {
		return nil, err
	}
	return actual, nil
}

// lists queries all list nodes at once, the lists of each in sequence. After a node fails to
// answer, its other lists get the same error.
func (r *reading) lists() {
	r.stage = "the lists"
	a := r.actual
	a.ListNodes = make([]planner.ListNodeActual, len(r.terms.Lists))
	a.Lists = make([]planner.ListActual, planner.CountLists(a.Sale, len(r.terms.Lists)))
	r.core.Each(len(r.terms.Lists), func(i int) {
		at := &a.ListNodes[i]
		at.Name = r.terms.Lists[i]
		at.Settings, at.Err = machine.OnList(r.core, i, "read settings", func(ctx context.Context, node lists.Node) (lists.Settings, error) {
			return node.Settings(ctx)
		})
		var away error
		for shard := range a.Lists {
			if spec.ListNode(shard, len(r.terms.Lists)) != i {
				continue
			}
			l := &a.Lists[shard]
			if l.Node = at.Name; away == nil {
				l.State, away = r.core.Inspect(i, lists.List{UID: a.Sale.UID(), Shard: shard})
			}
			l.Err = away
		}
	})
}
