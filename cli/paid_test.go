package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"salectl/api"
	"salectl/internal/wait"
)

// TestPaymentsSurviveKills has a sale's buyers pay, by webhook and by check, while the
// processes that serve are killed again and again, and the payment service fails, hangs,
// lies and repeats itself. In the end each payment that salectl was told of has bought its
// claim or is owed back, once, and nobody has a seat who has not paid.
func TestPaymentsSurviveKills(t *testing.T) {
	seed := setting(t, "SALECTL_TEST_SEED", rand.Uint64N(1_000_000))
	t.Logf("SALECTL_TEST_SEED=%d", seed)
	t.Setenv("PAID_TEST_TOKEN", "a-token")
	t.Setenv("PAID_TEST_KEYS", "whsec_"+base64.StdEncoding.EncodeToString(bankKey))
	b := &bank{T: t, fates: make(map[string]*fate), chance: rand.New(rand.NewPCG(seed, 1))}
	server := httptest.NewServer(b)
	defer server.Close()
	r := &round{T: t, dir: t.TempDir(), shops: [2]*shop{{}, {}}}
	b.shops = r.shops
	text := strings.ReplaceAll(paidSale, "URL", server.URL)
	if err := os.WriteFile(filepath.Join(r.dir, "sale.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r.well("apply", "--yes")
	r.serve()

	ctx, cancel := context.WithTimeout(t.Context(), roundPatience)
	defer cancel()
	var buyers sync.WaitGroup
	for i := range paidBuyers {
		buyers.Go(func() { b.buy(ctx, fmt.Sprint("buyer-", i)) })
	}
	chance := rand.New(rand.NewPCG(seed, 2))
	for range 5 {
		moment(ctx, chance, 1500*time.Millisecond)
		victim := r.shops[chance.IntN(2)]
		if !victim.process.kill() {
			t.Errorf("serve ended by itself; it said:\n%s", victim.process.said())
		}
		victim.open(r)
	}
	buyers.Wait()
	b.sent.Wait()
	b.quiet(ctx)
	for _, s := range r.shops {
		s.process.Process.Signal(syscall.SIGTERM)
		s.process.await()
	}
	r.well("audit")
	r.well("destroy", "--yes", "--out", "books.ndjson")
	b.check(filepath.Join(r.dir, "books.ndjson"))
}

// well runs a command that must end well.
func (r *round) well(args ...string) {
	r.Helper()
	if p := r.start(append(args, "-f", "sale.yaml")...); !p.await() || p.code() != 0 {
		r.Fatalf("%v: exit code %d\n%s", args, p.code(), p.said())
	}
}

const paidSale = `apiVersion: salectl/v1
kind: Sale
metadata: {name: seats}
spec:
  stock: 30
  lockCount: 2
  lock: {ttl: 2s}
  payment:
    holdFor: 3s
    grace: 2s
    late: resell
    check:
      url: URL/{claim}
      interval: 100ms
      timeout: 500ms
      success: response.body.state == "paid" && response.body.claim == claim.id
      failure: response.body.state == "failed"
      payment: response.body.id
      tokenEnv: PAID_TEST_TOKEN
    webhook:
      secretsEnv: PAID_TEST_KEYS
      success: event.type == "paid"
      failure: event.type == "failed"
      claim: event.claim
      payment: event.id
  embedded: {}
`

// paidBuyers are more than there are seats: some come to those that others do not pay.
const paidBuyers = 40

var bankKey = []byte("the key of the test's bank")

// bank is a payment service that is not at its best.
type bank struct {
	*testing.T
	shops [2]*shop
	sent  sync.WaitGroup // of the messages that are to arrive

	// mu guards the rest.
	mu     sync.Mutex
	chance *rand.Rand
	fates  map[string]*fate // by claim
}

// fate is what becomes of the payment for one claim.
type fate struct {
	claim string
	at    time.Time // when it ends; zero: never
	fails bool
	told  bool // salectl was told that it is paid
}

func (f *fate) payment() string { return "pay-" + f.claim }

func (f *fate) state() string {
	switch {
	case f == nil || f.at.IsZero() || time.Now().Before(f.at):
		return "pending"
	case f.fails:
		return "failed"
	}
	return "paid"
}

// ServeHTTP is asked by the check.
func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	claim := strings.TrimPrefix(r.URL.Path, "/")
	b.mu.Lock()
	luck := b.chance.IntN(100)
	b.mu.Unlock()
	switch {
	case luck < 10:
		http.Error(w, `{"state":"paid"}`, http.StatusInternalServerError)
		return
	case luck < 15:
		<-r.Context().Done()
		return
	case luck < 20: // the answer for somebody else
		fmt.Fprintf(w, `{"state":"paid","claim":"0-0-0","id":"pay-0-0-0"}`)
		return
	}
	b.mu.Lock()
	f := b.fates[claim]
	state := f.state()
	if state == "paid" {
		f.told = true
	}
	b.mu.Unlock()
	fmt.Fprintf(w, `{"state":%q,"claim":%q,"id":"pay-%s"}`, state, claim, claim)
}

// buy claims a seat, and lets chance decide whether and how it is paid. A buyer who receives
// sold_out has no seat: each is sold for good.
func (b *bank) buy(ctx context.Context, user string) {
	var a api.Answer
	for a.Claim.ID == "" {
		if a.Outcome == api.SoldOut {
			return
		}
		if ctx.Err() != nil {
			b.Errorf("%s has no seat and no refusal, the last answer is %q", user, a.Outcome)
			return
		}
		a = b.claim(ctx, user)
	}
	c := a.Claim
	b.mu.Lock()
	defer b.mu.Unlock()
	f := &fate{claim: c.ID, fails: b.chance.IntN(5) == 0}
	if b.chance.IntN(5) > 0 {
		f.at = time.Now().Add(time.Duration(b.chance.Int64N(int64(6 * time.Second)))) // some too late
		if b.chance.IntN(3) > 0 {
			b.sent.Go(func() { b.tell(ctx, f) })
		}
	}
	b.fates[c.ID] = f
}

func (b *bank) claim(ctx context.Context, user string) api.Answer {
	var servers []string
	for _, s := range b.shops {
		if url := s.at(); url != "" {
			servers = append(servers, url)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	client, err := api.NewClient(api.Config{Servers: servers, Sale: "seats", Later: true, MaxWait: 100 * time.Millisecond})
	if err != nil {
		moment(ctx, rand.New(rand.NewPCG(1, 1)), 100*time.Millisecond)
		return api.Answer{}
	}
	defer client.Close()
	a, _ := client.Claim(ctx, api.Request{User: user, Key: "1", Quantity: 1})
	return a
}

// tell sends a message to any of the processes until one has taken it, and then once more.
func (b *bank) tell(ctx context.Context, f *fate) {
	select {
	case <-time.After(time.Until(f.at)): // the moment of the payment
	case <-ctx.Done():
	}
	body := fmt.Sprintf(`{"type":%q,"claim":%q,"id":%q}`, f.state(), f.claim, f.payment())
	for range 2 {
		if err := wait.Poll(wait.Limit, func() error {
			b.mu.Lock()
			url := b.shops[b.chance.IntN(2)].at()
			b.mu.Unlock()
			if url == "" || b.send(ctx, url, body) != http.StatusOK {
				return errors.New("it is not taken")
			}
			return nil
		}); err != nil {
			b.Errorf("nobody takes %s", body)
			return
		}
		b.mu.Lock()
		f.told = f.told || !f.fails
		b.mu.Unlock()
	}
}

// send sends a message to one process and returns the status of its answer, 0 if there is
// none.
func (b *bank) send(ctx context.Context, url, body string) int {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/sales/seats/webhooks/payment", strings.NewReader(body))
	if err != nil {
		b.Error(err)
		return 0
	}
	timestamp := fmt.Sprint(time.Now().Unix())
	mac := hmac.New(sha256.New, bankKey)
	fmt.Fprintf(mac, "msg.%s.%s", timestamp, body)
	r.Header.Set("webhook-id", "msg")
	r.Header.Set("webhook-timestamp", timestamp)
	r.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK, http.StatusServiceUnavailable:
	default:
		b.Errorf("%s: %s", body, response.Status)
	}
	return response.StatusCode
}

// quiet waits until no claim is held any more, and the service is asked about none.
func (b *bank) quiet(ctx context.Context) {
	b.Helper()
	wait.Until(b, "no held claim", func() bool {
		return slices.ContainsFunc(b.shops[:], func(s *shop) bool {
			told, err := statusClient{}.read(ctx, strings.TrimPrefix(s.at(), "http://"), "seats")
			return err == nil && told.Sale != "" && told.Held == 0 && told.PaymentCheck == nil
		})
	})
}

// check holds the books against what was paid.
func (b *bank) check(path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	count := map[string]int{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Buffer(nil, 16<<20); lines.Scan(); {
		var line struct {
			Claim, State, Payment string
			RefundDue             []string
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Claim == "" {
			continue
		}
		f := b.fates[line.Claim]
		if f == nil {
			b.Errorf("nobody was given the claim %s", line.Claim)
			continue
		}
		payments := line.RefundDue
		if line.Payment != "" {
			payments = append(payments, line.Payment)
		}
		switch {
		case f.state() != "paid" && len(payments) > 0, (line.State == "sold") != (line.Payment != ""), len(payments) > 1,
			len(payments) == 1 && payments[0] != f.payment(), f.told && len(payments) == 0:
			b.Errorf("%s: %+v, and the payment is %s: told %v", line.Claim, line, f.state(), f.told)
		}
		count[fmt.Sprintf("%s, payment %s", line.State, f.state())]++
		delete(b.fates, line.Claim)
	}
	for claim := range b.fates {
		b.Errorf("the claim %s is not in the books", claim)
	}
	b.Log(count)
}
