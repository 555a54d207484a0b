package current

import (
	"context"
	"errors"
	"maps"
	"slices"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/internal/text"
	"salectl/planner"
	"salectl/planner/machine"
	"salectl/spec"
)

// Outage is the visible state of a sale whose ledger cannot be read. Only the ledger records
// which run a sale has, so the leases include those of other sales.
type Outage struct {
	actual *planner.Actual
	why    error
}

// ReadOutage queries the lock nodes only. why is the error of reading the ledger.
func ReadOutage(ctx context.Context, from machine.Backends, name string, why error) (*Outage, error) {
	r := newReading(ReadTerms{Names: from.Names()}, name)
	r.blind = true
	if err := from.Run(ctx, name, machine.New(r.core, r)); err != nil {
		return nil, err
	}
	return &Outage{r.actual, why}, nil
}

// Processes returns the addresses of all holders of leases, of any sale.
func (o *Outage) Processes() []string {
	addresses := make(map[string]struct{})
	for _, n := range o.actual.Nodes {
		for _, h := range n.Leases {
			if _, _, ok := spec.ParseLeaseKey(h.Key); !ok {
				continue
			}
			if note, ok := quorum.ParseNote(h.Note); ok {
				addresses[note.Address] = struct{}{}
			}
		}
	}
	return slices.Sorted(maps.Keys(addresses))
}

// reason returns the complete error of the ledger in one line: nothing else reports it.
func (o *Outage) reason() string {
	if word, ok := planner.CommonError(o.why); ok {
		return word
	}
	why := o.why
	if failed, is := errors.AsType[*planner.StoreError](why); is {
		why = failed.Err
	}
	return text.OneLine(why.Error())
}

// Status returns the status of the sale, assuming that its run is uid; "" if the run is
// unknown.
func (o *Outage) Status(uid string) *Status {
	s := &Status{
		Brief:       Brief{SaleSummary: api.SaleSummary{Sale: o.actual.Name, UID: uid, Phase: ledger.PhaseUnknown}},
		LedgerError: o.reason(), Shards: []ShardStatus{}, Warnings: []string{},
	}
	shards := make(map[int]planner.Lease)
	s.Nodes = nodeStatuses(o.actual, false)
	for i, n := range o.actual.Nodes {
		v := &s.Nodes[i]
		v.Leases = 0
		for _, h := range n.Leases {
			if of, shard, ok := spec.ParseLeaseKey(h.Key); ok && of == uid {
				v.Leases++
				if l, ok := o.actual.LeaseOn(h.Key); ok {
					shards[shard] = l
				}
			}
		}
	}
	for _, shard := range slices.Sorted(maps.Keys(shards)) {
		l := shards[shard]
		s.Shards = append(s.Shards, ShardStatus{Shard: shard, Owner: l.Address, LeaseLeftSeconds: l.Left.Seconds(), Error: NotRead})
	}
	if s.Owner = shards[0].Address; s.Owner == "" && len(s.Shards) > 0 {
		s.Owner = s.Shards[0].Owner
	}
	return s
}
