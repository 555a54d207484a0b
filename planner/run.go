package planner

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
)

// Apply carries out a plan of Make or MakePhase. It ends when every shard has
// what is planned, and the sale's log says so. An empty plan of Make is carried
// out already; one of MakePhase is made sure of by a note in the sale's log, since
// what the plan was made of may have lagged. Until ctx ends it keeps trying, within
// Config.Patience; what it has begun by then is completed by the same plan again,
// or by the next one.
//
// The result is set, as far as it goes, even beside an error. A removal that
// fell short is ErrPartly with Result.Shortfall: it is as far as this plan goes,
// and takes a new one. Lock nodes without a marker are ErrPartly with
// Result.Unmarked; the sale is sold without their votes. Result.Generation is
// set only where nothing else is left to do.
func Apply(ctx context.Context, cfg Config, plan *Plan) (*Result, error) {
	if plan.Kind == KindDestroy {
		return nil, fmt.Errorf("%w: it is a plan of destroy", ErrBadPlan)
	}
	w, err := newWork(cfg.terms(), plan)
	if err != nil {
		return nil, err
	}
	first := w.first(false)
	if first == nil {
		return &w.result, nil
	}
	s := shell{cfg: cfg, work: w}
	return &w.result, w.outcome(s.run(ctx, first))
}

// Destroy carries out a plan of MakeDestroy. The ledger is exported to a file at
// exportPath, "" being DefaultExport; a file that is there already must be the
// same export. Nothing is deleted before the export was read back from the disk
// and the sale's log has its digest.
//
// An empty plan of a destroyed sale is carried out too, which changes no log: a
// lock node that was away has a marker that it may not know for its own any
// more, so that no plan shows it.
func Destroy(ctx context.Context, cfg Config, plan *Plan, exportPath string) (*Result, error) {
	if plan.Kind != KindDestroy {
		return nil, fmt.Errorf("%w: it is not a plan of destroy", ErrBadPlan)
	}
	if exportPath == "" {
		exportPath = DefaultExport(plan.Sale, plan.UID)
	}
	return destroy(ctx, cfg, plan, exportPath, false)
}

func destroy(ctx context.Context, cfg Config, plan *Plan, exportPath string, rehearsal bool) (*Result, error) {
	w, err := newWork(cfg.terms(), plan)
	if err != nil {
		return nil, err
	}
	first := w.first(rehearsal)
	if first == nil {
		return &w.result, nil
	}
	if live := plan.Phase != ledger.PhaseSealed && plan.Phase != ledger.PhaseDestroyed; live && !rehearsal {
		actual, err := ReadSale(ctx, cfg, plan.Sale)
		if err != nil {
			return nil, err
		}
		// The plan may be older than its own run: once that has sealed the sale
		// nothing is exported any more, and the file there is no concern.
		if ended := actual.Sale.UID() == plan.UID && !actual.Sale.Live(); !ended {
			if err := checkExportPath(exportPath, plan.UID, actual.shardsSealed()); err != nil {
				return nil, err
			}
		}
	}
	if !rehearsal {
		RemovePartials(exportPath) // there may be nothing to export any more
	}
	s := shell{cfg: cfg, work: w, export: exportPath}
	return &w.result, w.outcome(s.run(ctx, first))
}

// RehearsalPrefix is what the names of rehearsals begin with. Purge takes no
// other sale.
const RehearsalPrefix = "rehearsal-"

// Purge removes a rehearsal without a trace: there is no export, and its own log
// is deleted last. A rehearsal that does not exist is no error.
func Purge(ctx context.Context, cfg Config, name string) (*Result, error) {
	if !strings.HasPrefix(name, RehearsalPrefix) {
		return nil, &Refusal{
			Reason: fmt.Sprintf("sale %s is no rehearsal, and is not removed without an export", name), Remedy: "Use 'salectl destroy'.",
		}
	}
	actual, err := ReadSale(ctx, cfg, name)
	if err != nil {
		return nil, err
	}
	if actual.Sale.UID() == "" {
		return &Result{Sale: name}, nil
	}
	plan, err := MakeDestroy(actual)
	if err != nil {
		return nil, err
	}
	return destroy(ctx, cfg, plan, "", true)
}

// callTimeout bounds one call on the ledger's store. Of an append that takes
// longer the outcome is unknown, and asked for. A table takes longer to make.
const (
	callTimeout  = 5 * time.Second
	tableTimeout = time.Minute
)

// onNode says whether a call is one to a lock node, onList whether to a node that
// keeps lists.
func (k callKind) onNode() bool { return k >= callInfo && k <= callForget }
func (k callKind) onList() bool { return k >= callStep && k <= callSettings }

func (k callKind) timeout() time.Duration {
	switch {
	case k.onNode() || k.onList():
		return nodeTimeout
	case k == callCreateTable:
		return tableTimeout
	}
	return callTimeout
}

// shell runs a machine for real.
type shell struct {
	cfg    Config
	work   *work
	export string // path
}

// run drives the machine to its end. When ctx ends the machine is told to stop;
// calls under way are cancelled and waited for.
func (s *shell) run(ctx context.Context, first func()) error {
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	replies := make(chan reply)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	out := s.work.step(s.cfg.Clock(), first)
	for {
		for _, p := range out.progress {
			if s.cfg.Progress != nil {
				s.cfg.Progress(p)
			}
		}
		if out.done {
			return out.err
		}
		for _, k := range out.calls {
			running.Go(func() {
				r := s.do(calls, k)
				select {
				case replies <- r:
				case <-calls.Done():
				}
			})
		}
		var wake <-chan time.Time
		if out.wake > 0 {
			timer.Reset(max(0, out.wake-s.cfg.Clock().Mono))
			wake = timer.C
		}
		select {
		case r := <-replies:
			out = s.work.reply(s.cfg.Clock(), r)
		case <-wake:
			out = s.work.tick(s.cfg.Clock())
		case <-ctx.Done():
			out = s.work.step(s.cfg.Clock(), func() { s.work.stop(ctx.Err()) })
		}
	}
}

// do makes one call.
func (s *shell) do(ctx context.Context, k call) reply {
	if k.kind == callExport {
		return s.doExport(ctx, k)
	}
	ctx, cancel := context.WithTimeout(ctx, k.kind.timeout())
	defer cancel()
	var node quorum.Node
	var list lists.Node
	switch {
	case k.kind.onNode():
		node = s.cfg.Nodes[k.node]
	case k.kind.onList():
		list = s.cfg.Lists[k.node]
	}
	r := perform(ctx, s.cfg.Logs, node, list, k)
	if err := r.failure(); err != nil {
		s.cfg.logger().DebugContext(ctx, "a call failed", "sale", s.work.plan.Sale, "call", k.kind.String(), "error", err)
	}
	return r
}

// perform makes any call but an export.
func perform(ctx context.Context, logs ledger.Logs, node quorum.Node, list lists.Node, k call) reply {
	r := reply{id: k.id}
	switch k.kind {
	case callLog:
		r.log = k.request.Do(ctx, logs)
	case callHeads:
		r.heads, r.err = logs.Heads(ctx, k.logs)
	case callDelete:
		r.err = logs.Delete(ctx, k.log, k.upTo)
	case callCheckTable:
		r.err = logs.(ledger.Table).CheckTable(ctx)
	case callCreateTable:
		r.err = logs.(ledger.Table).CreateTable(ctx)
	case callInfo:
		r.info, r.err = node.Info(ctx)
	case callReadMarker:
		r.marker, r.err = node.ReadMarker(ctx, k.marker)
	case callMark:
		r.err = node.Mark(ctx, k.marker, k.runID)
	case callList:
		r.holdings, r.err = node.List(ctx, k.prefix)
	case callRelease:
		_, r.err = node.Release(ctx, k.asks)
	case callForget:
		r.err = node.Forget(ctx, k.marker)
	case callStep:
		r.step = k.step.Do(ctx, list)
		r.err = r.step.Err
	case callInspect:
		r.state, r.err = list.Inspect(ctx, k.list)
	case callForgetList:
		r.err = list.Forget(ctx, k.list)
	case callSettings:
		r.settings, r.err = list.Settings(ctx)
	}
	return r
}

func (s *shell) doExport(ctx context.Context, k call) reply {
	r := reply{id: k.id, path: s.export}
	r.digest, r.err = exporter{(*os.File).Sync}.write(ctx, s.cfg.Logs, s.export, k.export)
	return r
}
