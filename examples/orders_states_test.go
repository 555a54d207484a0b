package examples

import (
	"context"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"salectl/api"
	"salectl/executor"
	"salectl/internal/services"
)

// Each end that a claim can come to: the table has it as the export has.
func ordersOfEveryState(t *testing.T) {
	const text = `apiVersion: salectl/v1
kind: Sale
metadata: {name: states}
spec:
  stock: 12
  lockCount: 1
  units: {range: ["P1-P12"]}
  payment: {holdFor: 1s, extendBy: 5m, late: resell}
  embedded: {dir: .salectl}
`
	s := openShop(t, "states", text)
	c := s.consumer()
	late := map[string]executor.ClaimID{}
	for _, user := range []string{"expired", "own", "other", "owed"} {
		late[user] = s.buy(user)
	}
	s.eventually("all holds to expire", func() bool { return s.answers("SELECT count(*) FROM orders WHERE {sale} AND state = 'expired'", "4") })
	s.apply(strings.Replace(text, "1s", "1h", 1)) // of later claims

	// One that is paid late gets its unit, and one whose unit others have gets another.
	units := "SELECT units FROM orders WHERE {sale} AND user_id = "
	own, other := s.query(units+"'own'"), s.query(units+"'other'")
	s.settle(late["own"], api.Confirm, "pay-own")
	for i := 0; i == 0 || s.query("SELECT count(*) FROM orders WHERE {sale} AND state = 'held' AND units = '"+other+"'") == "0"; i++ {
		s.written(s.buy(fmt.Sprint("held-", i)))
	}
	s.settle(late["other"], api.Confirm, "pay-other")

	claim := s.buy("sold")
	for _, payment := range []string{"pay-sold", "twice", "thrice"} { // the others are owed back
		s.settle(claim, api.Confirm, payment)
	}
	s.settle(s.buy("extended"), api.Extend, "")
	s.settleAs(s.buy("cancelled"), api.Cancel, api.Settlement{Reason: "dear"})
	claim = s.buy("refunded")
	s.settle(claim, api.Confirm, "pay-refunded")
	s.settleAs(claim, api.Refund, api.Settlement{Who: "ann@ops", Reason: "damaged"})
	claim = s.buy("retired")
	s.settle(claim, api.Confirm, "pay-retired")
	s.settleAs(claim, api.Refund, api.Settlement{Who: "ann@ops", Reason: "lost", Retire: true})
	s.settleAs(claim, api.Return, api.Settlement{Payment: "pay-retired", Who: "ann@books"})

	// None is left for one that is paid late.
	for i := 0; ; i++ {
		a := s.sale.Do(context.Background(), executor.Request{User: fmt.Sprint("last-", i), Key: "first", Quantity: 1})
		if a.Outcome == api.NoneNow {
			break
		}
		if a.Outcome != api.Held {
			t.Fatalf("%+v", a)
		}
	}
	s.settle(late["owed"], api.Confirm, "pay-owed")
	s.same(len(s.exported()))
	for user, want := range map[string]string{
		"expired": "expired||{}|{}", "own": "sold|pay-own|{}|{}", "other": "sold|pay-other|{}|{}", "owed": "expired||{pay-owed}|{}", "sold": "sold|pay-sold|{twice,thrice}|{}",
		"extended": "held||{}|{}", "held-0": "held||{}|{}", "cancelled": "cancelled||{}|{}", "refunded": "refunded|pay-refunded|{pay-refunded}|{}",
		"retired": "refunded|pay-retired|{pay-retired}|{pay-retired}",
	} {
		if got := s.query("SELECT state, payment, refunds_due, returned FROM orders WHERE {sale} AND user_id = '" + user + "'"); got != want {
			t.Errorf("%s is %s, want %s", user, got, want)
		}
	}
	if now := s.query(units + "'own'"); now != own {
		t.Errorf("the unit %s of before was free, and it is %s", own, now)
	}
	if now := s.query(units + "'other'"); now == other {
		t.Errorf("somebody else has the unit %s", now)
	}
	kill(c)
}

// written waits until the table has a claim.
func (s *shop) written(id executor.ClaimID) {
	s.t.Helper()
	s.eventually("the claim "+id.String(), func() bool {
		return s.answers("SELECT count(*) FROM orders WHERE {sale} AND claim = '"+id.String()+"'", "1")
	})
}

// Packets of money: the table has each amount to the last digit, and its currency.
func ordersOfPackets(t *testing.T) {
	redis := startRedis(t)
	for currency, total := range map[string]string{"CNY": "33.00", "JPY": "3300", "KWD": "33.000"} {
		s := openPackets(t, redis, "packets-"+strings.ToLower(currency), currency, total)
		c := s.consumer()
		for i := range 30 {
			s.claim(fmt.Sprint("user-", i), api.Sold)
		}
		s.same(30)
		kill(c)
		if got := s.query("SELECT DISTINCT currency FROM orders WHERE {sale}"); got != currency {
			t.Errorf("the table has the currencies %q, want %s", got, currency)
		}
		sum := new(big.Rat)
		for _, o := range s.table() {
			amount, ok := new(big.Rat).SetString(strings.Trim(strings.TrimSuffix(o.Amounts, currency), "[]"))
			if !ok {
				t.Fatalf("the amounts %q", o.Amounts)
			}
			sum.Add(sum, amount)
		}
		if want, _ := new(big.Rat).SetString(total); sum.Cmp(want) != 0 {
			t.Errorf("all amounts come to %v %s, want %s", sum, currency, total)
		}
		if got := s.query("SELECT sum(a) FROM orders, unnest(amounts) AS a WHERE {sale}"); got != total {
			t.Errorf("PostgreSQL adds the amounts up to %s, want %s", got, total)
		}
	}
}

func startRedis(t *testing.T) *services.Redis {
	t.Helper()
	redis, err := services.StartRedis(t.Context(), services.RedisOptions{})
	services.Require(t, err)
	t.Cleanup(redis.Stop)
	return redis
}

// openPackets is a shop that gives 30 packets of money.
func openPackets(t *testing.T, redis *services.Redis, name, currency, total string) *shop {
	t.Helper()
	return openShop(t, name, fmt.Sprintf(`apiVersion: salectl/v1
kind: Sale
metadata: {name: %s}
spec:
  engine: redis
  stock: 30
  lockCount: 2
  units: {redPacket: {total: "%s", currency: %s, split: random}}
  redis: {nodes: ["%s"]}
  embedded: {dir: .salectl}
`, name, total, currency, redis.Addr()))
}

// A table from before currencies were kept gets their column. It has those of what comes, and once
// what there was is written again, all.
func ordersInAnOlderTable(t *testing.T) {
	s := openPackets(t, startRedis(t), "older-table", "CNY", "33.00")
	s.begun()
	s.claim("before", api.Sold)
	c := s.consumer()
	s.same(1)
	kill(c)
	s.query("ALTER TABLE orders DROP COLUMN currency")
	s.claim("after", api.Sold)
	c = s.consumer()
	s.eventually("the claim of after", func() bool {
		return s.answers("SELECT user_id, currency FROM orders WHERE {sale} ORDER BY user_id", "after|CNY\nbefore|")
	})
	kill(c)
	s.deleteOrders()
	c = s.consumer()
	s.same(2)
	kill(c)
}

// Entries of a draw: those that are awarded get a unit, and the next one where that comes back.
func ordersOfDraw(t *testing.T) {
	t.Setenv("DRAW_KEY", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
	const text = `apiVersion: salectl/v1
kind: Sale
metadata: {name: draw}
spec:
  stock: 2
  lockCount: 2
  closesAt: 2099-01-01T00:00:00Z
  payment: {holdFor: 1h}
  queue: {order: draw}
  draw: {keyEnv: DRAW_KEY}
  units: {range: ["P1-P2"]}
  embedded: {dir: .salectl}
`
	s := openShop(t, "draw", text)
	c := s.consumer()
	ids := make(map[string]executor.ClaimID)
	for i := range 6 {
		id := s.claim(fmt.Sprint("user-", i), api.Entered)
		ids[id.String()] = id
	}
	s.same(6)
	if got := s.query("SELECT DISTINCT state, units, held_until FROM orders WHERE {sale}"); got != "entered||" {
		t.Errorf("entries are %q", got)
	}
	s.apply(strings.Replace(text, "2099", "2020", 1))
	s.salectl("draw", "reveal", "--yes")

	// The first of the two who win pays and is refunded, and the second gives up: two others win.
	won := func(before string) []string { // two, when the table has what became of those before
		s.t.Helper()
		s.eventually("two to win", func() bool {
			return s.answers("SELECT count(*) FILTER (WHERE state = 'held'), string_agg(state, ',' ORDER BY state) FILTER (WHERE state IN ('cancelled', 'refunded')) FROM orders WHERE {sale}", "2|"+before)
		})
		return strings.Fields(s.query("SELECT claim FROM orders WHERE {sale} AND state = 'held' ORDER BY claim"))
	}
	first := won("")
	s.settle(ids[first[0]], api.Confirm, "pay-first")
	s.settle(ids[first[0]], api.Refund, "")
	s.settle(ids[first[1]], api.Cancel, "")
	second := won("cancelled,refunded")
	s.settle(ids[second[0]], api.Confirm, "pay-second")
	s.same(6)
	if got, want := s.query("SELECT state, count(*), count(units), count(payloads), count(held_until) FROM orders WHERE {sale} GROUP BY state ORDER BY state"),
		"cancelled|1|1|1|1\nentered|2|0|0|0\nheld|1|1|1|1\nrefunded|1|1|1|1\nsold|1|1|1|1"; got != want {
		t.Errorf("the table has these states:\n%s\nwant\n%s", got, want)
	}
	kill(c)
}
