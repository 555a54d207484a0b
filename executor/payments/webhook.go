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

// Webhook reads what a payment service sends to one sale: messages with the signatures of
// Standard Webhooks (https://www.standardwebhooks.com). All methods are safe for
// concurrent use.
type Webhook struct {
	sale   Books
	env    Lookup
	logger *slog.Logger

	// mu guards the rest.
	mu       sync.Mutex
	declared *spec.Sale // of which webhook is
	webhook  *webhook   // nil: none is declared
	err      error      // why it cannot be read
}

// Event is what a message says of a claim. How is "" for one that says nothing of any.
type Event struct {
	How   api.How // Confirm or Cancel
	Claim string  // the id, as the message has it
	api.Settlement
}

// Rejection is a message that is not taken.
type Rejection struct {
	Status int    // of the answer
	Detail string // for whoever looks after the sender
	Clock  bool   // by this process's clock: another process may take it
}

func (r *Rejection) Error() string { return r.Detail }

// What keeps every message from being read.
var (
	ErrNoWebhook = errors.New("the sale declares no webhook")
	ErrAway      = errors.New("this process does not serve the sale")
	ErrUnready   = errors.New("the webhook cannot be read by this process")
)

// MaxEvent is the most bytes that the body of a message may have.
const MaxEvent = maxBody

// Tolerance is how far the time of a message may be off the server's.
const Tolerance = 5 * time.Minute

// webhookWho is named in the books for what a webhook cancels.
const webhookWho = "payment webhook"

// The headers of a message.
const (
	headerID        = "webhook-id"
	headerTimestamp = "webhook-timestamp"
	headerSignature = "webhook-signature"
)

// NewWebhook returns the webhook of a sale, which may declare none.
func NewWebhook(sale Books, env Lookup, logger *slog.Logger) *Webhook {
	return &Webhook{sale: sale, env: env, logger: logger}
}

// Read checks the signature of a message and says what it says. The error is a *Rejection,
// or one of those above.
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

// current is the webhook of the newest generation.
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
			w.logger.Error("webhooks of payments are not taken", "sale", declared.Name, "why", w.err)
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

// verify says why a message is not one of the payment service's, or not one of now.
func (w *webhook) verify(now time.Time, header http.Header, body []byte) error {
	values := make(map[string]string)
	for _, name := range []string{headerID, headerTimestamp, headerSignature} {
		switch found := header.Values(name); {
		case len(found) == 0 || found[0] == "":
			return &Rejection{Status: http.StatusBadRequest, Detail: fmt.Sprintf("%s: missing; a message has the headers %s, %s and %s",
				name, headerID, headerTimestamp, headerSignature)}
		case len(found) > 1:
			return &Rejection{Status: http.StatusBadRequest, Detail: fmt.Sprintf("%s: given %d times", name, len(found))}
		default:
			values[name] = found[0]
		}
	}
	seconds, err := strconv.ParseInt(values[headerTimestamp], 10, 64)
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
	if !w.signed(values, body) {
		return &Rejection{Status: http.StatusForbidden, Detail: headerSignature + ": no signature is by a key that this server has; " +
			"if the key has changed, add the new one to this server's before the sender uses it"}
	}
	return nil
}

// signed reports whether one of a message's signatures is by one of the keys.
func (w *webhook) signed(values map[string]string, body []byte) bool {
	var sums [][]byte
	for _, key := range w.keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(values[headerID] + "." + values[headerTimestamp] + "."))
		mac.Write(body)
		sums = append(sums, mac.Sum(nil))
	}
	good := false
	for _, signature := range strings.Fields(values[headerSignature]) {
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

// read says what a message says that is signed.
func (w *webhook) read(body []byte) (Event, error) {
	event, err := rules.ParseJSON(body)
	if err != nil {
		return Event{}, &Rejection{Status: http.StatusBadRequest, Detail: fmt.Sprintf("the body cannot be read: %v", err)}
	}
	told := &rules.Told{Event: event, Sale: w.sale.Name, Run: w.sale.Run}
	how, err := w.judge(told)
	if err != nil {
		return Event{}, odd(err)
	}
	if how == "" {
		return Event{}, nil
	}
	claim, err := w.claim.Text(told)
	if err != nil {
		return Event{}, odd(fmt.Errorf("claim: %w", err))
	}
	v, err := w.verdict(told, how, claim, webhookWho)
	if err != nil {
		return Event{}, odd(err)
	}
	return Event{how, claim, v.Settlement}, nil
}

// odd is the rejection of an event that is not as the expressions take it to be.
func odd(err error) *Rejection {
	return &Rejection{Status: http.StatusUnprocessableEntity, Detail: fmt.Sprintf("the event is not as payment.webhook takes it to be: %v", err)}
}
