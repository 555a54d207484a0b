package ledger_test

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/memory"
)

const simLog = "00/0123456789abcdef/0"

// TestProtocol lets several owners and planners write to one log through a
// store with every fault, in one loop that a seed decides. Its promises are
// checked on the log itself.
func TestProtocol(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 60
	}
	for seed := range seeds {
		first := simulate(t, seed)
		if seed < 20 {
			if again := simulate(t, seed); again != first {
				t.Fatalf("seed %d ran in two ways", seed)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// sim is one run. There is one goroutine, and the test advances the time.
type sim struct {
	t      *testing.T
	rand   *rand.Rand
	store  *memory.Store
	clean  ledger.Logs // a handle without faults
	procs  []*proc
	strays []func() // calls of processes that died, not made yet
	starts int
	trace  hash.Hash

	acked  map[string]bool // keys of claims whose storage a process has confirmed
	past   [][]byte        // the log as it was before it was deleted
	gone   bool
	claims int
}

// proc is a process: an owner, which takes the shard over now and then and
// sells, or a planner, which adds generations.
type proc struct {
	sim     *sim
	planner bool
	me      []byte
	logs    ledger.Logs
	state   *ledger.State
	w       *ledger.Writer
	now     clock.Now
	do      ledger.Do
	call    *ledger.Request // not made yet
	reply   *ledger.Reply   // made, not delivered yet
	sent    *ledger.Entry
	keys    []string // of claims to be stored, the same until they are
	ended   bool
}

func simulate(t *testing.T, seed uint64) string {
	s := &sim{
		t: t, rand: rand.New(rand.NewPCG(seed, 1)), store: memory.NewStore(),
		trace: sha256.New(), acked: make(map[string]bool),
	}
	s.clean = s.store.Handle(nil)
	s.create()
	rates := memory.Rates{
		memory.ErrorBefore: 0.06, memory.LostReply: 0.12, memory.OwnTaken: 0.06,
		memory.Late: 0.12, memory.Twice: 0.06, memory.Stale: 0.2,
	}
	for i := range 5 {
		p := &proc{sim: s, planner: i >= 3, logs: s.store.Handle(memory.Random(seed*8+uint64(i), rates))}
		s.procs = append(s.procs, p)
		p.start()
	}
	const steps = 1500
	end := steps * 3 / 4 // when the log is deleted, in one run of two
	for i := range steps {
		if i == end && seed%2 == 0 {
			s.delete()
		}
		s.step()
	}
	s.settle()
	s.check()
	return fmt.Sprintf("%x", s.trace.Sum(nil))
}

// create stores the first generation.
func (s *sim) create() {
	d := ledger.NewState(simLog).Draft([]byte("creator"), 0)
	if err := d.Generation(generationOf(1)); err != nil {
		s.t.Fatal(err)
	}
	e, err := d.Encode()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.clean.Append(s.t.Context(), simLog, 0, nil, e.Head, e.Bytes); err != nil {
		s.t.Fatal(err)
	}
}

// generationOf is a generation, alike whoever plans it.
func generationOf(n uint64) *pb.Generation {
	return &pb.Generation{
		Number: n, Add: []*pb.Range{{First: int64(20*n - 19), Count: 20}},
		Settings: &pb.Settings{PerUserLimit: 1, Phase: pb.Phase_OPEN},
	}
}

func (s *sim) log() (entries [][]byte) {
	_, entries, err := s.clean.Read(s.t.Context(), simLog, 0, 1<<20)
	if err != nil {
		s.t.Fatal(err)
	}
	return entries
}

func (s *sim) delete() {
	s.past, s.gone = s.log(), true
	if err := s.clean.Delete(s.t.Context(), simLog, 1<<40); err != nil {
		s.t.Fatal(err)
	}
}

// step lets one thing happen to one process.
func (s *sim) step() {
	p := s.procs[s.rand.IntN(len(s.procs))]
	switch n := s.rand.IntN(100); {
	case n == 0:
		if call := p.call; call != nil {
			s.strays = append(s.strays, func() { call.Do(s.t.Context(), p.logs) })
		}
		p.start()
	case n < 5 && len(s.strays) > 0:
		s.strays[0]()
		s.strays = s.strays[1:]
	default:
		p.step()
	}
	fmt.Fprintln(s.trace, p.me, p.state.Next(), p.state.Root(), p.do.Event, p.sent != nil, p.now.Mono)
}

func (p *proc) start() {
	p.sim.starts++
	p.me = fmt.Appendf(nil, "proc%04d", p.sim.starts)
	p.state = ledger.NewState(simLog)
	p.w = ledger.NewWriter(simLog, p.state)
	p.call, p.reply, p.sent, p.ended = nil, nil, nil, false
	p.take(p.w.CatchUp())
}

func (p *proc) step() {
	p.now.Mono += time.Millisecond
	switch {
	case p.ended:
		p.start() // as a standby would, to see whether the log is there again
	case p.call != nil:
		reply := p.call.Do(p.sim.t.Context(), p.logs)
		p.call, p.reply = nil, &reply
	case p.reply != nil:
		reply := *p.reply
		p.reply = nil
		p.take(p.w.Done(p.now, reply))
	case p.do.Wake != 0:
		p.now.Mono = max(p.now.Mono, p.do.Wake)
		p.take(p.w.Tick(p.now))
	default:
		p.decide()
	}
}

// take does what the Writer wants done.
func (p *proc) take(do ledger.Do) {
	p.do, p.call = do, do.Send
	switch do.Event {
	case ledger.CaughtUp:
		p.ended = p.state.Next() == 0
	case ledger.Committed:
		p.committed()
	case ledger.Taken:
		p.sent = nil
	case ledger.Gone:
		p.ended = true
	case ledger.Nothing:
	default:
		p.sim.t.Errorf("%s got event %d: %v", p.me, do.Event, do.Err)
		p.ended = true
	}
}

func (p *proc) committed() {
	e := p.sent
	p.sent = nil
	if err := p.state.Apply(e.Commit, e.Hash, len(e.Bytes)); err != nil {
		p.sim.t.Errorf("%s: what it stored is refused: %v", p.me, err)
	}
	for _, op := range e.Commit.GetOps() {
		if c := op.GetClaim(); c != nil {
			p.sim.acked[string(c.GetKey())] = true
		}
	}
	p.keys = nil
}

// decide begins the next commit, or reads.
func (p *proc) decide() {
	d := p.state.Draft(p.me, int64(p.sim.rand.IntN(1000)))
	switch {
	case p.planner && p.sim.rand.IntN(4) == 0:
		if err := d.Generation(generationOf(p.state.Generation + 1)); err != nil {
			p.sim.t.Error(err)
		}
	case p.planner:
		p.take(p.w.CatchUp())
		return
	case !p.state.IsOwner(p.me):
		if p.sim.rand.IntN(8) != 0 {
			return
		}
		d.Own("here:1")
	default:
		for len(p.keys) < 3 {
			p.sim.claims++
			p.keys = append(p.keys, fmt.Sprint("k", p.sim.claims))
		}
		for _, key := range p.keys {
			if v := d.Claim("user of "+key, key, 1); v.Kind == ledger.Replay {
				p.sim.acked[key] = true // answered from the log
			}
		}
		if d.Ops() == 0 {
			p.keys = nil
			return
		}
	}
	e, err := d.Encode()
	if err != nil {
		p.sim.t.Error(err)
		return
	}
	p.sent = e
	p.take(p.w.Append(e))
}

// settle makes every call that was on its way, lets in what the store holds
// back, and lets each process find out what became of its entry.
func (s *sim) settle() {
	for _, stray := range s.strays {
		stray()
	}
	for _, p := range s.procs {
		for i := 0; !p.ended && !p.w.Idle(); i++ {
			if p.step(); i == 10_000 {
				s.t.Errorf("%s does not come to an end: %+v", p.me, p.do)
				return
			}
		}
	}
	s.store.Land()
}

// check reads the log once more, and holds it to what was promised.
func (s *sim) check() {
	entries := s.log()
	if s.gone {
		if len(entries) > 0 {
			s.t.Errorf("%d slots came back after the delete", len(entries))
		}
		entries = s.past
	}
	state := ledger.NewState(simLog)
	stored := make(map[string]int)
	for _, entry := range entries {
		if err := state.Fold(entry); err != nil { // a gap, or the entry of an owner that was shut out
			s.t.Error(err)
			return
		}
		var c pb.Commit
		if err := proto.Unmarshal(entry, &c); err != nil {
			s.t.Error(err)
		}
		for _, op := range c.GetOps() {
			if claim := op.GetClaim(); claim != nil {
				stored[string(claim.GetKey())]++
			}
		}
	}
	for key := range s.acked {
		if stored[key] == 0 {
			s.t.Errorf("claim %s was acknowledged and is not in the log", key)
		}
	}
	for key, times := range stored {
		if times > 1 {
			s.t.Errorf("claim %s is in the log %d times", key, times)
		}
	}
	if len(s.acked) == 0 || state.Epoch < 2 || state.Generation < 2 {
		s.t.Errorf("a dull run: %d acknowledged, epoch %d, generation %d", len(s.acked), state.Epoch, state.Generation)
	}
}
