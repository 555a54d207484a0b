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

// The cells of a row: one for the head, and one for each slot. The slots' names sort in order
// and before the head's.
const (
	family   = "s"
	headCell = "h"
)

func slotName(slot uint64) string { return fmt.Sprintf("e%016x", slot) }

// maxSlot is the last slot that has a timestamp of its own. (HBase takes the largest number for
// "now".)
const maxSlot = 1<<62 - 1

// timestamp sets the timestamp of a slot's cell, and of the head stored with it. It contains no
// clock, and one delete marker with a timestamp deletes up to a slot.
func timestamp(slot uint64) func(hrpc.Call) error {
	return hrpc.TimestampUint64(min(slot, maxSlot) + 1)
}

// maxEntry is the maximum size of an append. A commit has at most 1 MB; the rest is for its
// head, and for other definitions of a megabyte. HBase itself accepts 10 MB, but its memory
// does not hold many of these.
const maxEntry = 1<<20 + 64<<10

// Append implements ledger.Logs. It sends the entry at most once. The caller must not change
// the slices afterwards, even when Append has returned because ctx ended: they may still be in
// use.
func (l *Logs) Append(ctx context.Context, log string, slot uint64, prev, head, entry []byte) error {
	stored := false
	err := l.call(fmt.Sprintf("append to %s, slot %d", log, slot), func() (err error) {
		if follows(slot, prev) {
			stored, err = l.checkAndPut(ctx, log, slot, prev, head, entry)
		}
		return err
	})
	if err == nil && !stored {
		return ledger.ErrTaken
	}
	return err
}

func (l *Logs) checkAndPut(ctx context.Context, log string, slot uint64, prev, head, entry []byte) (stored bool, err error) {
	switch size := len(head) + len(entry); {
	case size > l.maxEntry:
		return false, fmt.Errorf("%d bytes: %w, which takes %d", size, ledger.ErrTooLarge, l.maxEntry)
	case slot > maxSlot:
		return false, errors.New("HBase cannot number that slot")
	case len(head) == 0:
		return false, errors.New("an empty head would mean that there is no log")
	}
	if named, ok := ledger.HeadSlot(head); !ok || named != slot {
		return false, fmt.Errorf("the head %.80q does not name the slot, by which the next append is judged", head)
	}
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
	case isException(err, "DoNotRetryIOException") && strings.Contains(err.Error(), "exceeds limit of"):
		return false, fmt.Errorf("%w: %w", ledger.ErrTooLarge, err)
	case errors.Is(err, ledger.ErrNoTable):
		return false, fmt.Errorf("%w; run 'salectl apply'", err)
	case err != nil:
		return false, err
	}
	response := answer.(*pb.MutateResponse)
	if response.Processed == nil {
		return false, errors.New("the answer does not report whether it was stored")
	}
	return response.GetProcessed(), nil
}

// follows reports whether slot directly follows that of prev. HBase checks only one condition,
// that the head still equals prev; with the right head it would overwrite any slot. Checking
// here is enough: a stored head names its slot, or Append would have refused it, so if HBase
// finds prev, the log ends with the slot that prev names. An empty prev, which HBase would take
// for none, names no slot.
func follows(slot uint64, prev []byte) bool {
	if prev == nil {
		return slot == 0
	}
	last, ok := ledger.HeadSlot(prev)
	return ok && slot == last+1
}

// Delete implements ledger.Logs. It writes one marker, whatever the length of the log, and
// HBase removes the cells at the next compaction. The marker also hides what is stored in those
// slots later: a log whose end was deleted cannot begin again.
func (l *Logs) Delete(ctx context.Context, log string, upTo uint64) error {
	return l.call(fmt.Sprintf("delete %s up to slot %d", log, upTo), func() error {
		return orEmpty(l.again(ctx, func() error {
			mutate, err := hrpc.NewDel(ctx, l.regions.table, []byte(log), map[string]map[string][]byte{family: nil}, timestamp(upTo))
			if err != nil {
				return err
			}
			_, err = l.once(ctx, wholeDelete{mutate})
			return err
		}))
	})
}

// once sends a call to the region of its row, without retries.
func (l *Logs) once(ctx context.Context, call hrpc.Call) (proto.Message, error) {
	p, err := l.regions.find(ctx, call.Key())
	if err != nil {
		return nil, err
	}
	return l.regions.callPlace(ctx, p, call)
}

// tries is the maximum number of attempts of an idempotent call.
const tries = 4

// again repeats an idempotent call where a new lookup of its region may help, for instance
// after a server has died or a region has moved. It does not wait for repairs.
func (l *Logs) again(ctx context.Context, call func() error) error {
	for try := 1; ; try++ {
		err := call()
		if try == tries || !isFault(err, moved, lost, busy) || ledger.Wait(ctx, l, 5*time.Millisecond<<try) != nil {
			return err
		}
	}
}
