package httpd

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/executor"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/wire"
	"salectl/executor/payments"
	"salectl/executor/shard"
)

// sale is one sale as this server has it.
type sale struct {
	executor.Service
	name    string
	metrics saleMetrics
	checker *payments.Checker // nil: there is none
	webhook *payments.Webhook // nil: there is none
	logs    ledger.Logs       // as followers read them; nil: nobody can follow the sale
	places  atomic.Pointer[places]
}

// withList counts the list of one more shard, if it has one. No lists: nil.
func withList(v *api.Lists, shard executor.ShardStatus) *api.Lists {
	if !shard.Listed {
		return v
	}
	if v == nil {
		v = new(api.Lists)
	}
	if shard.ListOn {
		v.On++
	} else {
		v.Off++
	}
	v.Undrained += shard.Undrained
	return v
}

// withHolds counts the holds of one more shard, if it has any. No holds: nil.
func withHolds(v *api.Holds, shard executor.ShardStatus) *api.Holds {
	if !shard.Paid {
		return v
	}
	if v == nil {
		v = new(api.Holds)
	}
	if next := shard.NextRelease.UTC(); !shard.NextRelease.IsZero() && (v.NextRelease.IsZero() || next.Before(v.NextRelease)) {
		v.NextRelease = next
	}
	o := shard.Outcomes
	v.Open += o.OpenHolds
	v.Confirmed += o.Confirmed
	v.Expired += o.Expired
	v.Cancelled += o.Cancelled
	v.Refunded += o.Refunded
	v.Resold += o.Resold
	v.RefundsDue += o.RefundsDue
	return v
}

func (s *Server) getSale(w http.ResponseWriter, sale *sale, rights access.Rights, admin bool) {
	status, operates := sale.Status(), rights&access.MayOperate != 0
	if status.Away != "" {
		sale.writeAway(w, &status, operates, admin)
		return
	}
	view := sale.stands(&status, s.now().Wall)
	if operates {
		sale.operations(view, &status, admin)
	}
	wire.WriteJSON(w, http.StatusOK, view)
}

// writeAway says why it cannot be told how the sale stands; to operators also what is known still.
func (s *sale) writeAway(w http.ResponseWriter, status *executor.Status, operates, admin bool) {
	row := status.Away.Row()
	if !operates || row.Status != http.StatusServiceUnavailable {
		wire.WriteOutcome(w, status.Away)
		return
	}
	var view api.Sale
	s.operations(&view, status, admin)
	wire.Note(w, row.Outcome)
	wire.WriteProblem(w, row.Status, row.RetryAfter, wire.MustMarshal(api.Problem{
		Type: api.OutcomeType + string(row.Outcome), Title: row.Title, Status: row.Status, Detail: row.Detail, Outcome: row.Outcome,
		Known: &api.Known{Nodes: view.Nodes, Shards: view.Shards, Processes: view.Processes, Owners: view.Owners, Moves: view.Moves},
	}))
}

// view is all that is known of a sale at a time, as the admin address tells it.
func (s *sale) view(status *executor.Status, now time.Time) *api.Sale {
	view := s.stands(status, now)
	s.operations(view, status, true)
	return view
}

// stands is what everybody may know of a sale who may claim.
func (s *sale) stands(status *executor.Status, now time.Time) *api.Sale {
	view := &api.Sale{
		Sale:         s.name,
		UID:          status.UID,
		Phase:        ledger.PhaseAt(status.Phase, status.OpensAt, status.ClosesAt, now),
		PerUserLimit: status.PerUser,
		Partial:      status.Partial,
		OpensAt:      status.OpensAt.UTC(),
		ClosesAt:     status.ClosesAt.UTC(),
		Generation:   status.Generation,
		ServerTime:   now.UTC(),
		Draw:         status.Draw,
	}
	if p := status.RedPacket; p != nil {
		view.Packets = &api.Packets{Currency: p.Currency, Total: p.Format(p.Total), Commitment: status.Commitment.String()}
	}
	for _, shard := range status.Shards {
		view.Holds = withHolds(view.Holds, shard)
		view.Stock += shard.Limit
		view.Available += shard.Available
		view.Held += shard.Held
		view.Sold += shard.Sold
		view.InFlight += shard.InFlight
	}
	view.SoldOut = view.Draw == nil && view.Stock > 0 && view.Sold == view.Stock
	if view.Phase == ledger.PhaseOpen && !status.Sells {
		view.Phase = ledger.PhaseStalled
	}
	return view
}

// operations adds what operators may know of a sale. Names of lock nodes, which are their
// addresses, and errors, which have addresses in them, are told at the admin address alone.
func (s *sale) operations(view *api.Sale, status *executor.Status, admin bool) {
	said := func(text string) string {
		if admin {
			return text
		}
		return ""
	}
	view.Nodes, view.Shards = make([]api.Node, 0, len(status.Nodes)), []api.Shard{}
	view.Processes, view.Owners, view.Moves = processes(status.Members), ownership(status.Shards), moves(status.Moves)
	for _, n := range status.Nodes {
		view.Nodes = append(view.Nodes, api.Node{
			Name: said(n.Name), Up: n.Up, Since: moment(n.Since), Error: said(n.Error), VotesFrom: n.VotesFrom.UTC(),
		})
	}
	for _, shard := range status.Shards {
		view.Lists = withList(view.Lists, shard)
		if stall := shard.Stall; stall != nil {
			view.Shards = append(view.Shards, api.Shard{Shard: shard.Shard, Since: moment(stall.Since), Error: said(stall.Error)})
		}
	}
	if u := status.Unchecked; u != nil {
		view.RuleCheck = &api.RuleCheck{FailingSince: moment(u.Since), Error: said(shard.OneLine(u.Err))}
	}
	if s.checker != nil {
		if view.PaymentCheck = paymentCheck(s.checker.Health()); view.PaymentCheck != nil {
			view.PaymentCheck.Error = said(view.PaymentCheck.Error)
		}
	}
}

// paymentCheck is how the checks of a sale go; nil where there is nothing to tell.
func paymentCheck(h payments.Health) *api.PaymentCheck {
	if h.Watched == 0 && h.Since.IsZero() {
		return nil
	}
	v := &api.PaymentCheck{Watched: h.Watched, Error: h.Error}
	if !h.Since.IsZero() {
		v.FailingSince = moment(h.Since)
	}
	return v
}

// userView is an api.User whose claims are encoded already.
type userView struct {
	Sale   string          `json:"sale"`
	User   string          `json:"user"`
	Claims json.RawMessage `json:"claims"`
	Next   string          `json:"next,omitempty"`
}

func (s *Server) getUser(w http.ResponseWriter, r *http.Request, sale *sale, segment string) {
	user, _ := url.PathUnescape(segment) // what URL.EscapedPath returns is escaped properly
	if err := api.CheckUser(user); err != nil {
		wire.WriteBadRequest(w, wire.Unacceptable(err))
		return
	}
	page, f := pageOf(r)
	if f != nil {
		wire.WriteBadRequest(w, f)
		return
	}
	a := sale.Do(r.Context(), executor.Request{Query: &executor.Query{User: user, Page: page}})
	sale.tell(w.Header(), sale.Place(user))
	if a.Outcome != "" {
		p := wire.NotFound(a.Outcome)
		p.Write(w)
		return
	}
	wire.WriteJSON(w, http.StatusOK, userView{sale.name, user, wire.AppendClaims(nil, sale.name, a.Claims), a.Next})
}

// pageOf is the part of a list that a request asks for.
func pageOf(r *http.Request) (p api.Page, _ *wire.Fault) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return p, wire.Malformed("the query: %v", err)
	}
	for name, values := range query {
		switch {
		case name != "before" && name != "limit":
			return p, wire.Malformed("%s: unknown parameter; there are before and limit", name)
		case len(values) != 1:
			return p, wire.Malformed("%s: given twice", name)
		}
	}
	p.Before = query.Get("before")
	if query.Has("limit") {
		text := query.Get("limit")
		if p.Limit, err = strconv.Atoi(text); err != nil || p.Limit < 1 || text != strconv.Itoa(p.Limit) {
			p.Limit = -1
		}
	}
	if err := p.Check(); err != nil {
		return p, wire.Unacceptable(err)
	}
	return p, nil
}

// getClaim answers GET /v1/sales/{sale}/claims/{claim}.
func (s *Server) getClaim(w http.ResponseWriter, r *http.Request, sale *sale, text string) {
	id, ok := shard.ParseClaimID(text)
	a := executor.Answer{Outcome: api.NoSuchClaim}
	page, f := pageOf(r)
	if f != nil {
		wire.WriteBadRequest(w, f)
		return
	}
	if ok {
		a = sale.Do(r.Context(), executor.Request{Query: &executor.Query{Claim: id, Page: page}})
		sale.tell(w.Header(), sale.PlaceOf(id.Shard))
	}
	if a.Outcome != "" {
		p := wire.NotFound(a.Outcome)
		p.Write(w)
		return
	}
	h := w.Header()
	h["Content-Type"] = wire.JSONType
	h["Cache-Control"] = wire.NoStore
	w.Write(wire.AppendClaim(nil, a.Claim.State, sale.name, &a.Claim))
}

// moment is a time as people read it: nobody asks for more than milliseconds.
func moment(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
