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

// EncodeRequest returns a forwarded request as a stream message.
func EncodeRequest(e ForwardedRequest) *streampb.Request {
	r := &streampb.Request{Id: e.ID, Forwarded: true, Run: e.UID}
	switch {
	case e.Cancel:
		r.Kind = &streampb.Request_Cancel{Cancel: &streampb.Cancel{User: e.User, Key: e.Key}}
	case e.Settle != nil:
		r.Kind = &streampb.Request_Settle{Settle: e.Settle.ToStream()}
	case e.Query != nil:
		r.Kind = &streampb.Request_Query{Query: &streampb.Query{
			User: e.Query.User, Claim: e.Query.Claim.ToStream(), Before: e.Query.Page.Before, Limit: uint32(e.Query.Page.Limit),
		}}
	default:
		r.Kind = &streampb.Request_Claim{Claim: &streampb.NewClaim{
			User: e.User, Key: e.Key, Quantity: e.Quantity, Units: e.Units, Adjacent: e.Adjacent,
		}}
	}
	return r
}

// decodeRequest is the inverse of EncodeRequest. It reports false for any other message.
func decodeRequest(r *streampb.Request) (ForwardedRequest, bool) {
	decoded, ok := request.RequestOf(r)
	e := ForwardedRequest{ID: r.GetId(), UID: r.GetRun(), Cancel: r.GetCancel() != nil, Request: decoded}
	switch {
	case e.Cancel:
		e.User, e.Key = r.GetCancel().GetUser(), r.GetCancel().GetKey()
	case ok && e.IsClaim(): // another process may send anything
		e.Quantity, e.Names = max(e.Quantity, 1), nil
	}
	return e, ok || e.Cancel
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

// ReceiveRequest decodes a message of a peer and passes it to serve or update.
func ReceiveRequest(r *streampb.Request, serve func(ForwardedRequest), update func(*ownership.PeerUpdate)) error {
	if text := r.GetPeer(); text != nil {
		t := new(ownership.PeerUpdate)
		if err := json.Unmarshal(text, t); err != nil {
			return err
		}
		update(t)
		return nil
	}
	if e, ok := decodeRequest(r); ok {
		serve(e)
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
