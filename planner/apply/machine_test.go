package apply

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/backends/calls"
	"salectl/backends/ledger"
	"salectl/backends/ledger/export"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/planner"
	"salectl/planner/current"
	"salectl/planner/machine"
	"salectl/spec"
)

// job is what a command is to do.
type job interface {
	plan(*planner.Actual) (*planner.Plan, error)
	export([]byte) error
}

// applyJob brings the sale to its declaration.
type applyJob struct{ desired spec.Sale }

// phaseJob changes the sale's phase.
type phaseJob struct{ phase pb.Phase }

// destroyJob destroys the sale. export gets the bytes of the ledger.
type destroyJob struct{ keep func([]byte) error }

func (j applyJob) plan(a *planner.Actual) (*planner.Plan, error) { return planner.Make(j.desired, a) }
func (j phaseJob) plan(a *planner.Actual) (*planner.Plan, error) {
	return planner.MakePhase(a, j.phase)
}
func (destroyJob) plan(a *planner.Actual) (*planner.Plan, error) { return planner.MakeDestroy(a) }

func (applyJob) export([]byte) error       { return nil }
func (phaseJob) export([]byte) error       { return nil }
func (j destroyJob) export(b []byte) error { return j.keep(b) }

// command is a machine in the world that reads the sale, another that carries out
// the plan made of that, and the calls that wait to be made.
type command struct {
	*machine.Machine
	world   *world
	job     job
	terms   Terms
	actual  *planner.Actual
	planned *planner.Plan // nil: there is none yet
	result  *Result
	queue   []calls.Call
	wake    time.Duration
	done    bool
	err     error
	trace   []string
}

func (w *world) command(j job) *command {
	writer := make([]byte, 8)
	w.Read(writer)
	t := Terms{Names: machine.Names{Rand: w}, Options: Options{Writer: writer, Who: "tester@host"}}
	for _, n := range w.nodes {
		t.Nodes = append(t.Nodes, n.Name())
	}
	for _, n := range w.keepers {
		t.Lists = append(t.Lists, n.Name())
	}
	reading, actual := current.NewReading(current.ReadTerms{Names: t.Names}, "tickets")
	c := &command{Machine: reading, world: w, job: j, terms: t, actual: actual}
	w.Cleanup(func() { c.Drop() })
	c.look()
	return c
}

func (c *command) look() {
	var made []calls.Call
	made, c.wake, c.done, c.err = c.Next(c.world.now)
	c.queue = append(c.queue, made...)
	if !c.done || c.err != nil || c.planned != nil {
		return
	}
	plan, err := c.job.plan(c.actual)
	var m *machine.Machine
	if err == nil {
		m, c.result, err = NewExecution(c.terms, plan, c.exported)
	}
	if c.err = err; err == nil {
		c.planned, c.Machine = plan, m
		c.look()
	}
}

// exported keeps an export for as long as the job takes to take it.
func (c *command) exported(ctx context.Context, sale export.Sale) (string, []byte, error) {
	var content bytes.Buffer
	err := sale.Write(ctx, &content)
	if err == nil {
		err = sale.Check(ctx, bytes.NewReader(content.Bytes()))
	}
	if err == nil {
		err = c.job.export(content.Bytes())
	}
	digest := sha256.Sum256(content.Bytes())
	return "", digest[:], err
}

// make makes a call where it belongs.
func (c *command) make(k calls.Call) any {
	switch ctx := context.Background(); {
	case k.Node == calls.Store:
		return k.Make(ctx, c.world.logs(c.world.faults), nil, nil)
	case k.List:
		return k.Make(ctx, nil, nil, c.world.keepers[k.Node])
	default:
		return k.Make(ctx, nil, c.world.nodes[k.Node], nil)
	}
}

func (c *command) next(i int) calls.Call {
	k := c.queue[i]
	c.queue = slices.Delete(c.queue, i, i+1)
	c.trace = append(c.trace, fmt.Sprint(k.Node, " ", k.What))
	return k
}

// step lets one thing happen. reply says what comes of a call: its reply, or why
// there is none.
func (c *command) step(choose func(n int) int, reply func(calls.Call) (any, error)) {
	c.world.Helper()
	switch {
	case len(c.queue) > 0:
		k := c.next(choose(len(c.queue)))
		r, err := reply(k)
		k.Took(c.world.now, r, err)
	case c.wake > 0:
		c.world.pass(max(0, c.wake-c.world.now.Mono))
		c.Tick(c.world.now)
	default:
		c.world.Fatal("the command waits for nothing and has not ended")
	}
	c.look()
}

func (c *command) served(k calls.Call) (any, error) { return c.make(k), nil }

// finish steps to the end, and returns how that came out.
func (c *command) finish() error {
	c.world.Helper()
	for steps := 0; !c.done; steps++ {
		if steps > 100000 {
			c.world.Fatal("no end")
		}
		c.step(inOrder, c.served)
	}
	return c.err
}

// sink is where a destroy exports to. It takes one content only, as a file does.
type sink struct{ content []byte }

func (s *sink) job() destroyJob {
	return destroyJob{func(b []byte) error {
		if s.content != nil && !bytes.Equal(s.content, b) {
			return errors.New("another export than before")
		}
		s.content = bytes.Clone(b)
		return nil
	}}
}

// callNames are the steps of a sale of engine ledger; listCallNames those that one of
// engine redis has besides.
var callNames = []string{
	"read sale", "read shard", "read heads", "planned", "applied", "create shard", "generation", "close",
	"drive in", "drive out", "expire", "seal", "export", "sealed", "delete", "destroyed",
	"info", "read leases", "read marker", "mark", "mend marker", "find owner",
	"sweep list", "sweep leases", "sweep marker",
}

var listCallNames = []string{
	"read settings", "inspect list", "rebuild", "drain", "read list's run", "stop list", "read stream", "fill list", "start list",
	"forget list",
}

// wantExported checks the export of a sale that is destroyed.
func (w *world) wantExported(s *sink, sold int64) {
	w.Helper()
	header, _, err := ReadExport(s.content)
	digest := sha256.Sum256(s.content)
	sealed := w.actual().Sale.Sealed()
	if err != nil || header.Counts.Sold != sold || !bytes.Equal(sealed.GetExportDigest(), digest[:]) {
		w.Fatalf("the export has %+v, %v, want %d units sold; its digest is %x, the log has %x",
			header.Counts, err, sold, digest, sealed.GetExportDigest())
	}
}

// life is the whole life of a sale by commands, and returns all calls made.
func life(t *testing.T) (trace []string) {
	w, exported := newWorld(t), new(sink)
	do := func(job job) {
		t.Helper()
		c := w.command(job)
		if err := c.finish(); err != nil {
			t.Fatalf("%T: %v", job, err)
		}
		if r := c.result; !r.Changed || r.Generation != w.actual().Sale.Generation() {
			t.Errorf("%T: %+v", job, r)
		}
		trace = append(trace, c.trace...)
		again := w.command(job)
		if err := again.finish(); err != nil || again.result.Changed {
			t.Errorf("%T again: %+v, %v", job, again.result, err)
		}
	}
	do(applyJob{tickets(30)})
	w.wantStock(30)
	sell(w)
	for _, phase := range []pb.Phase{pb.Phase_PAUSED, pb.Phase_OPEN} {
		do(phaseJob{phase})
		if got := w.actual().Sale.Phase(); got != ledger.PhaseName(phase) {
			t.Errorf("the sale is %s, want %v", got, phase)
		}
	}
	do(applyJob{tickets(45)})
	w.wantStock(45)
	if err := w.owner(2).claimHeld(1, w.now.Wall.Add(20*time.Second).UnixMicro()); err != nil {
		t.Fatal(err)
	}
	uid := w.actual().Sale.UID()
	do(exported.job())
	w.wantNothingLeft(uid)
	w.wantExported(exported, 15)
	return trace
}

func TestMachineLife(t *testing.T) {
	first := life(t)
	if second := life(t); !slices.Equal(first, second) {
		t.Errorf("the same commands made other calls:\n%v\n%v", first, second)
	}
	met := make(map[string]bool)
	for _, call := range first {
		_, what, _ := strings.Cut(call, " ")
		met[what] = true
	}
	for _, name := range callNames {
		if !met[name] {
			t.Errorf("no call was %q", name)
		}
		delete(met, name)
	}
	if len(met) > 0 {
		t.Errorf("calls that callNames does not have: %v", met)
	}
}

// A command that is killed at any call, whatever becomes of that call, is
// completed by another one.
func TestMachineKilledAtEveryCall(t *testing.T) {
	if testing.Short() {
		t.Skip("it tries many orders of calls")
	}
	for name, test := range map[string]struct {
		before func(*world)
		job    func(*sink) job
		check  func(*world, *sink)
	}{
		"create": {func(*world) {}, func(*sink) job { return applyJob{tickets(10)} },
			func(w *world, _ *sink) { w.wantStock(10) }},
		"raise": {sold, func(*sink) job { return applyJob{tickets(45)} },
			func(w *world, _ *sink) { w.wantStock(45) }},
		"pause": {sold, func(*sink) job { return phaseJob{pb.Phase_PAUSED} },
			func(w *world, _ *sink) { w.wantStock(30) }},
		"destroy": {sold, func(s *sink) job { return s.job() },
			func(w *world, s *sink) { w.wantExported(s, 15) }},
	} {
		t.Run(name, func(t *testing.T) {
			for _, how := range []fate{served, dropped, delayed} {
				for kill := 1; ; kill++ {
					w, exported := newWorld(t), new(sink)
					test.before(w)
					killed := w.killCommand(test.job(exported), kill, how)
					for _, late := range []bool{false, true} {
						if late {
							w.land()
						}
						if err := w.command(test.job(exported)).finish(); err != nil {
							t.Fatalf("kill at call %d, %v: %v", kill, how, err)
						}
					}
					test.check(w, exported)
					if !killed {
						break
					}
				}
			}
		})
	}
}

// killCommand runs a command up to its kill-th call; false if it ended before.
func (w *world) killCommand(job job, kill int, how fate) bool {
	w.Helper()
	c := w.command(job)
	for !c.done {
		if len(c.queue) > 0 && len(c.trace) == kill-1 {
			k := c.next(0)
			switch how {
			case served:
				c.make(k)
			case delayed:
				w.late = append(w.late, func() { c.make(k) })
			}
			return true
		}
		c.step(inOrder, c.served)
	}
	if c.err != nil {
		w.Fatalf("before call %d: %v", kill, c.err)
	}
	return false
}

var errReset = errors.New("connection reset")

func isOneOf(err error, known ...error) bool {
	return slices.ContainsFunc(known, func(k error) bool { return errors.Is(err, k) })
}

// Calls are lost before and after they are made, come twice and late, and two
// commands run at once.
func TestMachineOverABadNetwork(t *testing.T) {
	for seed := range uint64(150) {
		w, exported := newWorld(t), new(sink)
		sold(w)
		random := rand.New(rand.NewPCG(seed, 2))
		reply := func(c *command) func(calls.Call) (any, error) {
			return func(k calls.Call) (any, error) {
				switch random.IntN(12) {
				case 0:
					return nil, context.DeadlineExceeded
				case 1:
					w.late = append(w.late, func() { c.make(k) })
					return nil, context.DeadlineExceeded
				case 2:
					c.make(k)
					return nil, errReset
				case 3:
					c.make(k)
				case 4:
					w.land()
				}
				return c.make(k), nil
			}
		}
		jobs := []job{applyJob{tickets(40)}, phaseJob{pb.Phase_PAUSED}, exported.job()}
		running := []*command{w.command(jobs[seed%3]), w.command(jobs[seed%2+1])}
		for len(running) > 0 {
			i := random.IntN(len(running))
			c := running[i]
			if c.step(random.IntN, reply(c)); !c.done {
				continue
			}
			running = slices.Delete(running, i, i+1)
			if c.err != nil && !isOneOf(c.err, planner.ErrStale, planner.ErrRefused, planner.ErrPartly, context.DeadlineExceeded, errReset) {
				t.Fatalf("seed %d: %T: %v", seed, c.job, c.err)
			}
		}
		w.land()
		if err := w.command(exported.job()).finish(); err != nil {
			t.Fatalf("seed %d: destroy: %v", seed, err)
		}
		w.wantExported(exported, 15)
	}
}

func TestMachineErrors(t *testing.T) {
	other := tickets(30)
	other.LockCount = 5
	for name, test := range map[string]struct {
		job  job
		from string // the call from which on reply is asked
		then func(*command)
		want []error
	}{
		"refused":                    {applyJob{other}, "", (*command).toTheEnd, []error{planner.ErrRefused}},
		"the sale is not readable":   {applyJob{tickets(9)}, "read sale", (*command).unanswered, []error{planner.ErrStore, context.DeadlineExceeded}},
		"the store is gone on":       {applyJob{tickets(45)}, "generation", (*command).unanswered, []error{planner.ErrPartly, planner.ErrStore}},
		"another was faster":         {applyJob{tickets(45)}, "planned", (*command).overtaken, []error{planner.ErrStale}},
		"interrupted in the reading": {applyJob{tickets(45)}, "read leases", (*command).stopped, []error{context.Canceled}},
		"interrupted half-way":       {applyJob{tickets(45)}, "generation", (*command).stopped, []error{planner.ErrPartly, context.Canceled}},
		"no export":                  {destroyJob{func([]byte) error { return errNoRoom }}, "", (*command).toTheEnd, []error{planner.ErrPartly, errNoRoom}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			sold(w)
			c := w.command(test.job)
			for !c.done && (len(c.queue) == 0 || c.queue[0].What != test.from) {
				c.step(inOrder, c.served)
			}
			test.then(c)
			for _, want := range test.want {
				if !c.done || !errors.Is(c.err, want) {
					t.Errorf("got %v, done %v; want %v", c.err, c.done, want)
				}
			}
			if calls, wake, done, err := c.Next(w.now); len(calls) > 0 || wake != 0 || !done || c.planned != nil && err != c.err {
				t.Errorf("after the end: %d calls, wake %v, done %v, %v", len(calls), wake, done, err)
			}
			if w.actual().Sale.Sealed() != nil {
				t.Error("the sale was sealed")
			}
		})
	}
}

var errNoRoom = errors.New("no room for the export")

func (c *command) toTheEnd() { c.finish() }

func (c *command) unanswered() {
	for !c.done {
		c.step(inOrder, func(calls.Call) (any, error) { return nil, context.DeadlineExceeded })
	}
}

func (c *command) overtaken() {
	c.world.mustPhase(pb.Phase_PAUSED)
	c.finish()
}

// stopped is interrupted just after a reply, with calls not made yet and others
// under way.
func (c *command) stopped() {
	k := c.next(0)
	r, err := c.served(k)
	k.Took(c.world.now, r, err)
	c.Stop(c.world.now, context.Canceled)
	late := c.queue
	c.queue = nil
	if c.look(); len(c.queue) > 0 {
		c.world.Errorf("%d calls are to be made after the end", len(c.queue))
	}
	for _, k := range late {
		r, err := c.served(k)
		k.Took(c.world.now, r, err) // nobody hears of it
	}
}

func TestMachineStoppedBeforeItBegan(t *testing.T) {
	w := newWorld(t)
	s, _ := w.reading(current.ReadTerms{Names: machine.Names{Rand: w}}, "tickets")
	s.Stop(w.now, context.Canceled)
	if calls, _, done, err := s.Next(w.now); len(calls) > 0 || !done || !errors.Is(err, context.Canceled) {
		t.Errorf("%d calls, done %v, %v", len(calls), done, err)
	}
}
