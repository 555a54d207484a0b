package hbase

import (
	"context"

	"github.com/tsuna/gohbase/hrpc"
	"google.golang.org/protobuf/proto"
)

// wholeDelete is a Delete that is sent in one Write. gohbase sends the cells of a Mutate in a
// second Write, and unless the connection is plain TCP another request may come in between.
type wholeDelete struct{ *hrpc.Mutate }

// CellBlocksEnabled makes the cells part of the request.
func (wholeDelete) CellBlocksEnabled() bool { return false }

// masterCall is a call to the master; gohbase has types for only some of them.
type masterCall struct {
	ctx      context.Context
	name     string
	request  proto.Message
	response proto.Message // its type is the expected one
	results  chan hrpc.RPCResult
}

func newMasterCall(ctx context.Context, name string, request, response proto.Message) *masterCall {
	return &masterCall{ctx: ctx, name: name, request: request, response: response, results: make(chan hrpc.RPCResult, 1)}
}

func (m *masterCall) Name() string                    { return m.name }
func (m *masterCall) Description() string             { return m.name }
func (m *masterCall) Table() []byte                   { return nil }
func (m *masterCall) Key() []byte                     { return nil }
func (m *masterCall) Region() hrpc.RegionInfo         { return nil }
func (m *masterCall) SetRegion(hrpc.RegionInfo)       {}
func (m *masterCall) Context() context.Context        { return m.ctx }
func (m *masterCall) ToProto() proto.Message          { return m.request }
func (m *masterCall) NewResponse() proto.Message      { return m.response.ProtoReflect().New().Interface() }
func (m *masterCall) ResultChan() chan hrpc.RPCResult { return m.results }
