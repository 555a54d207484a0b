package cli

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"salectl/api"
	"salectl/backends/ledger"
)

// settleFrom runs a command that settles claim 1-2-3 at a server.
func settleFrom(t *testing.T, s *seller, how api.How, extra ...string) (c *capture, code int) {
	t.Helper()
	server := httptest.NewServer(s)
	defer server.Close()
	address := "--server"
	if how == api.Refund {
		address = "--admin"
	}
	c = newCapture()
	args := []string{"salectl", "claims", string(how), address, server.URL, "--sale", "tickets", "--claim", "1-2-3"}
	return c, c.run(append(args, extra...), nil)
}

// settledAs is the answer of a server that has settled a claim, for who and why it was; "": nobody and nothing.
func settledAs(outcome, who, why string) sellerAnswer {
	books, _ := json.Marshal(struct {
		Who string `json:"who,omitempty"`
		Why string `json:"why,omitempty"`
	}{who, why})
	return sellerAnswer{200, strings.Replace(`{"outcome":"`+outcome+`","claim":"1-2-3","sale":"tickets","user":"ann","units":[7],"at":"2026-11-11T12:00:00Z","heldUntil":"2026-11-11T12:10:00Z",`+
		string(books[1:]), ",}", "}", 1)}
}

// Each command sends what it was told, and ends with 0 when that is done.
func TestSettleSendsWhatItWasTold(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	me, err := json.Marshal(who())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		how        api.How
		args       []string
		body, says string
	}{
		{api.Confirm, []string{"--payment", "p-1"}, `{"payment":"p-1"}`, "sold: unit 7 of tickets to ann, claim 1-2-3\n"},
		{api.Extend, nil, `{}`, "held: unit 7 of tickets to ann, to be paid until 2026-11-11T12:10:00Z, claim 1-2-3\n"},
		{api.Cancel, []string{"--reason", "too late"}, `{"who":` + string(me) + `,"reason":"too late"}`, "cancelled: unit 7 of tickets to ann, claim 1-2-3\n"},
		{api.Cancel, []string{"--reason", "r", "--who", "ann"}, `{"who":"ann","reason":"r"}`, "cancelled: "},
		{api.Refund, []string{"--reason", "r", "--who", "ann", "--retire"}, `{"who":"ann","reason":"r","retire":true}`, "refunded: "},
		{api.Refund, []string{"--reason", "r", "--who", "ann"}, `{"who":"ann","reason":"r"}`, "refunded: "},
	} {
		var sent struct{ Who, Reason string }
		if err := json.Unmarshal([]byte(c.body), &sent); err != nil {
			t.Fatal(err)
		}
		s := &seller{answers: []sellerAnswer{{}, refused(503, "standby"), settledAs(string(c.how.Done()), sent.Who, sent.Reason)}}
		got, code := settleFrom(t, s, c.how, append(c.args, "--token-file", token, "--timeout", "1m")...)
		if code != 0 || !strings.HasPrefix(got.out.String(), c.says) {
			t.Errorf("%s: exit code %d, it answers %s%s", c.how, code, &got.out, &got.err)
		}
		if last := len(s.bodies) - 1; last != 2 || s.bodies[last] != c.body || s.paths[last] != "/v1/sales/tickets/claims/1-2-3/"+string(c.how) || s.tokens[last] != "Bearer s3cret" {
			t.Errorf("%s: the requests were %q %q %q, want %s", c.how, s.paths, s.bodies, s.tokens, c.body)
		}
		if !strings.Contains(got.err.String(), "standby: because; retrying.") {
			t.Errorf("%s: it says %s", c.how, &got.err)
		}
	}
}

// Each refusal has its exit code, also that by an outcome which says of another command
// that it is done.
func TestSettleOutcomes(t *testing.T) {
	for _, row := range api.Outcomes() {
		if row.Outcome.Accepted() || row.Outcome == api.Returned {
			continue // no confirm is refused so
		}
		t.Run(string(row.Outcome), func(t *testing.T) {
			t.Parallel()
			timeout := "1m"
			if row.Retry != api.Final { // it is asked again until then
				timeout = "2s"
			}
			s := &seller{answers: []sellerAnswer{refused(row.Status, string(row.Outcome))}}
			c, code := settleFrom(t, s, api.Confirm, "--payment", "p", "--json", "--timeout", timeout)
			var got decision
			if err := json.Unmarshal(c.out.Bytes(), &got); err != nil || code != row.Exit {
				t.Errorf("exit code %d, want %d (%v)", code, row.Exit, err)
			}
			if got.Outcome != row.Outcome || got.Detail != "because" || got.ID != "1-2-3" || got.Sale != "tickets" || got.MayBeAccepted != (row.Outcome == api.Unknown) {
				t.Errorf("it answers %s", &c.out)
			}
		})
	}
	for how, extra := range map[api.How][]string{api.Cancel: {"--reason", "r", "--who", "w"}, api.Refund: {"--reason", "r", "--who", "w"}} {
		want := `{"formatVersion":1,"outcome":"` + string(how.Done()) + `","sale":"tickets","user":"ann","claim":"1-2-3","units":[7],` +
			`"at":"2026-11-11T12:00:00Z","heldUntil":"2026-11-11T12:10:00Z","who":"w","why":"r"}` + "\n"
		c, code := settleFrom(t, &seller{answers: []sellerAnswer{settledAs(string(how.Done()), "w", "r")}}, how, append(extra, "--json")...)
		if got := c.out.String(); code != 0 || got != want {
			t.Errorf("%s: exit code %d, it answers %swant %s", how, code, got, want)
		}
		for text, before := range map[string]sellerAnswer{
			" (before, by v: s; nothing changed)\n": settledAs(string(how.Done()), "v", "s"), " (before; nothing changed)\n": settledAs(string(how.Done()), "", ""),
		} {
			if c, code = settleFrom(t, &seller{answers: []sellerAnswer{before}}, how, extra...); code != 0 || !strings.HasSuffix(c.out.String(), text) {
				t.Errorf("%s: exit code %d, it answers %swant %s", how, code, &c.out, text)
			}
		}
	}
}

// A payment that bought nothing is told, as is doubt.
func TestSettleTellsWhatToDo(t *testing.T) {
	late := sellerAnswer{409, `{"status":409,"detail":"because","outcome":"expired","refundDue":true}`}
	for name, c := range map[string]struct {
		answers []sellerAnswer
		code    int
		says    string
		json    string
	}{
		"too late":            {[]sellerAnswer{late}, 3, "expired: because\n  The payment bought nothing: pay it back.\n", `"refundDue":true`},
		"unknown":             {[]sellerAnswer{refused(503, "unknown")}, 7, "It is unknown whether it was done. Repeat the command", `"mayBeAccepted":true`},
		"no answer":           {[]sellerAnswer{{}}, 7, "it is unknown whether it was done\n  Repeat the command", `"mayBeAccepted":true,"claim":"1-2-3","error":"`},
		"what is no server":   {[]sellerAnswer{{404, "<html>"}}, 1, "; check --server", `"claim":"1-2-3","error":"`},
		"a token is missing":  {[]sellerAnswer{{401, `{"status":401}`}}, 1, "the bearer token is missing", `"exitCode":1`},
		"unknown, then known": {[]sellerAnswer{refused(503, "unknown"), late}, 3, "expired: because", `"refundDue":true`},
	} {
		timeout := "1m"
		if c.code == 7 {
			timeout = "1500ms"
		}
		got, code := settleFrom(t, &seller{answers: c.answers}, api.Confirm, "--payment", "p", "--timeout", timeout)
		if said := got.out.String() + got.err.String(); code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("%s: exit code %d, want %d, and it says\n%s", name, code, c.code, said)
		}
		got, code = settleFrom(t, &seller{answers: c.answers}, api.Confirm, "--payment", "p", "--timeout", timeout, "--json")
		if code != c.code || !strings.Contains(got.out.String(), c.json) || !json.Valid(got.out.Bytes()) {
			t.Errorf("%s: exit code %d, want %d, and it answers\n%s", name, code, c.code, &got.out)
		}
	}
}

// A claim that is held, and one that was, say so to whoever asks for them again.
func TestClaimTellsOfHolds(t *testing.T) {
	held := settledAs("held", "", "")
	held.status = 201
	expired := sellerAnswer{409, `{"status":409,"detail":"because","outcome":"expired","claims":[` + strings.Replace(held.body, "held", "expired", 1) + `]}`}
	for _, c := range []struct {
		answer sellerAnswer
		code   int
		says   string
	}{
		{held, 0, "held: unit 7 of tickets to ann, to be paid until 2026-11-11T12:10:00Z, claim 1-2-3\n"},
		{expired, 3, "expired: because\n  ann had unit 7, claim 1-2-3\n"},
	} {
		got, code := claimFrom(t, &seller{answers: []sellerAnswer{c.answer}}, "--json=false")
		if code != c.code || got.out.String() != c.says {
			t.Errorf("exit code %d, it says %s", code, &got.out)
		}
	}
	got, _ := claimFrom(t, &seller{answers: []sellerAnswer{held}})
	if !strings.Contains(got.out.String(), `"heldUntil":"2026-11-11T12:10:00Z"`) {
		t.Errorf("it answers %s", &got.out)
	}
}

// The limits of what is sent are those of the ledger.
func TestLimitsOfSettlements(t *testing.T) {
	if api.MaxPayment != ledger.MaxPayment || api.MaxWho != ledger.MaxWho || api.MaxReason != ledger.MaxReason {
		t.Error("the limits of package api are not those of package ledger")
	}
}
