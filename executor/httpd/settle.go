package httpd

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"salectl/api"
	"salectl/executor"
	"salectl/executor/httpd/wire"
	"salectl/executor/shard"
)

// maxSettlement is the most that the body of a settlement may have. The longest texts
// take a sixth of it, or all if every letter is escaped.
const maxSettlement = 8192

// ofBuyers reports whether what follows /claims/ in a path settles a claim, in a way that
// buyers' applications may.
func ofBuyers(rest string) bool {
	_, how, _ := strings.Cut(rest, "/")
	return how == string(api.Confirm) || how == string(api.Extend) || how == string(api.Cancel)
}

// postSettlement answers POST /v1/sales/{sale}/claims/{rest}, where rest is a claim and
// how it is settled.
func (s *Server) postSettlement(w http.ResponseWriter, r *http.Request, name, rest string) {
	claim, way, _ := strings.Cut(rest, "/")
	how := api.How(way)
	s.withSale(w, r, http.MethodPost, name, func(sale *sale) {
		began := s.now().Mono
		label := s.settle(w, r, sale, claim, how)
		s.metrics.settlement(sale.name, how, label, s.now().Mono-began)
		wire.Note(w, label)
	})
}

// settle answers one settlement and returns its label in metrics.
func (s *Server) settle(w http.ResponseWriter, r *http.Request, sale *sale, claim string, how api.How) api.Outcome {
	a := executor.Answer{Outcome: api.Overloaded}
	switch said, f := s.readSettlement(r, how); {
	case f == nil:
		a = s.settleAnswer(r.Context(), sale, claim, how, said)
	case f != crowded:
		wire.WriteBadRequest(w, f)
		return api.BadRequest
	}
	if a.Claim.User != "" {
		sale.tell(w.Header(), sale.PlaceOf(a.Claim.ID.Shard))
	}
	if a.Outcome != how.Done() {
		wire.NotSettled(&a)
		wire.Refuse(w, sale.name, s.now, &a)
		return a.Outcome
	}
	w.Header()["Content-Type"] = wire.JSONType
	w.Write(wire.AppendClaim(nil, a.Outcome, sale.name, &a.Claim))
	if a.Replayed {
		return api.Replayed
	}
	return a.Outcome
}

// settleAnswer sends the settlement to the sale.
func (s *Server) settleAnswer(ctx context.Context, sale *sale, claim string, how api.How, said api.Settlement) executor.Answer {
	id, ok := shard.ParseClaimID(claim)
	x := executor.Settlement{Claim: id, How: how, Settlement: said}
	switch {
	case s.draining.Load():
		return executor.Answer{Outcome: api.Draining}
	case !ok:
		return s.unrecorded(sale, claim, x, executor.Answer{Outcome: api.NoSuchClaim})
	}
	ctx, cancel := context.WithTimeout(ctx, s.claimTimeout)
	defer cancel()
	return s.unrecorded(sale, claim, x, sale.Do(ctx, executor.Request{Settle: &x}))
}

// unrecorded tells the log, and whoever has asked, of a payment that no ledger has, since the sale
// has ended or has no such claim: nothing else remembers that it is owed back.
func (s *Server) unrecorded(sale *sale, claim string, x executor.Settlement, a executor.Answer) executor.Answer {
	if x.How == api.Confirm && a.Claim.User == "" && a.Outcome.Row().Retry == api.Final {
		a.Message = cmp.Or(strings.TrimSuffix(a.Message, "."), strings.TrimSuffix(a.Outcome.Row().Detail, ".")) + ". The payment bought nothing, and no ledger has it: pay it back."
		s.log.Warn("a payment bought nothing, and the ledger does not have it: pay it back", "sale", sale.name, "claim", claim,
			"payment", x.Payment, "outcome", a.Outcome)
	}
	return a
}

// readSettlement reads a settlement from a request.
func (s *Server) readSettlement(r *http.Request, how api.How) (api.Settlement, *wire.Fault) {
	if f := checkContentType(r.Header["Content-Type"]); f != nil {
		return api.Settlement{}, f
	}
	body, f := readBody(r, nil, maxSettlement, s.bodies)
	if f != nil {
		return api.Settlement{}, f
	}
	return wire.ParseSettlement(body, how)
}
