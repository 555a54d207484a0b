package examples

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"salectl/api"
	"salectl/internal/services/scripts"
)

// payServer is the payment service of the example.
var payServer = built("./hold-and-pay/pay")

// theTerms are what scripts have shorter than the example.
var theTerms = []change{{"holdFor: 20s", "holdFor: 4s"}, {"grace: 5s", "grace: 2s"}, {"interval: 2s", "interval: 100ms"}}

// scriptPayments is "payments one|cluster LISTEN|-": the payment service, which notifies the
// process that serves at LISTEN, or nobody, and sale.yaml, the example that queries the service.
func scriptPayments(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: payments one|cluster LISTEN|-")
	}
	s := serversOf(ts)
	at := scripts.FreeAddress(s.t)
	changes := append([]change{{"http://127.0.0.1:8090", "http://" + at}}, theTerms...)
	switch args[0] {
	case "one":
		s.example(ts, "hold-and-pay", changes...)
	case "cluster":
		s.startRedis(ts, 3)
		s.startHBase(ts, false)
		s.example(ts, "hold-and-pay-cluster", append(append(changes, s.places()...), change{threeNodes, s.nodes()})...)
	default:
		ts.Fatalf("no such example: %s", args[0])
	}
	ts.Setenv("PAYMENTS", "http://"+at+"/v1/payments")
	ts.Setenv("PAYMENT_TOKEN", "a-token-of-the-test")
	ts.Setenv("PAYMENT_WEBHOOK_SECRETS", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	path, err := payServer()
	ts.Check(err)
	cmd := exec.Command(path, "-listen", at)
	if args[1] != "-" {
		cmd.Args = append(cmd.Args, "-webhook", "http://"+args[1]+"/v1/sales/hold-and-pay/webhooks/payment")
	}
	cmd.Env = append(os.Environ(), secretsFor(ts)...)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
}

// scriptPay is "pay|fail CLAIM": what a buyer does at the payment service.
func scriptPay(way string) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 1 {
			ts.Fatalf("usage: %s CLAIM", way)
		}
		scripts.Eventually(ts, func() error { // it may not listen yet
			r, err := http.Post(ts.Getenv("PAYMENTS")+"/"+args[0]+"/"+way, "", nil)
			if err == nil {
				err = r.Body.Close()
			}
			return err
		})
	}
}

// scriptClaimed is "claimed SALES USER STATE": waits until the user's one claim is in that
// state, as the server answers, and sets CLAIM to its name.
func scriptClaimed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: claimed SALE USER STATE")
	}
	urls, sale := salesAt(args[0])
	client, err := api.NewClient(api.Config{Servers: urls, Sale: sale})
	ts.Check(err)
	defer client.Close()
	scripts.Eventually(ts, func() error {
		user, err := client.User(context.Background(), args[1], api.Page{})
		switch {
		case err != nil:
			return err
		case len(user.Claims) != 1 || string(user.Claims[0].Outcome) != args[2]:
			return fmt.Errorf("%s has %+v, want one claim that is %s", args[1], user.Claims, args[2])
		}
		ts.Setenv("CLAIM", user.Claims[0].ID)
		return nil
	})
}

// scriptBooks is "books EXPORT STATE PAYMENT...": the export has as many claims in that state
// as there are payments, and names each of those once. "-" is no payment.
func scriptBooks(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: books EXPORT STATE PAYMENT...")
	}
	text := ts.ReadFile(args[0])
	n := 0
	for line := range strings.Lines(text) {
		if strings.Contains(line, `"state":"`+args[1]+`"`) {
			n++
		}
	}
	if n != len(args)-2 {
		ts.Fatalf("%s has %d claims that are %s, want %d\n%s", args[0], n, args[1], len(args)-2, text)
	}
	for _, payment := range args[2:] {
		if payment != "-" && strings.Count(text, `"`+payment+`"`) != 1 {
			ts.Fatalf("%s names the payment %s %d times\n%s", args[0], payment, strings.Count(text, `"`+payment+`"`), text)
		}
	}
}

// secretsFor are the variables with secrets that a sale.yaml names.
func secretsFor(ts *testscript.TestScript) (all []string) {
	for _, name := range []string{"PAYMENT_TOKEN", "PAYMENT_WEBHOOK_SECRETS", "COUPON_KEY"} {
		all = append(all, name+"="+ts.Getenv(name))
	}
	return all
}
