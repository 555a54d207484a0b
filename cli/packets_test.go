package cli

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"salectl/api"
	"salectl/backends"
	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	"salectl/internal/services"
	"salectl/planner"
	"salectl/planner/apply"
	"salectl/planner/current"
	"salectl/spec"
)

// TestPacketsInClaims shows a buyer of a red packet what is in it.
func TestPacketsInClaims(t *testing.T) {
	const packet = `"claim":"1-u7","units":[7],"amounts":["1.23"],"currency":"CNY"`
	const claims = `"claims":[{"outcome":"sold","claim":"1-u7","sale":"tickets","user":"ann","units":[7],"amounts":["1.23"],"currency":"CNY"`
	sold := sellerAnswer{201, `{"outcome":"sold","sale":"tickets","user":"ann","at":"2026-11-11T12:00:00Z",` + packet + `}`}
	limit := sellerAnswer{409, `{"outcome":"limit_reached","detail":"enough",` + claims + `,"at":"2026-11-11T12:00:00Z"}]}`}
	for _, c := range []struct {
		answer      sellerAnswer
		json, human string
		code        int
	}{
		{sold, packet, "sold: unit 7 of tickets to ann, worth 1.23 CNY, claim 1-u7\n", 0},
		{limit, claims, "  ann has unit 7, worth 1.23 CNY, claim 1-u7\n", 11},
	} {
		got, code := claimFrom(t, &seller{answers: []sellerAnswer{c.answer}})
		if code != c.code || !strings.Contains(got.out.String(), c.json) {
			t.Errorf("exit code %d, %s\nwant %s", code, got.out.String(), c.json)
		}
		got, code = claimFrom(t, &seller{answers: []sellerAnswer{c.answer}}, "--json=false")
		if code != c.code || !strings.Contains(got.out.String(), c.human) {
			t.Errorf("exit code %d, %s\nwant %s", code, got.out.String(), c.human)
		}
	}
}

var someRefund = &planner.Refund{Packets: 1_001, Amount: "12.30", Currency: "CNY", Granted: 2_000, GrantedAmount: "87.70", Total: "100.00"}

// TestRefundView says what destroy gives back, and status of a sale that has
// ended.
func TestRefundView(t *testing.T) {
	plan, result := &planner.Plan{Sale: "luck"}, &apply.Result{Refund: someRefund}
	const line = "  Refund 12.30 of 100.00 CNY: 1,001 of 3,001 packets not taken\n"
	p := newCapture()
	if got := p.destroyedText(plan, result, "luck.yaml:1"); got != "Destroyed luck.\n"+line+"  Remove the declaration in luck.yaml:1, or write the next metadata.run there" {
		t.Errorf("destroy says %q", got)
	}
	p = newCapture()
	p.emit(resultOf(plan, result))
	const json = `"refund":{"packets":1001,"amount":"12.30","currency":"CNY","granted":2000,"grantedAmount":"87.70","total":"100.00"}`
	if got := p.out.String(); !strings.Contains(got, json) {
		t.Errorf("destroy --json says %s", got)
	}
	p = newCapture()
	p.statusText(&saleStatus{Status: &current.Status{Brief: current.Brief{SaleSummary: api.SaleSummary{Sale: "luck", Phase: "destroyed", UID: "ab", Stock: 3001, Sold: 2000}}, Refund: someRefund}}, false)
	if got := p.out.String(); !strings.HasSuffix(got, line) {
		t.Errorf("status says %q", got)
	}
}

// TestListsInStatus shows the lists of the shards, and nothing of them where there
// are none.
func TestListsInStatus(t *testing.T) {
	s := troubled("here:1")
	p := newCapture()
	p.statusText(&saleStatus{Status: s}, false)
	if got := p.out.String(); strings.Contains(got, "to drain") {
		t.Errorf("a sale without lists: %s", got)
	}
	s.Shards[0].List = &current.ListStatus{Node: "a:1", State: "on", Left: 12_345, Entries: 2, Fill: 3, Token: 3}
	s.Shards[1].List = &current.ListStatus{Node: "b:1", State: "unknown", Error: "connection refused"}
	s.Shards[2].List = &current.ListStatus{Node: "c:1", State: "off", Fill: 3, Token: 4}
	p = newCapture()
	p.statusText(&saleStatus{Status: s}, false)
	const want = `
  list  node  state      left  to drain  fill
  0     a:1   on       12,345         2     3
  1     b:1   unknown       -         -     -  connection refused
  2     c:1   off           0         0     3  fill 4 is under way
`
	if got := p.out.String(); !strings.Contains(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestPacketsInAudit says what became of the money.
func TestPacketsInAudit(t *testing.T) {
	a := &audit.Report{OK: true, Sale: "luck", Packets: &audit.Packets{
		Currency: "CNY", Total: "100.00", Granted: "99.50", Left: "0.50", Packets: 1_000, Taken: 990,
	}}
	p := newCapture()
	p.auditText(audited{Report: a}, false)
	if got := p.out.String(); !strings.Contains(got, "\n  100.00 CNY in 1,000 packets: 99.50 granted in 990, 0.50 left\n") {
		t.Errorf("audit says %s", got)
	}
	p = newCapture()
	p.emit(audited{Report: a})
	const json = `"packets":{"currency":"CNY","total":"100.00","granted":"99.50","left":"0.50","packets":1000,"taken":990}`
	if got := p.out.String(); !strings.Contains(got, json) {
		t.Errorf("audit --json says %s", got)
	}
}

// TestPacketSeedIsSecret applies one declaration twice, word for word, on one Redis. The
// seed of the amounts is drawn anew for each, and nothing that is shown has it before
// the sale has ended.
func TestPacketSeedIsSecret(t *testing.T) {
	redis, err := services.StartRedis(t.Context(), services.RedisOptions{Dir: t.TempDir()})
	services.Require(t, err)
	defer redis.Stop()
	text := fmt.Sprintf(`apiVersion: salectl/v1
kind: Sale
metadata: {name: luck}
spec:
  engine: redis
  stock: 20
  lockCount: 2
  units: {redPacket: {total: "20.00", currency: CNY, split: random, min: "0.10"}}
  redis: {nodes: [%q]}
  embedded: {}
`, redis.Addr())
	seeds := make(map[string]bool)
	for range 2 {
		path := filepath.Join(t.TempDir(), "sale.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := newCapture()
		for _, command := range [][]string{{"plan"}, {"apply", "--yes"}, {"plan", "--json"}, {"status", "--json"}, {"audit", "--json"}, {"history", "--all", "--json"}, {"export", "--out", "-"}, {"status"}} {
			if code := c.run(append([]string{"salectl", command[0], "-f", path}, command[1:]...), nil); code != 0 {
				t.Fatalf("%s: exit code %d\n%s", command, code, &c.err)
			}
		}
		sales, _, err := spec.Load([]string{path}, nil)
		if err != nil {
			t.Fatal(err)
		}
		store, err := backends.Open(sales[0], nil)
		if err != nil {
			t.Fatal(err)
		}
		sale := ledger.NewSale(spec.SaleLog("luck"))
		_, err = ledger.Load(t.Context(), store.Logs, spec.SaleLog("luck"), sale)
		if err := errors.Join(err, store.Close()); err != nil {
			t.Fatal(err)
		}
		seed := sale.Newest().GetSeed()
		if len(seed) != 32 {
			t.Fatalf("the seed has %d bytes", len(seed))
		}
		seeds[string(seed)] = true
		commitment := ledger.PacketsStatusOf(sale).Commitment.String()
		said := c.out.String() + c.err.String()
		for _, form := range []string{string(seed), hex.EncodeToString(seed), base64.StdEncoding.EncodeToString(seed)} {
			if strings.Contains(said, form) {
				t.Errorf("the seed is in what the commands said:\n%s", said)
			}
		}
		if told := strings.Count(said, commitment); told != 4 {
			t.Errorf("apply, status, status --json and export tell the commitment %s %d times in all:\n%s", commitment, told, said)
		}
		c = newCapture()
		for _, command := range [][]string{{"close", "--yes"}, {"export", "--out", "-"}} {
			if code := c.run(append([]string{"salectl", command[0], "-f", path}, command[1:]...), nil); code != 0 {
				t.Fatalf("%s: exit code %d\n%s", command, code, &c.err)
			}
		}
		for _, want := range []string{fmt.Sprintf(`"commitment":%q`, commitment), fmt.Sprintf(`"seed":%q`, base64.StdEncoding.EncodeToString(seed))} {
			if !strings.Contains(c.out.String(), want) {
				t.Errorf("the export of the closed sale has no %s:\n%s", want, &c.out)
			}
		}
	}
	if len(seeds) != 2 {
		t.Error("two sales have the same seed")
	}
}
