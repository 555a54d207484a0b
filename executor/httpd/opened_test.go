package httpd

import (
	"context"
	"sync/atomic"
	"testing"

	"salectl/api"
	"salectl/executor"
	"salectl/executor/httpd/httpdtest"
)

// What comes before a process knows who can answer waits for that, over HTTP and over a
// stream; its peers, which tell it, do not.
func TestRequestsWaitUntilOpened(t *testing.T) {
	opened := make(chan struct{})
	var early atomic.Int32
	claim := func(_ context.Context, r executor.Request) executor.Answer {
		select {
		case <-opened:
		default:
			early.Add(1)
		}
		return httpdtest.SoldTo(r.User)
	}
	p := newParty()
	v := serve(t, New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie", ClaimFunc: claim, AcceptFunc: p.Accept}}, Opened: opened}))
	answers := make(chan api.Answer)
	for _, stream := range []bool{true, false} {
		c := buyer(t, func(cfg *api.Config) { cfg.Stream = stream }, v.url)
		go func() {
			a, _ := c.Claim(context.Background(), api.Request{User: "ada", Quantity: 1})
			answers <- a
		}()
	}
	link(t, v.url, nil).send(hello("b"))
	<-p.hello
	close(opened)
	for range 2 {
		if a := <-answers; a.Outcome != api.Sold {
			t.Errorf("%+v, want sold", a)
		}
	}
	if n := early.Load(); n > 0 {
		t.Errorf("%d requests were looked at before", n)
	}
}
