package apply

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/ledger/export"
	"salectl/draw"
	"salectl/spec"
)

// BenchmarkReveal reveals a draw of a million entries over 64 shards, without a store's
// time, and verifies its export. It wants to run once: -benchtime 1x.
func BenchmarkReveal(b *testing.B) {
	const entries, shards = 1_000_000, 64
	for range b.N {
		b.StopTimer()
		w := newWorld(b)
		w.drawKey = drawKeyOf(b, "k")
		sale := aDraw(10_000, nil)
		sale.LockCount = shards
		if err := w.run(w.mustPlan(sale)); err != nil {
			b.Fatal(err)
		}
		owners := make([]*owner, shards)
		for i := range owners {
			owners[i] = w.owner(i)
		}
		users := make([][]string, shards)
		for i := range entries {
			user := fmt.Sprintf("entrant-%07d", i)
			home := spec.HomeShard(user, shards)
			users[home] = append(users[home], user)
		}
		for i, o := range owners {
			for rest := users[i]; len(rest) > 0; {
				n := min(len(rest), 2000)
				if err := o.append(func(d *ledger.Draft) {
					for _, user := range rest[:n] {
						if v := d.Claim(user, "key", 1); v.Kind != ledger.Granted {
							b.Fatalf("decision %d", v.Kind)
						}
					}
				}); err != nil {
					b.Fatal(err)
				}
				rest = rest[n:]
			}
		}
		owners, users = nil, nil
		w.pass(time.Hour)
		plan := w.mustReveal(nil)
		b.StartTimer()
		if err := w.run(plan); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		log := w.actual().Sale
		states, err := ledger.LoadShards(context.Background(), w.store.Handle(nil), log)
		var to bytes.Buffer
		if err == nil {
			err = export.Sale{Name: "tickets", Log: log, Shards: states, Logs: w.store.Handle(nil)}.Write(context.Background(), &to)
		}
		if err != nil {
			b.Fatal(err)
		}
		states = nil
		began := time.Now()
		if r, err := draw.Verify(&to, draw.Options{}); err != nil || !r.OK || r.Entries != entries {
			b.Fatalf("%v, %+v", err, r)
		}
		b.ReportMetric(time.Since(began).Seconds(), "s/verify")
	}
}
