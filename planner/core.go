package planner

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/backends/quorum"
)

// core is the base of the step machines of apply and destroy. Its events are start, reply,
// tick and stop, each with the time; it returns effects. A continuation is a function that is
// called at a reply or at a time. The machine never blocks and has no goroutine, clock or I/O.
// The same events give the same effects.
type core struct {
	now clock.Now
	out effects

	waiting  map[int]func(reply) // by call id
	timers   []timer             // by time, then by order of registration
	lastCall int
	over     bool
	changed  bool // see Result.Changed

	patience time.Duration
	worry    error // error of the last call that failed
}

// effects are the results of a step.
type effects struct {
	calls    []call
	progress []Progress
	wake     time.Duration // monotonic: time to call tick; 0: none
	done     bool          // the machine has ended; pending calls may be dropped
	err      error         // why the machine failed, if it did
}

type timer struct {
	at   time.Duration
	then func()
}

// call is one I/O operation. It gets one reply.
type call struct {
	id   int
	kind callKind

	request *ledger.Request // callLog
	commit  *pb.Commit      // commit that the request appends; nil for a read
	logs    []string        // callHeads
	log     string          // callDelete
	upTo    uint64          // callDelete

	node   int    // all below: index of a lock node or list node
	marker string // callReadMarker, callMark, callForget
	sale   string // callMark, callForget, callInfo: the marker of this name is also written, removed or read; "": it is not
	runID  string // callMark
	prefix string // callReadLeases, callFindOwner, callFindLeases
	asks   []quorum.Ask

	step *lists.Call // callStep
	list lists.List  // callInspect, callForgetList

	export *Export // callExport

	units *NewUnits // callReadUnits, as all fields below
	rand  io.Reader
	plan  ledger.Hash
	added ledger.Range
	first int64
}

type callKind int

const (
	callLog callKind = iota + 1
	callHeads
	callDelete
	callCheckTable
	callCreateTable
	callInfo
	callReadMarker
	callMark
	callReadLeases // of one sale, for people
	callFindOwner
	callFindLeases // leases left behind
	callRelease
	callForget
	callStep // a call of a lists.Machine
	callInspect
	callForgetList
	callSettings
	callExport
	callReadUnits // payloads that a plan adds, as they go into the log of payloads
)

// subject names the object of a call to the ledger's store, for errors.
func (k call) subject() string {
	if k.kind == callDelete {
		return "log " + k.log
	}
	return "the heads of the shards"
}

// reply is the result of a call.
type reply struct {
	id       int
	log      ledger.Reply
	heads    [][]byte
	info     quorum.Info
	marker   quorum.Marker
	holdings []quorum.Holding
	step     lists.Reply
	state    lists.State
	settings lists.Settings
	path     string // of the exported file
	digest   []byte // of its bytes
	payload  *pb.Payload
	err      error
}

// firstPause and lastPause bound the wait before a failed call is repeated; window is the
// number of shards processed at a time.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
	window     = 64
)

func newCore(patience time.Duration) *core {
	return &core{waiting: make(map[int]func(reply)), patience: patience}
}

// step runs an event.
func (c *core) step(now clock.Now, event func()) effects {
	c.now, c.out = now, effects{}
	if !c.over {
		event()
	}
	if c.over {
		c.out.calls, c.timers = nil, nil
	}
	if len(c.timers) > 0 {
		c.out.wake = c.timers[0].at
	}
	return c.out
}

// reply processes the reply to a call.
func (c *core) reply(now clock.Now, r reply) effects {
	return c.step(now, func() {
		then, waiting := c.waiting[r.id]
		if !waiting {
			return // see leave
		}
		delete(c.waiting, r.id)
		then(r)
	})
}

// leave drops all pending continuations, so that another task can begin. Pending calls are
// still made, and their replies are ignored.
func (c *core) leave() {
	clear(c.waiting)
	c.timers = nil
}

// tick runs the continuations that are due.
func (c *core) tick(now clock.Now) effects {
	return c.step(now, func() {
		for len(c.timers) > 0 && c.timers[0].at <= now.Mono && !c.over {
			first := c.timers[0]
			c.timers = c.timers[1:]
			first.then()
		}
	})
}

// call makes a call and continues with its reply.
func (c *core) call(k call, then func(reply)) {
	c.lastCall++
	k.id = c.lastCall
	c.waiting[k.id] = func(r reply) {
		if err := r.failure(); err != nil {
			c.worry = err
		}
		then(r)
	}
	c.out.calls = append(c.out.calls, k)
}

func (r reply) failure() error {
	if r.log.Err != nil {
		return r.log.Err
	}
	return r.err
}

// at continues at a monotonic time.
func (c *core) at(mono time.Duration, then func()) {
	i, _ := slices.BinarySearchFunc(c.timers, mono, func(t timer, mono time.Duration) int {
		if t.at <= mono {
			return -1
		}
		return 1
	})
	c.timers = slices.Insert(c.timers, i, timer{mono, then})
}

// after continues after d.
func (c *core) after(d time.Duration, then func()) { c.at(c.now.Mono+d, then) }

// retry makes an idempotent call to the ledger's store until it succeeds or patience runs out.
func (c *core) retry(k call, then func(reply)) {
	began, pause := c.now.Mono, firstPause
	var again func(r reply)
	again = func(r reply) {
		switch {
		case r.err == nil:
			then(r)
		case errors.Is(r.err, fs.ErrPermission):
			c.end(fmt.Errorf("%w: %s: %w", ErrStore, k.subject(), r.err))
		case c.now.Mono-began > c.patience:
			c.end(fmt.Errorf("%w, tried for %v: %s: %w", ErrStore, c.patience, k.subject(), r.err))
		default:
			c.after(pause, func() { c.call(k, again) })
			pause = min(2*pause, lastPause)
		}
	}
	c.call(k, again)
}

// all runs do for each i below n at once, and continues when all are done.
func (c *core) all(n int, do func(i int, done func()), then func()) {
	left := n
	if n == 0 {
		then()
	}
	for i := range n {
		do(i, func() {
			if left--; left == 0 {
				then()
			}
		})
	}
}

// each runs do for every number of list, at most window at a time, and continues when all are
// done.
func (c *core) each(list []int, do func(i int, done func()), then func()) {
	next, busy, pumping := 0, 0, false
	var pump func()
	pump = func() {
		if pumping {
			return // do was done at once; the loop below goes on
		}
		pumping = true
		for next < len(list) && busy < window && !c.over {
			i := list[next]
			next, busy = next+1, busy+1
			do(i, func() { busy--; pump() })
		}
		pumping = false
		if busy == 0 && !c.over {
			then()
		}
	}
	pump()
}

func (c *core) progress(p Progress) { c.out.progress = append(c.out.progress, p) }

// end ends the machine.
func (c *core) end(err error) {
	if !c.over {
		c.over, c.out.done, c.out.err = true, true, err
	}
}
