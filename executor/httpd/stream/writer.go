package stream

import (
	"runtime"

	"salectl/api"
	"salectl/executor"
	"salectl/executor/httpd/wire"
)

// writeSize is about how much is written at a time; more waits until that is sent.
const writeSize = 64 << 10

// write sends what becomes ready until the stream is over and all requests are answered.
func (stream *stream) write() {
	var batch []*inflight
	var buf []byte
	for stream.awaitNews() {
		runtime.Gosched() // others that are about to answer do so first
		stream.mu.Lock()
		batch, stream.ready = stream.ready, batch[:0]
		buf, stream.extra = stream.extra, buf[:0]
		stream.mu.Unlock()
		for sent := 0; sent < len(batch) || len(buf) > 0; {
			from := sent
			for ; sent < len(batch) && len(buf) < writeSize; sent++ {
				buf = stream.encode(buf, batch[sent])
			}
			if stream.beforeWrite(batch[from:sent]) {
				_, err := stream.out.Write(buf)
				if err == nil {
					err = stream.control.Flush()
				}
				if err != nil {
					stream.end(err)
				}
			}
			stream.afterWrite(batch[from:sent])
			buf = buf[:0]
		}
	}
}

// awaitNews waits until there is something to write; false: there will be no more.
func (stream *stream) awaitNews() bool {
	stream.mu.Lock()
	defer stream.mu.Unlock()
	for len(stream.ready) == 0 && len(stream.extra) == 0 {
		if stream.over && stream.requests.count == 0 {
			return false
		}
		stream.news.Wait()
	}
	return true
}

// encode appends the response to a request.
func (stream *stream) encode(b []byte, r *inflight) []byte {
	var at executor.Place
	switch settle, query := r.asked.Settle, r.asked.Query; {
	case settle != nil:
		if at = stream.sale.PlaceOf(settle.Claim.Shard); !r.settled() {
			wire.SetNotSettledMessage(&r.answer)
		}
	case query == nil:
		at = stream.sale.Place(r.asked.User)
	case query.User == "":
		at = stream.sale.PlaceOf(query.Claim.Shard)
	default:
		at = stream.sale.Place(query.User)
	}
	return stream.encoder.appendAnswer(b, r, at, stream.config.Clock)
}

// beforeWrite counts responses that are about to be sent. From then on their ids may be used again. It
// reports whether the stream can be written.
func (stream *stream) beforeWrite(batch []*inflight) bool {
	now := stream.config.Clock().Mono
	for _, r := range batch {
		label := r.answer.Outcome
		if r.answer.Replayed && (label.Accepted() || r.settled()) {
			label = api.Replayed
		}
		if settle := r.asked.Settle; settle != nil {
			stream.sale.Count(settle.How, label, now-r.began)
		} else if r.asked.IsClaim() {
			stream.sale.Count("", label, now-r.began)
		}
	}
	stream.mu.Lock()
	defer stream.mu.Unlock()
	for _, r := range batch {
		delete(stream.requests.open, r.id)
	}
	stream.timer.writing = now
	stream.wakeLocked(now, now+stream.config.WriteTimeout)
	return stream.broken == nil
}

// afterWrite makes room for as many requests.
func (stream *stream) afterWrite(batch []*inflight) {
	stream.mu.Lock()
	defer stream.mu.Unlock()
	stream.timer.writing = 0
	stream.requests.count -= len(batch)
	var size int64
	for _, r := range batch {
		size += r.size
		r.asked, r.answer, r.answered, r.cancel = executor.Request{}, executor.Answer{}, false, nil
	}
	stream.requests.holdLocked(-size)
	stream.requests.spare = append(stream.requests.spare, batch...)
	stream.room.Signal()
	stream.leaveLocked()
}
