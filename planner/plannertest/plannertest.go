// Package plannertest has sales and logs for tests of the planner and of the packages below it.
package plannertest

import (
	"bytes"
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"salectl/backends/calls"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// UID is the uid of the run in a Log.
const UID = "0011223344556677"

// Epoch is when tests begin.
var Epoch = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

// Log returns the log of a sale after commits of one op each.
func Log(t testing.TB, ops ...*pb.Op) *ledger.Sale {
	t.Helper()
	sale := ledger.NewSale("sale/x")
	for _, op := range ops {
		e, err := sale.Entry([]byte("planner1"), 1, op)
		if err != nil {
			t.Fatal(err)
		}
		if err := sale.Apply(e.Commit, e.Hash); err != nil {
			t.Fatal(err)
		}
	}
	return sale
}

// PlannedOp returns a Planned whose plan has a digest of equal bytes.
func PlannedOp(uid string, generation uint64, digest byte) *pb.Op {
	return &pb.Op{Op: &pb.Op_Planned{Planned: &pb.Planned{
		Generation: generation, Uid: uid, Run: 1, Settings: &pb.Settings{Phase: pb.Phase_OPEN, PerUserLimit: 1},
		Shards: []*pb.ShardChange{{}}, PlanDigest: bytes.Repeat([]byte{digest}, 32),
	}}}
}

// AppliedOp returns an Applied.
func AppliedOp(generation uint64) *pb.Op {
	return &pb.Op{Op: &pb.Op_Applied{Applied: &pb.Applied{Generation: generation}}}
}

// SealedOp returns a Sealed of one shard.
func SealedOp() *pb.Op {
	return &pb.Op{Op: &pb.Op_Sealed{Sealed: &pb.Sealed{Roots: [][]byte{make([]byte, len(ledger.Hash{}))}, Slots: []uint64{1}}}}
}

// JSON returns the stored form of a declaration.
func JSON(t testing.TB, s spec.Sale) []byte {
	t.Helper()
	text, err := s.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Tickets returns the sale of most tests.
func Tickets(stock int64) spec.Sale {
	return spec.Sale{
		Name: "tickets", Run: 1, Stock: stock, LockCount: 3, PerUserLimit: 2,
		LockTTL: spec.Duration(3 * time.Second),
		Homes: &spec.Homes{
			Ledger: spec.Home{Kind: "memory", Place: "memory"},
			Locks:  spec.Home{Kind: "memory", Place: "memory", Nodes: []string{"node-0", "node-1", "node-2"}},
		},
	}
}

// With returns a changed copy of a declaration.
func With(s spec.Sale, change func(*spec.Sale)) spec.Sale {
	change(&s)
	return s
}

// Numbers returns a sale of engine redis whose units are numbers.
func Numbers(stock int64) spec.Sale {
	s := Tickets(stock)
	s.PerUserLimit, s.Engine, s.Ack, s.Backlog = 1, spec.EngineRedis, spec.AckLedger, 100
	s.Redis = &spec.Redis{Nodes: []string{"redis-0:6379", "redis-1:6379"}}
	return s
}

// Paid returns a payment with every option.
func Paid() *spec.Payment {
	return &spec.Payment{HoldFor: spec.Duration(10 * time.Minute), Grace: spec.Duration(30 * time.Second), ExtendBy: spec.Duration(5 * time.Minute), Late: spec.LateResell, UnpaidPerUser: 20}
}

// Choosy returns a sale with every option about who may claim.
func Choosy() spec.Sale {
	return With(Tickets(10), func(s *spec.Sale) {
		s.Rules = []spec.Rule{
			{Name: "members", Require: `user.level in ["gold",` + "\n" + `  "silver"]`, Message: "Members only.", Enforce: spec.EnforceDeny},
			{Name: "adults", Require: "variables.adult", MessageExpression: "'Hello ' + user.id", Enforce: spec.EnforceAudit},
		}
		s.Variables = []spec.Variable{{Name: "adult", Expression: `now - user.born > duration("157680h")`}}
		s.Users = &spec.Users{Attributes: []spec.Attribute{{Name: "born", Type: spec.TypeTimestamp}, {Name: "level", Type: spec.TypeString}},
			File: "users.csv", Fresh: spec.Duration(90 * time.Second), Cached: 100_000}
		s.History = &spec.History{Files: []string{"*.ndjson"}, Table: &spec.Rows{
			Zookeeper: []string{"z:1", "z:2"}, ZookeeperRoot: "/hbase", Table: "purchases", Family: "h"}}
		s.Queue = &spec.Queue{Order: spec.OrderPriority, Priority: "user.level == 'gold' ? 1 : 0", Depth: 5000}
	})
}

// OnServers returns a change of a declaration to servers, with the table of the logs and the lock nodes.
func OnServers(table string, nodes ...string) func(*spec.Sale) {
	return func(s *spec.Sale) {
		s.Homes = nil
		s.Redis = &spec.Redis{Nodes: nodes}
		s.HBase = &spec.HBase{Zookeeper: []string{"z:2181"}, ZookeeperRoot: "/hbase", Table: table}
	}
}

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
