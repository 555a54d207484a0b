package payments

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"salectl/api"
	"salectl/rules"
	"salectl/spec"
)

// Webhook verifies and reads the messages of a payment service for one sale. Their signatures follow
// Standard Webhooks (https://www.standardwebhooks.com). All methods are safe for concurrent use.
type Webhook struct {
	sale   Books
	env    Lookup
	logger *slog.Logger

	// mu guards the rest.
	mu       sync.Mutex
	declared *spec.Sale // declaration that webhook was made from
	webhook  *webhook   // nil: none is declared
	err      error      // reason why webhook is unusable
}

// Event is the meaning of a message or an answer of a payment service for a claim. How is "" if it
// settles no claim.
type Event struct {
	How   api.How // Confirm or Cancel
	Claim string  // the id, as written in the message
	api.Settlement
}

// Rejection is the error of a rejected message.
type Rejection struct {
	Status     int    // HTTP status of the answer
	Detail     string // for the operator of the sender
	RetryAfter time.Duration
	Clock      bool // rejected by this process's clock; another process may accept the message
}

func (r *Rejection) Error() string { return r.Detail }

// Rejections of every message.
var (
	ErrNoWebhook = &Rejection{Status: http.StatusNotFound, Detail: "This sale takes no webhooks: its file has no payment.webhook."}
	ErrUnready   = &Rejection{Status: http.StatusServiceUnavailable, RetryAfter: UnreadyRetry,
		Detail: "This server cannot verify messages of the payment service now; its log has the reason. Repeat the message later."}
)

// UnreadyRetry is the RetryAfter of a server without a usable key or clock.
const UnreadyRetry = time.Minute

// ErrAway reports that this process does not serve the sale.
var ErrAway = errors.New("this process does not serve the sale")

// MaxEvent is the maximum size of a message's body, in bytes.
const MaxEvent = maxBody

// Tolerance is the maximum difference between the time of a message and the server's clock.
const Tolerance = 5 * time.Minute

// webhookWho is the name recorded in the ledger for cancellations by a webhook.
const webhookWho = "payment webhook"

// Headers of a message.
const (
	headerID        = "webhook-id"
	headerTimestamp = "webhook-timestamp"
	headerSignature = "webhook-signature"
)

// NewWebhook returns the Webhook of a sale, which may declare none.
func NewWebhook(sale Books, env Lookup, logger *slog.Logger) *Webhook {
	return &Webhook{sale: sale, env: env, logger: logger}
}

// Read verifies the signature of a message and returns its event. The error wraps a *Rejection
// or ErrAway.
func (w *Webhook) Read(now time.Time, header http.Header, body []byte) (Event, error) {
	current, err := w.current()
	if err != nil {
		return Event{}, err
	}
	if err := current.verify(now, header, body); err != nil {
		return Event{}, err
	}
	return current.read(body)
}

// current returns the webhook of the newest generation.
func (w *Webhook) current() (*webhook, error) {
	declared, serves := w.sale.Declared()
	if !serves && declared.Name == "" {
		return nil, ErrAway
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.declared == nil || !reflect.DeepEqual(*w.declared, declared) {
		w.declared = &declared
		if w.webhook, w.err = newWebhook(declared, w.env); w.err != nil {
			w.logger.Error("payment webhooks are rejected", "sale", declared.Name, "why", w.err)
		}
	}
	switch {
	case w.err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnready, w.err)
	case w.webhook == nil:
		return nil, ErrNoWebhook
	}
	return w.webhook, nil
}

// verify returns a *Rejection if a message lacks a valid signature or its time is out of tolerance.
func (w *webhook) verify(now time.Time, header http.Header, body []byte) error {
	for _, name := range []string{headerID, headerTimestamp, headerSignature} {
		if len(header.Values(name)) != 1 || header.Get(name) == "" {
			return &Rejection{Status: http.StatusBadRequest, Detail: fmt.Sprintf("%s: must be given once; a message has the headers %s, %s and %s",
				name, headerID, headerTimestamp, headerSignature)}
		}
	}
	seconds, err := strconv.ParseInt(header.Get(headerTimestamp), 10, 64)
	if err != nil || seconds < 0 || seconds > 1<<40 {
		return &Rejection{Status: http.StatusBadRequest, Detail: headerTimestamp + ": must be a time in whole seconds since 1970"}
	}
	if off := now.Sub(time.Unix(seconds, 0)); off.Abs() > Tolerance {
		is := "before"
		if off < 0 {
			is = "after"
		}
		return &Rejection{Status: http.StatusForbidden, Clock: true, Detail: fmt.Sprintf("%s: %s is %v %s this server's clock, and at most %v are allowed; "+
			"send the message again under a new time, and compare the clocks",
			headerTimestamp, time.Unix(seconds, 0).UTC().Format(time.RFC3339), off.Abs().Round(time.Second), is, Tolerance)}
	}
	if !w.signed(header, body) {
		return &Rejection{Status: http.StatusForbidden, Detail: headerSignature + ": no signature is by a key that this server has; " +
			"if the key has changed, add the new one to this server's before the sender uses it"}
	}
	return nil
}

// signed reports whether one of the message's signatures was made with one of the keys.
func (w *webhook) signed(header http.Header, body []byte) bool {
	var sums [][]byte
	for _, key := range w.keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(header.Get(headerID) + "." + header.Get(headerTimestamp) + "."))
		mac.Write(body)
		sums = append(sums, mac.Sum(nil))
	}
	good := false
	for _, signature := range strings.Fields(header.Get(headerSignature)) {
		encoded, is := strings.CutPrefix(signature, "v1,")
		sum, err := base64.StdEncoding.DecodeString(encoded)
		if !is || err != nil {
			continue // of another version
		}
		for _, want := range sums {
			good = hmac.Equal(sum, want) || good
		}
	}
	return good
}

// read evaluates the body of a verified message.
func (w *webhook) read(body []byte) (Event, error) {
	event, err := rules.ParseJSON(body)
	if err != nil {
		return Event{}, &Rejection{Status: http.StatusBadRequest, Detail: fmt.Sprintf("the body cannot be read: %v", err)}
	}
	in := &rules.PredicateInput{Event: event, Sale: w.sale.Name, Run: w.sale.Run}
	e, err := w.decide(in, webhookWho)
	if err != nil { // the expressions cannot evaluate it
		return Event{}, &Rejection{Status: http.StatusUnprocessableEntity, Detail: fmt.Sprintf("the event does not fit payment.webhook: %v", err)}
	}
	return e, nil
}
