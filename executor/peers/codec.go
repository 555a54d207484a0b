package peers

import (
	"encoding/json"
	"fmt"

	"salectl/api/streampb"
	"salectl/executor/ownership"
	"salectl/executor/request"
)

// This file encodes and decodes the messages between processes. The links of this package and
// simulated links use the same encoding.

// EncodeHello returns the first message of a link from one process to another.
func EncodeHello(from, to ownership.Process) *streampb.Request {
	return &streampb.Request{Kind: &streampb.Request_Hello{Hello: &streampb.Hello{
		ToId: to.ID, PeerId: from.ID, Address: from.Address, Version: from.Version,
	}}}
}

// EncodeRequest returns the message that forwards the request of a ticket of a run.
func EncodeRequest(run string, t *request.Ticket) *streampb.Request {
	m := &streampb.Request{Id: t.ForwardID, Forwarded: true, Run: run}
	switch {
	case t.Settle != nil:
		m.Kind = &streampb.Request_Settle{Settle: t.Settle.ToStream()}
	case t.Query != nil:
		m.Kind = &streampb.Request_Query{Query: &streampb.Query{
			User: t.Query.User, Claim: t.Query.Claim.ToStream(), Before: t.Query.Page.Before, Limit: uint32(t.Query.Page.Limit),
		}}
	default:
		m.Kind = &streampb.Request_Claim{Claim: &streampb.NewClaim{
			User: t.User, Key: t.Key, Quantity: t.Quantity, Units: t.Units, Adjacent: t.Adjacent,
		}}
	}
	return m
}

// encodeCancel returns the message that withdraws the forwarded claim of a ticket: its requester has gone.
func encodeCancel(run string, t *request.Ticket) *streampb.Request {
	return &streampb.Request{
		Id: t.ForwardID, Forwarded: true, Run: run, Kind: &streampb.Request_Cancel{Cancel: &streampb.Cancel{User: t.User, Key: t.Key}},
	}
}

// DecodeRequest returns the request of a message of EncodeRequest. A Cancel has the user and the key of the claim
// that it withdraws. DecodeRequest reports false for any other message.
func DecodeRequest(m *streampb.Request) (r request.Request, ok bool) {
	if c := m.GetCancel(); c != nil {
		return request.Request{User: c.GetUser(), Key: c.GetKey()}, true
	}
	if r, ok = request.RequestOf(m); ok && r.IsClaim() { // another process may send anything
		r.Quantity, r.Names = max(r.Quantity, 1), nil
	}
	return r, ok
}

// EncodeUpdate returns an update as stream messages of up to most bytes each.
func EncodeUpdate(t *ownership.PeerUpdate, most int) (all []*streampb.Request, err error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	size := len(text) + updateOverhead
	if size <= most {
		return []*streampb.Request{{Kind: &streampb.Request_Peer{Peer: text}}}, nil
	}
	parts := t.Parts(size/most + 1)
	if len(parts) == 1 {
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", streampb.ErrTooLong, size, most)
	}
	for _, part := range parts {
		some, err := EncodeUpdate(part, most)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// updateOverhead is the maximum size of a message beyond the encoded update, in bytes.
const updateOverhead = 8

// ReceiveRequest decodes a message of a peer and passes it to serve, with its request, or to update.
func ReceiveRequest(m *streampb.Request, serve func(*streampb.Request, *request.Request), update func(*ownership.PeerUpdate)) error {
	if text := m.GetPeer(); text != nil {
		t := new(ownership.PeerUpdate)
		if err := json.Unmarshal(text, t); err != nil {
			return err
		}
		update(t)
		return nil
	}
	if r, ok := DecodeRequest(m); ok {
		serve(m, &r)
	}
	return nil
}

// EncodeReply returns the answer to a forwarded request as a stream message, with the owner of the shard as
// far as it is known.
func EncodeReply(id uint64, a request.Answer, owner ownership.Route) *streampb.Reply {
	m := new(streampb.Answer)
	a.ToStream(m)
	m.Owner, m.OwnerId, m.Epoch = owner.Address, owner.Owner, owner.Epoch
	return &streampb.Reply{Id: id, Kind: &streampb.Reply_Answer{Answer: m}}
}

// ReceiveReply decodes the reply of a peer and passes it to receive.
func ReceiveReply(r *streampb.Reply, receive Replies) {
	if m := r.GetAnswer(); m != nil {
		receive(r.GetId(), request.AnswerOf(m), ownership.Route{Owner: m.GetOwnerId(), Address: m.GetOwner(), Epoch: m.GetEpoch()})
	}
}
