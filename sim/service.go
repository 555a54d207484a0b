package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"salectl/api"
	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/executor"
	"salectl/sim/check"
	"salectl/sim/stepped"
	"salectl/spec"
)

// forService is the purpose of the streams of a payment service.
const forService purpose = 64

// unserved is a stream under which no sale of TestWorldsThatFailed has a payment service: those
// worlds are as they were when they failed.
const unserved = 266

// service is a shop's payment service: it takes payments for claims, answers the checks of
// processes, and sends webhooks.
type service struct {
	w *world
	random
	checked, hooked bool // the sale declares a check, a webhook
	bills           map[string]*bill
	payments        []*payment
	events          int // webhooks
	known           bookkeeping
}

// bill is what the service knows of one claim.
type bill struct {
	run    int64
	claim  executor.Claim
	paid   []*payment // in order; the first is the one that answers name
	failed bool       // it reports that the claim will not be paid
}

// payment is one that was made.
type payment struct {
	*bill
	reference string
	index     int // in the history
	made      time.Duration
	found     bool // checks find it, unless another buys the claim before
	recorded  bool // the ledger has it
}

// drawService has some sales whose claims are paid declare a payment service. All else stays as
// it was drawn.
func (s *scenario) drawService(r random) {
	if s.payment == nil || !r.chance(0.6) {
		return
	}
	checked := r.chance(0.85)
	if checked {
		s.payment.Check = &spec.PaymentCheck{
			URL: "https://pay.example/{run}/{claim}?user={user}", Interval: spec.Duration(r.spread(200*time.Millisecond, 5*time.Second).Truncate(time.Millisecond)),
			Timeout: spec.Duration(pick(r, 300*time.Millisecond, time.Second, 3*time.Second)),
			Success: `response.status == 200 && response.body.state == "paid" && response.body.claim == claim.id && response.body.units == claim.quantity`,
			Failure: `response.status == 200 && response.body.state == "failed"`,
			Payment: "response.body.id", TokenEnv: "PAY_TOKEN",
		}
	}
	if !checked || r.chance(0.7) {
		s.payment.Webhook = &spec.PaymentWebhook{
			SecretsEnv: "PAY_SECRETS",
			Success:    `event.type == "payment.paid" && event.data.run == sale.run`,
			Failure:    `event.type == "payment.failed" && event.data.run == sale.run`,
			Claim:      "event.data.claim", Payment: "event.data.id",
		}
	}
}

// newService returns the payment service of a world; nil: its sale declares none.
func (w *world) newService() *service {
	p := w.scenario.payment
	if p == nil || p.Check == nil && p.Webhook == nil {
		return nil
	}
	w.history.Service = &check.Service{Checked: p.Check != nil, Bound: time.Duration(p.HoldFor+p.ExtendBy+p.Grace) + settlesWithin}
	return &service{
		w: w, random: w.Options.random(forService, 1), checked: p.Check != nil, hooked: p.Webhook != nil, bills: make(map[string]*bill),
		known: bookkeeping{runs: make(map[string]int64), claims: make(map[string]int64), ended: make(map[string]bool), sealed: make(map[int64]bool)},
	}
}

// settlesWithin is how long, when the faults have stopped, the ledger may take to have a
// payment, from the release of its claim or the payment on: a check that has failed often is
// repeated after a minute, and once more after each process that takes over.
const settlesWithin = 100 * time.Second

// environment has the secrets of the service.
func environment(name string) (string, bool) {
	switch name {
	case "PAY_TOKEN":
		return payToken, true
	case "PAY_SECRETS":
		return "whsec_" + strings.Repeat("b2xk", 8) + " whsec_" + strings.Repeat("bmV3", 8), true
	}
	return "", false
}

const payToken = "t0ken"

// payKeys are the keys of PAY_SECRETS.
var payKeys = [][]byte{[]byte(strings.Repeat("old", 8)), []byte(strings.Repeat("new", 8))}

func billName(run int64, claim string) string { return fmt.Sprint(run, "/", claim) }

// open returns the bill of a claim that was held for a client; nil: the ledger has no such claim.
func (s *service) open(claim executor.Claim) *bill {
	run, ok := s.known.claims[claimName(claim.ID.String(), claim.User)]
	if !ok {
		return nil
	}
	name := billName(run, claim.ID.String())
	if s.bills[name] == nil {
		s.bills[name] = &bill{run: run, claim: claim}
	}
	return s.bills[name]
}

// pay takes a payment.
func (s *service) pay(b *bill, reference string) {
	p := &payment{bill: b, reference: reference, made: s.w.now, found: s.checked && len(b.paid) == 0 && !b.failed && !s.known.ended[billName(b.run, b.claim.ID.String())]}
	p.index = s.w.history.Paid(s.w.now, b.run, b.claim.ID.String(), reference, len(b.paid) == 0)
	b.paid, s.payments = append(b.paid, p), append(s.payments, p)
	s.w.hit("paid at the service")
	s.w.note("payments", "takes", billName(b.run, b.claim.ID.String())+" "+reference, nil)
	s.send(payEvent{kind: "paid", bill: b, payment: p})
}

// fail decides that a claim will not be paid.
func (s *service) fail(b *bill) {
	if len(b.paid) > 0 {
		return
	}
	b.failed = true
	s.w.hit("payment failed at the service")
	s.send(payEvent{kind: "failed", bill: b})
}

// waits reports whether the ledger may still get a payment that it lacks.
func (s *service) waits() bool {
	if s == nil || !s.w.calm {
		return false
	}
	h := s.w.history.Service
	return slices.ContainsFunc(s.payments, func(p *payment) bool {
		return !p.recorded && (p.found || h.Payments[p.index].Sent) && !s.known.sealed[p.run] && s.w.now <= max(p.made, s.w.Until+lastWrong)+h.Bound
	})
}

// wrongs are the responses that no payment can be read from, however they begin. A sale may not
// be confirmed by any of them, paid or not.
var wrongs = map[string]payReply{
	"response 500":             {result: "server_error", status: 500, body: `{"state":"paid","claim":"CLAIM","units":UNITS,"id":"REF"}`},
	"response 429":             {result: "server_error", status: 429, body: `{"state":"failed"}`},
	"response cut off":         {result: "unreadable", status: 200, body: `{"state":"paid","claim":"CLAIM","units":UNITS,"id":"RE`},
	"response of no JSON":      {result: "unreadable", status: 200, body: `<html>paid</html>`},
	"response a list":          {result: "unreadable", status: 200, body: `["paid"]`},
	"response too large":       {result: "too_large", status: 200, body: `{"state":"paid","claim":"CLAIM","units":UNITS,"id":"REF"}` + strings.Repeat(" ", 64<<10)},
	"another claim":            {result: "pending", status: 200, body: `{"state":"paid","claim":"7-77-7","units":UNITS,"id":"REF"}`, pending: true},
	"another amount":           {result: "pending", status: 200, body: `{"state":"paid","claim":"CLAIM","units":99,"id":"REF"}`, pending: true},
	"no reference":             {result: "unreadable", status: 200, body: `{"state":"paid","claim":"CLAIM","units":UNITS}`},
	"an empty reference":       {result: "unreadable", status: 200, body: `{"state":"paid","claim":"CLAIM","units":UNITS,"id":""}`},
	"a reference of 300 bytes": {result: "unreadable", status: 200, body: `{"state":"paid","claim":"CLAIM","units":UNITS,"id":"` + strings.Repeat("r", 300) + `"}`},
	"paid, with status 404":    {result: "pending", status: 404, body: `{"state":"paid","claim":"CLAIM","units":UNITS,"id":"REF"}`, pending: true},
	"no response":              {result: "unreadable", status: 200, body: `{}`, slow: longest},
	"response too late":        {slow: 3100 * time.Millisecond},
}

// wrongNames are their names, in a fixed order.
var wrongNames = func() (names []string) {
	for name := range wrongs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}()

// payReply is a response, or an error in place of it.
type payReply struct {
	result string // as which metrics count it
	status int
	body   string
	slow   time.Duration
	err    error

	pending bool // whoever reads it has to take it that the claim is not paid yet
}

func (r *payReply) response() *http.Response {
	return &http.Response{StatusCode: r.status, Status: fmt.Sprint(r.status, " ", http.StatusText(r.status)), Body: body{strings.NewReader(r.body)}}
}

type body struct{ *strings.Reader }

func (body) Close() error { return nil }

// How long, when the faults of a world have stopped, its payment service goes on to fail, and
// its clients to pay in odd ways.
const (
	lastWrong = 15 * time.Second
	lastOdd   = 40 * time.Second
)

// schedule has processes die while payments are made that come into the ledger without faults
// of any other kind.
func (s *service) schedule() {
	if s == nil {
		return
	}
	for range s.IntN(4) {
		s.w.at(s.w.Until+s.between(0, lastWrong), func() {
			if s.fault("executor killed amid payments") {
				s.w.server(s.random).kill(s.w.comeback(s.random))
			}
		})
	}
}

// fault is world's for what the service does.
func (s *service) fault(what string) bool {
	w := s.w
	if w.now > w.Until+lastWrong || w.befallen >= w.Faults {
		return false
	}
	w.befallen++
	w.hits["fault: "+what]++
	w.note("payments", "fault", what, nil)
	return true
}

// answer answers a check.
func (s *service) answer(r *http.Request) *payReply {
	parts := strings.Split(r.URL.Path, "/")
	if len(parts) != 3 || r.Header.Get("Authorization") != "Bearer "+payToken || r.Header.Get("Idempotency-Key") != parts[2] {
		return &payReply{result: "unreadable", status: 400, body: `{}`}
	}
	b := s.bills[parts[1]+"/"+parts[2]]
	reply := s.answerOf(b, r.URL.Query().Get("user"))
	if b != nil && s.chance(0.12) {
		name := wrongNames[s.IntN(len(wrongNames))]
		if s.fault(name) {
			wrong := wrongs[name]
			if wrong.body == "" { // a process that was paused, or whose clock is slow, may take it in
				late := *reply
				late.slow = wrong.slow
				wrong = late
			}
			reference := "never-paid"
			if len(b.paid) > 0 {
				reference = b.paid[0].reference
				if wrong.pending { // it may have been the last query
					b.paid[0].found, s.w.history.Service.Payments[b.paid[0].index].Misread = false, true
				}
			}
			wrong.body = strings.NewReplacer("CLAIM", parts[2], "UNITS", fmt.Sprint(len(b.claim.Units)), "REF", reference).Replace(wrong.body)
			reply = &wrong
		}
	}
	if s.chance(0.03) && s.fault("connection lost") {
		reply = &payReply{result: "unreachable", err: errors.New("read: connection reset by peer")}
	}
	s.w.note("payments", "answers", parts[2], []byte(reply.body))
	return reply
}

func (s *service) answerOf(b *bill, user string) *payReply {
	switch {
	case b == nil || b.claim.User != user:
		return &payReply{result: "pending", status: 404, body: `{"error":"no such payment"}`}
	case len(b.paid) > 0:
		s.w.history.Called(s.w.now, b.run, b.claim.ID.String(), b.paid[0].reference)
		return &payReply{result: "success", status: 200, body: fmt.Sprintf(`{"state":"paid","claim":%q,"units":%d,"id":%q}`, b.claim.ID, len(b.claim.Units), b.paid[0].reference)}
	case b.failed:
		s.w.history.Called(s.w.now, b.run, b.claim.ID.String(), "")
		return &payReply{result: "failure", status: 200, body: `{"state":"failed"}`}
	}
	return &payReply{result: "pending", status: 200, body: `{"state":"pending"}`}
}

// bookkeeping is what the ledger has, as it is stored.
type bookkeeping struct {
	runs   map[string]int64 // by uid
	claims map[string]int64 // by id and user: the newest run that has one
	ended  map[string]bool  // by name of their bills: claims that were confirmed, cancelled, or have expired
	sealed map[int64]bool
	last   int64 // the newest run
}

func claimName(id, user string) string { return id + " " + user }

// stored takes in a slot that became durable.
func (s *service) stored(log string, slot uint64, bytes []byte) {
	if s == nil {
		return
	}
	c, k := new(pb.Commit), &s.known
	if proto.Unmarshal(bytes, c) != nil {
		return
	}
	var shard int
	parts := strings.Split(log, "/") // of a shard: a salt, the uid, the number
	if len(parts) == 3 {
		fmt.Sscan(parts[2], &shard)
	}
	for i, op := range c.GetOps() {
		switch op := op.GetOp().(type) {
		case *pb.Op_Planned:
			k.runs[op.Planned.GetUid()], k.last = op.Planned.GetRun(), op.Planned.GetRun()
		case *pb.Op_Sealed:
			k.sealed[k.last] = true
		case *pb.Op_Claim:
			k.claims[claimName(fmt.Sprintf("%d-%d-%d", shard, slot, i), op.Claim.GetUser())] = k.runs[parts[1]]
		case *pb.Op_Settle:
			name := billName(k.runs[parts[1]], fmt.Sprintf("%d-%d-%d", shard, op.Settle.GetSlot(), op.Settle.GetIndex()))
			if how := op.Settle.GetHow(); how == pb.Settle_CONFIRM || how == pb.Settle_CANCEL || how == pb.Settle_EXPIRE {
				k.ended[name] = true
			}
			if b := s.bills[name]; b != nil {
				for _, p := range b.paid {
					p.found = p.found && op.Settle.GetHow() != pb.Settle_CONFIRM
					p.recorded = p.recorded || p.reference == op.Settle.GetPayment()
				}
			}
		}
	}
}

// checkedSale is what a process's payment checker needs of it.
type checkedSale struct {
	*stepped.Process
	counted map[string]float64
}

// Sale is payments.Books's.
func (checkedSale) Sale() string { return saleName }

// Begin counts the answers.
func (s checkedSale) Begin(now clock.Now, r executor.Request, answered func(executor.Answer)) (withdraw func()) {
	return s.Process.Begin(now, r, func(a executor.Answer) {
		outcome := a.Outcome
		if a.Replayed {
			outcome = api.Replayed
		}
		s.counted[fmt.Sprintf("salectl_payment_settlements_total %s %s", r.Settle.How, outcome)]++
		answered(a)
	})
}

var discard = slog.New(slog.DiscardHandler)

// payNode is where calls to the payment service go, and checkPayment their name.
const (
	payNode      = -2
	checkPayment = "check payment"
)

// decide has a client pay at the service for a claim that was just held, or not. false: the
// claim is settled without the service.
func (s *service) decide(p *payer, claim executor.Claim) bool {
	if s == nil {
		return false
	}
	b := s.open(claim)
	if b == nil {
		return false
	}
	w := s.w
	reference := p.pay()
	pay := func(in time.Duration, reference string) { p.later(in, func() { s.pay(b, reference) }) }
	if p.odd++; w.calm && w.scenario.drawn == nil && (p.odd > 3 || w.now > w.Until+lastOdd) { // all is to be sold
		pay(0, reference)
		if w.scenario.payment.HoldFor < spec.Duration(4*time.Second) || !s.checked || s.chance(0.4) {
			p.settle(api.Confirm, claim, reference, 1000, func(api.Outcome) {})
		}
		return true
	}
	left := claim.HeldUntil.Sub(epoch.Add(w.now))
	in := s.between(0, max(left, time.Millisecond))
	release := left + time.Duration(w.scenario.payment.Grace)
	soon := func() time.Duration { return s.between(0, time.Second) }
	if s.chance(0.1) {
		s.forge(b)
	}
	switch draw := s.IntN(100); {
	case draw < 30:
		pay(in, reference)
	case draw < 38: // twice
		pay(in, reference)
		pay(in+soon(), p.pay())
	case draw < 46: // at about the time of the release
		pay(release+soon()-500*time.Millisecond, reference)
	case draw < 54: // late
		pay(release+s.between(0, 10*time.Second), reference)
	case draw < 62: // and the shop confirms, too
		pay(in, reference)
		p.later(in+soon(), func() { p.settle(api.Confirm, claim, reference, 4, func(api.Outcome) {}) })
	case draw < 68:
		p.later(in, func() { s.fail(b) })
	case draw < 72: // the second try succeeds
		p.later(in, func() { s.fail(b) })
		pay(in+s.between(time.Millisecond, 3*time.Second), reference)
	case draw < 80: // paid, cancelled, and paid again
		pay(in, reference)
		p.after(in+soon(), api.Cancel, claim, "")
		pay(in+2*time.Second+soon(), p.pay())
	case draw < 84: // cancelled, and paid
		p.after(in, api.Cancel, claim, "")
		pay(in+soon(), reference)
	case draw < 91: // extended, twice
		p.after(in, api.Extend, claim, "")
		p.after(in+soon(), api.Extend, claim, "")
		pay(left+s.between(0, time.Duration(w.scenario.payment.ExtendBy)+time.Second), reference)
	case draw < 95: // sold, refunded, and paid again
		pay(in, reference)
		p.refund(in+s.between(time.Second, 8*time.Second), claim, reference)
		pay(in+8*time.Second+soon(), p.pay())
	default:
		return false
	}
	return true
}

// call is an exchange of a process with the service, as a call, which is counted.
func (s *service) call(x exchange, counted map[string]float64) calls.Call {
	return calls.Call{
		Node: payNode, What: checkPayment, Timeout: x.timeout,
		Make: func(context.Context, ledger.Logs, quorum.Node, lists.Node) any { return s.answer(x.request) },
		Took: func(now clock.Now, reply any, err error) {
			result := "timeout"
			r, replied := reply.(*payReply)
			if replied {
				result, err = r.result, r.err
			}
			counted["salectl_payment_checks_total "+result]++
			counted["salectl_payment_check_seconds"]++
			if !replied || err != nil {
				x.replied(now, nil, err)
				return
			}
			x.replied(now, r.response(), nil)
		},
	}
}
