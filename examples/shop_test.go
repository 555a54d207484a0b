package examples

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"salectl/api"
	"salectl/internal/services"
	"salectl/internal/wait"
)

// Secrets of the shop and its payment service.
const (
	webhookSecret = "whsec_of_the_test"
	paymentsKey   = "sk_of_the_test"
)

// The shops of examples/shop buy and sell, though answers of salectl and of the payment service
// are lost.
func TestShop(t *testing.T) {
	programs := map[string]func() (string, error){"shop.py": services.Python, "shop.mts": nodePath}
	example, err := os.ReadFile("shop/sale.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, dir: t.TempDir()}
	files := []string{string(example)}
	for program := range programs {
		files = append(files, strings.NewReplacer("name: concert", "name: "+lastTickets(program), "stock: 100", "stock: 2", "lockCount: 5", "lockCount: 1",
			"holdFor: 10m, grace: 30s", "holdFor: 1s").Replace(string(example)))
	}
	if err := os.WriteFile(filepath.Join(s.dir, "sale.yaml"), []byte(strings.Join(files, "---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run("apply", "--yes")
	_, server := s.serve()
	for program, interpreter := range programs {
		t.Run(program, func(t *testing.T) {
			path, err := interpreter()
			services.Require(t, err)
			command := []string{path, filepath.Join("shop", program)}
			t.Run("in time", func(t *testing.T) { newFront(t, command, server, "concert").buyInTime() })
			t.Run("signatures", func(t *testing.T) { newFront(t, command, server, "concert").refuseSignatures() })
			t.Run("late", func(t *testing.T) { newFront(t, command, server, lastTickets(program)).payLate() })
			t.Run("crash", func(t *testing.T) { newFront(t, command, server, "concert").crash() })
		})
	}
}

// lastTickets returns the name of a program's sale of two tickets that are held for a second.
func lastTickets(program string) string { return "last-" + strings.ReplaceAll(program, ".", "-") }

// nodePath returns the path of the Node.js that runs TypeScript, whose process is then the shop itself
// and not that of npx.
func nodePath() (string, error) {
	command, err := services.TypeScript()
	if err != nil {
		return "", err
	}
	path, err := exec.Command(command[0], append(command[1:], "--print", "process.execPath")...).Output()
	return strings.TrimSpace(string(path)), err
}

// front is a shop that runs, with its payment service.
type front struct {
	*testing.T
	command  []string
	env      []string
	orders   string // file of its database
	payments *fakePayments
	sale     *gate
	client   *api.Client

	url     string
	process *exec.Cmd
}

// newFront starts a shop that sells tickets of a sale.
func newFront(t *testing.T, command []string, server, sale string) *front {
	client, err := api.NewClient(api.Config{Servers: []string{server}, Sale: sale})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	f := &front{T: t, command: command, orders: filepath.Join(t.TempDir(), "orders.db"), client: client,
		payments: &fakePayments{answers: map[string]map[string]string{}, requests: map[string]int{}, paidBack: make(chan struct{})}, sale: &gate{inner: failTwice(t, server)}}
	payments, salectl := httptest.NewServer(f.payments), httptest.NewServer(f.sale)
	t.Cleanup(payments.Close)
	t.Cleanup(salectl.Close)
	f.env = append(os.Environ(), "SALE="+salectl.URL+api.SalesPath+sale, "PAYMENTS="+payments.URL, "PAYMENTS_KEY="+paymentsKey, "WEBHOOK_SECRET="+webhookSecret)
	f.start()
	t.Cleanup(f.kill)
	return f
}

// start starts the shop, and returns once it listens.
func (f *front) start() {
	f.Helper()
	f.process = exec.Command(f.command[0], append(f.command[1:], "127.0.0.1:0", f.orders)...)
	f.process.Env = f.env
	log := &bytes.Buffer{}
	f.process.Stderr = log
	out, err := f.process.StdoutPipe()
	if err != nil {
		f.Fatal(err)
	}
	if err := f.process.Start(); err != nil {
		f.Fatal(err)
	}
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if _, f.url, _ = strings.Cut(strings.TrimSpace(line), "shop at "); f.url == "" {
		f.kill()
		f.Fatalf("the shop prints %q, %v\n%s", line, err, log)
	}
	go io.Copy(io.Discard, lines)
}

// kill ends the shop as a crash does.
func (f *front) kill() {
	_ = f.process.Process.Kill()
	_ = f.process.Wait()
}

// shown is what the shop shows of an order.
type shown struct {
	State string
	Final bool
	Text  string
	Units []int64
	URL   string
}

// request sends a request to the shop, and returns the status and the order.
func (f *front) request(method, path string, header http.Header, body string) (status int, o shown, err error) {
	r, err := http.NewRequestWithContext(f.Context(), method, f.url+path, strings.NewReader(body))
	if err != nil {
		return 0, o, err
	}
	maps.Copy(r.Header, header)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, o, err
	}
	defer answer.Body.Close()
	return answer.StatusCode, o, json.NewDecoder(answer.Body).Decode(&o)
}

// order orders a ticket.
func (f *front) order(id string) {
	f.Helper()
	if status, o, err := f.request(http.MethodPut, "/orders/"+id, nil, `{"user": "`+f.user(id)+`"}`); err != nil || status != http.StatusOK {
		f.Fatalf("order %s: %d, %+v, %v", id, status, o, err)
	}
}

// user returns the buyer of an order. Every shop of the test has other users.
func (f *front) user(order string) string { return f.Name() + "/" + order }

// wait waits until the shop shows an order in a state, and returns it.
func (f *front) wait(id, state string) (o shown) {
	f.Helper()
	wait.UntilNil(f, id+" to be "+state, func() error {
		var err error
		if _, o, err = f.request(http.MethodGet, "/orders/"+id, nil, ""); err == nil && o.State != state {
			err = fmt.Errorf("the shop shows %+v", o)
		}
		return err
	})
	return o
}

// await waits until a channel is closed.
func (f *front) await(what string, closed <-chan struct{}) {
	f.Helper()
	wait.Until(f, what, func() bool {
		select {
		case <-closed:
			return true
		default:
			return false
		}
	})
}

// claim returns the one claim of an order's user.
func (f *front) claim(order string) api.Claim {
	f.Helper()
	user, err := f.client.User(f.Context(), f.user(order), api.Page{})
	if err != nil || len(user.Claims) != 1 {
		f.Fatalf("the user of %s has %+v, %v", order, user, err)
	}
	return user.Claims[0]
}

// signature returns the header of a message that is signed at a time.
func signature(at time.Time, key, body string) http.Header {
	mac := hmac.New(sha256.New, []byte(key))
	fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
	zero := strings.Repeat("0", 64) // of a key that was replaced
	return http.Header{"Stripe-Signature": {fmt.Sprintf("t=%d,v1=%s,v1=%s,v0=%s", at.Unix(), zero, hex.EncodeToString(mac.Sum(nil)), zero)}}
}

// event returns the body of a message about the payment of an order.
func event(kind, order, status string) string {
	return `{"type": "checkout.session.` + kind + `", "data": {"object": {"client_reference_id": "` + order + `", "payment_intent": "pi_` + order +
		`", "payment_status": "` + status + `"}}}`
}

// notify sends a message of the payment service, which the shop must accept.
func (f *front) notify(kind, order, status string) {
	f.Helper()
	body := event(kind, order, status)
	if status, o, err := f.request(http.MethodPost, "/webhook", signature(time.Now(), webhookSecret, body), body); err != nil || status != http.StatusOK {
		f.Fatalf("message %s: %d, %+v, %v", body, status, o, err)
	}
}

// buyInTime buys a ticket whose payment is reported twice. It has one claim and one effect.
func (f *front) buyInTime() {
	f.order("order-1")
	if o := f.wait("order-1", "held"); o.Final || o.URL != "https://pay.example/order-1" {
		f.Errorf("the shop shows %+v", o)
	}
	f.order("order-1")
	if status, _, err := f.request(http.MethodPut, "/orders/order-1", nil, `{"user": "another"}`); status != http.StatusConflict || err != nil {
		f.Errorf("the order of another user: %d, %v", status, err)
	}
	f.notify("completed", "order-1", "unpaid") // the bank has not decided
	f.order("order-1")                         // returns once the message is processed
	if c := f.claim("order-1"); c.Outcome != api.Held {
		f.Errorf("without a payment the ledger has %+v", c)
	}
	f.notify("async_payment_succeeded", "order-1", "paid")
	f.notify("async_payment_succeeded", "order-1", "paid")
	o, c := f.wait("order-1", "sold"), f.claim("order-1")
	f.notify("async_payment_succeeded", "order-1", "paid")
	f.order("order-1") // returns once the message is processed
	if !o.Final || !slices.Equal(o.Units, c.Units) || c.Outcome != api.Sold || c.Payment != "pi_order-1" || c.RefundsDue != 0 {
		f.Errorf("the shop shows %+v, and the ledger has %+v", o, c)
	}
	if n := f.sale.count("/claims/" + c.ID + "/confirm"); n != 3 { // one lost, one unknown
		f.Errorf("%d requests to confirm, want 3", n)
	}
	if n := f.payments.count("/v1/checkout/sessions"); n != 2 { // one lost
		f.Errorf("%d requests for a session, want 2", n)
	}

	f.order("order-2")
	f.wait("order-2", "held")
	f.notify("expired", "order-2", "unpaid")
	if o := f.wait("order-2", "not paid"); !o.Final {
		f.Errorf("the shop shows %+v", o)
	}
}

// refuseSignatures sends messages without a valid signature. None has an effect.
func (f *front) refuseSignatures() {
	f.order("order-1")
	f.wait("order-1", "held")
	body, now := event("completed", "order-1", "paid"), time.Now()
	for name, header := range map[string]http.Header{
		"none":          nil,
		"of another":    signature(now, "another key", body),
		"other body":    signature(now, webhookSecret, body+" "),
		"old":           signature(now.Add(-6*time.Minute), webhookSecret, body),
		"of the future": signature(now.Add(6*time.Minute), webhookSecret, body),
		"malformed":     {"Stripe-Signature": {"t=,v1=é,v1,=,"}},
	} {
		if status, _, err := f.request(http.MethodPost, "/webhook", header, body); status != http.StatusBadRequest || err != nil {
			f.Errorf("signature %s: %d, %v", name, status, err)
		}
	}
	f.order("order-1") // returns once all messages are processed
	if c := f.claim("order-1"); c.Outcome != api.Held {
		f.Errorf("the ledger has %+v", c)
	}
}

// payLate pays after the release: the first payment still buys a ticket, the last one is paid back once.
func (f *front) payLate() {
	for _, order := range []string{"ada", "bob"} {
		f.order(order)
		f.wait(order, "overdue")
		wait.Until(f, order+"'s hold to end", func() bool { return f.claim(order).Outcome == api.Expired })
		if o := f.wait(order, "overdue"); o.Final {
			f.Errorf("the shop shows %s %+v, though a payment may still buy a ticket", order, o)
		}
	}
	for _, order := range []string{"bob", "carol"} {
		f.order(order)
		f.notify("completed", order, "paid")
		if o := f.wait(order, "sold"); len(o.Units) != 1 {
			f.Errorf("the shop shows %s %+v", order, o)
		}
	}
	f.order("dave")
	if o := f.wait("dave", "sold_out"); !o.Final {
		f.Errorf("the shop shows dave %+v", o)
	}
	f.notify("completed", "ada", "paid")
	f.notify("completed", "ada", "paid")
	f.await("a refund", f.payments.paidBack)
	f.kill() // before it has an answer
	f.payments.open()
	f.start()
	if o := f.wait("ada", "paid back"); !o.Final {
		f.Errorf("the shop shows ada %+v", o)
	}
	if c := f.claim("ada"); c.Outcome != api.Expired || !slices.Equal(c.RefundDue, []string{"pi_ada"}) {
		f.Errorf("the ledger has %+v", c)
	}
	f.notify("completed", "ada", "paid")
	f.order("ada") // returns once the message is processed
	if c := f.claim("ada"); len(c.Owed()) > 0 || c.Returned[0].Who != "shop" {
		f.Errorf("the ledger owes what was paid back: %+v", c)
	}
	f.payments.mu.Lock()
	defer f.payments.mu.Unlock()
	if !slices.Equal(f.payments.refunds, []string{"pi_ada"}) {
		f.Errorf("the payment service has paid back %v", f.payments.refunds)
	}
}

// crash kills the shop while it claims, and while it confirms.
func (f *front) crash() {
	refused := f.sale.close()
	ordered := make(chan struct{})
	go func() {
		_, _, _ = f.request(http.MethodPut, "/orders/order-1", nil, `{"user": "`+f.user("order-1")+`"}`)
		close(ordered)
	}()
	f.await("a request to salectl", refused)
	f.kill()
	<-ordered
	f.sale.open()
	f.start()
	f.wait("order-1", "held")

	refused = f.sale.close()
	f.notify("completed", "order-1", "paid")
	f.await("a request to salectl", refused)
	f.kill()
	f.sale.open()
	f.start()
	f.wait("order-1", "sold")

	f.order("order-2")
	f.wait("order-2", "held")
	f.notify("completed", "order-2", "paid")
	f.kill()
	f.start()
	f.wait("order-2", "sold")
	if c := f.claim("order-1"); c.Payment != "pi_order-1" || c.RefundsDue != 0 {
		f.Errorf("the ledger has %+v", c)
	}
}

// gate forwards requests to salectl while it is open, and counts them. While it is closed, every answer is unknown.
type gate struct {
	inner http.Handler

	mu       sync.Mutex
	requests []string
	refused  chan struct{} // closed by the first refusal; nil: the gate is open
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	g.requests = append(g.requests, r.URL.Path)
	refused := g.refused
	if refused != nil {
		select {
		case <-refused:
		default:
			close(refused)
		}
	}
	g.mu.Unlock()
	if refused == nil {
		g.inner.ServeHTTP(w, r)
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, `{"outcome":"unknown"}`)
}

// close closes the gate. The channel is closed by the first request after that.
func (g *gate) close() (refused <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused = make(chan struct{})
	return g.refused
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused = nil
}

// count returns the number of requests whose path ends so.
func (g *gate) count(suffix string) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, path := range g.requests {
		if strings.HasSuffix(path, suffix) {
			n++
		}
	}
	return n
}

// fakePayments is a payment service with the API of Stripe. It answers a repeated key with the first
// answer, and the first answer of each path is lost. After the first refund it refuses requests until open.
type fakePayments struct {
	paidBack chan struct{} // closed by the first refund

	mu       sync.Mutex
	answers  map[string]map[string]string // by path and Idempotency-Key
	requests map[string]int               // by path
	refunds  []string
	closed   bool
}

// open ends the refusals.
func (p *fakePayments) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = false
}

func (p *fakePayments) count(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[path]
}

func (p *fakePayments) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer, err := p.answer(r)
	if p.requests[r.URL.Path]++; p.requests[r.URL.Path] == 1 {
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// answer takes a request once.
func (p *fakePayments) answer(r *http.Request) (map[string]string, error) {
	key := r.Header.Get("Idempotency-Key")
	switch {
	case p.closed:
		return nil, errors.New("closed")
	case r.Header.Get("Authorization") != "Bearer "+paymentsKey || key == "":
		return nil, errors.New("no token or no key")
	}
	key = r.URL.Path + " " + key
	if before := p.answers[key]; before != nil {
		return before, nil
	}
	if err := r.ParseForm(); err != nil {
		return nil, err
	}
	var answer map[string]string
	switch r.URL.Path {
	case "/v1/checkout/sessions":
		order := r.PostForm.Get("client_reference_id")
		if home, err := url.Parse(r.PostForm.Get("success_url")); err != nil || home.Port() == "0" || home.Path != "/orders/"+order {
			return nil, fmt.Errorf("success_url: %v, %w", home, err)
		}
		answer = map[string]string{"id": "cs_" + order, "url": "https://pay.example/" + order}
	case "/v1/refunds":
		if p.refunds = append(p.refunds, r.PostForm.Get("payment_intent")); len(p.refunds) == 1 {
			p.closed = true
			close(p.paidBack)
		}
		answer = map[string]string{"id": "re_" + key}
	default:
		return nil, errors.New("no such path")
	}
	p.answers[key] = answer
	return answer, nil
}
