package feed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/ledger/payload"
	"salectl/backends/memory"
	"salectl/executor/saletest"
	"salectl/spec"
	"salectl/units"
)

// storeUnits stores what the units 1 and 2 of the first plan are.
func storeUnits(t *testing.T, logs ledger.Logs) {
	t.Helper()
	log := spec.UnitsLog(saletest.UID)
	op, err := payload.Seal(nil, nil, log, ledger.Hash{}, 1, []string{"seat"}, []units.Unit{{Name: "A1"}, {Name: "A2"}})
	if err != nil {
		t.Fatal(err)
	}
	entry, err := payload.NewLog(log).Entry(saletest.Planner, saletest.PlannedUs, op)
	if err == nil {
		err = logs.Append(t.Context(), log, 0, nil, entry.Head, entry.Bytes)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestUnitsOfClaims: claims are told with what their units are, however a read of that lags, until
// the sale is sealed.
func TestUnitsOfClaims(t *testing.T) {
	for name, test := range map[string]struct {
		stored, sealed bool
		fault          memory.Kind // of reads of the log of units
		times          int         // that it comes
		want           string
		err            error
	}{
		"stored":                    {stored: true, want: "[map[seat:A2]]"},
		"a read lags":               {stored: true, fault: memory.Stale, times: 2, want: "[map[seat:A2]]"},
		"a read fails":              {stored: true, fault: memory.ErrorBefore, times: 20, want: "[map[seat:A2]]"},
		"deleted, the sale sealed":  {sealed: true, want: "[]"},
		"it fails, the sale sealed": {stored: true, sealed: true, fault: memory.ErrorBefore, times: 1 << 20, want: "[]"},
		"never stored":              {want: "[]", err: payload.ErrUnreadable},
		"not permitted":             {stored: true, fault: memory.Denied, times: 1 << 20, want: "[]", err: fs.ErrPermission},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewStore()
				logs := soldIn(t, store)
				saletest.Replan(t, logs, testSale, func(p *pb.Planned) { p.Units = []byte{1} })
				for shard := range 2 {
					saletest.Take(t, logs, testSale, shard)
				}
				read := saletest.LoadSale(t, logs, testSale)
				if test.stored {
					storeUnits(t, logs)
				}
				if test.sealed {
					saletest.AppendSale(t, logs, testSale, closes(t, logs))
				}
				r := New(Config{Sale: testSale})
				r.sale.fold = read
				g := NewPayloads(store.Handle(func(k memory.Call) memory.Fault {
					if k.Log != spec.UnitsLog(saletest.UID) || test.times == 0 {
						return memory.Fault{}
					}
					test.times--
					return memory.Fault{Kind: test.fault, N: 1}
				}), r)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				claim := &Claim{Claim: "0-2-0", Units: []int64{2}}
				err := g.Add(ctx, &Batch{Events: []Event{{Data: claim}}}, func(error) {})
				if got := fmt.Sprint(claim.Payloads); got != test.want || !errors.Is(err, test.err) || (err == nil) != (test.err == nil) {
					t.Errorf("told %s, %v; want %s, %v", got, err, test.want, test.err)
				}
			})
		})
	}
}
