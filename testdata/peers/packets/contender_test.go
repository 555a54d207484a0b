package main

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// TestContenders has each hand out all it has, on servers of its own.
func TestContenders(t *testing.T) {
	b := &bench{packets: 12_345, offered: 100 * time.Millisecond, dir: t.TempDir()}
	for name, open := range map[string]opener{"source": newSource, "pipelined": newPipelined} {
		for _, keeps := range []persistence{inMemory, synced} {
			t.Run(name+", "+keeps.name, func(t *testing.T) {
				rate, err := b.emptied(t.Context(), keeps, open)
				if err != nil || rate <= 0 {
					t.Errorf("%.0f grabs/s: %v", rate, err)
				}
			})
		}
		t.Run(name+", offered", func(t *testing.T) {
			waits, err := b.offeredTo(t.Context(), inMemory, open, 10_000)
			if err != nil {
				t.Fatal(err)
			}
			if got := waits.TotalCount(); got != 1000 {
				t.Errorf("%d of 1,000 count", got)
			}
		})
	}
}

// lazy stops after one packet.
type lazy struct{ contender }

func (l lazy) run(ctx context.Context, _ int) (int, time.Duration, error) {
	_, err := l.grab(ctx, user(0))
	return 1, time.Second, err
}

func TestSomeLeft(t *testing.T) {
	b := &bench{packets: 2, dir: t.TempDir()}
	_, err := b.emptied(t.Context(), inMemory, func(address string, n int) contender { return lazy{newSource(address, n)} })
	if !errors.Is(err, errWrong) {
		t.Errorf("with one of two left: %v", err)
	}
}

// TestSecondTry has a user repeat a request, alone and together with others.
func TestSecondTry(t *testing.T) {
	b := &bench{dir: t.TempDir()}
	err := b.with(t.Context(), inMemory, newPipelined, 4, func(c contender) (int, error) {
		p := c.(*pipelined)
		for _, request := range []struct {
			users []string
			got   int
			over  bool
		}{
			{[]string{"ann"}, 1, false},
			{[]string{"ann"}, 0, false},
			{[]string{"ann", "bob", "bob", "cid"}, 2, false},
			{[]string{"dan", "eve"}, 1, true},
		} {
			got, over, err := p.grabAll(t.Context(), request.users)
			if got != request.got || over != request.over || err != nil {
				t.Errorf("%v got %d, over: %v, %v; not %d, %v", request.users, got, over, err, request.got, request.over)
			}
		}
		taken, err := p.taken(t.Context())
		if err != nil {
			return 0, err
		}
		var who []string
		for _, q := range taken {
			who = append(who, q.User)
		}
		if want := []string{"dan", "cid", "bob", "ann"}; !slices.Equal(who, want) {
			t.Errorf("taken, the last first, by %v, not %v", who, want)
		}
		return len(taken), nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestBrokenGrab has the server answer with an error.
func TestBrokenGrab(t *testing.T) {
	for name, open := range map[string]opener{"source": newSource, "pipelined": newPipelined} {
		t.Run(name, func(t *testing.T) {
			err := onRedis(t.Context(), t.TempDir(), inMemory, func(address string) error {
				c := open(address, 3)
				defer c.close()
				if err := c.prepare(t.Context(), newPackets(10)); err != nil {
					return err
				}
				breaker := newClient(address, 1)
				defer breaker.Close()
				if err := breaker.Set(t.Context(), claimed, "no list", 0).Err(); err != nil {
					return err
				}
				if grabs, _, err := c.run(t.Context(), 3); err == nil {
					t.Errorf("%d grabs and no error", grabs)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
