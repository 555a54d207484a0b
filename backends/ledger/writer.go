package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"salectl/backends/clock"
)

// Request is one call of Logs that a step machine requests.
type Request struct {
	Kind  RequestKind
	Log   string
	Slot  uint64 // to append to, or to read from
	Max   int    // maximum number of entries, for a read
	Prev  []byte
	Head  []byte
	Entry []byte
}

// RequestKind is the call that a Request makes.
type RequestKind int

// The kinds of requests.
const (
	AppendRequest RequestKind = iota + 1
	ReadRequest
)

// Reply is the result of a Request.
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

// Folder is the state of a log that a Writer folds entries into.
type Folder interface {
	Next() uint64
	Root() Hash
	Fold(entry []byte) error
}

// Writer implements the append protocol for one log, as a step machine: it reads the
// log to its end, appends entries one at a time, and determines the outcome of each
// before it continues. At most one request is in progress.
//
// Any reply but success and ErrTooLarge leaves the outcome open: the entry may be stored
// now, later or never. The slot decides, and Writer reads it. The same bytes there mean success,
// other bytes that the slot is taken. If the slot is empty, Writer sends the identical
// bytes again. This is always safe, since the head that they compare never recurs once
// it is replaced.
type Writer struct {
	log  string
	fold Folder

	head  []byte // as stored with the last slot folded; nil: no log yet
	ahead uint64 // slot after that of head
	sent  *Entry // entry appended, with its outcome unknown; else nil
	taken bool   // catching up because another entry is in the slot
	page  int    // number of entries per read

	under RequestKind   // request in progress; 0: none
	next  RequestKind   // request to send at wake
	wake  time.Duration // monotonic; 0: not waiting
	tries int           // number of tries since the last progress
}

// Event is the result of a step of a Writer.
type Event int

// The events of a Writer.
const (
	Nothing   Event = iota
	CaughtUp        // the log is read to its end; Next is 0 if there is none
	Committed       // the entry sent is in its slot: Apply it before the next step
	Taken           // another entry is in the slot; the log is read to its end: decide again
	Gone            // the log does not exist any more: stop
	TooLarge        // refused for its size, not stored: decide again, smaller
	Again           // a create is not stored yet: Resend it if it is still valid
	Damaged         // see Err
)

// Do is the action that a step requests.
type Do struct {
	Send  *Request      // nil: nothing
	Wake  time.Duration // call Tick at this monotonic time; 0: no need
	Event Event
	Err   error // for Damaged
}

// Retry delays of a Writer. It waits for a failed store to recover, which it should
// notice at once.
const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = 500 * time.Millisecond
)

// Read sizes of a Writer: first readAtOnce entries, of up to MaxEntry each, then as
// many as fill a page, by the sizes read before. Where every slot has a single claim,
// reading 64 at a time would spend all time waiting.
const (
	readAtOnce = 64
	readMost   = 4096
	readPage   = 1 << 20 // bytes
)

// NewWriter returns the writer of a log that folds into fold. It has read nothing of the
// log yet: begin with CatchUp.
func NewWriter(log string, fold Folder) *Writer {
	return &Writer{log: log, fold: fold, page: readAtOnce}
}

// Log returns the log's name.
func (w *Writer) Log() string { return w.log }

// Head returns the stored head of the last slot folded, nil if there is no log.
func (w *Writer) Head() []byte { return w.head }

// Idle reports whether no step is in progress, so that the next one may begin.
func (w *Writer) Idle() bool { return w.under == 0 && w.wake == 0 && w.sent == nil }

// Appending reports whether the request in progress is an append.
func (w *Writer) Appending() bool { return w.under == AppendRequest }

// CatchUp reads the log to its end.
func (w *Writer) CatchUp() Do {
	w.tries = 0
	return w.read()
}

// Append sends an entry that was decided against the present state.
func (w *Writer) Append(e *Entry) Do {
	w.sent, w.tries = e, 0
	return w.send()
}

// Resend sends the entry again, after Again.
func (w *Writer) Resend() Do { return w.send() }

// Abandon drops an entry after Again, if it should no longer be stored. It may be
// stored nevertheless.
func (w *Writer) Abandon() { w.sent = nil }

// Tick continues after a pause.
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

// Done processes the reply to the request in progress.
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

// appended processes the result of Append. Unless it is success or a definite refusal,
// the Writer reads the slot.
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

// resolve processes the contents of the slot of an entry in doubt.
func (w *Writer) resolve(now clock.Now, r Reply) Do {
	switch {
	case len(r.Entries) > 0 && bytes.Equal(r.Entries[0], w.sent.Bytes):
		// Later slots may be taken already. The next append detects that.
		return w.committed()
	case len(r.Entries) > 0:
		w.sent, w.taken = nil, true
		return w.caughtUp(now, r)
	case r.Head == nil && w.head != nil:
		return Do{Event: Gone}
	case r.Head == nil:
		// Sending a create again could restore a deleted log: the caller must check
		// the sale's log first.
		return Do{Event: Again}
	}
	return w.pause(now, AppendRequest)
}

func (w *Writer) committed() Do {
	w.head, w.ahead, w.sent, w.tries = w.sent.Head, w.fold.Next()+1, nil, 0 // the caller folds it now
	return Do{Event: Committed}
}

// caughtUp folds the entries read, and reads on until the head belongs to the last
// slot folded. A head and entries that do not match mean that a read lags.
func (w *Writer) caughtUp(now clock.Now, r Reply) Do {
	if r.Head == nil {
		if w.fold.Next() == 0 {
			return w.end(nil, CaughtUp)
		}
		return Do{Event: Gone}
	}
	if len(r.Entries) == 0 && w.head != nil && w.ahead == w.fold.Next() && bytes.Equal(r.Head, w.head) {
		return w.atEnd(r.Head) // no new entries, as most often; parsing the head anew would be most of the read's cost
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
	return Do{Send: &Request{Kind: ReadRequest, Log: w.log, Slot: w.fold.Next(), Max: w.page}}
}

// pause schedules next after a delay, which doubles with each try without progress.
func (w *Writer) pause(now clock.Now, next RequestKind) Do {
	w.tries++
	w.next, w.wake = next, now.Mono+min(firstRetry<<min(w.tries-1, 16), lastRetry)
	return Do{Wake: w.wake}
}
