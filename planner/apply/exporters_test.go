package apply

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/ledger/export"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/rules"
)

// shardWith is a shard's state with claims of these users, the last of which is refunded.
func shardWith(t *testing.T, users ...string) *ledger.State {
	t.Helper()
	s := ledger.NewState("log")
	owner := []byte("12345678")
	apply := func(timeUs int64, put func(d *ledger.Draft)) {
		t.Helper()
		d := s.Draft(owner, timeUs)
		put(d)
		e, err := d.Encode()
		if err == nil {
			err = s.Apply(e.Commit, e.Hash, len(e.Bytes))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	apply(1, func(d *ledger.Draft) {
		if err := d.Generation(&pb.Generation{Number: 1, Add: []*pb.Range{{First: 1, Count: 9}}, Settings: &pb.Settings{PerUserLimit: 3, Phase: pb.Phase_OPEN}}); err != nil {
			t.Fatal(err)
		}
	})
	apply(2, func(d *ledger.Draft) { d.Own("here:1") })
	for i, user := range users {
		apply(int64(1000+i), func(d *ledger.Draft) { d.Claim(user, string(rune('a'+i)), 1) })
	}
	apply(2000, func(d *ledger.Draft) { d.Refund(s.Claim(len(users)-1), "ann@shop", "", false) })
	return s
}

// Who has units is kept once the export is written, and nothing if that fails.
func TestRemembering(t *testing.T) {
	e := export.Sale{Name: "drop", Log: ledger.NewSale("sale/drop"), Shards: []*ledger.State{shardWith(t, "ada", "bob", "ada", "eve"), shardWith(t, "zoe", "zoe")}}
	var kept []rules.Buyer
	var told, fail error
	write := remembering(func(context.Context, export.Sale) (string, []byte, error) {
		return "file", []byte("sum"), fail
	},
		func(_ context.Context, sale, uid string, buyers []rules.Buyer) error {
			if sale != "drop" || uid != "" {
				t.Errorf("kept for %s, %s", sale, uid)
			}
			kept = append(kept, buyers...)
			return told
		})
	path, digest, err := write(t.Context(), e)
	if err != nil || path != "file" || string(digest) != "sum" {
		t.Errorf("%s, %s, %v", path, digest, err)
	}
	at := func(us int64) time.Time { return time.UnixMicro(us).UTC() }
	want := []rules.Buyer{{User: "ada", Units: 2, At: at(1002)}, {User: "bob", Units: 1, At: at(1001)}, {User: "zoe", Units: 1, At: at(1000)}}
	if !slices.Equal(kept, want) {
		t.Errorf("kept %v, want %v", kept, want)
	}
	told = errors.New("no server")
	if _, _, err := write(t.Context(), e); err == nil || err.Error() != "recording purchases: no server" {
		t.Error(err)
	}
	kept, fail = nil, errors.New("the disk is full")
	if _, _, err := write(t.Context(), e); !errors.Is(err, fail) || kept != nil {
		t.Errorf("kept %v without an export: %v", kept, err)
	}
}

// What was exported is left where it is for a while, and an end of the command ends that.
func TestLingering(t *testing.T) {
	lingers := func() *process {
		w := newWorld(t)
		w.mustApply(tickets(10))
		p := w.begin(w.planDestroy())
		p.x.Linger = time.Hour
		for !p.isNext("export") {
			p.step(inOrder)
		}
		if p.step(inOrder); len(p.queue) > 0 || p.wake != w.now.Mono+time.Hour {
			t.Errorf("after the export it makes the calls %+v, and goes on after %v", p.queue, p.wake-w.now.Mono)
		}
		return p
	}
	if err := lingers().finish(); err != nil {
		t.Error(err)
	}
	p, over := lingers(), errors.New("interrupted")
	p.Stop(p.world.now, over)
	if p.take(); !errors.Is(p.err, over) || p.world.actual().Sale.Sealed() != nil {
		t.Errorf("a command that is ended: %v", p.err)
	}
}
