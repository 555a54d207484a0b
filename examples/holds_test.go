package examples

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger/export"
	"salectl/internal/services"
	"salectl/internal/services/scripts"
	"salectl/internal/wait"
)

// paidSale is a sale whose claims are paid, served by two processes that are killed.
type paidSale struct {
	*testing.T
	dir     string
	release time.Duration // from the deadline to the release
	servers [2]*paidServer
	buyers  *api.Client // of both servers
	staff   *api.Client // of both admin addresses

	next    atomic.Int64  // the buyer who comes next
	answers atomic.Int64  // that buyers have had
	enough  chan struct{} // closed when nobody else is to come

	// mu guards history, the answers to each buyer.
	mu      sync.Mutex
	history []*buyer
}

// extendBy is by how much later an extended hold ends.
const extendBy = 2 * time.Second

// paidServer is one of the places that serve, whatever process does.
type paidServer struct {
	dir, listen, admin string
	process            *exec.Cmd
	log                *os.File
}

// buyer has the answers to one buyer about a claim: the requests, in order, and the
// answers.
type buyer struct {
	claim api.Claim // as it was accepted
	steps []step
}

type step struct {
	how     api.How
	payment string
	answer  api.Answer
	ended   time.Time // not before the answer was there
}

// newPaidSale applies the sale whose places, its ledger and locks, are the given lines.
func newPaidSale(t *testing.T, late, places string) *paidSale {
	s := &paidSale{T: t, dir: t.TempDir(), release: 300 * time.Millisecond, enough: make(chan struct{})}
	text := "apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: paid}\nspec:\n  stock: 20000\n  lockCount: 4\n  lock: {ttl: 2s}\n" +
		"  payment: {holdFor: 2s, grace: 300ms, extendBy: " + extendBy.String() + ", late: " + late + "}\n" + places
	if err := os.WriteFile(filepath.Join(s.dir, "sale.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run("apply", "--yes")
	var listen, admin []string
	for i := range s.servers {
		s.servers[i] = &paidServer{dir: s.dir, listen: scripts.FreeAddress(t), admin: scripts.FreeAddress(t)}
		listen, admin = append(listen, "http://"+s.servers[i].listen), append(admin, "http://"+s.servers[i].admin)
	}
	s.buyers, s.staff = s.client(listen), s.client(admin)
	s.Cleanup(s.explain)
	return s
}

// explain shows the end of what each server has logged, if the test has failed.
func (s *paidSale) explain() {
	if !s.Failed() {
		return
	}
	for _, p := range s.servers {
		if text, err := os.ReadFile(p.logFile()); err == nil {
			lines := strings.Split(string(text), "\n")
			s.Logf("%s ends with:\n%s", p.logFile(), strings.Join(lines[max(0, len(lines)-80):], "\n"))
		}
	}
}

// client repeats a request until it is decided.
func (s *paidSale) client(servers []string) *api.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	s.Cleanup(transport.CloseIdleConnections)
	c, err := api.NewClient(api.Config{Servers: servers, Sale: "paid", Transport: transport, Timeout: 6 * time.Second, MaxWait: 80 * time.Millisecond})
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// run runs a command that must end with 0, and returns its output.
func (s *paidSale) run(args ...string) string {
	s.Helper()
	cmd := exec.Command("salectl", args...)
	cmd.Dir = s.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("salectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (p *paidServer) logFile() string {
	return filepath.Join(p.dir, "serve-"+p.listen[strings.LastIndex(p.listen, ":")+1:]+".log")
}

func (p *paidServer) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	p.process, p.log = exec.Command("salectl", "serve", "--listen", p.listen, "--admin-listen", p.admin), log
	p.process.Dir, p.process.Stdout, p.process.Stderr = p.dir, log, log
	if err := p.process.Start(); err != nil {
		t.Fatal(err)
	}
}

// kill ends the process with SIGKILL.
func (p *paidServer) kill() {
	p.process.Process.Kill()
	p.process.Wait()
	p.log.Close()
}

// killed lets buyers come while each server in turn, and now and then both, are killed in
// the midst of answers, and started again.
func (s *paidSale) killed(times int, chance *rand.Rand) {
	ctx, cancel := context.WithTimeout(s.Context(), wait.Limit)
	defer cancel()
	for _, p := range s.servers {
		p.start(s.T)
		s.Cleanup(func() { p.kill() })
	}
	var all sync.WaitGroup
	for range 24 {
		all.Go(func() { s.come(ctx, &all) })
	}
	for i := range times {
		s.midst(ctx, chance)
		victims := s.servers[i%2 : i%2+1]
		if i%3 == 2 {
			victims = s.servers[:]
		}
		for _, p := range victims {
			p.kill()
			p.start(s.T)
		}
	}
	s.midst(ctx, chance)
	close(s.enough)
	all.Wait()
	s.settled(ctx)
}

// midst waits until buyers have had some more answers, whose number is up to chance.
func (s *paidSale) midst(ctx context.Context, chance *rand.Rand) {
	wanted := s.answers.Load() + 20 + chance.Int64N(300)
	wait.Until(s, "more answers", func() bool { return s.answers.Load() >= wanted })
}

// settled waits until no claim is held any more.
func (s *paidSale) settled(ctx context.Context) {
	var last api.Sale // as it was in the answer of a server
	wait.UntilNil(s, "no held claim", func() error {
		sale, err := s.buyers.Status(ctx)
		if err == nil && sale.Held == 0 {
			return nil
		}
		if err == nil {
			last = sale
		}
		return fmt.Errorf("%+v, %w", last, err)
	})
}

// come lets buyers in until there are enough. Whoever waits does so beside.
func (s *paidSale) come(ctx context.Context, all *sync.WaitGroup) {
	for {
		select {
		case <-s.enough:
			return
		case <-ctx.Done():
			return
		default:
		}
		n := s.next.Add(1)
		user := fmt.Sprint("user-", n)
		a, err := s.buyers.Claim(ctx, api.Request{User: user, Key: "1", Quantity: 1})
		s.answers.Add(1)
		if err != nil || a.Outcome != api.Held {
			// A claim may have been accepted, and its hold be over, before any answer.
			if err != nil || a.Outcome != api.Expired {
				s.Errorf("%s claims and gets %+v, %v", user, a, err)
			}
			continue
		}
		b := &buyer{claim: a.Claim}
		s.mu.Lock()
		s.history = append(s.history, b)
		s.mu.Unlock()
		s.play(ctx, all, n, b)
	}
}

// play is what a buyer does with a hold.
func (s *paidSale) play(ctx context.Context, all *sync.WaitGroup, n int64, b *buyer) {
	first, second := fmt.Sprint("p-", n), fmt.Sprint("q-", n)
	later := func(d time.Duration, how api.How, payment string) {
		all.Go(func() {
			if api.Sleep(ctx, d) == nil {
				s.settle(ctx, b, how, payment)
			}
		})
	}
	switch n % 10 {
	case 0: // nobody pays
	case 1:
		s.settle(ctx, b, api.Cancel, "")
	case 2:
		s.settle(ctx, b, api.Extend, "")
		later(time.Until(b.claim.HeldUntil.Add(s.release)), api.Confirm, first)
	case 3:
		later(time.Until(b.claim.HeldUntil.Add(s.release)), api.Confirm, first)
	case 4:
		s.settle(ctx, b, api.Confirm, first)
		s.settle(ctx, b, api.Confirm, second)
	case 5:
		s.settle(ctx, b, api.Confirm, first)
		s.settle(ctx, b, api.Refund, "")
	case 6:
		s.settle(ctx, b, api.Confirm, first)
		s.settle(ctx, b, api.Confirm, first)
	default:
		s.settle(ctx, b, api.Confirm, first)
	}
}

// settle repeats a settlement until it is decided.
func (s *paidSale) settle(ctx context.Context, b *buyer, how api.How, payment string) {
	settlement, client := api.Settlement{Payment: payment}, s.buyers
	if how == api.Cancel || how == api.Refund {
		settlement.Who, settlement.Reason = "test", "because"
	}
	if how == api.Refund {
		client = s.staff
	}
	a, err := client.Settle(ctx, b.claim.ID, how, settlement)
	s.answers.Add(1)
	if err != nil {
		s.Errorf("%s of claim %s: %v", how, b.claim.ID, err)
		return
	}
	b.steps = append(b.steps, step{how, payment, a, time.Now()})
}

// accounted compares all answers to buyers with the ledger.
func (s *paidSale) accounted() {
	s.run("audit")
	s.run("export", "--out", "end.ndjson")
	claims := s.exported()
	count := map[string]int{}
	for _, b := range s.history {
		c, there := claims[b.claim.ID]
		delete(claims, b.claim.ID)
		if !there || c.User != b.claim.User {
			s.Errorf("%s was given claim %s, and the ledger has %+v", b.claim.User, b.claim.ID, c)
			continue
		}
		s.holds(b, c, count)
	}
	for id, c := range claims { // accepted, and over before anybody said so
		if c.State != "expired" {
			s.Errorf("claim %s of %s is %s, and no answer reported it", id, c.User, c.State)
		}
	}
	s.Logf("%d claims, answers: %v", len(s.history), count)
	for _, what := range []string{"confirm sold", "confirm not_held", "cancel cancelled", "extend held", "refund refunded", "late"} {
		if count[what] == 0 {
			s.Errorf("no buyer got %q: %v", what, count)
		}
	}
}

// holds checks that all answers to a buyer about a claim hold.
func (s *paidSale) holds(b *buyer, c export.Claim, count map[string]int) {
	until, state := b.claim.HeldUntil, "expired" // unless an answer has another state
	for _, step := range b.steps {
		a := step.answer
		count[string(step.how)+" "+string(a.Outcome)]++
		if a.Outcome == step.how.Done() {
			state = string(a.Outcome)
		}
		if step.how == api.Extend && a.Outcome == api.Expired && c.HeldUntil == exportTime(until.Add(extendBy)) {
			// The hold was extended by an attempt whose answer the kill took along, and was
			// over, too, before anybody answered the next. That is so if the answer was late enough.
			until = until.Add(extendBy)
			count["extended unheard"]++
		}
		switch {
		case a.Outcome == api.Held:
			until, state = a.Claim.HeldUntil, "expired"
		case a.Outcome == api.Expired && step.ended.Before(until.Add(s.release)):
			s.Errorf("claim %s has expired at %v, and was held until %v", c.Claim, step.ended, until)
		case a.Outcome == api.Sold && !slices.Equal(a.Claim.Units, c.Units):
			s.Errorf("claim %s was sold with the units %v, and has %v", c.Claim, a.Claim.Units, c.Units)
		}
		if step.how == api.Confirm {
			bought, owed := c.Payment == step.payment, slices.Contains(c.RefundDue, step.payment)
			if bought && c.State == "refunded" { // its refund owes it back, and no answer to the payment did
				owed = !owed
			}
			if bought == owed || bought != (a.Outcome == api.Sold) || owed != a.Problem().RefundDue {
				s.Errorf("payment %s of claim %s got %s (owed back: %v), and the ledger has: bought by %q, owed back %q",
					step.payment, c.Claim, a.Outcome, a.Problem().RefundDue, c.Payment, c.RefundDue)
			}
			if step.ended.After(until.Add(s.release)) {
				count["late"]++
			}
		}
	}
	if c.State != state || c.HeldUntil != exportTime(until) {
		s.Errorf("claim %s was answered %s, held until %v; the ledger has %+v; its requests are %+v", c.Claim, state, until, c, b.steps)
	}
	at, err := time.Parse(time.RFC3339Nano, c.SettledAt)
	if c.State == "expired" && (err != nil || at.Before(until.Add(s.release))) {
		s.Errorf("claim %s was held until %v, and has expired at %s", c.Claim, until, c.SettledAt)
	}
}

// exportTime is a time as the export has it.
func exportTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// exported returns the claims of the export, by their ids.
func (s *paidSale) exported() map[string]export.Claim {
	text, err := os.ReadFile(filepath.Join(s.dir, "end.ndjson"))
	if err != nil {
		s.Fatal(err)
	}
	claims := map[string]export.Claim{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		var c export.Claim
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			s.Fatal(err)
		}
		if c.Claim != "" {
			claims[c.Claim] = c
		}
	}
	return claims
}

// TestHoldsSurviveKills kills those who serve a sale in the midst of holds, payments,
// cancels, extensions, refunds and releases. In the end the ledger has all that was
// answered: what was paid is sold, or its payment is owed back; and no hold ended
// before its release.
func TestHoldsSurviveKills(t *testing.T) {
	seed := rand.Uint64N(1_000_000)
	t.Logf("seed %d", seed)
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		s := newPaidSale(t, "resell", "  embedded: {dir: ledger}\n")
		s.killed(4, rand.New(rand.NewPCG(seed, 1)))
		s.accounted()
	})
	t.Run("services", func(t *testing.T) {
		t.Parallel()
		var nodes []string
		for i := range 3 {
			node, err := services.StartRedis(t.Context(), services.RedisOptions{Dir: filepath.Join(t.TempDir(), fmt.Sprint(i))})
			services.Require(t, err)
			t.Cleanup(node.Stop)
			nodes = append(nodes, strconv.Quote(node.Addr()))
		}
		hbase, err := shared()
		services.Require(t, err)
		s := newPaidSale(t, "refuse", "  redis: {nodes: ["+strings.Join(nodes, ", ")+"]}\n"+
			"  hbase: {zookeeper: ["+strconv.Quote(hbase.Zookeeper())+"], table: "+fmt.Sprint("holds_survive_kills_", sharedTables.Add(1))+"}\n")
		s.killed(6, rand.New(rand.NewPCG(seed, 2)))
		s.accounted()
	})
}
