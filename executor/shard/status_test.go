package shard

import "testing"

// openFront fails a test if it is called while the state is locked.
type openFront struct {
	noFront
	t     *testing.T
	shard *Shard
	calls int
}

func (f *openFront) check() {
	f.calls++
	if !f.shard.state.TryLock() {
		f.t.Error("the front is called while the state is locked")
		return
	}
	f.shard.state.Unlock()
}

func (f *openFront) waiting() int { f.check(); return 3 }
func (f *openFront) show(v *Status) {
	f.check()
	v.Undrained = 2
}

// A list's front calls Recall under its own lock: a status that locked the state
// and then called the front could deadlock with it.
func TestStatusCallsTheFrontWithoutTheState(t *testing.T) {
	s := New(Config{Shard: 1, Log: "log", Board: NewBoard(2)})
	f := &openFront{t: t, shard: s}
	s.front = f
	if v := s.Status(); v.Shard != 1 || v.Queue != 3 || v.Undrained != 2 || f.calls != 2 {
		t.Errorf("after %d calls: %+v", f.calls, v)
	}
}
