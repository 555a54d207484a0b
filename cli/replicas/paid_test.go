package replicas

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"salectl/api"
)

// bank is a payment service that takes down which process asks about which claim: each has
// a token of its own.
type bank struct {
	mu    sync.Mutex
	asked map[string]map[string]int // by claim and token
	paid  bool                      // all is paid
}

func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	claim := strings.TrimPrefix(r.URL.Path, "/")
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.asked[claim] == nil {
		b.asked[claim] = make(map[string]int)
	}
	b.asked[claim][token]++
	state := "pending"
	if b.paid {
		state = "paid"
	}
	fmt.Fprintf(w, `{"state":%q,"claim":%q,"id":"pay-%s"}`, state, claim, claim)
}

// askers forgets who has asked, waits until each of those claims was asked about a few
// times, and returns by whom.
func (b *bank) askers(s *sale, claims []string) (by map[string]string) {
	s.Helper()
	b.mu.Lock()
	b.asked = make(map[string]map[string]int)
	b.mu.Unlock()
	s.eventually(func() error {
		by = make(map[string]string)
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, claim := range claims {
			times := 0
			var who []string
			for token, n := range b.asked[claim] {
				times += n
				who = append(who, token)
			}
			if times < 3 {
				return fmt.Errorf("claim %s was asked about %d times, want 3", claim, times)
			}
			by[claim] = strings.Join(who, " and ")
		}
		return nil
	})
	return by
}

const paidSpec = `  payment:
    holdFor: 10m
    grace: 2s
    late: resell
    check:
      url: URL/{claim}
      interval: 200ms
      timeout: 2s
      success: response.body.state == "paid" && response.body.claim == claim.id
      failure: response.body.state == "failed"
      payment: response.body.id
      tokenEnv: REPLICAS_TEST_TOKEN
`

// Each claim that is held is asked about by one process, the owner of its shard, and by
// another when that one dies; what is paid is sold once.
func TestPaymentsAreCheckedByOne(t *testing.T) {
	t.Parallel()
	const buyers = 60
	b := &bank{asked: make(map[string]map[string]int)}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	s := apply(t, embedded, terms{stock: 1000, shards: 12, ttl: killTTL, env: []string{"REPLICAS_TEST_TOKEN=nobody"}, spec: strings.ReplaceAll(paidSpec, "URL", server.URL)})
	for i := range 3 {
		r := s.prepare()
		r.env = []string{fmt.Sprint("REPLICAS_TEST_TOKEN=replica-", i+1)}
		r.start()
	}
	s.settled()
	c := s.comeAs(&crowd{over: "http", rate: 200, once: true})
	c.some(buyers)
	c.leave()
	c.wellTold()
	var claims []string
	for _, a := range c.answered() {
		if a.answer.Outcome == api.Held {
			claims = append(claims, a.answer.Claim.ID)
		}
	}
	owners, err := s.all[0].owners()
	if err != nil {
		t.Fatal(err)
	}
	by := b.askers(s, claims)
	wantAskers(t, s, by, owners)
	s.all[0].kill()
	s.settled()
	if owners, err = s.all[1].owners(); err != nil {
		t.Fatal(err)
	}
	wantAskers(t, s, b.askers(s, claims), owners)

	b.mu.Lock()
	b.paid = true
	b.mu.Unlock()
	client, err := api.NewClient(api.Config{Servers: []string{"http://" + s.all[1].listen}, Sale: s.name})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s.eventually(func() error {
		for _, id := range claims {
			claim, err := client.LookUp(t.Context(), id, api.Page{})
			if err != nil || claim.Outcome != api.Sold || claim.Payment != "pay-"+id {
				return fmt.Errorf("claim %s is %+v, %v; want it sold", id, claim, err)
			}
		}
		return nil
	})
	s.books(c)
	for user, e := range s.exported() {
		if e.State != "sold" || e.Payment != "pay-"+e.Claim {
			t.Errorf("the export has %+v of %s, who has paid", e, user)
		}
	}
}

// wantAskers wants each claim to have been asked about by the owner of its shard alone.
func wantAskers(t *testing.T, s *sale, by map[string]string, owners []string) {
	t.Helper()
	for claim, who := range by {
		var shard int
		if _, err := fmt.Sscanf(claim, "%d-", &shard); err != nil {
			t.Fatal(err)
		}
		for i, r := range s.all {
			if want := fmt.Sprint("replica-", i+1); r.called == owners[shard] && who != want {
				t.Errorf("claim %s was asked about by %s, and %s owns its shard", claim, who, want)
			}
		}
	}
}
