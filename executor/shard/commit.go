package shard

import (
	"slices"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/executor/request"
)

// One commit of a shard, from its draft to its answers.

// beginCommit drafts the next commit and has the writer append it. It answers at once the requests that need
// no commit. Without rights to append it refuses all undecided requests.
func (q *sequencer) beginCommit(now clock.Now) {
	if !q.rights.Valid(now) {
		q.requests.refuseAll(request.Refusal(api.NoQuorum))
		return
	}
	timeUs := now.Wall.UnixMicro()
	if q.draft == nil {
		q.draft = q.state.Draft(q.me, timeUs)
		q.draft.SetBounds(q.bounds)
	}
	q.draft.Reset(timeUs)
	g := q.nextGeneration()
	if q.returnBlockedUntil = q.delayReturn(now, g != nil); q.returnBlockedUntil != 0 {
		return
	}
	if q.list != nil {
		q.list.setTarget(now, g != nil)
	}
	by, ahead := q.state.Head().Ahead(now.Wall)
	if ahead {
		q.setBack = by
	}
	var err error
	switch {
	case q.mode == takingOver || ahead: // Own sets the time of a log that is ahead back
		q.draft.Own(q.address)
	case g != nil && q.list.quiescent():
		// Alone in its commit: what follows is decided under its settings.
		err = q.draft.Generation(g)
	case q.list != nil:
		err = q.list.decide(now, q.draft)
	default:
		err = q.decide(now, q.draft)
	}
	if err != nil {
		q.abandon(err, request.Refusal(api.NoQuorum)) // what was to be appended does not fit the log
		return
	}
	if q.draft.Ops() == 0 && q.requests.namesUnreadSlot(q.state.Next()) {
		q.draft.Own(q.address) // which no log takes that has more slots than were read
	}
	if q.draft.Ops() == 0 {
		q.totals.EndReturn(q.shard)
		if q.list != nil {
			q.list.draftLogged(now, nil)
		}
		q.requests.answerBatch(func(t *request.Ticket) request.Answer { return t.Answer })
		return
	}
	e, err := q.draft.Encode()
	if err != nil {
		q.abandon(err, request.Refusal(api.NoQuorum))
		return
	}
	q.sent, q.sentAt, q.attempts = e, now, 0
	q.do = q.writer.Append(e)
}

// nextGeneration returns the next generation that the shard's log lacks; nil: there is none.
func (q *sequencer) nextGeneration() *pb.Generation {
	if n := q.state.Generation; n < uint64(len(q.generations)) {
		return q.generations[n]
	}
	return nil
}

// delayReturn returns the monotonic time until which the next commit waits; 0: it does not wait. A commit
// that may bring units back, by a refund or a generation, waits while promises to other processes exclude
// that; delayReturn announces it to the sale's totals, so that no further promise is made.
func (q *sequencer) delayReturn(now clock.Now, generation bool) time.Duration {
	if q.mode != serving || !generation && !slices.ContainsFunc(q.requests.waiting, (*request.Ticket).IsRefund) {
		return 0
	}
	return q.totals.BeginReturn(q.shard, now)
}

// committed handles an append that is in the log: it applies the commit to the ledger's state, answers the
// batch, and sends the transfers. After Own, the sequencer serves.
func (q *sequencer) committed(now clock.Now) {
	e, slot := q.sent, q.state.Next()
	if err := q.state.Apply(e.Commit, e.Hash, len(e.Bytes)); err != nil {
		q.abandon(err, request.Refusal(api.NoQuorum)) // what was decided is not what the reducer allows
		return
	}
	q.sent, q.requests.maxBatch, q.lastErr = nil, 0, nil
	q.tally.Committed++
	q.requests.answerBatch(func(t *request.Ticket) request.Answer {
		switch {
		case t.Answer.Accepted() && t.Answer.Claim.User == "":
			t.Answer.Claim = granted(q.shard, t, slot, e.Commit)
		case t.Answer.Outcome == api.LimitReached: // perhaps by what this commit granted
			message := t.Answer.Message
			t.Answer = overLimit(q.shard, q.state, t.User)
			t.Answer.Message = message
		}
		return t.Answer
	})
	tookOver := q.mode == takingOver // and that was Own
	if tookOver {
		q.mode = serving
		if q.state.Epoch > 1 { // else no earlier owner has promised anything
			q.totals.TakeOver(q.shard, now)
		}
	}
	q.requests.retryAll()
	q.updateTotals()
	came := q.transfers.transfersLogged()
	if q.list != nil {
		q.list.draftLogged(now, came)
	}
	switch {
	case tookOver:
		q.transfers.resend()
	case q.mode == stopping:
		q.mode = stopped
	}
}

// undoBatch handles a commit that certainly is not in the log. Its batch and its transfers wait for another
// decision; a sequencer that is stopping refuses the batch and is stopped.
func (q *sequencer) undoBatch() {
	q.sent = nil
	q.transfers.restore()
	if q.mode == stopping {
		q.requests.answerBatch(func(*request.Ticket) request.Answer { return q.refusal })
		q.mode = stopped
		return
	}
	q.requests.restoreBatch()
}
