package openapi

import (
	"bytes"
	"context"
	"net/http"
	"os/exec"
	"testing"

	"salectl/testdata/openapi/client"
)

// TestClient sells with the client that was generated from the document.
func TestClient(t *testing.T) {
	s, ctx := start(t, "--token-file", "tokens"), t.Context()
	c, err := client.NewClientWithResponses(s.buyers, client.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+operateToken)
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	const sale, user = "paid", "ada & co/7"
	claim := func(key string, quantity int) *client.CreateClaimResponse {
		t.Helper()
		r, err := c.CreateClaimWithResponse(ctx, sale, &client.CreateClaimParams{IdempotencyKey: &key}, client.ClaimRequest{User: user, Quantity: &quantity})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}

	first := claim("k-1", 2)
	if first.JSON201 == nil || first.JSON201.Outcome != client.AcceptedClaimOutcomeHeld || first.JSON201.User != user || len(first.JSON201.Units) != 2 {
		t.Fatalf("a claim: %s", first.Body)
	}
	if at := first.Headers201; at == nil || at.Location != "/v1/sales/paid/claims/"+first.JSON201.Claim || at.SalectlShard == nil || *at.SalectlShard != "0/1" {
		t.Errorf("the headers of a claim: %+v", at)
	}
	if again := claim("k-1", 2); again.JSON200 == nil || again.JSON200.Claim != first.JSON201.Claim {
		t.Errorf("the same claim: %s", again.Body)
	}
	second := claim("k-2", 1)
	if second.JSON201 == nil {
		t.Fatalf("another claim: %s", second.Body)
	}
	third := claim("k-3", 1)
	if p := third.ApplicationproblemJSON409; p == nil || p.Outcome != client.ClaimConflictProblemOutcomeLimitReached || p.Claims == nil || len(*p.Claims) != 2 {
		t.Errorf("a claim beyond the limit: %s", third.Body)
	}

	confirmed, err := c.ConfirmClaimWithResponse(ctx, sale, first.JSON201.Claim, client.ConfirmRequest{Payment: "p-1"})
	if err != nil {
		t.Fatal(err)
	}
	if got := confirmed.JSON200; got == nil || got.Outcome != client.ClaimOutcomeSold {
		t.Errorf("a confirm: %s", confirmed.Body)
	}
	reason := "changed her mind"
	cancelled, err := c.CancelClaimWithResponse(ctx, sale, second.JSON201.Claim, client.CancelRequest{Reason: &reason})
	if err != nil {
		t.Fatal(err)
	}
	if got := cancelled.JSON200; got == nil || got.Outcome != client.ClaimOutcomeCancelled {
		t.Errorf("a cancel: %s", cancelled.Body)
	}
	cancelled, err = c.CancelClaimWithResponse(ctx, sale, first.JSON201.Claim, client.CancelRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got := cancelled.ApplicationproblemJSON409; got == nil || got.Outcome != client.SettlementConflictProblemOutcomeNotHeld {
		t.Errorf("a cancel of what is sold: %s", cancelled.Body)
	}

	has, err := c.GetUserWithResponse(ctx, sale, user, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := has.JSON200; got == nil || got.User != user || len(got.Claims) != 2 ||
		got.Claims[0].Payment == nil || *got.Claims[0].Payment != "p-1" || got.Claims[1].Why == nil || *got.Claims[1].Why != reason {
		t.Errorf("the user: %s", has.Body)
	}
	stands, err := c.GetSaleWithResponse(ctx, sale)
	if err != nil {
		t.Fatal(err)
	}
	if got := stands.JSON200; got == nil || got.Phase != client.SalePhaseOpen || got.Sold != 2 || got.Held != 0 || got.Holds == nil || got.Holds.Cancelled != 1 {
		t.Errorf("the sale: %s", stands.Body)
	}
	all, err := c.ListSalesWithResponse(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got := all.JSON200; got == nil || len(got.Sales) != len(sales) || got.Sales[2].Sale != sale || got.Sales[2].Phase != client.SaleSummaryPhaseOpen || got.Sales[2].Sold != 2 {
		t.Errorf("the sales: %s", all.Body)
	}
}

// A client can be generated of the whole document, too.
func TestWholeClient(t *testing.T) {
	whole, err := exec.Command("go", "tool", "oapi-codegen", "-generate", "types,client", "-package", "client", "../../api/openapi.yaml").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"DrainProcess", "OpenStream", "ReceivePayment"} {
		if !bytes.Contains(whole, []byte(") "+name)) {
			t.Errorf("what is generated from the whole document lacks %s", name)
		}
	}
}
