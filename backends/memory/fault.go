// Package memory implements the interfaces of the backends in memory: the handles of Store
// ledger.Logs, Node quorum.Node, Lists lists.Node. The simulation and the tests of the
// protocols above use them; no sale of a user does.
//
// Without faults they keep every promise of their interface: they pass the suites of
// package backendtest, as the drivers of real servers do. They start no goroutine, read no
// clock but the one they are given, and are deterministic: the same calls in the same order
// get the same replies.
//
// With Faults, a call suffers what real servers do: an error before any effect, a lost
// reply, a write that arrives late or twice, a stale read, a deleted log, or a missing
// right. Store.CompareHeadsOnly is HBase without the check of its driver. Restart,
// RestartEmpty, RestartFrom and Flush are the restarts of a Redis, which change its run id,
// and its loss of data; Hang is a frozen server. The caller chooses the faults: Script
// lists them one by one, Random draws them from a seed.
package memory

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"
)

// Kind names what a store does to a call.
type Kind int

// The kinds of faults. N is the field of Fault.
const (
	// None: the call succeeds.
	None Kind = iota
	// ErrorBefore: the call fails, and never has an effect.
	ErrorBefore
	// LostReply: the call has its effect, but the caller gets an error.
	LostReply
	// OwnTaken: the entry is stored, but the caller gets ErrTaken, as from a client
	// library that repeats a successful append.
	OwnTaken
	// Late: the call fails, and its write takes effect after N further calls, on any
	// handle, or on Land if N is 0. It may then win or lose like any other.
	Late
	// Twice: the call succeeds, and its write takes effect once more after N further
	// calls, or on Land if N is 0.
	Twice
	// Stale: a read returns the state of N changes of its log ago, at least 1, as from
	// a server that was frozen and has not detected it yet.
	Stale
	// Vanish: the whole log is deleted just before the call.
	Vanish
	// Denied: the call is not permitted (fs.ErrPermission) and has no effect. Denied suits
	// every method, and is never drawn at random: it lasts until the permissions change.
	Denied

	kinds
)

var kindNames = [kinds]string{"None", "ErrorBefore", "LostReply", "OwnTaken", "Late", "Twice", "Stale", "Vanish", "Denied"}

func (k Kind) String() string { return kindNames[k] }

// Fault is what happens to one call.
type Fault struct {
	Kind Kind
	N    int
}

// Op names a method, so that faults can choose by it.
type Op int

// The methods of ledger.Logs, then those of quorum.Node and of lists.Node.
const (
	OpAppend Op = iota
	OpRead
	OpHeads
	OpDelete
	OpInfo
	OpMark
	OpVote
	OpRelease
	OpList
	OpReadMarker
	OpForget
	OpAnnounce
	OpRunID
	OpGrab
	OpStop
	OpReadStream
	OpPut
	OpStart
	OpTake
	OpAdd
	OpInspect
	OpForgetList
	OpSettings

	ops
)

var opNames = [ops]string{"Append", "Read", "Heads", "Delete", "Info", "Mark", "Vote", "Release", "List", "ReadMarker", "Forget", "Announce",
	"RunID", "Grab", "Stop", "ReadStream", "Put", "Start", "Take", "Add", "Inspect", "ForgetList", "Settings"}

func (o Op) String() string { return opNames[o] }

// suits lists the faults that make sense for each method.
var suits = [ops][]Kind{
	OpAppend:     {ErrorBefore, LostReply, OwnTaken, Late, Twice, Vanish},
	OpRead:       {ErrorBefore, Stale, Vanish},
	OpHeads:      {ErrorBefore, Stale},
	OpDelete:     {ErrorBefore, LostReply, Late, Twice},
	OpInfo:       {ErrorBefore},
	OpMark:       {ErrorBefore, LostReply, Late, Twice},
	OpVote:       {ErrorBefore, LostReply, Late, Twice},
	OpRelease:    {ErrorBefore, LostReply, Late, Twice},
	OpList:       {ErrorBefore},
	OpReadMarker: {ErrorBefore},
	OpForget:     {ErrorBefore, LostReply, Late, Twice},
	OpAnnounce:   {ErrorBefore, LostReply, Late, Twice},

	// Nothing is sent to a list twice.
	OpRunID:      {ErrorBefore},
	OpGrab:       {ErrorBefore, LostReply, Late},
	OpStop:       {ErrorBefore, LostReply, Late},
	OpReadStream: {ErrorBefore, LostReply, Late},
	OpPut:        {ErrorBefore, LostReply, Late},
	OpStart:      {ErrorBefore, LostReply, Late},
	OpTake:       {ErrorBefore, LostReply, Late},
	OpAdd:        {ErrorBefore, LostReply, Late},
	OpInspect:    {ErrorBefore},
	OpForgetList: {ErrorBefore, LostReply, Late},
	OpSettings:   {ErrorBefore},
}

func (o Op) takes(k Kind) bool {
	for _, suit := range suits[o] {
		if suit == k {
			return true
		}
	}
	return k == None || k == Denied
}

// Call is one call of a method.
type Call struct {
	Op   Op
	Log  string // Append, Read, Delete
	Slot uint64 // Append: where to; Read: from; Delete: up to
}

// Faults returns the fault of a call. Nil means no faults. It is called once per call,
// one call at a time.
type Faults func(Call) Fault

// ErrInjected is the error of a call whose reply a fault suppressed.
var ErrInjected = errors.New("injected fault")

// errDenied is the error of a call that is not permitted.
var errDenied = fmt.Errorf("injected fault: %w", fs.ErrPermission)

// Script returns the next fault for each call, and none after the last. A fault that does not
// suit its call panics: the script is then wrong.
func Script(faults ...Fault) Faults {
	return func(Call) Fault {
		if len(faults) == 0 {
			return Fault{}
		}
		next := faults[0]
		faults = faults[1:]
		return next
	}
}

// On adds faults to the calls of one method and to no others.
func On(op Op, faults Faults) Faults {
	return func(c Call) Fault {
		if c.Op != op {
			return Fault{}
		}
		return faults(c)
	}
}

// Rates has the probability of each kind, from 0 to 1. For one method, the rates of
// the kinds that suit it must not sum to more than 1.
type Rates map[Kind]float64

// Random draws faults from a seed. As long as one goroutine makes all calls,
// the same calls get the same faults. N is drawn too: up to 12 calls later for
// a write, up to 4 changes back for a read; one late write in eight waits for
// Land.
func Random(seed uint64, rates Rates) Faults {
	var mu sync.Mutex // several handles may share one source
	random := rand.New(rand.NewPCG(seed, 0x5a1e))
	return func(c Call) Fault {
		mu.Lock()
		defer mu.Unlock()
		at := random.Float64()
		for _, kind := range suits[c.Op] {
			if at -= rates[kind]; at < 0 {
				return Fault{Kind: kind, N: drawN(random, kind)}
			}
		}
		return Fault{}
	}
}

func drawN(random *rand.Rand, kind Kind) int {
	switch kind {
	case Late, Twice:
		if random.IntN(8) == 0 {
			return 0
		}
		return 1 + random.IntN(12)
	case Stale:
		return 1 + random.IntN(4)
	}
	return 0
}

// decide returns the fault of a call.
func (f Faults) decide(c Call) Fault {
	if f == nil {
		return Fault{}
	}
	fault := f(c)
	if !c.Op.takes(fault.Kind) {
		panic(fmt.Sprintf("memory: the fault %v does not suit the method %v", fault.Kind, c.Op))
	}
	return fault
}

// late is a write that has not come in yet.
type late struct {
	due  int // the count of calls at which it does; 0: on Land
	land func()
}

// lateWrites keeps writes in the order in which they were held back.
type lateWrites struct {
	calls int
	held  []late
}

// call counts one call and lets in what is due before it.
func (w *lateWrites) call() {
	w.calls++
	kept := w.held[:0]
	var due []late
	for _, l := range w.held {
		if l.due != 0 && l.due < w.calls {
			due = append(due, l)
		} else {
			kept = append(kept, l)
		}
	}
	w.held = kept
	for _, l := range due {
		l.land()
	}
}

func (w *lateWrites) hold(n int, land func()) {
	due := 0
	if n > 0 {
		due = w.calls + n
	}
	w.held = append(w.held, late{due: due, land: land})
}

// landAll lets in all that is held, and returns how many writes that were.
func (w *lateWrites) landAll() int {
	held := w.held
	w.held = nil
	for _, l := range held {
		l.land()
	}
	return len(held)
}

// write serves one writing call under a fault. do makes the write and returns
// its answer; it may be called again later.
func write[T any](w *lateWrites, fault Fault, do func() (T, error)) (answer T, err error) {
	var nothing T
	switch fault.Kind {
	case ErrorBefore:
		return nothing, fmt.Errorf("%w: not done", ErrInjected)
	case Denied:
		return nothing, errDenied
	case LostReply:
		do()
		return nothing, fmt.Errorf("%w: the reply was lost", ErrInjected)
	case Late:
		w.hold(fault.N, func() { do() })
		return nothing, fmt.Errorf("%w: held back", ErrInjected)
	case Twice:
		answer, err = do()
		w.hold(fault.N, func() { do() })
		return answer, err
	}
	return do()
}
