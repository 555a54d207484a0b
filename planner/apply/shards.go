package apply

import (
	"fmt"

	"salectl/backends/ledger"
	"salectl/planner"
	"salectl/planner/machine"
	"salectl/spec"
)

// allShards returns the numbers of all shards.
func (x *execution) allShards() []int {
	shards := make([]int, x.sale.Shards())
	for i := range shards {
		shards[i] = i
	}
	return shards
}

// readHeads reads the heads of shards; the head of a shard without a log is nil.
func (x *execution) readHeads(shards []int, then func([]*ledger.Head)) {
	var logs []string
	for _, i := range shards {
		logs = append(logs, spec.ShardLog(x.sale.UID(), i, x.sale.Shards()))
	}
	x.core.ReadHeads(logs, func(read [][]byte) {
		heads := make([]*ledger.Head, len(shards))
		for j, stored := range read {
			head := planner.NewShardActual(stored)
			if head.Err != nil {
				x.core.End(fmt.Errorf("%w: %s: %w", ledger.ErrCorrupt, planner.ShardAddress(shards[j]), head.Err))
				return
			}
			heads[j] = head.Head
		}
		then(heads)
	})
}

// shard returns the driver of a shard's log, and creates it with an empty state if necessary.
func (x *execution) shard(i int) *machine.Log {
	if x.shards[i] == nil {
		log := spec.ShardLog(x.plan.UID, i, len(x.shards))
		state := ledger.NewState(log)
		x.states[i] = state
		x.shards[i] = &machine.Log{Core: x.core, Writer: ledger.NewWriter(log, state), Apply: func(e *ledger.Entry) error {
			return state.Apply(e.Commit, e.Hash, len(e.Bytes))
		}}
	}
	return x.shards[i]
}

// appendDraft appends to a shard's log.
func (x *execution) appendDraft(i int, draft *ledger.Draft, event func(ledger.Event)) {
	entry, err := draft.Encode()
	if err != nil {
		x.core.End(err)
		return
	}
	x.shard(i).Append(entry, event)
}

// lost handles a read that found no log for a shard that must have one. Reads may lag, so the
// log is read again from its first slot. A log that stays absent while the sale is live breaks
// an invariant.
func (x *execution) lost(i int, again func()) {
	if x.losses[i]++; x.losses[i] < ledger.MissingTries {
		x.shards[i] = nil
		x.core.After(ledger.MissingPause, again)
		return
	}
	x.recheck(func() {
		x.core.End(planner.NoLogError(x.sale, i))
	})
}

// readHead reads a shard's head again. A missing head is a lagging read.
func (x *execution) readHead(i int, then func()) {
	x.readHeads([]int{i}, func(heads []*ledger.Head) {
		if heads[0] != nil {
			x.heads[i] = heads[0]
		}
		then()
	})
}
