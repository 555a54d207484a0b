package apply

import (
	"fmt"

	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/planner"
	"salectl/planner/machine"
	"salectl/spec"
)

// shard is a shard of the sale as known to the execution.
type shard struct {
	log     *machine.Log // nil: not read, or not needed any more
	state   *ledger.State
	losses  int            // reads that found the log gone
	head    *ledger.Head   // newest known
	rebuild *lists.Machine // of its list, once this process has begun to rebuild it
}

// forget frees what was read: a log may be large.
func (s *shard) forget() { s.log, s.state, s.rebuild = nil, nil, nil }

// states returns the states of all shards.
func (x *execution) states() (all []*ledger.State) {
	for _, s := range x.shards {
		all = append(all, s.state)
	}
	return all
}

// allShards returns the numbers of all shards.
func (x *execution) allShards() []int {
	shards := make([]int, x.sale.Shards())
	for i := range shards {
		shards[i] = i
	}
	return shards
}

// readHeads reads the heads of shards; the head of a shard without a log is nil.
func (x *execution) readHeads(shards []int) []*ledger.Head {
	var logs []string
	for _, i := range shards {
		logs = append(logs, spec.ShardLog(x.sale.UID(), i, x.sale.Shards()))
	}
	heads := make([]*ledger.Head, len(shards))
	for j, stored := range x.core.ReadHeads(logs) {
		head := planner.NewShardActual(stored)
		if head.Err != nil {
			x.core.Fail(fmt.Errorf("%w: %s: %w", ledger.ErrCorrupt, planner.ShardAddress(shards[j]), head.Err))
		}
		heads[j] = head.Head
	}
	return heads
}

// shardLog returns the driver of a shard's log, and creates it with an empty state if necessary.
func (x *execution) shardLog(i int) *machine.Log {
	s := &x.shards[i]
	if s.log == nil {
		log := spec.ShardLog(x.plan.UID, i, len(x.shards))
		state := ledger.NewState(log)
		s.state = state
		s.log = &machine.Log{Core: x.core, Writer: ledger.NewWriter(log, state), Apply: func(e *ledger.Entry) error {
			return state.Apply(e.Commit, e.Hash, len(e.Bytes))
		}}
	}
	return s.log
}

// readShard reads a shard's log to its end.
func (x *execution) readShard(i int) ledger.Event { return x.shardLog(i).Read() }

// appendDraft appends to a shard's log.
func (x *execution) appendDraft(i int, draft *ledger.Draft) ledger.Event {
	entry, err := draft.Encode()
	x.core.Check(err)
	return x.shardLog(i).Append(entry)
}

// lost prepares another read after one that found no log for a shard that must have one. Reads
// may lag, so the log is to be read again from its first slot. A log that stays absent while
// the sale is live breaks an invariant.
func (x *execution) lost(i int) {
	if x.shards[i].losses++; x.shards[i].losses >= ledger.MissingTries {
		x.recheck()
		x.core.Fail(planner.DamagedError(x.sale, i, nil))
	}
	x.shards[i].log = nil
	x.core.Sleep(ledger.MissingPause)
}

// readHead reads a shard's head again. A missing head is a lagging read.
func (x *execution) readHead(i int) {
	if head := x.readHeads([]int{i})[0]; head != nil {
		x.shards[i].head = head
	}
}
