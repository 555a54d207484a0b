package hbase

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"salectl/backends/ledger"
	"salectl/internal/wait"
)

// An append that was stored and whose answer was lost must neither be sent
// again, which would come back as false, nor pass for taken.
func TestLostAnswer(t *testing.T) {
	entry := []byte("the entry whose answer is lost")
	g := &gate{mark: entry, answer: true}
	logs, log := mustOpenGated(t, g), newPrefix()+"log"
	fill(t, logs, log, 1, 10)
	err := logs.Append(within(t, wait.Limit), log, 1, head(0), head(1), entry)
	if err == nil || errors.Is(err, ledger.ErrTaken) || errors.Is(err, ledger.ErrTooLarge) {
		t.Errorf("an append whose answer was lost: %v, want an unknown outcome", err)
	}
	if n := g.count(); n != 1 {
		t.Errorf("it was sent %d times", n)
	}
	wantSlot(t, mustOpen(t), log, 1, entry)
}

// A read that finds nothing proves nothing: the write may land afterwards.
func TestLateLanding(t *testing.T) {
	entry := []byte("the entry that comes late")
	g := &gate{mark: entry}
	logs, log := mustOpenGated(t, g), newPrefix()+"log"
	fill(t, logs, log, 1, 10)
	err := logs.Append(within(t, 300*time.Millisecond), log, 1, head(0), head(1), entry)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ledger.ErrTaken) {
		t.Errorf("an append that is held back: %v", err)
	}
	other := mustOpen(t)
	if h, entries, err := other.Read(within(t, wait.Limit), log, 1, 1); !bytes.Equal(h, head(0)) || entries != nil || err != nil {
		t.Errorf("read meanwhile: %q, %q, %v", h, entries, err)
	}
	g.release(t)
	wantSlot(t, other, log, 1, entry)
}

// Whoever is in doubt writes into the slot and believes what it then holds. The
// late copy changes nothing any more.
func TestLateLandingIsDecidedByTheSlot(t *testing.T) {
	for name, rival := range map[string][]byte{"nobody else": nil, "a rival": []byte("a rival's entry")} {
		t.Run(name, func(t *testing.T) {
			log := newPrefix() + "log"
			mark := []byte(log + ", slot 1;") // as an appender begins its entry
			g := &gate{mark: mark}
			a := newAppender(mustOpenGated(t, g), log, 100)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if event, err := a.drive(ctx, a.w.CatchUp()); event != ledger.CaughtUp {
				t.Fatal(event, err)
			}
			if err := a.append(ctx); err != nil {
				t.Fatal(err)
			}
			other := mustOpen(t)
			if rival != nil {
				prev, _, err := other.Read(ctx, log, 0, 1)
				if err != nil {
					t.Fatal(err)
				}
				g.onHold = func() {
					if err := other.Append(ctx, log, 1, prev, headOfEntry(1, rival), rival); err != nil {
						t.Error(err)
					}
				}
			}
			err := a.append(ctx)
			if rival == nil && err != nil || rival != nil && err == nil {
				t.Fatalf("the append came to %v", err)
			}
			want := rival
			if rival == nil {
				want = entryOf(log, 1, 100)
				if n := g.count(); n != 2 {
					t.Errorf("the entry was sent %d times, want once by each of two calls", n)
				}
			}
			wantSlot(t, other, log, 1, want)
			before, _, _ := other.Read(ctx, log, 0, 1)
			g.release(t)
			// A write behind it on another connection may overtake it, so there is
			// no telling when it has failed. Some calls later it has.
			for range 50 {
				wantSlot(t, other, log, 1, want)
			}
			if h, _, err := other.Read(ctx, log, 0, 1); !bytes.Equal(h, before) || err != nil {
				t.Errorf("the head is %q, %v; it was %q", h, err, before)
			}
		})
	}
}

// wantSlot waits until a slot holds an entry, and fails at once if it holds
// another.
func wantSlot(t *testing.T, logs *Logs, log string, slot uint64, want []byte) {
	t.Helper()
	wait.Until(t, fmt.Sprintf("slot %d of %s", slot, log), func() bool {
		_, entries, err := logs.Read(t.Context(), log, slot, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) == 1 && !bytes.Equal(entries[0], want) {
			t.Fatalf("slot %d has %q, want %q", slot, entries[0], want)
		}
		return len(entries) == 1
	})
}
