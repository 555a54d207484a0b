package access

import (
	"sync"
	"sync/atomic"
)

// Memory bounds the memory of what many requests hold at a time. It is safe for concurrent use.
type Memory struct {
	limit   int64
	used    atomic.Int64
	waiting atomic.Int32

	mu   sync.Mutex
	room sync.Cond
}

// NewMemory returns a bound of limit bytes.
func NewMemory(limit int64) *Memory {
	m := &Memory{limit: limit}
	m.room.L = &m.mu
	return m
}

// Take counts n bytes more when there is room for them, and waits for that. over, which Wake has checked
// again, ends the wait. One request has room whatever its size is.
func (memory *Memory) Take(n int64, over func() bool) {
	for !memory.TryTake(n) {
		memory.mu.Lock()
		memory.waiting.Add(1) // before the check that decides: see Add
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

// TryTake counts n bytes more if there is room for them.
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

// Add counts n bytes more, or less, whether there is room or not.
func (memory *Memory) Add(n int64) {
	memory.used.Add(n)
	if n < 0 {
		memory.Wake()
	}
}

// InUse returns how many bytes are counted.
func (memory *Memory) InUse() int64 { return memory.used.Load() }

// Wake has all calls of Take check again whether they are over.
func (memory *Memory) Wake() {
	if memory.waiting.Load() > 0 {
		memory.mu.Lock()
		memory.room.Broadcast()
		memory.mu.Unlock()
	}
}
