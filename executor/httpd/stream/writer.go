package stream

import (
	"io"
	"runtime"
	"sync"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor"
	"salectl/executor/httpd/wire"
)

// writeSize is about how much is written at a time; more waits until that is sent.
const writeSize = 64 << 10

// outbox has what the writer of a stream is to write. The stream's mutex guards it.
type outbox struct {
	answers  []*inflight // requests that are answered
	messages []byte      // encoded, beside answers
	ready    sync.Cond   // there is something to write, or the stream is over
}

// sendLocked adds a message beside answers.
func (outbox *outbox) sendLocked(r *streampb.Reply) {
	outbox.messages = streampb.Append(outbox.messages, r)
	outbox.ready.Signal()
}

// writer writes the responses of a stream. A goroutine of its own uses it.
type writer struct {
	*stream
	out     io.Writer
	encoder encoder
}

// write sends what becomes ready until the stream is over and all requests are answered.
func (writer *writer) write() {
	var batch []*inflight
	var buf []byte
	for writer.awaitReady() {
		runtime.Gosched() // others that are about to answer do so first
		writer.mu.Lock()
		batch, writer.outbox.answers = writer.outbox.answers, batch[:0]
		buf, writer.outbox.messages = writer.outbox.messages, buf[:0]
		writer.mu.Unlock()
		for sent := 0; sent < len(batch) || len(buf) > 0; {
			from := sent
			for ; sent < len(batch) && len(buf) < writeSize; sent++ {
				buf = writer.encode(buf, batch[sent])
			}
			if writer.beforeWrite(batch[from:sent]) {
				_, err := writer.out.Write(buf)
				if err == nil {
					err = writer.control.Flush()
				}
				if err != nil {
					writer.end(err)
				}
			}
			writer.afterWrite(batch[from:sent])
			buf = buf[:0]
		}
	}
}

// awaitReady waits until there is something to write; false: there will be no more.
func (writer *writer) awaitReady() bool {
	writer.mu.Lock()
	defer writer.mu.Unlock()
	for len(writer.outbox.answers) == 0 && len(writer.outbox.messages) == 0 {
		if writer.over && writer.requests.count == 0 {
			return false
		}
		writer.outbox.ready.Wait()
	}
	return true
}

// encode appends the response to a request.
func (writer *writer) encode(b []byte, r *inflight) []byte {
	var at executor.Place
	switch settle, query := r.content.Settle, r.content.Query; {
	case settle != nil:
		if at = writer.sale.PlaceOf(settle.Claim.Shard); !r.fulfilled() {
			wire.SetNotSettledMessage(&r.answer)
		}
	case query == nil:
		at = writer.sale.Place(r.content.User)
	case query.User == "":
		at = writer.sale.PlaceOf(query.Claim.Shard)
	default:
		at = writer.sale.Place(query.User)
	}
	return writer.encoder.appendAnswer(b, r, at, writer.config.Clock)
}

// beforeWrite counts responses that are about to be sent. From then on their ids may be used again. It
// reports whether the stream can be written.
func (writer *writer) beforeWrite(batch []*inflight) bool {
	now := writer.config.Clock().Mono
	for _, r := range batch {
		label := r.answer.Outcome
		if r.answer.Replayed && (label.Accepted() || r.fulfilled()) {
			label = api.Replayed
		}
		if settle := r.content.Settle; settle != nil {
			writer.sale.Count(settle.How, label, now-r.began)
		} else if r.content.IsClaim() {
			writer.sale.Count("", label, now-r.began)
		}
	}
	writer.mu.Lock()
	defer writer.mu.Unlock()
	for _, r := range batch {
		delete(writer.requests.open, r.id)
	}
	writer.timer.writing = now
	writer.wakeLocked(now, now+writer.config.WriteTimeout)
	return writer.broken == nil
}

// afterWrite makes room for as many requests.
func (writer *writer) afterWrite(batch []*inflight) {
	writer.mu.Lock()
	defer writer.mu.Unlock()
	writer.timer.writing = 0
	writer.requests.count -= len(batch)
	var size int64
	for _, r := range batch {
		size += r.size
		r.content, r.answer, r.answered, r.cancel = executor.Request{}, executor.Answer{}, false, nil
	}
	writer.requests.holdLocked(-size)
	writer.requests.spare = append(writer.requests.spare, batch...)
	writer.room.Signal()
	writer.leaveLocked()
}
