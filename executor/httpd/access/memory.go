package access

import (
	"sync"
	"sync/atomic"
)

// Memory limits the memory that concurrent requests hold. It is safe for concurrent use.
type Memory struct {
	limit   int64
	used    atomic.Int64
	waiting atomic.Int32

	mu   sync.Mutex
	room sync.Cond
}

// NewMemory returns a Memory with a limit of bytes.
func NewMemory(limit int64) *Memory {
	m := &Memory{limit: limit}
	m.room.L = &m.mu
	return m
}

// Take adds n bytes, and blocks while they exceed the limit. When over returns true it adds them at
// once; Wake makes it call over again. A single request fits whatever its size.
func (memory *Memory) Take(n int64, over func() bool) {
	for !memory.TryTake(n) {
		memory.mu.Lock()
		memory.waiting.Add(1) // before the decisive check: see Add
		if used := memory.used.Load(); used != 0 && used+n > memory.limit && !over() {
			memory.room.Wait()
		}
		memory.waiting.Add(-1)
		memory.mu.Unlock()
		if over() {
			memory.used.Add(n)
			return
		}
	}
}

// TryTake adds n bytes if they fit, and reports whether it did.
func (memory *Memory) TryTake(n int64) bool {
	for {
		used := memory.used.Load()
		if used != 0 && used+n > memory.limit {
			return false
		}
		if memory.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// Add adds n bytes, which may be negative, regardless of the limit.
func (memory *Memory) Add(n int64) {
	memory.used.Add(n)
	if n < 0 {
		memory.Wake()
	}
}

// InUse returns the number of bytes in use.
func (memory *Memory) InUse() int64 { return memory.used.Load() }

// Wake makes all blocked calls of Take call over again.
func (memory *Memory) Wake() {
	if memory.waiting.Load() > 0 {
		memory.mu.Lock()
		memory.room.Broadcast()
		memory.mu.Unlock()
	}
}
