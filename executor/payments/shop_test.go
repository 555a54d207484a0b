package payments

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/embedded"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/quorum"
	"salectl/executor"
	"salectl/executor/saletest"
	"salectl/internal/wait"
	"salectl/spec"
)

// shop is a sale in an embedded folder whose claims are paid, and a payment service.
type shop struct {
	t       *testing.T
	dir     string
	logs    ledger.Logs // a handle of its own
	payment spec.Payment
	service *service
	env     map[string]string
}

// service is a payment service whose answers a test chooses.
type service struct {
	*httptest.Server

	// mu guards the rest.
	mu      sync.Mutex
	answer  func(w http.ResponseWriter, r *http.Request, user, claim string, queries int)
	queries map[string]int // by user
	under   int            // requests under way
	most    int            // of them
}

func newService(t *testing.T) *service {
	s := &service{queries: make(map[string]int)}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP answers GET /{user}/{claim}.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, claim, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	s.mu.Lock()
	s.queries[user]++
	s.under++
	s.most = max(s.most, s.under)
	answer, queries := s.answer, s.queries[user]
	s.mu.Unlock()
	answer(w, r, user, claim, queries)
	s.mu.Lock()
	s.under--
	s.mu.Unlock()
}

// answers sets what the service answers, to a query about a user; queries is its number.
func (s *service) answers(f func(w http.ResponseWriter, r *http.Request, user, claim string, queries int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

func (s *service) count(user string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queries[user]
}

func reply(w http.ResponseWriter, state, claim string) {
	fmt.Fprintf(w, `{"state":%q,"claim":%q,"id":"pay-%s"}`, state, claim, claim)
}

const units = 300

func newShop(t *testing.T, holdFor, grace time.Duration) *shop {
	t.Helper()
	s := &shop{t: t, dir: t.TempDir(), service: newService(t), env: map[string]string{"TOKEN": "s3cret"}}
	s.payment = spec.Payment{HoldFor: spec.Duration(holdFor), Grace: spec.Duration(grace), Late: spec.LateRefuse, Check: &spec.PaymentCheck{
		URL: s.service.URL + "/{user}/{claim}", Interval: spec.Duration(20 * time.Millisecond), Timeout: spec.Duration(8 * time.Second),
		Success: `response.status == 200 && response.body.state == "paid" && response.body.claim == claim.id`,
		Failure: `response.status == 200 && response.body.state == "failed"`, Payment: "response.body.id", TokenEnv: "TOKEN",
	}}
	logs, node := s.handles()
	s.logs = logs
	sale := saletest.Declared("paid", units, 2, 10)
	sale.LockTTL, sale.Payment = spec.Duration(quorum.MaxTTL), &s.payment
	saletest.ProvisionAs(t, logs, sale, []int64{units / 2, units / 2}, &pb.Settings{
		PerUserLimit: sale.PerUserLimit, Phase: pb.Phase_OPEN,
		Payment: &pb.Payment{HoldForUs: holdFor.Microseconds(), GraceUs: grace.Microseconds(), Late: pb.Payment_REFUSE},
	})
	saletest.Mark(t, node)
	return s
}

// handles opens handles of one more process.
func (s *shop) handles() (ledger.Logs, quorum.Node) {
	s.t.Helper()
	logs, err := embedded.OpenLogs(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	node, err := embedded.OpenNode(s.dir, embedded.ThisHost())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		node.Close()
		logs.Close()
	})
	return logs, node
}

// seller is a process that serves the sale and queries the service.
type seller struct {
	*executor.Executor
	t       *testing.T
	checker *Checker
	log     *lines
	stop    func() // ends both; once is enough
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newLogger(to *lines) *slog.Logger { return slog.New(slog.NewTextHandler(to, nil)) }

func (s *shop) serve() *seller {
	s.t.Helper()
	logs, node := s.handles()
	p := &seller{t: s.t, log: new(lines)}
	logger := newLogger(p.log)
	p.Executor = executor.New(executor.Config{Logs: logs, Nodes: []quorum.Node{node}, Sale: "paid", Address: "127.0.0.1:1", Logger: logger})
	p.checker = NewChecker(p.Executor, environment(s.env), logger)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.Executor.Run(ctx) })
	running.Go(func() { p.checker.Run(ctx) })
	p.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	s.t.Cleanup(p.stop)
	wait.Until(s.t, "the process serves", func() bool { return p.Ready() == nil })
	return p
}

// claim claims a unit.
func (p *seller) claim(user string) executor.Claim {
	p.t.Helper()
	a := p.Do(context.Background(), executor.Request{User: user, Key: "1", Quantity: 1})
	if a.Outcome != api.Held {
		p.t.Fatalf("%s: %+v", user, a)
	}
	return a.Claim
}

// become waits until a user's claim is in a state.
func (p *seller) become(user string, state api.Outcome) {
	p.t.Helper()
	wait.Until(p.t, user+"'s claim is "+string(state), func() bool {
		claims, _, _ := lookupUser(p.t.Context(), p, user, api.Page{})
		return len(claims) == 1 && claims[0].State == state
	})
}

// books returns a claim as its log has it.
func (s *shop) books(id executor.ClaimID) ledger.Claim {
	s.t.Helper()
	c, ok := saletest.LoadShard(s.t, s.logs, id.Shard, 2).ClaimAt(id.Slot, id.Index)
	if !ok {
		s.t.Fatalf("there is no claim %v", id)
	}
	return c
}
