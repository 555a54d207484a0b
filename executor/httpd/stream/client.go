package stream

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"time"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/wire"
	"salectl/executor/request"
)

// client reads the requests of a client from a stream. The goroutine of the handler uses it.
type client struct {
	*stream
	grant  access.Grant
	opened bool          // the server may answer
	now    time.Duration // monotonic: when the message was read
}

// serveClient takes requests until there are no more.
func (stream *stream) serveClient(body io.Reader) {
	c := &client{stream: stream, grant: stream.grant}
	err := stream.receive(body, c.take)
	if err == io.ErrUnexpectedEOF {
		stream.say(0, wire.Malformed("the stream ends within a message"))
		err = nil
	}
	stream.end(err)
}

// take takes a message; false: no more is to be read.
func (client *client) take(message []byte, now time.Duration) bool {
	client.now = now
	r, f := client.codec.decode(message)
	if f != nil {
		id := r.GetId()
		client.say(id, f)
		return id != 0
	}
	if _, ok := r.Asks.(*streampb.Request_Hello); ok {
		client.say(0, wire.Malformed("hello: only another process of the sale says it, on a stream that it has made with the header %s", api.PeerHeader))
		return false
	}
	if r.Id == 0 {
		client.say(0, wire.Malformed("id: missing; each request has one, from 1"))
		return false
	}
	if !client.opened {
		client.config.AwaitOpened(client.ctx)
		client.opened = true
	}
	right := access.MayClaim
	if r.GetSettle().GetHow() == string(api.Confirm) {
		right = access.MayConfirm
	}
	switch missing := client.grant.May(right); {
	case missing == nil:
	case missing.Scope != "":
		client.say(r.Id, missing)
		return true
	default: // the token is no longer valid
		client.say(0, missing)
		return false
	}
	switch asks := r.Asks.(type) {
	case *streampb.Request_Claim:
		return client.claim(r, asks.Claim)
	case *streampb.Request_Settle:
		return client.settle(r, asks.Settle)
	case *streampb.Request_User:
		return client.lookUpUser(r, asks.User)
	case *streampb.Request_Find:
		return client.lookUpClaim(r, asks.Find)
	case *streampb.Request_Cancel:
		client.cancel(r.Id)
	default:
		client.say(r.Id, wire.Malformed("the request asks for nothing that is known here: it has claim, settle, user, find or cancel"))
	}
	return true
}

// claim has the sale decide on a claim.
func (client *client) claim(r *streampb.Request, asks *streampb.NewClaim) bool {
	u, ok := client.begin(r, claim)
	if u == nil {
		return ok
	}
	request := executor.Request{User: asks.GetUser(), Key: asks.GetKey(), Quantity: asks.GetQuantity(), Adjacent: asks.GetAdjacent(), Names: slices.Clone(asks.GetNames())}
	if request.Quantity == 0 {
		request.Quantity = 1
	}
	u.user = request.User
	err := cmp.Or(api.CheckUser(request.User), api.CheckQuantity(request.Quantity))
	if len(asks.GetUnits()) > 0 {
		err = cmp.Or(err, errors.New("units: these are numbers, by which processes ask each other: say the names of the units that are wanted in names"))
	}
	if len(request.Names) > 0 {
		if f := wire.NormalizeNames(&request, asks.GetQuantity() > 1); f != nil {
			err = cmp.Or(err, errors.New(f.Detail))
		}
	}
	if err == nil && request.Key != "" {
		err = api.CheckKey(request.Key)
	}
	switch {
	case err != nil:
		u.complete(executor.Answer{Outcome: api.BadRequest, Message: err.Error()})
	case client.config.Draining():
		u.complete(client.sale.Decline(request, api.Draining))
	default:
		u.begun(client.sale.Begin(request, u.done))
	}
	return true
}

// settle has the sale settle a claim.
func (client *client) settle(r *streampb.Request, asks *streampb.Settlement) bool {
	u, ok := client.begin(r, settlement)
	if u == nil {
		return ok
	}
	x := request.SettlementOf(asks)
	u.how, u.shard = x.How, x.Claim.Shard
	err := x.Check(x.How)
	switch {
	case x.How == api.Refund:
		u.complete(executor.Answer{Outcome: api.BadRequest, Message: "how: a refund is asked of the admin address"})
	case err != nil:
		u.complete(executor.Answer{Outcome: api.BadRequest, Message: err.Error()})
	case client.config.Draining():
		u.complete(executor.Answer{Outcome: api.Draining})
	default:
		u.begun(client.sale.Begin(executor.Request{Settle: &x}, u.done))
	}
	return true
}

// lookUpUser looks up a page of a user's claims.
func (client *client) lookUpUser(r *streampb.Request, asks *streampb.User) bool {
	page, user := request.PageOf(asks), asks.GetUser()
	if err := page.Check(); err != nil {
		client.say(r.Id, wire.Unacceptable(err))
		return true
	}
	u, ok := client.begin(r, userLookup)
	if u == nil {
		return ok
	}
	u.user = user
	if err := api.CheckUser(user); err != nil {
		u.kind = claim
		u.complete(executor.Answer{Outcome: api.BadRequest, Message: err.Error()})
		return true
	}
	u.begun(client.sale.Begin(executor.Request{Query: &executor.Query{User: user, Page: page}}, u.done))
	return true
}

// lookUpClaim looks up a claim, with a page of its refunds due.
func (client *client) lookUpClaim(r *streampb.Request, asks *streampb.Find) bool {
	id, page := api.ClaimIDOf(asks.GetClaim()), request.PageOf(asks)
	if err := page.Check(); err != nil {
		client.say(r.Id, wire.Unacceptable(err))
		return true
	}
	u, ok := client.begin(r, claimLookup)
	if u == nil {
		return ok
	}
	u.shard = id.Shard
	u.begun(client.sale.Begin(executor.Request{Query: &executor.Query{Claim: id, Page: page}}, u.done))
	return true
}
