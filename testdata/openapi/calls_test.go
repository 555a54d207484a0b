package openapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// call is one request. Without changes it is one that is answered with 200 or 201.
type call struct {
	*operation
	server             *server
	at                 string // the URL of the server
	method             string
	sale, claim, shard string
	user               string
	body               string
	header             http.Header
	host               string // "": that of the URL
	query              string // of the URL, with its question mark
	http1              bool   // also for a stream
	patient            bool   // the call is made again until its answer is the one that is wanted
	done               func() // called behind it; nil: nothing is to be done
}

// patience is how long a call is made again.
const patience = 2 * time.Minute

// The clients of the test: a stream needs HTTP/2, and is all that is asked for by that.
var (
	one = &http.Client{Transport: &http.Transport{Protocols: new(http.Protocols), MaxIdleConnsPerHost: 64}}
	two = &http.Client{Transport: &http.Transport{Protocols: new(http.Protocols)}}
)

func init() {
	one.Transport.(*http.Transport).Protocols.SetHTTP1(true)
	two.Transport.(*http.Transport).Protocols.SetUnencryptedHTTP2(true)
	// What is answered with a redirect is no operation of the document.
	one.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
}

// call is a call of an operation of the server with tokens.
func (w *world) call(name string) *call {
	c := &call{
		operation: w.operations[name], method: w.operations[name].method, sale: "paid", shard: "0", user: "ada",
		header: http.Header{"Authorization": {"Bearer " + operateToken}},
	}
	c.to(w.shop)
	if c.method == http.MethodPost {
		c.body = "{}"
		c.header.Set("Content-Type", "application/json")
	}
	switch name {
	case "createClaim":
		c.body = fmt.Sprintf(`{"user":%q}`, w.newUser())
	case "confirmClaim", "returnPayment":
		c.body = `{"payment":"p-1"}`
	case "openStream":
		user := w.newUser()
		claim := fmt.Sprintf("\x0a%c%s", len(user), user)             // NewClaim.user
		request := fmt.Sprintf("\x08\x01\x2a%c%s", len(claim), claim) // Request.id and claim
		c.body = fmt.Sprintf("%c%s", len(request), request)
		c.header.Set("Content-Type", "application/vnd.salectl.stream+protobuf")
	case "receivePayment":
		c.sign(`{"type":"other"}`)
	}
	if strings.Contains(c.path, "{claim}") {
		c.claim = "0-1-0"
	}
	return c
}

// newUser is somebody who has no claims.
func (w *world) newUser() string {
	w.users++
	return fmt.Sprint("user-", w.users)
}

func (c *call) to(s *server) {
	c.server, c.at = s, s.buyers
	if c.admin {
		c.at = s.admin
	}
}

// sign makes the call a message of the payment service.
func (c *call) sign(body string) {
	key, err := base64.StdEncoding.DecodeString(webhookKey)
	if err != nil {
		panic(err)
	}
	now := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "m-1.%s.%s", now, body)
	c.body = body
	c.header.Set("webhook-id", "m-1")
	c.header.Set("webhook-timestamp", now)
	c.header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// request is the call as it is sent.
func (w *world) request(c *call) *http.Request {
	w.t.Helper()
	path := strings.NewReplacer("{sale}", c.sale, "{claim}", c.claim, "{user}", c.user, "{shard}", c.shard).Replace(c.path)
	r, err := http.NewRequestWithContext(w.t.Context(), c.method, c.at+path+c.query, strings.NewReader(c.body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header, r.Host = c.header, c.host
	return r
}

// ask makes a call that is to make sense, and holds the answer against the document; and the
// request too, where it was carried out.
func (w *world) ask(c *call) (status int, body string) {
	w.t.Helper()
	status, body = w.send(c)
	if status >= 300 {
		return status, body
	}
	v := w.validator
	if c.name == "receivePayment" {
		v = w.lax
	}
	if ok, faults := v.ValidateHttpRequestSync(w.request(c)); !ok {
		w.t.Errorf("%s was carried out, and the document does not permit it: %v", c.name, faults)
	}
	return status, body
}

// send makes a call and holds the answer against the document.
func (w *world) send(c *call) (status int, body string) {
	w.t.Helper()
	r := w.request(c)
	client := one
	if c.name == "openStream" && !c.http1 {
		client = two
	}
	got, err := client.Do(r)
	if err != nil {
		w.t.Fatalf("%s: %v", c.name, err)
	}
	text, err := w.body(c, got)
	if err != nil {
		w.t.Fatalf("%s: %v", c.name, err)
	}
	w.check(c.operation, r, got, string(text))
	return got.StatusCode, string(text)
}

// body reads an answer: of a feed, which has no end, what was told first.
func (w *world) body(c *call, got *http.Response) (text []byte, err error) {
	defer got.Body.Close()
	if c.name != "followSale" || got.StatusCode != http.StatusOK {
		return io.ReadAll(got.Body)
	}
	lines := bufio.NewReader(got.Body)
	for err == nil && !bytes.HasSuffix(text, []byte("\n\n")) {
		var line []byte
		line, err = lines.ReadBytes('\n')
		text = append(text, line...)
	}
	return text, err
}

// position is where the feed of the sale that is paid has come to.
func (w *world) position() string {
	w.t.Helper()
	c := w.call("followSale")
	c.query = "?from=now"
	status, body := w.send(c)
	id, _, _ := strings.Cut(strings.TrimPrefix(body, "id: "), "\n")
	if status != http.StatusOK || !strings.HasPrefix(body, "id: ") {
		w.t.Fatalf("a feed from now on is answered with %d: %s", status, body)
	}
	return id
}

// allFollowers has as many follow the sale as the server takes.
func (w *world) allFollowers(c *call) {
	var open []io.Closer
	c.done = func() {
		for _, one := range open {
			one.Close()
		}
	}
	for range mostFollowers {
		got, err := one.Do(w.request(c))
		if err != nil || got.StatusCode != http.StatusOK {
			w.t.Fatalf("a feed is answered with %v, %v", got, err)
		}
		open = append(open, got.Body)
	}
}

// mostFollowers is how many may follow a server's feeds at a time.
const mostFollowers = 16

// provoke calls an operation so that the answer has a status, and returns which it has.
func (w *world) provoke(o *operation, status int) int {
	w.t.Helper()
	c := w.call(o.name)
	if how := special[fmt.Sprint(o.name, " ", status)]; how != nil {
		how(w, c)
	} else if how := usual[status]; how != nil {
		how(w, c)
	} else {
		w.t.Fatalf("the test knows of no call of %s that is answered with %d", o.name, status)
	}
	if c.done != nil {
		defer c.done()
	}
	return w.until(c, status)
}

// until makes a call, a patient one until its answer has a status, and returns which it has.
// It polls as salectl/internal/wait does, which this module cannot import.
func (w *world) until(c *call, status int) int {
	w.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		got, _ := w.ask(c)
		if got == status || !c.patient || time.Now().After(deadline) {
			return got
		}
	}
}

// usual is how most operations are brought to an answer.
var usual = map[int]func(*world, *call){
	200: func(w *world, c *call) {
		if c.claim != "" {
			c.claim = w.held()
		}
	},
	201: func(*world, *call) {},
	400: func(w *world, c *call) { c.body = "{" },
	401: func(w *world, c *call) { c.header.Del("Authorization") },
	403: func(w *world, c *call) { c.to(w.idle); c.host = "evil.example" },
	404: func(w *world, c *call) { c.sale = "none" },
	405: func(w *world, c *call) { c.method = http.MethodPut },
	413: func(w *world, c *call) { c.body = `{"user":"` + strings.Repeat("x", 1<<20) + `"}` },
	415: func(w *world, c *call) { c.header.Set("Content-Type", "text/plain") },
	503: func(w *world, c *call) { c.to(w.idle) },
}

// misuse makes the calls that bring most operations an answer which this one does not declare:
// the document must declare what comes instead.
func (w *world) misuse(o *operation) {
	for status, how := range usual {
		if status >= 400 && o.declared[status] == nil && (o.method == http.MethodPost || status != http.StatusRequestEntityTooLarge) {
			c := w.call(o.name)
			how(w, c)
			w.send(c)
		}
	}
}

// special is how one operation is brought to one answer, by its name and the status.
var special = map[string]func(*world, *call){
	"createClaim 200": func(w *world, c *call) {
		c.header.Set("Idempotency-Key", "k-1")
		w.ask(c)
	},
	"createClaim 409": func(w *world, c *call) { c.body = `{"user":"ada","quantity":4}` },
	"createClaim 422": func(w *world, c *call) { c.body = `{"user":""}` },
	"createClaim 429": (*world).crowd,

	"getUser 400":  func(w *world, c *call) { c.query = "?limit=1&limit=2" },
	"getUser 422":  func(w *world, c *call) { c.user = strings.Repeat("u", 256) },
	"getClaim 400": func(w *world, c *call) { c.query = "?limit=1&limit=2" },
	"getClaim 422": func(w *world, c *call) { c.query = "?limit=0" },

	"confirmClaim 409": func(w *world, c *call) { c.claim = w.settled("cancelClaim") },
	"confirmClaim 422": func(w *world, c *call) { c.body = "{}" },
	"confirmClaim 429": (*world).crowd,
	"extendClaim 409":  func(w *world, c *call) { c.claim = w.settled("confirmClaim") },
	"extendClaim 422":  func(w *world, c *call) { c.body = `{"who":"me"}` },
	"extendClaim 429":  (*world).crowd,
	"cancelClaim 409":  func(w *world, c *call) { c.claim = w.settled("confirmClaim") },
	"cancelClaim 422":  func(w *world, c *call) { c.body = `{"payment":"p-1"}` },
	"cancelClaim 429":  (*world).crowd,
	"refundClaim 200":  func(w *world, c *call) { c.claim = w.settled("confirmClaim") },
	"refundClaim 409":  func(w *world, c *call) { c.claim = w.held() },
	"refundClaim 422":  func(w *world, c *call) { c.body = `{"payment":"p-1"}` },
	"refundClaim 429":  (*world).crowd,
	"returnPayment 200": func(w *world, c *call) {
		confirm := w.call("confirmClaim") // of a claim that is cancelled
		confirm.claim = w.settled("cancelClaim")
		w.want(confirm, http.StatusConflict, "refundDue")
		c.claim, c.body = confirm.claim, confirm.body
	},
	"returnPayment 409": func(w *world, c *call) { c.claim = w.settled("confirmClaim") },
	"returnPayment 422": func(w *world, c *call) { c.body = "{}" },
	"returnPayment 429": (*world).crowd,

	"openStream 429": (*world).allStreams,
	"openStream 505": func(w *world, c *call) { c.http1 = true },

	"followSale 400": func(w *world, c *call) { c.query = "?from=rubbish" },
	"followSale 409": func(w *world, c *call) { c.sale = "busy"; c.header.Set("Last-Event-ID", w.position()) },
	"followSale 410": (*world).destroyed,
	"followSale 503": (*world).allFollowers,

	"receivePayment 400": func(w *world, c *call) { c.header.Del("webhook-id") },
	"receivePayment 403": func(w *world, c *call) { c.body += " " },
	"receivePayment 503": func(w *world, c *call) {
		c.to(w.idle)
		c.sign(`{"type":"paid","claim":"0-1-0","id":"p-1"}`)
	},
	"receivePayment 422": func(w *world, c *call) { c.sign(`{"type":"paid"}`) },

	"drainProcess 200": func(w *world, c *call) { c.body = `{"undo":true}` },
	"drainProcess 503": (*world).destroyed,
	"getShare 503":     (*world).destroyed,
}

// others makes the calls that say more than one of the document's answers.
func (w *world) others() {
	for name, o := range w.operations {
		if c := w.call(name); o.declared[http.StatusUnauthorized] != nil {
			c.header.Set("Authorization", "Bearer nobody's")
			w.want(c, 401, "")
			lacks := map[string]string{"getUser": confirmToken, "cancelClaim": confirmToken, "confirmClaim": claimToken, "returnPayment": claimToken, "followSale": claimToken}[o.name]
			if o.admin {
				lacks = claimToken
			}
			if lacks != "" {
				c.header.Set("Authorization", "Bearer "+lacks)
				w.want(c, 403, "Forbidden")
			}
		}
	}
	for _, name := range []string{"listSales", "getSale", "getOpenAPI"} { // which the admin address has, too
		c := w.call(name)
		c.at = w.shop.admin
		c.header.Del("Authorization")
		w.want(c, 200, "")
	}
	c := w.call("getSale")
	c.header.Set("Authorization", "Bearer "+claimToken)
	w.want(c, 200, "")
	c.header.Set("X-Request-Id", "r-1")
	w.want(c, 200, "")

	c = w.call("createClaim")
	c.sale = "soon"
	w.want(c, 403, "not_open")
	c = w.call("createClaim")
	c.body = `{"user":"bob","quantity":3}`
	w.want(c, 201, "held")
	c.body = `{"user":"bob","quantity":1}`
	w.want(c, 409, "limit_reached")
	c = w.call("listSales")
	c.to(w.idle)
	w.want(c, 200, `"outcome":"standby"`)

	c = w.call("receivePayment")
	w.want(c, 200, "ignored")
	c.sign(fmt.Sprintf(`{"type":"paid","claim":%q,"id":"p-2"}`, w.held()))
	w.want(c, 200, "sold")
	cancelled := w.settled("cancelClaim")
	for _, payment := range []string{"p-3", "p-4"} {
		c.sign(fmt.Sprintf(`{"type":"paid","claim":%q,"id":%q}`, cancelled, payment))
		w.want(c, 200, "refundDue")
	}
	c = w.call("getUser")
	c.user, c.query = fmt.Sprint("user-", w.users), "?limit=1"
	w.want(c, 200, "refundDue")
	c.query = "?before=" + cancelled
	w.want(c, 200, `"claims":[]`)
	c.query = "?limit=1001"
	w.want(c, 422, "limit")
	c = w.call("getClaim")
	c.claim, c.query = cancelled, "?limit=1"
	w.want(c, 200, `"refundDueNext":"p-4"`)
	c.query = "?limit=1&before=p-4"
	w.want(c, 200, `"refundDue":["p-3"],"refundsDue":2}`)

	c = w.call("followSale")
	c.patient = true // those that have followed may do so still
	c.query, c.header = "?from=now&commits=true", c.header.Clone()
	c.header.Set("Last-Event-ID", w.position())
	w.until(c, 200)

	c = w.call("getMetrics")
	c.header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	w.want(c, 200, "")
	c = w.call("openStream")
	c.patient = true // those that were open may be so still
	w.until(c, 200)
	w.want(c, 200, "held")
	c.body = "\x02\x08\x01" // a request of two bytes that has nothing but the id 1
	w.want(c, 200, "no known content")
}

// want makes a call whose answer has a status, and has a word in it.
func (w *world) want(c *call, status int, word string) {
	w.t.Helper()
	if got, body := w.ask(c); got != status || !strings.Contains(body, word) {
		w.t.Errorf("%s is answered with %d, want %d with %q in it:\n%.2000s", c.name, got, status, word, body)
	}
}

// held is a new claim that is to be paid.
func (w *world) held() string {
	w.t.Helper()
	status, body := w.ask(w.call("createClaim"))
	var claim struct{ Claim string }
	if err := json.Unmarshal([]byte(body), &claim); err != nil || status != http.StatusCreated {
		w.t.Fatalf("a claim is answered with %d: %s", status, body)
	}
	return claim.Claim
}

// settled is a new claim to which an operation was applied.
func (w *world) settled(name string) string {
	w.t.Helper()
	c := w.call(name)
	c.claim = w.held()
	w.want(c, http.StatusOK, "")
	return c.claim
}

// crowd has users ask a sale all the time, more than may wait: sooner or later the call is
// refused.
func (w *world) crowd(c *call) {
	ctx, leave := context.WithCancel(w.t.Context())
	var crowd sync.WaitGroup
	for i := range 32 {
		crowd.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				body := fmt.Sprintf(`{"user":"crowd-%s-%d-%d"}`, c.name, i, n)
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.server.buyers+"/v1/sales/busy/claims", strings.NewReader(body))
				if err != nil {
					panic(err)
				}
				r.Header = http.Header{"Authorization": {"Bearer " + claimToken}, "Content-Type": {"application/json"}}
				if got, err := one.Do(r); err == nil {
					io.Copy(io.Discard, got.Body)
					got.Body.Close()
				}
			}
		})
	}
	c.sale, c.patient, c.done = "busy", true, func() { leave(); crowd.Wait() }
}

// mostStreams is how many streams a server has open at a time.
const mostStreams = 1000

// allStreams opens as many streams as there may be.
func (w *world) allStreams(c *call) {
	var open []io.Closer
	c.done = func() {
		for _, one := range open {
			one.Close()
		}
	}
	for range mostStreams {
		r := w.request(c)
		r.Body, _ = io.Pipe() // of which nothing comes
		r.GetBody, r.ContentLength = nil, -1
		got, err := two.Do(r)
		if err != nil || got.StatusCode != http.StatusOK {
			w.t.Fatalf("a stream is answered with %v, %v", got, err)
		}
		open = append(open, got.Body)
	}
}

// destroyed makes the call one of a sale that is destroyed while a process serves it.
func (w *world) destroyed(c *call) {
	if !w.gone {
		w.gone = true
		w.idle.run(w.t, "destroy", "--yes", "-f", "gone.yaml")
	}
	c.to(w.idle)
	c.sale, c.patient = "gone", true
}
