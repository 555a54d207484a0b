package links

import (
	"encoding/json"
	"fmt"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor"
	"salectl/executor/shard"
)

// What processes say to each other, as messages of a stream and back. The links of this package and
// those of simulated worlds carry the same.

// HelloOf is what begins a link from one process to another.
func HelloOf(from, to executor.Peer) *streampb.Request {
	return &streampb.Request{Asks: &streampb.Request_Hello{Hello: &streampb.Hello{
		ToId: to.ID, PeerId: from.ID, Address: from.Address, Version: from.Version,
	}}}
}

// RequestOf is an errand as it goes over a stream.
func RequestOf(e shard.Errand) *streampb.Request {
	r := &streampb.Request{Id: e.ID, Forwarded: true, Run: e.UID}
	switch {
	case e.GiveUp:
		r.Asks = &streampb.Request_Cancel{Cancel: &streampb.Cancel{}}
	case e.Claim != nil:
		r.Asks = &streampb.Request_Claim{Claim: &streampb.NewClaim{
			User: e.Claim.User, Key: e.Claim.Key, Quantity: e.Claim.Quantity, Units: e.Claim.Units, Adjacent: e.Claim.Adjacent,
		}}
	case e.Settle != nil:
		r.Asks = &streampb.Request_Settle{Settle: e.Settle.ToStream()}
	case e.Find != nil:
		r.Asks = &streampb.Request_Find{Find: &streampb.Find{Claim: e.Find.ToStream(), Before: e.Page.Before, Limit: uint32(e.Page.Limit)}}
	default:
		r.Asks = &streampb.Request_User{User: &streampb.User{User: e.User, Before: e.Page.Before, Limit: uint32(e.Page.Limit)}}
	}
	return r
}

// errandOf is RequestOf backwards; false: it is none.
func errandOf(r *streampb.Request) (shard.Errand, bool) {
	e := shard.Errand{ID: r.GetId(), UID: r.GetRun()}
	switch asks := r.GetAsks().(type) {
	case *streampb.Request_Cancel:
		e.GiveUp = true
	case *streampb.Request_Claim:
		e.Claim = &shard.Request{
			User: asks.Claim.GetUser(), Key: asks.Claim.GetKey(), Quantity: max(asks.Claim.GetQuantity(), 1),
			Units: asks.Claim.GetUnits(), Adjacent: asks.Claim.GetAdjacent(),
		}
	case *streampb.Request_Settle:
		x := shard.SettlementOf(asks.Settle)
		e.Settle = &x
	case *streampb.Request_Find:
		id := shard.ClaimIDOf(asks.Find.GetClaim())
		e.Find, e.Page = &id, shard.PageOf(asks.Find)
	case *streampb.Request_User:
		e.User, e.Page = asks.User.GetUser(), shard.PageOf(asks.User)
	default:
		return e, false
	}
	return e, true
}

// UpdatesOf is a Tell as it goes over a stream, in messages of at most that many bytes each.
func UpdatesOf(t *executor.Tell, most int) (all []*streampb.Request, err error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	size := len(text) + updateShell
	if size <= most {
		return []*streampb.Request{{Asks: &streampb.Request_Peer{Peer: text}}}, nil
	}
	parts := t.Parts(size/most + 1)
	if len(parts) == 1 {
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", streampb.ErrTooLong, size, most)
	}
	for _, part := range parts {
		some, err := UpdatesOf(part, most)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// updateShell is how many bytes a message has beside what a Tell says, at most.
const updateShell = 8

// HearRequest takes in what a peer asks or tells.
func HearRequest(r *streampb.Request, ask func(shard.Errand), tell func(*executor.Tell)) error {
	if text := r.GetPeer(); text != nil {
		t := new(executor.Tell)
		if err := json.Unmarshal(text, t); err != nil {
			return err
		}
		tell(t)
		return nil
	}
	if errand, ok := errandOf(r); ok {
		ask(errand)
	}
	return nil
}

// ReplyOf is what a peer is told that has asked for something.
func ReplyOf(errand uint64, a shard.Answer) *streampb.Reply {
	if a.Elsewhere {
		return &streampb.Reply{Id: errand, Says: &streampb.Reply_NotMine{NotMine: &streampb.NotMine{Tried: true}}}
	}
	if executor.IsLook(errand) {
		if a.Claim.User != "" {
			a.Claims = []shard.Claim{a.Claim}
		}
		found := &streampb.Claims{Outcome: string(a.Outcome), Claims: shard.ClaimsToStream(a.Claims), Next: a.Next}
		return &streampb.Reply{Id: errand, Says: &streampb.Reply_Claims{Claims: found}}
	}
	m := new(streampb.Answer)
	a.ToStream(m)
	return &streampb.Reply{Id: errand, Says: &streampb.Reply_Answer{Answer: m}}
}

// BounceOf is what a peer is told that has asked another than the owner of a shard.
func BounceOf(errand uint64, to shard.Route) *streampb.Reply {
	return &streampb.Reply{Id: errand, Says: &streampb.Reply_NotMine{NotMine: &streampb.NotMine{
		Owner: to.Address, OwnerId: to.Owner, Epoch: to.Epoch,
	}}}
}

// HearReply takes in what a peer says to what it was asked.
func HearReply(r *streampb.Reply, hear executor.Replies) {
	switch says := r.GetSays().(type) {
	case *streampb.Reply_Answer:
		hear.Answered(r.GetId(), shard.AnswerOf(says.Answer))
	case *streampb.Reply_Claims:
		hear.Answered(r.GetId(), found(says.Claims))
	case *streampb.Reply_NotMine:
		if says.NotMine.GetTried() {
			tried := shard.Undecided
			tried.Elsewhere = true
			hear.Answered(r.GetId(), tried)
			return
		}
		hear.Bounced(r.GetId(), shard.Route{
			Owner: says.NotMine.GetOwnerId(), Address: says.NotMine.GetOwner(), Epoch: says.NotMine.GetEpoch(),
		})
	}
}

// found is what a look has found.
func found(m *streampb.Claims) shard.Answer {
	a := shard.Answer{Outcome: api.Outcome(m.GetOutcome()), Claims: shard.ClaimsOf(m.GetClaims()), Next: m.GetNext()}
	if len(a.Claims) == 1 {
		a.Claim = a.Claims[0]
	}
	return a
}
