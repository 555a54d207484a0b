package hbase

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"google.golang.org/protobuf/proto"

	"salectl/backends/ledger"
)

// The cells of a row. The timestamp of a slot's cell, and of the head that was
// stored with it, is the slot's number plus one, so that a delete up to a slot
// is one marker with a timestamp.
const (
	family    = "s"
	headCell  = "h"
	maxSlot   = 1<<62 - 1 // HBase takes the largest timestamp for "now"
	maxEntry  = 1<<20 + 64<<10
	tooLarge  = "exceeds limit of" // in the server's exception
	exception = "DoNotRetryIOException"
)

func slotName(slot uint64) string { return fmt.Sprintf("e%016x", slot) }

func timestamp(slot uint64) func(hrpc.Call) error {
	return hrpc.TimestampUint64(min(slot, maxSlot) + 1)
}

// Append is ledger.Logs's. It sends the entry at most once. The slices must not
// be changed after the call, not even when it has returned with ctx: they may
// still be on their way.
func (l *Logs) Append(ctx context.Context, log string, slot uint64, prev, head, entry []byte) error {
	switch what := fmt.Sprintf("append to %s, slot %d", log, slot); {
	case len(head)+len(entry) > l.maxEntry:
		return fmt.Errorf("%s: %d bytes: %w, which takes %d", what, len(head)+len(entry), ledger.ErrTooLarge, l.maxEntry)
	case len(head) == 0:
		return fmt.Errorf("%s: an empty head would say that there is no log", what)
	case slot > maxSlot:
		return fmt.Errorf("%s: that is beyond what HBase can number", what)
	case prev != nil && len(prev) == 0:
		// No head is empty, and HBase takes an empty value for "absent".
		return ledger.ErrTaken
	}
	if err := l.begin(); err != nil {
		return err
	}
	defer l.busy.Done()
	stored, err := l.checkAndPut(ctx, log, slot, prev, head, entry)
	switch {
	case err != nil:
		return l.failed(fmt.Sprintf("append to %s, slot %d", log, slot), err)
	case !stored:
		return ledger.ErrTaken
	}
	return nil
}

func (l *Logs) checkAndPut(ctx context.Context, log string, slot uint64, prev, head, entry []byte) (stored bool, err error) {
	put, err := hrpc.NewPut(ctx, l.regions.table, []byte(log), map[string]map[string][]byte{
		family: {slotName(slot): entry, headCell: head},
	}, timestamp(slot))
	if err != nil {
		return false, err
	}
	call, err := hrpc.NewCheckAndPutWithCompareType(put, family, headCell, prev, pb.CompareType_EQUAL)
	if err != nil {
		return false, err
	}
	answer, err := l.once(ctx, call)
	switch {
	case isException(err, exception) && strings.Contains(err.Error(), tooLarge):
		return false, fmt.Errorf("%w: %w", ledger.ErrTooLarge, err)
	case errors.Is(err, ledger.ErrNoTable):
		return false, fmt.Errorf("%w; run salectl apply", err)
	case err != nil:
		return false, err
	}
	response := answer.(*pb.MutateResponse)
	if response.Processed == nil {
		return false, errors.New("the answer does not say whether it was stored")
	}
	return response.GetProcessed(), nil
}

// Delete is ledger.Logs's. It writes one marker, however long the log is, and
// HBase drops the cells at the next compaction. The marker also hides what is
// stored in those slots later: a log whose end was deleted cannot begin again.
func (l *Logs) Delete(ctx context.Context, log string, upTo uint64) error {
	if err := l.begin(); err != nil {
		return err
	}
	defer l.busy.Done()
	err := l.again(ctx, func() error {
		mutate, err := hrpc.NewDel(ctx, l.regions.table, []byte(log), map[string]map[string][]byte{family: nil}, timestamp(upTo))
		if err != nil {
			return err
		}
		_, err = l.once(ctx, wholeDelete{mutate})
		return err
	})
	if err != nil && !errors.Is(err, ledger.ErrNoTable) {
		return l.failed(fmt.Sprintf("delete %s up to slot %d", log, upTo), err)
	}
	return nil
}

// once sends a call to the region of its row, once.
func (l *Logs) once(ctx context.Context, call hrpc.Call) (proto.Message, error) {
	p, err := l.regions.find(ctx, call.Key())
	if err != nil {
		return nil, err
	}
	return l.regions.askAt(ctx, p, call)
}

// tries is how often a call is made that may be repeated.
const tries = 4

// again repeats a call which changes nothing when it is repeated, where a fresh
// look at where its region is may help: after a server has died or a region
// moved, say. It does not wait until somebody has mended what is broken.
func (l *Logs) again(ctx context.Context, call func() error) error {
	for try := 1; ; try++ {
		err := call()
		if try == tries || !isFault(err, moved, lost, busy) || pause(ctx, 5*time.Millisecond<<try) != nil {
			return err
		}
	}
}
