package planner

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/spec"
)

// Stepped is a command on a sale without goroutines, clock and I/O: it reads the
// sale, makes the plan and carries it out, by the machine that Apply and Destroy
// run. Whoever has it makes its calls and tells it the time, so that a
// simulation can lose, delay and repeat them. One that is dropped was killed.
//
// It works on logs that need no table. Only the reading is another than
// ReadActual's, which waits for its calls: it has the same order, and goes on
// for Patience where a log cannot be read.
type Stepped struct {
	cfg     SteppedConfig
	job     Job
	reading *reading
	work    *work // nil: there is no plan yet
	core    *core // of reading, then of work

	begun bool
	calls []Call // that nobody has seen yet
	wake  time.Duration
	done  bool
	err   error
}

// SteppedConfig is Config for a Stepped.
type SteppedConfig struct {
	Nodes    []string // the lock nodes' names, by Call.Node
	Lists    []string // those of the nodes that keep lists, likewise; as Config.Lists
	Writer   []byte   // 8 bytes that no other process has
	Rand     io.Reader
	Who      string
	Patience time.Duration  // 0 is 10 s
	Progress func(Progress) // may be nil
	Sizes    lists.Sizes    // of the calls about lists; 0: the usual ones
}

// Job is what a Stepped is to do: an ApplyJob, PhaseJob or DestroyJob.
type Job interface {
	sale() string
	plan(*Actual) (*Plan, error)
	export([]byte) error
}

// ApplyJob brings a sale to its declaration.
type ApplyJob struct{ Sale spec.Sale }

// PhaseJob pauses (PAUSED), resumes (OPEN) or closes (CLOSED) a sale.
type PhaseJob struct {
	Sale  string
	Phase pb.Phase
}

// DestroyJob destroys a sale.
type DestroyJob struct {
	Sale string
	// Export gets the ledger, as the bytes that Destroy writes to its file. When
	// it returns nil they are safe: the sale's logs may be deleted. It may be
	// called again with the same bytes.
	Export func([]byte) error
}

func (j ApplyJob) sale() string   { return j.Sale.Name }
func (j PhaseJob) sale() string   { return j.Sale }
func (j DestroyJob) sale() string { return j.Sale }

func (j ApplyJob) plan(a *Actual) (*Plan, error) { return Make(j.Sale, a) }
func (j PhaseJob) plan(a *Actual) (*Plan, error) { return MakePhase(a, j.Phase) }
func (DestroyJob) plan(a *Actual) (*Plan, error) { return MakeDestroy(a) }

func (ApplyJob) export([]byte) error       { return nil }
func (PhaseJob) export([]byte) error       { return nil }
func (j DestroyJob) export(b []byte) error { return j.Export(b) }

// Call is one piece of I/O that a Stepped wants made.
type Call struct {
	Node int    // index into the lock nodes, or Store
	List bool   // Node is an index into the nodes that keep lists
	What string // one of CallNames, or of ListCallNames
	// Timeout is when the caller gives up. Then Took gets
	// context.DeadlineExceeded, and the call may come in all the same.
	Timeout time.Duration
	// Make makes the call where Node is, and returns the reply. Only one of logs,
	// node and list is used. It may be made never, later, or several times; a call
	// with List is sent at most once by real nodes' drivers.
	Make func(ctx context.Context, logs ledger.Logs, node quorum.Node, list lists.Node) any
	// Took takes the reply in, or, if there is none, why. It is called once.
	Took func(now clock.Now, reply any, err error)
}

// Store is the Node of a call to where the logs are.
const Store = -1

// NewStepped returns a Stepped that begins with the first Next.
func NewStepped(cfg SteppedConfig, job Job) *Stepped {
	r := newReading(cfg, job.sale())
	return &Stepped{cfg: cfg, job: job, reading: r, core: &r.core}
}

func (c SteppedConfig) terms() terms {
	patience := Config{Patience: c.Patience}.patience()
	return terms{writer: c.Writer, who: c.Who, patience: patience, rand: c.Rand, nodes: c.Nodes, lists: c.Lists, sizes: c.Sizes}
}

// Next returns what is to be done after any input: the calls to make now, and
// when to call Tick by the monotonic clock, 0 for no need. When it is done, err
// is what Apply or Destroy would have returned.
func (s *Stepped) Next(now clock.Now) (calls []Call, wake time.Duration, done bool, err error) {
	if !s.begun && !s.done {
		s.begun = true
		s.take(s.core.step(now, s.reading.start))
	}
	calls, s.calls = s.calls, nil
	return calls, s.wake, s.done, s.err
}

// Tick says that time has come to the last wake.
func (s *Stepped) Tick(now clock.Now) {
	if s.begun && !s.done {
		s.take(s.core.tick(now))
	}
}

// Stop ends it, as the end of Apply's context does: cause is
// context.Canceled or context.DeadlineExceeded.
func (s *Stepped) Stop(now clock.Now, cause error) {
	switch {
	case s.done:
	case s.work == nil:
		s.end(fmt.Errorf("sale %s: %w", s.job.sale(), cause))
	default:
		s.take(s.core.step(now, func() { s.work.stop(cause) }))
	}
}

// Plan returns the plan, nil if it is not made yet.
func (s *Stepped) Plan() *Plan {
	if s.work == nil {
		return nil
	}
	return s.work.plan
}

// Result returns what it came to, when it is done.
func (s *Stepped) Result() *Result {
	if s.work == nil {
		return &Result{Sale: s.job.sale()}
	}
	return &s.work.result
}

func (s *Stepped) take(out effects) {
	for _, k := range out.calls {
		s.calls = append(s.calls, s.newCall(k))
	}
	for _, p := range out.progress {
		if s.cfg.Progress != nil {
			s.cfg.Progress(p)
		}
	}
	s.wake = out.wake
	switch {
	case !out.done:
	case s.work != nil:
		s.end(s.work.outcome(out.err))
	case out.err != nil:
		s.end(fmt.Errorf("sale %s: %w", s.job.sale(), out.err))
	default:
		s.carryOut()
	}
}

// carryOut makes the plan of what was read, and begins it.
func (s *Stepped) carryOut() {
	plan, err := s.job.plan(s.reading.actual)
	if err != nil {
		s.end(err)
		return
	}
	w, err := newWork(s.cfg.terms(), plan)
	if err != nil {
		s.end(err)
		return
	}
	now := s.core.now
	s.work, s.core = w, &w.core
	first := w.first(false)
	if first == nil {
		s.end(nil)
		return
	}
	s.take(s.core.step(now, first))
}

func (s *Stepped) end(err error) {
	s.done, s.err, s.calls, s.wake = true, err, nil, 0
}

func (s *Stepped) newCall(k call) Call {
	c := Call{Node: Store, What: k.name(s.work == nil), Timeout: k.kind.timeout()}
	if k.kind.onNode() || k.kind.onList() {
		c.Node, c.List = k.node, k.kind.onList()
	}
	c.Make = func(ctx context.Context, logs ledger.Logs, node quorum.Node, list lists.Node) any {
		return perform(ctx, logs, node, list, k)
	}
	if k.kind == callExport {
		c.Timeout = readTimeout // it reads all logs
		c.Make = func(ctx context.Context, logs ledger.Logs, _ quorum.Node, _ lists.Node) any {
			return exportBytes(ctx, logs, k)
		}
	}
	core := s.core
	c.Took = func(now clock.Now, made any, err error) {
		if s.done || s.core != core {
			return
		}
		r := unanswered(k, err)
		if err == nil {
			r = made.(reply)
		}
		if k.kind == callExport && r.err == nil {
			r.err = s.job.export(r.exported)
		}
		s.take(core.reply(now, r))
	}
	return c
}

// unanswered is the reply to a call of which nobody knows what came of it.
func unanswered(k call, err error) reply {
	if k.kind == callLog {
		return reply{id: k.id, log: ledger.Reply{Err: err}}
	}
	return reply{id: k.id, err: err}
}

// exportBytes makes the content of an export's file, and reads it back.
func exportBytes(ctx context.Context, logs ledger.Logs, k call) reply {
	r := reply{id: k.id}
	var content bytes.Buffer
	if r.digest, r.err = k.export.write(ctx, logs, &content); r.err != nil {
		return r
	}
	r.exported = content.Bytes()
	r.err = k.export.check(bytes.NewReader(r.exported), "memory", r.digest)
	return r
}
