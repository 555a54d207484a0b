package httpd

import (
	"context"
	"net/http"

	"salectl/api"
	"salectl/executor"
	"salectl/executor/httpd/wire"
)

// maxSettlement is the maximum size of a settlement's body. The longest texts take a sixth of it,
// or all of it if every letter is escaped.
const maxSettlement = 8192

// postSettlement handles POST /v1/sales/{sale}/claims/{claim}/{how}.
func (server *Server) postSettlement(w http.ResponseWriter, r *http.Request, t target) (label api.Outcome) {
	sale, a := t.sale, executor.Answer{Outcome: api.Overloaded}
	body, f := readJSON(r, maxSettlement, server.bodies)
	var x api.Settlement
	if f == nil {
		x, f = wire.ParseSettlement(body, t.how)
	}
	switch f {
	case nil:
		a = server.settle(r.Context(), sale, t.id, t.how, x)
	case crowded:
	default:
		f.Write(w)
		return api.BadRequest
	}
	if a.Claim.User != "" {
		sale.setPlace(w.Header(), sale.PlaceOf(a.Claim.ID.Shard))
	}
	if a.Outcome != t.how.Done() {
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

// settle settles a claim.
func (server *Server) settle(ctx context.Context, sale *sale, claim string, how api.How, body api.Settlement) executor.Answer {
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
