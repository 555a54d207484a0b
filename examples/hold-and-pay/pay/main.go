// Pay is a payment service to play with: it takes no money. It has what salectl needs of
// a real one.
//
//	GET  /v1/payments/{claim}        what became of a payment; needs the token
//	POST /v1/payments/{claim}/pay    what a buyer does on the payment page
//	POST /v1/payments/{claim}/fail   what a buyer's bank does who has no money
//
// With -webhook it also sends events, with the signatures of Standard Webhooks. The
// environment has its secrets: PAYMENT_TOKEN and PAYMENT_WEBHOOK_SECRETS, of which it
// signs with the first.
package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// payment is one payment, as the service returns it.
type payment struct {
	ID    string `json:"id"`
	Claim string `json:"claim"`
	State string `json:"state"` // pending, paid, failed
}

// event is the body of a webhook.
type event struct {
	Type string  `json:"type"` // payment.paid, payment.failed
	Data payment `json:"data"`
}

// service has the payments of one shop.
type service struct {
	token   string
	key     []byte // of the signatures
	webhook string // where events go; "": nowhere

	// mu guards payments, by claim.
	mu       sync.Mutex
	payments map[string]*payment
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8090", "answer at this address")
	webhook := flag.String("webhook", "", "send the result of each payment to this `URL`")
	flag.Parse()
	s := &service{token: os.Getenv("PAYMENT_TOKEN"), webhook: *webhook, payments: make(map[string]*payment)}
	if keys := strings.Fields(os.Getenv("PAYMENT_WEBHOOK_SECRETS")); len(keys) > 0 {
		var err error
		if s.key, err = base64.StdEncoding.DecodeString(strings.TrimPrefix(keys[0], "whsec_")); err != nil {
			log.Fatal("PAYMENT_WEBHOOK_SECRETS: the first key is no base64 behind whsec_")
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/payments/{claim}", s.get)
	mux.HandleFunc("POST /v1/payments/{claim}/pay", func(w http.ResponseWriter, r *http.Request) { s.end(w, r, "paid") })
	mux.HandleFunc("POST /v1/payments/{claim}/fail", func(w http.ResponseWriter, r *http.Request) { s.end(w, r, "failed") })
	log.Printf("payments at http://%s", *listen)
	log.Fatal(http.ListenAndServe(*listen, mux))
}

// get returns a payment.
func (s *service) get(w http.ResponseWriter, r *http.Request) {
	if s.token != "" && r.Header.Get("Authorization") != "Bearer "+s.token {
		http.Error(w, `{"error":"wrong token"}`, http.StatusUnauthorized)
		return
	}
	s.mu.Lock()
	p, ok := s.payments[r.PathValue("claim")]
	s.mu.Unlock()
	if !ok {
		http.Error(w, `{"error":"no such payment"}`, http.StatusNotFound)
		return
	}
	answer(w, p)
}

// end ends a payment, once: whoever has paid cannot pay again.
func (s *service) end(w http.ResponseWriter, r *http.Request, state string) {
	claim := r.PathValue("claim")
	s.mu.Lock()
	p, ok := s.payments[claim]
	if !ok {
		p = &payment{ID: fmt.Sprintf("pay-%d", len(s.payments)+1), Claim: claim, State: state}
		s.payments[claim] = p
	}
	s.mu.Unlock()
	if !ok && s.webhook != "" {
		go s.deliver(event{"payment." + state, *p})
	}
	answer(w, p)
}

func answer(w http.ResponseWriter, p *payment) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(p)
}

// deliver sends an event until it is accepted, as payment services do.
func (s *service) deliver(e event) {
	body, err := json.Marshal(e)
	if err != nil {
		log.Fatal(err)
	}
	id := "msg_" + rand.Text()
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		status, err := s.send(id, body)
		if err == nil && status < 300 {
			return
		}
		log.Printf("%s for claim %s is not accepted, and sent again in %v: status %d, %v", e.Type, e.Data.Claim, wait, status, err)
		time.Sleep(wait)
	}
}

// send sends a message once, signed for this moment.
func (s *service) send(id string, body []byte) (status int, err error) {
	r, err := http.NewRequest(http.MethodPost, s.webhook, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	timestamp := fmt.Sprint(time.Now().Unix())
	mac := hmac.New(sha256.New, s.key)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("webhook-id", id)
	r.Header.Set("webhook-timestamp", timestamp)
	r.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}
