package executor

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/backends/ledger/payload"
	"salectl/executor/saletest"
	"salectl/spec"
	"salectl/units"
)

// tellCodes has a sale tell its buyers sealed codes of 16 bytes, one for each unit.
func tellCodes(b *testing.B, e *Executor, n int) {
	b.Helper()
	const inSlot = 2000
	key, err := units.NewKey(make([]byte, 32))
	if err != nil {
		b.Fatal(err)
	}
	log := spec.UnitsLog(saletest.UID)
	fold, plan := payload.NewLog(log), ledger.Hash{1}
	var head []byte
	for from := 0; from < n; from += inSlot {
		var some []units.Unit
		for i := from; i < min(from+inSlot, n); i++ {
			some = append(some, units.Unit{Name: fmt.Sprintf("CODE-%011d", i)})
		}
		op, err := payload.Seal(key, rand.Reader, log, plan, int64(from)+1, []string{"code"}, some)
		if err != nil {
			b.Fatal(err)
		}
		entry, err := fold.Entry([]byte("12345678"), 1, op)
		if err == nil {
			err = e.cfg.Logs.Append(b.Context(), log, fold.Next(), head, entry.Head, entry.Bytes)
		}
		if err == nil {
			err = fold.Apply(entry.Commit, entry.Hash)
		}
		if err != nil {
			b.Fatal(err)
		}
		head = entry.Head
	}
	reader := payload.NewReader(e.cfg.Logs, saletest.UID, key)
	reader.Follow([]ledger.Added{{Plan: plan, Units: ledger.Range{First: 1, Count: int64(n)}}})
	e.payloads.reader.Store(reader)
}

// BenchmarkCodes is what one process sells where each buyer is told a sealed code: beside
// plain claims in the same run, of which it is a ratio.
func BenchmarkCodes(b *testing.B) {
	for _, callers := range []int{200, 2000} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			room := b.N + 5*callers
			plain, coded := paidSale(b, int64(room), 0), paidSale(b, int64(room), 0)
			tellCodes(b, coded, room)
			n, alone, told := inTurn(b, callers, plain, coded, api.Sold)
			a := coded.Do(context.Background(), Request{User: fmt.Sprintf("user-%011d", 1), Key: fmt.Sprintf("key-%012d", 1), Quantity: 1})
			if len(a.Claim.Payloads) != 1 {
				b.Errorf("buyers are not told their codes: %+v", a)
			}
			b.ReportMetric(n/told.Seconds(), "told/s")
			b.ReportMetric(n/alone.Seconds(), "claims/s")
			b.ReportMetric(alone.Seconds()/told.Seconds(), "ratio")
		})
	}
}
