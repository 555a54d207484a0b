package check

import pb "salectl/backends/ledger/ledgerpb"

// stock is the recount of one run.
type stock struct {
	run    *run
	places []place // by unit
	shards []*shard
	bad    fault
}

// shard is the recount of one of its shards.
type shard struct {
	moment
	requests map[request]bool
	users    map[string]int64 // units, held and sold
	unpaid   map[string]int64 // claims that were cancelled or have expired, by user
	claims   map[spot]*claim
	sent     map[int][]int64 // by destination: how many units each transfer had
	received map[int]uint64  // by source: the last transfer
	acked    map[int]uint64  // by destination
	dropped  map[int64]bool  // units that generations took out by their numbers
	entrants map[string]bool // users who have an entry
}

type request struct{ user, key string }

type spot struct {
	slot  uint64
	index uint32
}

// recount puts every unit where the slots have it, in the order in which they were
// stored over all shards. A unit that is moved from where it is not is reported.
func recount(e *evidence, bad fault) {
	stocks := make(map[*run]*stock)
	for _, s := range e.slots {
		r := s.log.run
		st := stocks[r]
		if st == nil {
			st = newStock(r, bad)
			stocks[r] = st
		}
		sh := st.shards[s.log.shard]
		before := sh.moment
		s.before = before.generation
		for i, op := range s.commit.GetOps() {
			if c := st.enter(s, i, op); c != nil {
				e.claims = append(e.claims, c)
			}
		}
		s.after = sh.moment
		if s == s.log.slots[0] {
			r.started++
		}
		r.unsold += (sh.limit - sh.sold) - (before.limit - before.sold)
		r.noteSoldOut(s)
	}
	e.readGrants()
}

func newStock(r *run, bad fault) *stock {
	r.moves = make(map[int64][]moved)
	st := &stock{run: r, bad: bad}
	for range r.shards {
		st.shards = append(st.shards, &shard{
			requests: make(map[request]bool), users: make(map[string]int64), unpaid: make(map[string]int64), claims: make(map[spot]*claim),
			sent: make(map[int][]int64), received: make(map[int]uint64), acked: make(map[int]uint64), dropped: make(map[int64]bool), entrants: make(map[string]bool),
		})
	}
	return st
}

// noteSoldOut keeps the times in which all shards' sold were all their limits.
func (r *run) noteSoldOut(s *slot) {
	out := r.started == len(r.shards) && r.unsold == 0
	was := len(r.soldOut) > 0 && r.soldOut[len(r.soldOut)-1].to == forever
	switch {
	case out && !was:
		r.soldOut = append(r.soldOut, span{from: s.Seq, to: forever})
	case !out && was:
		last := &r.soldOut[len(r.soldOut)-1]
		last.to, last.endedBy = s.Seq, s
	}
}

// enter books one op. It returns the claim, if it is one.
func (st *stock) enter(s *slot, i int, op *pb.Op) *claim {
	sh := st.shards[s.log.shard]
	switch op := op.GetOp().(type) {
	case *pb.Op_Own:
		sh.epoch, sh.owner, sh.writer = s.commit.GetEpoch(), op.Own.GetAddress(), string(s.commit.GetWriter())
	case *pb.Op_Claim:
		return st.claim(s, i, op.Claim)
	case *pb.Op_Settle:
		st.settle(s, op.Settle)
	case *pb.Op_Out:
		st.out(s, op.Out)
	case *pb.Op_In:
		st.in(s, op.In)
	case *pb.Op_Ack:
		st.ack(s, op.Ack)
	case *pb.Op_Generation:
		st.generation(s, op.Generation)
	case *pb.Op_Seal:
		sh.sealed = true
	case *pb.Op_Rebuild:
		if op.Rebuild.GetFill() != sh.fill+1 {
			st.bad("%v, op %d begins fill %d after %d", s, i, op.Rebuild.GetFill(), sh.fill)
		}
		sh.fill = op.Rebuild.GetFill()
	case *pb.Op_Entries:
		s.entries = append(s.entries, op.Entries)
		sh.closed = true
	default:
		st.bad("%v, op %d is of no kind that a shard has", s, i)
	}
	return nil
}

// maxUnit is beyond every unit of a simulated sale.
const maxUnit = 1 << 24

// move takes a unit from where it must be to where it goes.
func (st *stock) move(s *slot, unit int64, from, to place) {
	if unit < 1 || unit > maxUnit {
		st.bad("%v names unit %d", s, unit)
		return
	}
	for unit >= int64(len(st.places)) {
		st.places = append(st.places, place{})
	}
	if at := st.places[unit]; at != from {
		st.bad("%v moves unit %d as if it were %v, but it is %v", s, unit, from, at)
	}
	st.put(s, unit, to)
}

func (st *stock) put(s *slot, unit int64, to place) {
	st.places[unit] = to
	st.run.moves[unit] = append(st.run.moves[unit], moved{s.Seq, to})
}

func (st *stock) moveAll(s *slot, ranges []*pb.Range, from, to place) (n int64) {
	for _, r := range ranges {
		if r.GetCount() < 1 || r.GetCount() > maxUnit {
			st.bad("%v names %d units from %d on", s, r.GetCount(), r.GetFirst())
			continue
		}
		for unit := r.GetFirst(); unit < r.GetFirst()+r.GetCount(); unit++ {
			st.move(s, unit, from, to)
			n++
		}
	}
	return n
}

func (st *stock) claim(s *slot, i int, op *pb.Claim) *claim {
	sh := st.shards[s.log.shard]
	id := request{op.GetUser(), string(op.GetKey())}
	c := &claim{
		at: s, index: i, user: id.user, key: id.key, units: op.GetUnits(), requested: int64(op.GetRequested()), deadline: op.GetHeldUntilUs(), grace: op.GetGraceUs(),
		first: op.GetUnits(), settings: sh.settings, generation: sh.generation, had: sh.users[id.user], unpaid: sh.unpaid[id.user], again: sh.requests[id],
		fill: op.GetFill(), under: sh.fill, grantedUs: op.GetGrantedUs(), attributes: op.GetAttributes(), entry: op.GetEntry(),
	}
	if c.again {
		c.state = "sold"
		return c // it counts once; that it is there twice is for another to judge
	}
	if c.entry {
		st.entry(s, c)
		sh.requests[id], sh.claims[spot{s.n, uint32(i)}] = true, c
		return c
	}
	to := place{kind: sold, shard: s.log.shard}
	n := int64(len(c.units))
	if c.deadline != 0 {
		to.kind = held
		c.become("held", s)
		c.heldFrom = s.commit.GetTimeUs()
		sh.held += n
		sh.OpenHolds++
	} else {
		c.become("sold", s)
		sh.sold += n
	}
	st.terms(s, c)
	sh.available -= n
	c.left = sh.available
	for _, unit := range c.units {
		st.move(s, unit, place{kind: free, shard: s.log.shard}, to)
	}
	sh.requests[id] = true
	sh.users[id.user] += n
	sh.claims[spot{s.n, uint32(i)}] = c
	return c
}

func (st *stock) out(s *slot, op *pb.Out) {
	from, to := s.log.shard, int(op.GetTo())
	sh := st.shards[from]
	if k := uint64(len(sh.sent[to])); op.GetK() != k+1 || sh.acked[to] != k || to == from || to >= len(st.shards) {
		st.bad("%v sends transfer %d to shard %d after %d sent and %d acknowledged", s, op.GetK(), to, k, sh.acked[to])
		return
	}
	n := st.moveAll(s, op.GetUnits(), place{kind: free, shard: from}, place{flying, from, to, op.GetK()})
	sh.sent[to] = append(sh.sent[to], n)
	sh.available -= n
	sh.inFlight += n
}

func (st *stock) in(s *slot, op *pb.In) {
	from, to := int(op.GetFrom()), s.log.shard
	sh := st.shards[to]
	if op.GetK() <= sh.received[from] {
		return // received before, counts once
	}
	if from >= len(st.shards) || op.GetK() > uint64(len(st.shards[from].sent[to])) {
		st.bad("%v receives transfer %d from shard %d, which was not sent or is not the next", s, op.GetK(), from)
		return
	}
	sh.received[from] = op.GetK()
	n := st.moveAll(s, op.GetUnits(), place{flying, from, to, op.GetK()}, place{kind: free, shard: to})
	if sent := st.shards[from].sent[to][op.GetK()-1]; n != sent {
		st.bad("%v receives %d units of transfer %d from shard %d, %d were sent", s, n, op.GetK(), from, sent)
	}
	sh.available += n
}

func (st *stock) ack(s *slot, op *pb.Ack) {
	from, to := s.log.shard, int(op.GetTo())
	sh := st.shards[from]
	if op.GetK() <= sh.acked[to] {
		return
	}
	if op.GetK() > uint64(len(sh.sent[to])) || op.GetK() > st.shards[to].received[from] {
		st.bad("%v acknowledges transfer %d to shard %d, which has not received it", s, op.GetK(), to)
		return
	}
	sh.acked[to] = op.GetK()
	sh.inFlight -= sh.sent[to][op.GetK()-1]
}

func (st *stock) generation(s *slot, op *pb.Generation) {
	sh := st.shards[s.log.shard]
	if op.GetNumber() <= sh.generation {
		return
	}
	here := place{kind: free, shard: s.log.shard}
	n := st.moveAll(s, op.GetAdd(), place{}, here)
	for _, r := range op.GetRestore() {
		for unit := r.GetFirst(); unit < r.GetFirst()+r.GetCount(); unit++ {
			if sh.dropped[unit] {
				delete(sh.dropped, unit)
				st.put(s, unit, here)
				n++
			}
		}
	}
	for _, r := range op.GetDrop() {
		for unit := r.GetFirst(); unit < r.GetFirst()+r.GetCount(); unit++ {
			if unit > 0 && unit < int64(len(st.places)) && st.places[unit] == here {
				st.put(s, unit, place{kind: removed, shard: s.log.shard})
				s.dropped = append(s.dropped, unit)
				sh.dropped[unit] = true
				n--
			}
		}
	}
	left := min(op.GetRemove(), sh.available+n)
	n -= left
	for unit := int64(len(st.places)) - 1; unit > 0 && left > 0; unit-- { // the highest go first
		if st.places[unit] == here {
			st.put(s, unit, place{kind: removed, shard: s.log.shard})
			left--
		}
	}
	sh.available += n
	sh.limit += n
	sh.generation, sh.settings = op.GetNumber(), op.GetSettings()
}
