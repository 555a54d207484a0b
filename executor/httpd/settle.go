package httpd

import (
	"context"
	"net/http"
	"strings"

	"salectl/api"
	"salectl/executor"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/wire"
)

// maxSettlement is the maximum size of a settlement's body. The longest texts take a sixth of it,
// or all of it if every letter is escaped.
const maxSettlement = 8192

// ofBuyers reports whether the part of a path after /claims/ is a settlement by buyers.
func ofBuyers(rest string) bool {
	_, how, _ := strings.Cut(rest, "/")
	return how == string(api.Confirm) || how == string(api.Extend) || how == string(api.Cancel)
}

// postSettlement handles POST /v1/sales/{sale}/claims/{rest}, where rest is a claim and the kind of
// settlement.
func (server *Server) postSettlement(w http.ResponseWriter, r *http.Request, sale *sale, rest string) {
	claim, way, _ := strings.Cut(rest, "/")
	how := api.How(way)
	began := server.config.Clock().Mono
	label := server.settle(w, r, sale, claim, how)
	sale.CountSettlement(how, label, server.config.Clock().Mono-began)
	wire.RecordOutcome(w, label)
}

// settle answers one settlement and returns its label in metrics.
func (server *Server) settle(w http.ResponseWriter, r *http.Request, sale *sale, claim string, how api.How) api.Outcome {
	a := executor.Answer{Outcome: api.Overloaded}
	switch x, f := readSettlement(r, how, server.bodies); {
	case f == nil:
		a = server.settleAnswer(r.Context(), sale, claim, how, x)
	case f != crowded:
		f.Write(w)
		return api.BadRequest
	}
	if a.Claim.User != "" {
		sale.setPlace(w.Header(), sale.PlaceOf(a.Claim.ID.Shard))
	}
	if a.Outcome != how.Done() {
		wire.SetNotSettledMessage(&a)
		sale.refuse(w, &a)
		return a.Outcome
	}
	w.Header()["Content-Type"] = wire.JSONType
	w.Write(wire.AppendClaim(nil, a.Outcome, sale.name, &a.Claim))
	if a.Replayed {
		return api.Replayed
	}
	return a.Outcome
}

// settleAnswer settles a claim and returns the answer.
func (server *Server) settleAnswer(ctx context.Context, sale *sale, claim string, how api.How, body api.Settlement) executor.Answer {
	id, ok := api.ParseClaimID(claim)
	x := executor.Settlement{Claim: id, How: how, Settlement: body}
	switch {
	case server.draining.Load():
		return executor.Answer{Outcome: api.Draining}
	case !ok:
		return sale.reportUnrecorded(claim, &x, executor.Answer{Outcome: api.NoSuchClaim})
	}
	ctx, cancel := context.WithTimeout(ctx, server.config.ClaimTimeout)
	defer cancel()
	return sale.Do(ctx, executor.Request{Settle: &x})
}

// readSettlement reads a settlement from a request.
func readSettlement(r *http.Request, how api.How, bodies *access.Memory) (api.Settlement, *wire.Problem) {
	body, f := readJSON(r, maxSettlement, bodies)
	if f != nil {
		return api.Settlement{}, f
	}
	return wire.ParseSettlement(body, how)
}
