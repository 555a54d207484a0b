package process_test

import (
	"fmt"
	"testing"
	"time"

	"salectl/api"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/executor/request"
	"salectl/spec"
)

// TestAnswersHaveAmounts checks that each answer with units of a red packet has their amounts, even if the
// process is draining.
func TestAnswersHaveAmounts(t *testing.T) {
	red := spec.RedPacket{Currency: "CNY", Scale: 2, Total: 19, Min: 1, Split: spec.SplitEven} // 9 of 0.02, then 1 of 0.01
	for _, ack := range []spec.Ack{spec.AckLedger, spec.AckRedis} {
		t.Run(string(ack), func(t *testing.T) {
			w := newListedWorldAs(t, ack, func(s *spec.Sale, _ *pb.Settings) { s.RedPacket = &red }, 5, 5)
			p := w.first
			worth := func(c Claim) string {
				if c.Packets == nil {
					return "nothing"
				}
				return fmt.Sprint(c.Packets.Text(c.Units[0]), c.Packets.Currency)
			}
			amounts := make(map[string]int)
			for i, user := range append(w.buyers(0, 5), w.buyers(1, 5)...) {
				sold := p.ask(user, "1").want(t, api.Sold)
				amounts[worth(sold.Claim)]++
				again := p.ask(user, "1").want(t, api.Sold)
				limit := p.ask(user, "2").want(t, api.LimitReached)
				declined := p.p.Refuse(Request{User: user, Key: "1", Quantity: 1}, request.Refusal(api.Draining))
				has, _ := p.has(user)
				if len(limit.Claims) != 1 || ack == spec.AckLedger && (len(has) != 1 || !declined.Accepted()) {
					t.Fatalf("%s has %+v, gets %+v at the limit, and is declined with %+v", user, has, limit, declined)
				}
				answered := append([]Claim{again.Claim, limit.Claims[0]}, has...)
				if declined.Accepted() {
					answered = append(answered, declined.Claim)
				}
				for n, c := range answered {
					if worth(c) != worth(sold.Claim) {
						t.Errorf("buyer %d got a packet of %s; answer %d reports %s", i, worth(sold.Claim), n+2, worth(c))
					}
				}
			}
			if amounts["0.02CNY"] != 9 || amounts["0.01CNY"] != 1 {
				t.Errorf("the amounts %v", amounts)
			}
			if s := p.p.Status(); s.Packets == nil || s.Packets.Currency != "CNY" || s.Packets.Total != "0.19" {
				t.Errorf("the sale's status has packets %+v", s.Packets)
			}
		})
	}
}

// TestNotOpenHasOpeningTime checks that the answer not_open has the opening time, with each kind of ack.
func TestNotOpenHasOpeningTime(t *testing.T) {
	for _, ack := range []spec.Ack{"", spec.AckLedger, spec.AckRedis} {
		t.Run(string(ack), func(t *testing.T) {
			opens := time.Unix(1_800_000_000, 0).Add(time.Hour)
			w := newListedWorldAs(t, ack, func(_ *spec.Sale, settings *pb.Settings) {
				settings.OpensAtUs = opens.UnixMicro()
			}, 5)
			a := w.first.ask("ann", "1").want(t, api.NotOpen)
			if !a.OpensAt.Equal(opens) || a.RetryAfter != opens.Sub(w.now.Wall) {
				t.Errorf("%+v, at %v", a, w.now.Wall)
			}
		})
	}
}
