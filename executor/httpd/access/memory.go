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
func (m *Memory) Take(n int64, over func() bool) {
	for !m.TryTake(n) {
		m.mu.Lock()
		m.waiting.Add(1) // before the check that decides: see Add
		if used := m.used.Load(); used != 0 && used+n > m.limit && !over() {
			m.room.Wait()
		}
		m.waiting.Add(-1)
		m.mu.Unlock()
		if over() {
			m.used.Add(n)
			return
		}
	}
}

// TryTake counts n bytes more if there is room for them.
func (m *Memory) TryTake(n int64) bool {
	for {
		used := m.used.Load()
		if used != 0 && used+n > m.limit {
			return false
		}
		if m.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// Add counts n bytes more, or less, whether there is room or not.
func (m *Memory) Add(n int64) {
	m.used.Add(n)
	if n < 0 {
		m.Wake()
	}
}

// InUse returns how many bytes are counted.
func (m *Memory) InUse() int64 { return m.used.Load() }

// Wake has all calls of Take check again whether they are over.
func (m *Memory) Wake() {
	if m.waiting.Load() > 0 {
		m.mu.Lock()
		m.room.Broadcast()
		m.mu.Unlock()
	}
}
