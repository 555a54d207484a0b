package httpd

import (
	"runtime"

	"salectl/api"
	"salectl/executor"
	"salectl/executor/httpd/wire"
)

// atOnce is about how much is written at a time: more waits until that is under way.
const atOnce = 64 << 10

// write sends what comes together until the stream is over.
func (x *stream) write() {
	var batch []*under
	var buf []byte
	for x.await() {
		runtime.Gosched() // whoever else is about to answer does so first
		x.mu.Lock()
		batch, x.ready = x.ready, batch[:0]
		buf, x.extra = x.extra, buf[:0]
		x.mu.Unlock()
		for sent := 0; sent < len(batch) || len(buf) > 0; {
			from := sent
			for ; sent < len(batch) && len(buf) < atOnce; sent++ {
				buf = x.encode(buf, batch[sent])
			}
			x.leave(batch[from:sent])
			x.put(buf)
			x.sent(batch[from:sent])
			buf = buf[:0]
		}
	}
}

// await waits until there is something to write; false: there will be no more.
func (x *stream) await() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(x.ready) == 0 && len(x.extra) == 0 {
		if x.over && x.count == 0 {
			return false
		}
		x.news.Wait()
	}
	return true
}

// encode appends the answer to a request.
func (x *stream) encode(b []byte, u *under) []byte {
	if u.kind == looksAtUser || u.kind == looksAtClaim {
		return x.form.found(b, u)
	}
	if u.kind == settles && u.answer.Outcome != u.how.Done() {
		wire.NotSettled(&u.answer)
	}
	return x.form.answer(b, u)
}

// leave takes down answers that are about to be sent: from then on their ids may be used
// again.
func (x *stream) leave(batch []*under) {
	now := x.server.now().Mono
	for _, u := range batch {
		label := u.answer.Outcome
		if u.answer.Replayed && (label.Accepted() || u.kind == settles && label == u.how.Done()) {
			label = api.Replayed
		}
		switch u.kind {
		case claims:
			x.sale.metrics.claim(label, now-u.began)
		case settles:
			x.server.metrics.settlement(x.sale.name, u.how, label, now-u.began)
		}
	}
	x.mu.Lock()
	for _, u := range batch {
		delete(x.open, u.id)
	}
	x.wrote = now
	x.dueLocked(now, now+x.server.stall)
	x.mu.Unlock()
}

// put writes.
func (x *stream) put(b []byte) {
	x.mu.Lock()
	broken := x.broken != nil
	x.mu.Unlock()
	if broken {
		return
	}
	_, err := x.out.Write(b)
	if err == nil {
		err = x.control.Flush()
	}
	if err != nil {
		x.end(err)
	}
}

// sent makes room for as many requests.
func (x *stream) sent(batch []*under) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.wrote = 0
	x.count -= len(batch)
	var size int64
	for _, u := range batch {
		size += u.size
		u.answer, u.claims, u.next, u.giveUp, u.there, u.user, u.how = executor.Answer{}, nil, "", nil, false, "", ""
	}
	x.holdLocked(-size)
	x.spare = append(x.spare, batch...)
	x.room.Signal()
	x.leaveLocked()
}

// place is where what a request asks for is decided.
func (u *under) place() executor.Place {
	if u.kind == settles || u.kind == looksAtClaim {
		return u.stream.sale.PlaceOf(u.shard)
	}
	return u.stream.sale.Place(u.user)
}
