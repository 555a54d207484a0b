package apply

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/ledger/payload"
	"salectl/backends/lists"
	"salectl/internal/files"
	"salectl/planner"
	"salectl/planner/current"
	"salectl/planner/machine"
	"salectl/units"
)

// Run carries out a plan of Make, MakePhase, MakeCloseDraw or MakeReveal. It returns when every
// shard has the generation of the plan and the sale's log records that. Run retries within
// Config.Patience until ctx ends; the same plan or the next one completes what it has begun.
//
// An empty plan is already carried out and changes nothing, with one exception. An empty plan of
// MakePhase verifies that the sale is still in the phase that it found: it appends Applied to the
// sale's log. If the read behind the plan lagged behind a change of phase, the error is ErrStale.
//
// The result is set, as far as it is known, even beside an error. An incomplete removal is
// ErrPartly with Result.Shortfall and needs a new plan. Lock nodes without a marker are
// ErrPartly with Result.Unmarked; the sale is sold without their votes. Result.Generation is
// set only if nothing else is left to do.
func Run(ctx context.Context, cfg Config, plan *planner.Plan) (*Result, error) {
	if plan.Kind == planner.KindDestroy {
		return nil, fmt.Errorf("%w: it is a plan of destroy", planner.ErrBadPlan)
	}
	m, result, err := NewExecution(cfg.terms(), plan, nil)
	if err != nil {
		return nil, err
	}
	return result, cfg.Run(ctx, plan.Sale, m)
}

// Destroy carries out a plan of MakeDestroy. It exports the ledger to exportPath, or to
// SALE-UID.ndjson if that is ""; an existing file must be the same export. Nothing is deleted
// before the export was read back from disk and the sale's log has its digest.
//
// An empty plan for a destroyed sale is carried out too, and changes no log: a lock node that
// was away may have a marker that it no longer recognizes as its own, and no plan shows that.
func Destroy(ctx context.Context, cfg Config, plan *planner.Plan, exportPath string) (*Result, error) {
	if plan.Kind != planner.KindDestroy {
		return nil, fmt.Errorf("%w: it is not a plan of destroy", planner.ErrBadPlan)
	}
	exportPath = cmp.Or(exportPath, fmt.Sprintf("%s-%s.ndjson", plan.Sale, plan.UID))
	return destroy(ctx, cfg, plan, exportPath, false)
}

func destroy(ctx context.Context, cfg Config, plan *planner.Plan, exportPath string, rehearsal bool) (*Result, error) {
	exporter := fileExporter(exportPath, nil)
	if cfg.Remember != nil {
		exporter = remembering(exporter, cfg.Remember)
	}
	x, err := newExecution(cfg.terms(), plan, exporter, rehearsal)
	if err != nil {
		return nil, err
	}
	if !rehearsal && x.first() != nil {
		if err := checkDestroy(ctx, cfg, plan, exportPath); err != nil {
			return nil, err
		}
		files.RemoveTemps(exportPath) // perhaps nothing is exported any more
	}
	return &x.result, cfg.Run(ctx, plan.Sale, machine.New(x.core, x))
}

// checkDestroy refuses, before anything is closed, an export path that cannot be written, a
// key that does not decrypt the payloads, which the export contains, and a table that cannot
// store what users bought.
func checkDestroy(ctx context.Context, cfg Config, plan *planner.Plan, exportPath string) error {
	if plan.Phase == ledger.PhaseSealed || plan.Phase == ledger.PhaseDestroyed {
		return nil
	}
	actual, err := current.ReadSale(ctx, cfg.Backends, plan.Sale)
	if err != nil {
		return err
	}
	// The plan may be older than its execution: once that has sealed the sale, nothing is
	// exported any more, and an existing file does not matter.
	if ended := actual.Sale.UID() == plan.UID && !actual.Sale.Live(); ended {
		return nil
	}
	if err := payload.CheckKey(ctx, cfg.Logs, actual.Sale, cfg.Key); err != nil {
		return fmt.Errorf("sale %s is not destroyed, because its export would lack payloads: %w", plan.Sale, err)
	}
	if cfg.Remember != nil {
		if err := cfg.Remember(ctx, plan.Sale, plan.UID, nil); err != nil {
			return fmt.Errorf("sale %s is not destroyed, because purchases could not be recorded: %w", plan.Sale, err)
		}
	}
	return checkExportPath(exportPath, plan.UID, actual.ShardsSealed())
}

// Config holds the backends and options of Run and Destroy.
type Config struct {
	machine.Backends
	Options
	// Remember receives from Destroy what users bought, before anything is deleted. Nil: the
	// purchases are not kept.
	Remember Remember
}

// Options are the parameters of an execution that no backend determines.
type Options struct {
	// Writer is 8 random bytes, drawn anew for each run of the program.
	Writer []byte
	// Who is recorded in the sale's log as the planner, as user@host.
	Who string
	// Progress is called once for each address that is done, never concurrently. It may be
	// nil.
	Progress func(Progress)
	// Linger is how long Destroy keeps the sealed logs after their export, so that feeds which
	// are up to date read the end. With 0 it deletes at once.
	Linger time.Duration
	// CancelHolds makes Destroy cancel held claims. Otherwise it waits until each is settled.
	CancelHolds bool
	// Units supplies the payloads of the units that Run adds (PayloadsOf); nil if units are
	// numbers.
	Units *Payloads
	// Key decrypts the payloads of units; nil if units are numbers or public.
	Key *units.Key
	// DrawKey encrypts the secret of a draw that Run begins, and decrypts it for a plan of
	// MakeReveal; nil if neither happens.
	DrawKey *units.Key
}

// Terms are the parameters of the Machine of an execution.
type Terms struct {
	machine.Names
	Options
	Sizes lists.Sizes // of the calls on lists; 0: the defaults
}

func (c Config) terms() Terms { return Terms{Names: c.Names(), Options: c.Options} }

// Progress reports a completed step.
type Progress struct {
	Address string // as in the plan
	Action  string // create, update, delete; before a delete also seal, export
	Done    int    // number of the plan's actions that are done
	Total   int
	Note    string // details, for people
}

// Result is the outcome of Run or Destroy.
type Result struct {
	Sale       string `json:"sale"`
	UID        string `json:"uid"`
	Generation uint64 `json:"generation,omitempty"` // that every shard has taken
	// Changed reports whether this run changed anything: it made a table, appended to a log,
	// repaired a marker, exported, or deleted an existing log. It is false for a plan that was
	// carried out before. What Destroy removes from a node does not count, since the node does
	// not report whether it existed. Beside an error, Changed is a lower bound: a call without
	// an answer may have changed something too.
	Changed bool `json:"changed"`
	// Summary counts the completed actions of the plan.
	Summary planner.Summary `json:"summary"`
	// Shortfall is the number of units that were to be removed but were claimed first.
	Shortfall int64 `json:"shortfall"`
	// Unmarked are the lock nodes whose markers could not be written.
	Unmarked []string `json:"unmarked,omitempty"`
	// Refund is the part of a destroyed red packet that was not taken. It is nil if the sale
	// has no red packet or is not sealed.
	Refund *planner.Refund `json:"refund,omitempty"`
	// Packets is the public state of the red packet that was applied; nil if the sale has
	// none.
	Packets *ledger.PacketsStatus `json:"packets,omitempty"`
	// Export is the path of the file that Destroy wrote or found complete.
	Export string `json:"export,omitempty"`
	// ExportDigest is the SHA-256 of the exported file in hex, as recorded in the sale's log, and
	// Manifest the path of a file with it, in the format of sha256sum -c.
	ExportDigest string `json:"exportSha256,omitempty"`
	Manifest     string `json:"manifest,omitempty"`
	// Warnings are failures that do not affect the result.
	Warnings []string `json:"warnings"`
}
