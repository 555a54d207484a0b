package access

import "sync/atomic"

// Memory limits the memory that concurrent requests hold. It is safe for concurrent use.
type Memory struct {
	limit int64
	used  atomic.Int64
	room  atomic.Pointer[chan struct{}] // closed when bytes are given back; nil: nobody waits
}

// NewMemory returns a Memory with a limit of bytes.
func NewMemory(limit int64) *Memory { return &Memory{limit: limit} }

// Take adds n bytes, and blocks while they exceed the limit. When over is closed it adds them at once. A
// single request fits whatever its size.
func (memory *Memory) Take(n int64, over <-chan struct{}) {
	for {
		room := memory.room.Load() // before the attempt: bytes given back after it close room
		if memory.TryTake(n) {
			return
		}
		if room == nil {
			memory.room.CompareAndSwap(nil, new(make(chan struct{})))
			continue
		}
		select {
		case <-*room:
		case <-over:
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
	if n < 0 && memory.room.Load() != nil {
		if room := memory.room.Swap(nil); room != nil {
			close(*room)
		}
	}
}

// InUse returns the number of bytes in use.
func (memory *Memory) InUse() int64 { return memory.used.Load() }
