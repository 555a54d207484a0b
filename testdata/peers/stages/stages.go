package main

// stage is a part of what a claim costs the processors.
type stage struct {
	name string
	// functions are whose time it is: a function by its whole name, all of a package or
	// type by a name that ends with a dot, all below a path by one that ends with a slash.
	functions []string
}

// The names of the stages that others read.
const (
	store          = "store, its code"
	storeCalls     = "store, system calls"
	httpCalls      = "HTTP, system calls"
	callers        = "callers: requests and answers"
	callersCalls   = "callers, system calls"
	votes          = "votes on Redis, the owner's loop"
	httpServer     = "HTTP, its code"
	anySystemCalls = "system calls" // the outer frames have the caller
	rest           = "rest"
)

// stages are what a sample of the processors' time may count for, in the order in which a
// claim comes by. A sample counts for the stage of its innermost frame that has one: the
// copying of bytes is of whoever copies, but making room for them is allocation.
var stages = []stage{
	{callers, []string{
		"salectl/testdata/peers/internal/crowd.", "salectl/testdata/peers/internal/sales.", "salectl/testdata/peers/internal/httpload.",
	}},
	{callersCalls, nil},
	{httpServer, []string{"net/http.", "net/http/", "salectl/executor/httpd.", "salectl/executor/httpd/"}},
	{httpCalls, nil},
	{"recall: what the ledger has of it", []string{"salectl/executor/shard.(*Shard).AnswerClaim"}},
	{"admission, into the queue", []string{
		"salectl/executor/process.(*Admission).", "salectl/executor/process.(*session).", "salectl/executor/shard.(*Shard).Offer",
	}},
	{"clock, whether the lease lasts", []string{"salectl/backends/clock.", "salectl/executor/shard.Rights.Valid"}},
	{"channels, locks: to wait and to wake", []string{
		"runtime.chansend", "runtime.chanrecv", "runtime.closechan", "runtime.selectgo", "runtime.gopark", "runtime.ready", "runtime.newproc",
		"runtime.semacquire1", "runtime.semrelease1", "internal/sync.(*Mutex).lockSlow", "internal/sync.(*Mutex).unlockSlow",
	}},
	{"scheduler: whom to run, sleeping threads", []string{
		"runtime.mcall", "runtime.schedule", "runtime.findRunnable", "runtime.netpoll", "runtime.mstart", "runtime.sysmon",
		"runtime.futex", "runtime.usleep", "runtime.osyield", "runtime.wakep", "runtime.startm", "runtime.stopm",
		"runtime.(*timer).", "runtime.(*timers).",
	}},
	{"deciding", []string{
		"salectl/executor.(*runner).runShard", "salectl/executor/shard.(*Shard).Act",
		"salectl/executor/shard.(*Shard).collect", "salectl/executor/shard.(*Shard).Apply", "salectl/executor/shard.(*Shard).storeReplied",
		"salectl/executor/shard.(*Shard).applyEffects", "salectl/executor/shard.(*sequencer).", "salectl/executor/shard.(*requests).",
		"salectl/executor/shard.(*transfers).",
		"salectl/backends/ledger.(*Draft).", "salectl/backends/ledger.(*Writer).",
	}},
	{"encoding, hashing", []string{
		"salectl/backends/ledger.(*Draft).Encode", "salectl/backends/ledger.(*chain).encode", "salectl/backends/ledger.Head.Encode",
	}},
	{store, []string{
		"salectl/executor.(*runner).runShard.", "salectl/backends/calls.", "salectl/backends/ledger.(*Request).",
		"salectl/backends/embedded.", "zombiezen.com/go/sqlite.", "modernc.org/sqlite/lib.", "modernc.org/libc.", "modernc.org/memory.",
		"salectl/backends/hbase.", "github.com/tsuna/gohbase.", "github.com/tsuna/gohbase/",
	}},
	{storeCalls, nil},
	{"applying the commit", []string{"salectl/backends/ledger.(*State).Apply"}},
	{"answering", []string{
		"salectl/executor.(*Executor).",
		"salectl/executor/shard.(*requests).answerBatch", "salectl/executor/shard.(*sequencer).committed.func1", "salectl/executor/shard.granted",
		"salectl/executor/shard.(*Shard).deliverAnswered", "salectl/executor/shard.(*Shard).ConcludeAndDeliver", "salectl/executor/request.(*Pending).Conclude",
		"salectl/executor/shard.(*Shard).Deliver", "salectl/executor/request.(*Ticket).Await", "salectl/executor/request.(*Ticket).Finish",
		"salectl/executor/request.(*Ticket).Free", "salectl/executor.(*payloads).add", "salectl/executor/process.(*session).completeAnswer",
	}},
	{"allocation", []string{
		"runtime.mallocgc", "runtime.growslice", "runtime.makeslicecopy", "runtime.makeslice", "runtime.newobject",
		"runtime.(*mheap).", "runtime.(*mcentral).", "runtime.(*mcache).",
	}},
	{"stacks of goroutines that grow", []string{"runtime.newstack", "runtime.morestack", "runtime.stackalloc", "runtime.stackfree"}},
	{"garbage collector", []string{
		"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.gcStart", "runtime.GC", "runtime._GC", "runtime.bgsweep", "runtime.bgscavenge",
		"runtime.wbBufFlush", "runtime.bulkBarrierPreWrite",
	}},
	{votes, []string{
		"salectl/executor.(*runner).", "salectl/executor/process.(*Machine).", "salectl/executor/ownership.", "salectl/executor/metrics.timedNode.",
		"salectl/backends/quorum.(*Group).", "salectl/backends/redis.", "github.com/redis/go-redis/",
	}},
	{rest, nil},
}

// systemCalls are the functions that leave for the kernel on behalf of the nearest frame
// further out that has a stage. The scheduler's calls do not come by them.
var systemCalls = []string{"syscall.", "golang.org/x/sys/unix."}

// callsOf are the stages whose system calls are separate.
var callsOf = map[string]string{callers: callersCalls, httpServer: httpCalls, store: storeCalls, votes: votes}

// probes are the innermost functions of the ledger that search a user or key, or put one
// into a hash table, where a claim misses the processor's caches.
var probes = []string{
	"salectl/backends/ledger.(*table).find", "salectl/backends/ledger.(*table).put", "salectl/backends/ledger.(*texts).equal",
}
