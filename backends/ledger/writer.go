package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"salectl/backends/clock"
)

// Request is one call of Logs that a step machine wants made.
type Request struct {
	Kind  RequestKind
	Log   string
	Slot  uint64 // to append to, or to read from
	Max   int    // entries, for Read
	Prev  []byte
	Head  []byte
	Entry []byte
}

// RequestKind says which call a Request is.
type RequestKind int

// The kinds of requests.
const (
	AppendRequest RequestKind = iota + 1
	ReadRequest
)

// Reply is what came of a Request.
type Reply struct {
	Head    []byte   // of a Read
	Entries [][]byte // of a Read
	Err     error
}

// Do makes the call.
func (r *Request) Do(ctx context.Context, logs Logs) (reply Reply) {
	if r.Kind == AppendRequest {
		reply.Err = logs.Append(ctx, r.Log, r.Slot, r.Prev, r.Head, r.Entry)
		return reply
	}
	reply.Head, reply.Entries, reply.Err = logs.Read(ctx, r.Log, r.Slot, r.Max)
	return reply
}

// Folder is a log's state: what Writer reads into.
type Folder interface {
	Next() uint64
	Root() Hash
	Fold(entry []byte) error
}

// Writer is the append protocol for one log, as a step machine: it reads the
// log to its end, appends entries one at a time, and finds out what became of
// each before it goes on. There is at most one request under way.
//
// Anything but success is an unknown outcome: the entry may be stored, may be
// stored later, or never. The slot decides. Writer reads it: its own bytes
// there mean success, other bytes that the slot is taken; with nothing there it
// sends the identical bytes again, which is always safe, since the head that
// they compare never comes back once it is replaced.
type Writer struct {
	log  string
	fold Folder

	head  []byte // as stored with the last slot folded; nil: no log yet
	ahead uint64 // the slot behind head's
	sent  *Entry // appended, its outcome not known yet
	taken bool   // catching up because the slot was somebody else's
	page  int    // entries to read at once, 0: not known yet

	under RequestKind   // the request under way, 0: none
	next  RequestKind   // what to do at wake
	wake  time.Duration // monotonic; 0: not waiting
	tries int           // without news, since there last was some
}

// Event is what a step of a Writer has made known.
type Event int

// The events of a Writer.
const (
	Nothing   Event = iota
	CaughtUp        // the log is read to its end; Next is 0 if there is none
	Committed       // the entry sent is in its slot: Apply it before the next step
	Taken           // somebody else's entry is; the log is read to its end: decide again
	Gone            // the log does not exist any more: stop for good
	TooLarge        // refused for its size, not stored: decide again, smaller
	Again           // a create is not stored yet: Resend it if it still is right
	Damaged         // see Err
)

// Do is what a step wants done.
type Do struct {
	Send  *Request      // nil: nothing
	Wake  time.Duration // call Tick at this monotonic time; 0: no need
	Event Event
	Err   error // for Damaged
}

// How long a Writer waits before it tries again: what it waits for is the return
// of a store that has failed, which should be noticed at once.
const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = 500 * time.Millisecond
)

// How much a Writer reads at once: some entries first, of up to MaxEntry each,
// and then as many of the size seen as make a page. Where every slot has but one
// claim, reading 64 at a time would be all waiting.
const (
	readAtOnce = 64
	readMost   = 4096
	readPage   = 1 << 20 // bytes
)

// NewWriter returns the writer of a log that folds into fold, of which nothing
// is known yet: begin with CatchUp.
func NewWriter(log string, fold Folder) *Writer { return &Writer{log: log, fold: fold} }

// Log returns the log's name.
func (w *Writer) Log() string { return w.log }

// Head returns the head as it is stored with the last slot folded, nil if there is no log.
func (w *Writer) Head() []byte { return w.head }

// Idle reports whether nothing is under way, so that the next step may be begun.
func (w *Writer) Idle() bool { return w.under == 0 && w.wake == 0 && w.sent == nil }

// Appending reports whether an append is under way, rather than a read.
func (w *Writer) Appending() bool { return w.under == AppendRequest }

// CatchUp reads the log to its end.
func (w *Writer) CatchUp() Do {
	w.tries = 0
	return w.read()
}

// Append sends an entry that was decided against the state as it is now.
func (w *Writer) Append(e *Entry) Do {
	w.sent, w.tries = e, 0
	return w.send()
}

// Resend sends the entry once more, after Again.
func (w *Writer) Resend() Do { return w.send() }

// Abandon gives up an entry after Again, when it is not to be stored any more.
// It may be stored all the same.
func (w *Writer) Abandon() { w.sent = nil }

// Tick goes on after a pause.
func (w *Writer) Tick(now clock.Now) Do {
	if w.wake == 0 || now.Mono < w.wake {
		return Do{Wake: w.wake}
	}
	w.wake = 0
	if w.next == AppendRequest {
		return w.send()
	}
	return w.read()
}

// Done takes in the reply to the request under way.
func (w *Writer) Done(now clock.Now, r Reply) Do {
	under := w.under
	w.under = 0
	switch {
	case under == AppendRequest:
		return w.appended(r.Err)
	case r.Err != nil:
		return w.pause(now, ReadRequest)
	case w.sent != nil:
		return w.resolve(now, r)
	}
	return w.caughtUp(now, r)
}

// appended takes in what Append said. Unless it was success or a definite
// refusal, the slot is asked.
func (w *Writer) appended(err error) Do {
	switch {
	case err == nil:
		return w.committed()
	case errors.Is(err, ErrTooLarge):
		w.sent = nil
		return Do{Event: TooLarge}
	}
	w.tries++
	return w.read()
}

// resolve takes in what the slot of an entry in doubt holds.
func (w *Writer) resolve(now clock.Now, r Reply) Do {
	switch {
	case len(r.Entries) > 0 && bytes.Equal(r.Entries[0], w.sent.Bytes):
		// Later slots may be taken by others already. The next append finds out.
		return w.committed()
	case len(r.Entries) > 0:
		w.sent, w.taken = nil, true
		return w.caughtUp(now, r)
	case r.Head == nil && w.head != nil:
		return Do{Event: Gone}
	case r.Head == nil:
		// Sending a create again could bring a deleted log back: the caller must
		// look at the sale's log first.
		return Do{Event: Again}
	}
	return w.pause(now, AppendRequest)
}

func (w *Writer) committed() Do {
	w.head, w.ahead, w.sent, w.tries = w.sent.Head, w.fold.Next()+1, nil, 0 // the caller folds it now
	return Do{Event: Committed}
}

// caughtUp folds what was read, and reads on until the head belongs to the last
// slot folded. A head and entries that do not fit come from a read that lags.
func (w *Writer) caughtUp(now clock.Now, r Reply) Do {
	if r.Head == nil {
		if w.fold.Next() == 0 {
			return w.end(nil, CaughtUp)
		}
		return Do{Event: Gone}
	}
	if len(r.Entries) == 0 && w.head != nil && w.ahead == w.fold.Next() && bytes.Equal(r.Head, w.head) {
		return w.atEnd(r.Head) // there is no news, as most often; to parse it anew would cost most of the read
	}
	size := 0
	for _, entry := range r.Entries {
		if err := w.fold.Fold(entry); err != nil {
			return Do{Event: Damaged, Err: err}
		}
		size += len(entry)
	}
	if size > 0 {
		w.page = min(max(readPage*len(r.Entries)/size, 1), readMost)
	}
	head, err := ParseHead(r.Head)
	switch last := w.fold.Next() - 1; {
	case err != nil:
		return Do{Event: Damaged, Err: fmt.Errorf("%w: log %s: %w", ErrCorrupt, w.log, err)}
	case w.fold.Next() > 0 && head.Slot == last && head.Hash != w.fold.Root():
		return Do{Event: Damaged, Err: fmt.Errorf("%w: log %s: the head does not belong to slot %d", ErrCorrupt, w.log, last)}
	case w.fold.Next() > 0 && head.Slot == last:
		return w.atEnd(r.Head)
	case len(r.Entries) > 0:
		w.tries = 0
		return w.read()
	}
	return w.pause(now, ReadRequest)
}

func (w *Writer) atEnd(head []byte) Do {
	if w.taken {
		return w.end(head, Taken)
	}
	return w.end(head, CaughtUp)
}

func (w *Writer) end(head []byte, e Event) Do {
	w.head, w.ahead, w.taken, w.tries = head, w.fold.Next(), false, 0
	return Do{Event: e}
}

func (w *Writer) send() Do {
	w.under = AppendRequest
	return Do{Send: &Request{
		Kind: AppendRequest, Log: w.log, Slot: w.fold.Next(), Prev: w.head, Head: w.sent.Head, Entry: w.sent.Bytes,
	}}
}

func (w *Writer) read() Do {
	w.under = ReadRequest
	most := w.page
	if most == 0 {
		most = readAtOnce
	}
	return Do{Send: &Request{Kind: ReadRequest, Log: w.log, Slot: w.fold.Next(), Max: most}}
}

// pause waits, twice as long each time without news, and then does next.
func (w *Writer) pause(now clock.Now, next RequestKind) Do {
	w.tries++
	w.next, w.wake = next, now.Mono+min(firstRetry<<min(w.tries-1, 16), lastRetry)
	return Do{Wake: w.wake}
}
