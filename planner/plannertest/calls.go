package plannertest

import (
	"context"

	"google.golang.org/protobuf/proto"

	"salectl/backends/calls"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
)

// RequestOf returns the request that a call makes of a log, if it makes one.
func RequestOf(k calls.Call) ledger.Request {
	var p probe
	switch k.What {
	case "export", "read units", "check table", "create table":
	default:
		if k.Node == calls.Store {
			k.Make(context.Background(), &p, nil, nil)
		}
	}
	return p.request
}

// CommitOf returns the commit that a call appends; nil if it appends none.
func CommitOf(k calls.Call) *pb.Commit {
	r := RequestOf(k)
	if r.Kind != ledger.AppendRequest {
		return nil
	}
	var c pb.Commit
	if err := proto.Unmarshal(r.Entry, &c); err != nil {
		panic(err)
	}
	return &c
}

// probe is a store that records the one call that is made.
type probe struct {
	ledger.Logs
	request ledger.Request
}

func (p *probe) Append(_ context.Context, log string, slot uint64, prev, head, entry []byte) error {
	p.request = ledger.Request{Kind: ledger.AppendRequest, Log: log, Slot: slot, Prev: prev, Head: head, Entry: entry}
	return nil
}

func (p *probe) Read(_ context.Context, log string, from uint64, limit int) (head []byte, entries [][]byte, err error) {
	p.request = ledger.Request{Kind: ledger.ReadRequest, Log: log, Slot: from, Max: limit}
	return nil, nil, nil
}

func (p *probe) Heads(context.Context, []string) ([][]byte, error) { return nil, nil }

func (p *probe) Delete(_ context.Context, log string, upTo uint64) error {
	p.request = ledger.Request{Log: log, Slot: upTo}
	return nil
}
