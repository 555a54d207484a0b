package current

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/planner"
	"salectl/spec"
)

// SaleHistory lists all decisions on a sale. They are in its own log, which destroy keeps.
type SaleHistory struct {
	Sale string `json:"sale"`
	Runs []Run  `json:"runs"` // by number
}

// Run is one run of a sale. Times are RFC 3339 in UTC, by the clock of the process that
// appended; "" if the event has not happened.
type Run struct {
	Run         int64              `json:"run"`
	UID         string             `json:"uid"`
	Generations []GenerationRecord `json:"generations"` // from 1

	EntriesClosedAt string `json:"entriesClosedAt,omitempty"` // of a draw
	DrawnAt         string `json:"drawnAt,omitempty"`

	SealedAt     string `json:"sealedAt,omitempty"` // time of the export
	Claims       int64  `json:"claims,omitempty"`   // at the end, like UnitsSold and ExportDigest
	UnitsSold    int64  `json:"unitsSold,omitempty"`
	ExportDigest string `json:"exportDigest,omitempty"` // SHA-256 of the export, in hex
	DestroyedAt  string `json:"destroyedAt,omitempty"`
}

// GenerationRecord is one declaration of a sale, or one change of its phase.
type GenerationRecord struct {
	Generation uint64          `json:"generation"`
	Slot       uint64          `json:"slot"` // in the sale's log
	At         string          `json:"at"`   // time of the plan
	AppliedAt  string          `json:"appliedAt,omitempty"`
	Who        string          `json:"who"`        // user@host, as reported by that host
	PlanDigest string          `json:"planDigest"` // SHA-256 of the plan in hex, as shown by plan and apply
	Changes    []planner.Field `json:"changes"`    // since the previous generation; all attributes for the first
}

// ReadHistory reads a sale's own log to its end. For a sale that never existed the error is
// ledger.ErrGone.
func ReadHistory(ctx context.Context, logs ledger.Logs, name string) (*SaleHistory, error) {
	log := spec.SaleLog(name)
	f := &historian{Sale: ledger.NewSale(log), history: SaleHistory{Sale: name}}
	if _, err := ledger.Load(ctx, logs, log, f); err != nil {
		return nil, fmt.Errorf("sale %s: %w", name, &planner.StoreError{Err: err})
	}
	if f.UID() == "" {
		return nil, ledger.NoSale{Sale: name}
	}
	return &f.history, nil
}

// historian is a ledger.Sale that also records earlier runs.
type historian struct {
	*ledger.Sale
	history SaleHistory
	before  *planner.Attributes // attributes of the newest generation
}

// Fold applies the entry of the next slot.
func (h *historian) Fold(entry []byte) error {
	slot := h.Next()
	if err := h.Sale.Fold(entry); err != nil {
		return err
	}
	commit := new(pb.Commit)
	if err := proto.Unmarshal(entry, commit); err != nil {
		return err // it was decoded before
	}
	at := time.UnixMicro(commit.GetTimeUs()).UTC().Format(time.RFC3339)
	for _, op := range commit.GetOps() {
		if err := h.note(op, slot, at); err != nil {
			return err
		}
	}
	return nil
}

func (h *historian) note(op *pb.Op, slot uint64, at string) error {
	if p := op.GetPlanned(); p != nil {
		return h.planned(p, slot, at)
	}
	run := &h.history.Runs[len(h.history.Runs)-1] // no log begins otherwise
	switch op := op.GetOp().(type) {
	case *pb.Op_Applied:
		for i := range run.Generations[:op.Applied.GetGeneration()] {
			if g := &run.Generations[i]; g.AppliedAt == "" {
				g.AppliedAt = at
			}
		}
	case *pb.Op_EntriesClosed:
		run.EntriesClosedAt = at
	case *pb.Op_Drawn:
		run.DrawnAt = at
	case *pb.Op_Sealed:
		run.SealedAt, run.Claims, run.UnitsSold = at, op.Sealed.GetClaims(), op.Sealed.GetUnitsSold()
		run.ExportDigest = hex.EncodeToString(op.Sealed.GetExportDigest())
	case *pb.Op_Destroyed:
		run.DestroyedAt = at
	}
	return nil
}

func (h *historian) planned(p *pb.Planned, slot uint64, at string) error {
	if p.GetGeneration() == 1 {
		h.history.Runs = append(h.history.Runs, Run{Run: p.GetRun(), UID: p.GetUid()})
		h.before = nil
	}
	after, err := planner.DeclaredAttributes(p)
	if err != nil {
		return fmt.Errorf("generation %d of run %d: %w", p.GetGeneration(), p.GetRun(), err)
	}
	g := GenerationRecord{
		Generation: p.GetGeneration(), Slot: slot, At: at, Who: p.GetWho(), PlanDigest: hex.EncodeToString(p.GetPlanDigest()),
		Changes: append([]planner.Field{}, planner.Action{Before: h.before, After: after}.Fields()...),
	}
	h.before = after
	run := &h.history.Runs[len(h.history.Runs)-1]
	run.Generations = append(run.Generations, g)
	return nil
}
