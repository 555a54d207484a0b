package httpd

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"salectl/api"
	"salectl/executor"
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
		note(w, label)
	})
}

// settle answers one settlement and returns its label in metrics.
func (s *Server) settle(w http.ResponseWriter, r *http.Request, sale *sale, claim string, how api.How) api.Outcome {
	a := executor.Answer{Outcome: api.Overloaded}
	switch said, f := s.readSettlement(r, how); {
	case f == nil:
		a = s.settleAnswer(r.Context(), sale, claim, how, said)
	case f != crowded:
		writeBadRequest(w, f)
		return api.BadRequest
	}
	if a.Claim.User != "" {
		sale.tell(w.Header(), sale.PlaceOf(a.Claim.ID.Shard))
	}
	if a.Outcome != how.Done() {
		if a.Message == "" {
			a.Message = notSettled[a.Outcome]
		}
		s.refuse(w, sale, &a)
		return a.Outcome
	}
	w.Header()["Content-Type"] = typeJSON
	w.Write(appendClaim(nil, a.Outcome, sale.name, &a.Claim))
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
func (s *Server) readSettlement(r *http.Request, how api.How) (api.Settlement, *fault) {
	if f := checkContentType(r.Header["Content-Type"]); f != nil {
		return api.Settlement{}, f
	}
	body, f := readBody(r, nil, maxSettlement, s.bodies)
	if f != nil {
		return api.Settlement{}, f
	}
	return parseSettlement(body, how)
}

// notSettled are details where those of the table speak of a claim's key. A settlement
// has none: whoever is not answered asks again.
var notSettled = map[api.Outcome]string{
	api.Overloaded: "Too many requests are waiting; this one was not looked at. Ask again.",
	api.NoQuorum:   "This server has lost the right to sell for the moment; it did not do what was asked. Ask again.",
	api.Unknown:    "Nobody knows yet whether this was done. Ask again: it is done once.",
	api.Standby:    "The process that owns the shard cannot be reached from here at the moment; this request was not looked at. Ask again.",
	api.NotChecked: "The rules of the sale could not be checked; this request was not looked at. Ask again.",
	api.Draining:   "This server is going down; this request was not looked at. Ask again.",
}
