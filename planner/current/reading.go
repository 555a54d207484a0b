// Package current reads the current state of a sale, for plans and statuses. A Machine reads
// the sale's log, the heads of its shards, the lock nodes and the list nodes, each once; what a
// plan of another kind needs beside is read by ReadUnits, ReadHolds and ReadPackets.
//
// The package guarantees:
//   - Reading changes nothing, and needs no right to write.
//   - A shard, node or table that cannot be read is part of the result, with its error. Only a
//     sale's log that cannot be read is an error of the whole.
//   - A shard counts as missing only after repeated reads, since reads may lag.
//
// The parts of an Actual are of different moments. Its users must expect that, as a Plan does by
// its slot.
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

	blind  bool  // query only the lock nodes, for all their leases
	asking bool  // a check of the table is pending
	ledger bool  // the sale's log and the heads are read
	read   bool  // all else is read or has failed
	err    error // why it failed
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

// Start begins to read.
func (r *reading) Start() {
	nonce, err := newNonce(r.terms.Rand)
	if err != nil {
		r.core.End(err)
		return
	}
	r.actual.At, r.actual.Nonce = r.core.Now.Wall, nonce
	if r.blind {
		r.actual.Sale = ledger.NewSale(spec.SaleLog(r.actual.Name))
		r.core.Steps(r.nodes, r.end)
		return
	}
	r.table()
	r.core.Steps(func(then func()) { r.logs(1, then) }, r.nodes, r.lists, r.end)
	if r.terms.Tries > 0 {
		timeout := cmp.Or(r.terms.Timeout, readTimeout)
		r.core.After(timeout, func() {
			if !r.ledger {
				r.finish(fmt.Errorf("%w: it was not read in %v", planner.ErrStore, timeout))
			}
		})
	}
}

// table checks the table of the logs.
func (r *reading) table() {
	if r.terms.Table == "" {
		return
	}
	r.asking = true
	r.actual.Table = &planner.TableActual{Name: r.terms.Table}
	r.core.CheckTable(func(err error) {
		r.asking, r.actual.Table.Err = false, err
		if r.read {
			r.core.End(r.err)
		}
	})
}

// finish ends the reading, once the check of the table has ended too: if nothing can be read,
// the table may explain why.
func (r *reading) finish(err error) {
	if r.read {
		return
	}
	r.read, r.err = true, err
	if !r.asking {
		r.core.End(err)
	}
}

func (r *reading) end(func()) { r.finish(nil) }

// Stop ends the reading.
func (r *reading) Stop(cause error) { r.core.End(cause) }

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
func (r *reading) logs(try int, then func()) {
	r.stage = "the sale's log"
	name := spec.SaleLog(r.actual.Name)
	sale := ledger.NewSale(name)
	r.actual.Sale = sale
	log := &machine.Log{Core: r.core, Writer: ledger.NewWriter(name, sale), Folder: sale, Tries: r.terms.Tries, Failed: r.finish}
	log.Read(func(e ledger.Event) {
		if e == ledger.Gone {
			r.finish(fmt.Errorf("log %s: %w", name, ledger.ErrGone))
			return
		}
		r.shards(func() {
			if _, damaged := r.actual.Damaged(); !damaged || try == ledger.MissingTries {
				then()
				return
			}
			r.core.After(ledger.MissingPause, func() { r.logs(try+1, then) })
		})
	})
}

// shards reads all heads in one call. If that fails, it reads each in a call, so that one
// unreadable head hides no other.
func (r *reading) shards(then func()) {
	r.stage = "the heads of the shards"
	names := planner.ShardLogs(r.actual.Sale)
	r.actual.Shards = make([]planner.ShardActual, len(names))
	if len(names) == 0 {
		then()
		return
	}
	read := func(logs []string, then func([][]byte, error)) {
		machine.OnStore(r.core, "read heads", machine.CallTimeout, func(ctx context.Context, from ledger.Logs) ([][]byte, error) { return from.Heads(ctx, logs) }, then)
	}
	read(names, func(heads [][]byte, err error) {
		if err == nil {
			for i, head := range heads {
				r.actual.Shards[i] = planner.NewShardActual(head)
			}
			then()
			return
		}
		r.core.All(len(names), func(i int, done func()) {
			read(names[i:i+1], func(heads [][]byte, err error) {
				if err != nil {
					r.actual.Shards[i].Err = err
				} else {
					r.actual.Shards[i] = planner.NewShardActual(heads[0])
				}
				done()
			})
		}, then)
	})
}

// nodes queries all lock nodes at once.
func (r *reading) nodes(then func()) {
	r.stage, r.ledger = "the lock nodes", true
	r.core.All(len(r.terms.Nodes), func(i int, done func()) {
		r.node(i, r.terms.Nodes[i], func(a planner.NodeActual) {
			r.actual.Nodes[i] = a
			done()
		})
	}, then)
}

func (r *reading) node(i int, name string, then func(planner.NodeActual)) {
	a := planner.NodeActual{Name: name}
	failed := func(err error) bool {
		if err != nil {
			then(planner.NodeActual{Name: name, Err: err, Info: quorum.Info{Unfit: a.Info.Unfit}})
		}
		return err != nil
	}
	leases := func(prefix string, then func()) {
		r.core.Leases(i, "read leases", prefix, func(held []quorum.Holding, err error) {
			if a.Leases = held; !failed(err) {
				then()
			}
		})
	}
	sent, uid := r.core.Now, r.actual.Sale.UID()
	answered := func(info quorum.Info, err error) {
		if failed(err) {
			return
		}
		a.Info, a.Off = info, quorum.ClockOff(sent, r.core.Now, info)
		switch {
		case r.blind:
			leases(spec.KeyPrefix, func() { then(a) })
		case uid == "":
			then(a)
		default:
			leases(spec.LeasePrefix(uid), func() {
				r.core.ReadMarker(i, uid, func(marker quorum.Marker, err error) {
					if a.Marker = marker; !failed(err) {
						then(a)
					}
				})
			})
		}
	}
	if uid != "" || r.blind {
		r.core.Info(i, answered)
		return
	}
	marker := spec.SaleMarker(r.actual.Name)
	machine.OnNode(r.core, i, "info", func(ctx context.Context, node quorum.Node) (planner.NodeActual, error) {
		info, err := node.Info(ctx)
		if err != nil {
			return planner.NodeActual{}, err
		}
		known, err := node.ReadMarker(ctx, marker)
		if info.Unfit != "" {
			err = nil // Unfit is why
		}
		return planner.NodeActual{Info: info, Knows: known.Good}, err
	}, func(got planner.NodeActual, err error) {
		a.Knows = got.Knows
		answered(got.Info, err)
	})
}

func newNonce(rand io.Reader) (string, error) {
	nonce := make([]byte, 8)
	if _, err := io.ReadFull(rand, nonce); err != nil {
		return "", fmt.Errorf("drawing a uid: %w", err)
	}
	return hex.EncodeToString(nonce), nil
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

// lists queries all list nodes at once, the lists of each in sequence.
func (r *reading) lists(then func()) {
	r.stage = "the lists"
	a := r.actual
	a.ListNodes = make([]planner.ListNodeActual, len(r.terms.Lists))
	a.Lists = make([]planner.ListActual, planner.CountLists(a.Sale, len(r.terms.Lists)))
	r.core.All(len(r.terms.Lists), func(i int, done func()) {
		at := &a.ListNodes[i]
		at.Name = r.terms.Lists[i]
		machine.OnList(r.core, i, "read settings", func(ctx context.Context, node lists.Node) (lists.Settings, error) { return node.Settings(ctx) }, func(settings lists.Settings, err error) {
			at.Settings, at.Err = settings, err
			r.list(i, 0, nil, done)
		})
	}, then)
}

// list inspects a node's lists from a shard on. After a node fails to answer, its other lists
// get the same error.
func (r *reading) list(node, shard int, away error, done func()) {
	for ; shard < len(r.actual.Lists); shard++ {
		if spec.ListNode(shard, len(r.terms.Lists)) != node {
			continue
		}
		l := &r.actual.Lists[shard]
		l.Node, l.Err = r.terms.Lists[node], away
		if away == nil {
			r.core.Inspect(node, lists.List{UID: r.actual.Sale.UID(), Shard: shard}, func(state lists.State, err error) {
				l.State, l.Err = state, err
				r.list(node, shard+1, err, done)
			})
			return
		}
	}
	done()
}
