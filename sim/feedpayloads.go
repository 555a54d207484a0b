package sim

import (
	"context"

	"salectl/backends/feed"
	"salectl/backends/ledger"
)

// payloadFeed adds the payloads of units to the batches of a consumer: the code of feed.Follow, as
// a coroutine that ends with each batch.
type payloadFeed struct {
	*feed.Payloads
	logs *batchLogs
	err  error // of the last batch
}

// batchLogs reads through the coroutine of the present batch.
type batchLogs struct{ *readMachine }

var _ ledger.Paced = batchLogs{}

func newPayloadFeed(r *feed.Reader) *payloadFeed {
	logs := &batchLogs{}
	return &payloadFeed{Payloads: feed.NewPayloads(logs, r), logs: logs}
}

// begin adds payloads to a batch.
func (f *payloadFeed) begin(b *feed.Batch) {
	f.logs.readMachine = newReadMachine(func(ctx context.Context, _ ledger.Logs) {
		f.err = f.Add(ctx, b, func(error) {})
	})
}

// under reports whether a batch is under way.
func (f *payloadFeed) under() bool { return f != nil && f.logs.readMachine != nil }

// end ends what is under way.
func (f *payloadFeed) end() {
	if f.under() {
		f.logs.end()
		f.logs.readMachine = nil
	}
}

// drawPayloads has most consumers receive the payloads of units, where units have some. A sale
// with files has a consumer more, which always does.
func (w *world) drawPayloads() {
	if w.scenario.choice == nil && w.scenario.files == nil {
		return
	}
	for i, c := range w.consumers {
		c.payloads = w.Options.random(forUnits, 1000+i).chance(0.8)
	}
	if w.scenario.files != nil {
		c := w.newConsumer(len(w.consumers), w.Options.random(forUnits, 2000), false)
		c.payloads = true
		w.consumers = append(w.consumers, c)
	}
}
